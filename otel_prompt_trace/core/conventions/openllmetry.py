"""OpenLLMetry's flat form: ``gen_ai.prompt.N.*``, ``gen_ai.completion.N.*`` and ``llm.request.functions.N.*``.

Its newer releases write OpenTelemetry's own keys, which :mod:`otel_prompt_trace.core.conventions.otel_genai` reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from otel_prompt_trace.core.conventions.candidate import Candidate
from otel_prompt_trace.core.conventions.indexed import nested
from otel_prompt_trace.core.conventions.messages import message, output_of
from otel_prompt_trace.core.conventions.response_bodies import one_reason
from otel_prompt_trace.core.conventions.values import decoded, given, items, mapping, parts_in

INPUT = "gen_ai.prompt"
OUTPUT = "gen_ai.completion"
TOOLS = "llm.request.functions"
_ROLES = ("user", "system", "assistant")


def request(content: Mapping[str, Any]) -> Candidate | None:
    """What the model was given."""
    flat, indexes, missing = nested(content, INPUT)
    tools = _tools(content)
    if not flat:
        return Candidate(TOOLS, {"tools": tools}) if tools else None
    messages = [_message(entry, index, missing) for entry, index in zip(flat, indexes, strict=True)]
    return Candidate(INPUT, {"messages": messages, **given({"tools": tools})}, tuple(missing))


def response(content: Mapping[str, Any]) -> Candidate | None:
    """What the model gave back."""
    flat, _, missing = nested(content, OUTPUT)
    fields = [mapping(entry) or {} for entry in flat]
    reasons = one_reason([entry.get("finish_reason") for entry in fields])
    answers = [_message(entry, None, []) for entry in fields if entry.keys() - {"role", "finish_reason", "index"}]
    found = given({"output": output_of(answers), "finish_reason": reasons})
    return Candidate(OUTPUT, found, tuple(missing)) if found else None


def _message(entry: Any, index: str | None, missing: list[str]) -> Any:
    fields = mapping(entry)
    if fields is None:
        return entry
    fields.pop("finish_reason", None)
    calls = [_call(call) for call in items(fields.pop("tool_calls", None)) or ()]
    if "role" not in fields and "content" not in fields:
        named = [role for role in _ROLES if isinstance(fields.get(role), str)]
        if named:  # legacy completions: the role is the name of the key
            fields = {"role": named[0], "content": fields.pop(named[0]), **fields}
    if index is not None:
        lacking = [name for name in ("role", "content") if name not in fields and not (name == "content" and calls)]
        missing.extend(f"{INPUT}.{index}.{name}" for name in lacking)
    content = fields.pop("content", None)
    parts = parts_in(content)
    return message(fields.pop("role", None), content if parts is None else parts, **fields, tool_calls=calls or None)


def _call(entry: Any) -> Any:
    fields = mapping(entry)
    if fields is None:
        return entry
    function = {name: fields.pop(name) for name in ("name", "arguments") if name in fields}
    return given({"type": "function", **fields, "function": function or None})


def _tools(content: Mapping[str, Any]) -> list[Any] | None:
    whole = items(content.get(TOOLS))
    if whole is not None:
        return whole or None
    found = []
    for entry in nested(content, TOOLS).items:
        fields = mapping(entry)
        found.append(entry if fields is None else {name: decoded(item) for name, item in fields.items()})
    return found or None
