"""OpenTelemetry's own convention: messages, system instructions and tool definitions as structures or JSON text.

System instructions stand first, as they do in every request that has them apart. What is no JSON stays text.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from otel_prompt_trace.core.conventions.candidate import Candidate
from otel_prompt_trace.core.conventions.indexed import nested
from otel_prompt_trace.core.conventions.messages import message, otel_messages, otel_part, output_of
from otel_prompt_trace.core.conventions.response_bodies import one_reason
from otel_prompt_trace.core.conventions.values import given, items, mapping, text

INPUT = "gen_ai.input.messages"
OUTPUT = "gen_ai.output.messages"
SYSTEM = "gen_ai.system_instructions"
TOOLS = "gen_ai.tool.definitions"
SCHEMA = "gen_ai.request.structured_output_schema"


def request(content: Mapping[str, Any]) -> Candidate | None:
    """What the model was given."""
    system, listed = _system(content.get(SYSTEM)), content.get(INPUT)
    messages, missing = _messages(content, INPUT)
    settings = given({"tools": items(content.get(TOOLS)), "response_format": mapping(content.get(SCHEMA))})
    if messages is not None:
        prompt: dict[str, Any] = {"messages": [*system, *messages]}
    elif text(listed) is not None:
        prompt = {"messages": [*system, message("user", listed)]} if system else {"prompt": listed}
    elif system:
        prompt = {"messages": system}
    else:
        return Candidate(TOOLS, settings) if settings else None
    return Candidate(INPUT if listed is not None or messages else SYSTEM, {**prompt, **settings}, tuple(missing))


def response(content: Mapping[str, Any]) -> Candidate | None:
    """What the model gave back."""
    listed = content.get(OUTPUT)
    messages, missing = _messages(content, OUTPUT)
    if messages is None:
        return None if text(listed) is None else Candidate(OUTPUT, {"output": listed})
    reasons = one_reason([entry.get("finish_reason") for entry in messages if isinstance(entry, Mapping)])
    fields = given({"output": output_of(messages), "finish_reason": reasons})
    return Candidate(OUTPUT, fields, tuple(missing)) if fields else None


def _messages(content: Mapping[str, Any], key: str) -> tuple[list[Any] | None, list[str]]:
    """The messages, which some exporters flatten. One without parts lost them: an empty message is not sent."""
    if content.get(key) is None:
        flat, _, missing = nested(content, key)
        return (otel_messages(flat) if flat else None), missing
    messages = otel_messages(content[key])
    empty = [n for n, entry in enumerate(messages or ()) if isinstance(entry, Mapping) and entry.get("content") == []]
    return messages, [f"{key}[{n}].parts" for n in empty]


def _system(value: Any) -> list[Any]:
    parts = items(value)
    if parts is None:
        one = mapping(value)
        parts = [one if one is not None else value] if value else []
    if not parts:
        return []
    if all(isinstance(part, Mapping) and "parts" in part for part in parts):  # messages rather than parts
        return otel_messages(parts) or []
    return [message("system", [otel_part(part) for part in parts])]
