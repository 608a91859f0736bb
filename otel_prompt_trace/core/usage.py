"""Token usage as providers report it, brought to one meaning.

OpenAI's ``prompt_tokens`` and ``input_tokens`` include cached tokens; Anthropic's ``input_tokens`` exclude them and
report them beside (``cache_read_input_tokens``, ``cache_creation_input_tokens``). ``input_tokens`` here always
includes them: it is the number of tokens that the model was given. Normalizing what is normalized changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_INPUT = ("input_tokens", "prompt_tokens", "inputTokens", "promptTokenCount", "prompt_eval_count")
_OUTPUT = ("output_tokens", "completion_tokens", "outputTokens", "candidatesTokenCount", "eval_count")
_ANTHROPIC_CACHE = ("cache_read_input_tokens", "cache_creation_input_tokens")
_CACHED = (("prompt_tokens_details", "cached_tokens"), ("input_tokens_details", "cached_tokens"))


def normalize(usage: Any) -> dict[str, Any]:
    """``input_tokens`` (cached ones included), ``output_tokens``, ``cached_tokens`` where known.

    Every other field is kept as it was reported; what the sum replaces stands in ``reported_input_tokens``. Anything
    but a mapping tells nothing.
    """
    if not isinstance(usage, Mapping):
        return {}
    if "reported_input_tokens" in usage and _number(usage.get("input_tokens")) is not None:
        return dict(usage)
    known: dict[str, Any] = {}
    given = _first(usage, _INPUT)
    # Proxies add Anthropic's fields to an OpenAI count, which includes them already.
    apart = _number(usage.get("input_tokens")) is not None and "prompt_tokens" not in usage
    written_apart = [_number(usage.get(name)) if apart else None for name in _ANTHROPIC_CACHE]
    if given is not None:
        known["input_tokens"] = given + sum(tokens or 0 for tokens in written_apart)
    output = _first(usage, _OUTPUT)
    if output is not None:
        known["output_tokens"] = output
    cached = _first(usage, _ANTHROPIC_CACHE[:1])
    cached = _cached(usage) if cached is None else cached
    if cached is not None:
        known["cached_tokens"] = cached
    rest = {name: value for name, value in usage.items() if name not in (*_INPUT, *_OUTPUT) and name not in known}
    if given is not None and any(name in usage for name in _ANTHROPIC_CACHE):  # and says that it was summed already
        rest["reported_input_tokens"] = given
    return {**known, **rest}


def _cached(usage: Mapping[str, Any]) -> int | None:
    for outer, inner in _CACHED:
        details = usage.get(outer)
        if isinstance(details, Mapping) and _number(details.get(inner)) is not None:
            return _number(details.get(inner))
    return _number(usage.get("cached_tokens"))


def _first(usage: Mapping[str, Any], names: tuple[str, ...]) -> int | None:
    return next((number for name in names if (number := _number(usage.get(name))) is not None), None)


def _number(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
