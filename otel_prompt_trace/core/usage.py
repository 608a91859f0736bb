"""Token usage as providers report it, brought to one meaning.

``input_tokens`` here is always the number of tokens that the model was given, cached ones included, and
``output_tokens`` the number that it wrote, thoughts included. Providers differ in what their own counts hold:

=====================================  =================================================================
OpenAI and what is compatible          ``prompt_tokens``/``input_tokens`` include cached tokens (DeepSeek names
                                       hits beside them)
Anthropic, Bedrock Converse            cached tokens, read or written, stand beside the count and not in it
Google                                 ``promptTokenCount`` includes cached tokens; thoughts stand beside the
                                       candidates' count, tool results of the host's beside the prompt's
Cohere                                 ``tokens`` is what the model was given, ``billed_units`` what is paid for
Ollama                                 ``prompt_eval_count``
=====================================  =================================================================

Normalizing what is normalized changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_TOO_MANY = 2**63

_INPUT = (
    "input_tokens",
    "prompt_tokens",
    "inputTokens",
    "inputTokenCount",
    "promptTokenCount",
    "prompt_token_count",
    "prompt_eval_count",
)
_OUTPUT = (
    "output_tokens",
    "completion_tokens",
    "outputTokens",
    "outputTokenCount",
    "candidatesTokenCount",
    "candidates_token_count",
    "generation_token_count",
    "eval_count",
)
# For a count that may stand beside the cached tokens: its name, those of tokens read and written, that of the total.
_APART = (
    ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens", "total_tokens"),
    ("inputTokens", "cacheReadInputTokens", "cacheWriteInputTokens", None),
    ("inputTokenCount", "cacheReadInputTokenCount", "cacheWriteInputTokenCount", None),
)
_INCLUDED = ("prompt_tokens", "input_tokens_details", "prompt_tokens_details")  # only in a count that includes them
_CACHED = (
    "cache_read_input_tokens",
    "cacheReadInputTokens",
    "cacheReadInputTokenCount",
    "cachedContentTokenCount",
    "cached_content_token_count",
)
_CACHED_FLAT = ("cached_tokens", "prompt_cache_hit_tokens")
_DETAILS = ("prompt_tokens_details", "input_tokens_details")
_THOUGHTS = {"candidatesTokenCount": "thoughtsTokenCount", "candidates_token_count": "thoughts_token_count"}


def normalize(usage: Any) -> dict[str, Any]:
    """``input_tokens`` (cached ones included), ``output_tokens``, ``cached_tokens`` where known.

    Every other field is kept as it was reported; what the sum replaces stands in ``reported_input_tokens``. Anything
    but a mapping tells nothing.
    """
    if not isinstance(usage, Mapping):
        return {}
    if "reported_input_tokens" in usage and token_count(usage.get("input_tokens")) is not None:
        return dict(usage)
    usage = _given_first(usage)
    known: dict[str, Any] = {}
    given = _first(usage, _INPUT)
    beside = _beside(usage)
    if given is not None:
        known["input_tokens"] = given + sum(tokens or 0 for tokens in beside)
    output = _output(usage)
    if output is not None:
        known["output_tokens"] = output
    cached = _cached(usage)
    if cached is not None:
        known["cached_tokens"] = cached
    rest = {name: value for name, value in usage.items() if name not in (*_INPUT, *_OUTPUT) and name not in known}
    told = any(name in usage for _, *caches, _ in _APART for name in caches)
    if given is not None and told:  # and says that it was summed already
        rest["reported_input_tokens"] = given
    return {**known, **rest}


def _given_first(usage: Mapping[str, Any]) -> Mapping[str, Any]:
    """The usage with the counts that are about the request as it was sent at the top.

    Cohere reports them one level down. Where Anthropic first had the prompt summarized, the counts at the top are
    those of the summary.
    """
    inner = usage.get("tokens")
    if isinstance(inner, Mapping) and _first(usage, _INPUT) is None:
        return {**inner, **{name: value for name, value in usage.items() if name != "tokens"}}
    rounds = usage.get("iterations")
    first = rounds[0] if isinstance(rounds, list) and rounds else None
    if isinstance(first, Mapping) and first.get("type") == "compaction":
        counts = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
        return {**usage, **{name: first[name] for name in counts if name in first}}
    return usage


def _beside(usage: Mapping[str, Any]) -> list[int | None]:
    """Cached tokens that the count of input tokens leaves out."""
    if any(name in usage for name in _INCLUDED):  # a proxy adds another dialect's fields to a count of its own
        return []
    for count, read, written, total in _APART:
        given = token_count(usage.get(count))
        tokens = [token_count(usage.get(read)), token_count(usage.get(written))]
        if given is None or tokens == [None, None]:
            continue
        output = _output(usage)
        if total is not None and output is not None and token_count(usage.get(total)) == given + output:
            return []  # whoever gives a total without them has them in the count
        return tokens
    return []


def _output(usage: Mapping[str, Any]) -> int | None:
    for name in _OUTPUT:
        count = token_count(usage.get(name))
        if count is not None:
            return count + (token_count(usage.get(_THOUGHTS.get(name, ""))) or 0)
    return None


def _cached(usage: Mapping[str, Any]) -> int | None:
    told = _first(usage, _CACHED)
    if told is not None:
        return told
    for name in _DETAILS:
        details = usage.get(name)
        if isinstance(details, Mapping) and token_count(details.get("cached_tokens")) is not None:
            return token_count(details.get("cached_tokens"))
    return _first(usage, _CACHED_FLAT)


def _first(usage: Mapping[str, Any], names: tuple[str, ...]) -> int | None:
    return next((number for name in names if (number := token_count(usage.get(name))) is not None), None)


def token_count(value: object) -> int | None:
    """The value if it can be a number of tokens."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _TOO_MANY else None
