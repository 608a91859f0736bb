"""Messages that come as events: one span event or log record each, its content in attributes or in its body."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from otel_prompt_trace.core.conventions.candidate import Candidate
from otel_prompt_trace.core.conventions.event_names import ContentEvent, content_event
from otel_prompt_trace.core.conventions.messages import message, otel_message, otel_messages, otel_part, output_of
from otel_prompt_trace.core.conventions.response_bodies import one_reason
from otel_prompt_trace.core.conventions.values import decoded, first_of, given, items, mapping, parts_in, text

_WHOLE = "gen_ai.event.content"  # one attribute that holds all there is, as JSON text
_PROMPT = ("gen_ai.prompt", "llm.prompts")
_COMPLETION = ("gen_ai.completion", "llm.completions")
_NOT_OF_MESSAGE = frozenset({"index", "finish_reason", "role", "content", "message", "parts", "event.name"})


class Carried(NamedTuple):
    """What one event or log record carried: its name, its content attributes, its body. In the order of emission."""

    name: str
    attributes: Mapping[str, Any]
    body: Any = None


def merged(content: Mapping[str, Any], events: Iterable[Carried]) -> dict[str, Any]:
    """The content of a span together with that of events which repeat a span's keys; the span's own goes first."""
    found: dict[str, Any] = {}
    for carried in events:
        kind = content_event(carried.name)
        if kind is not None and not kind.bare:
            found |= mapping(carried.body) or {}
            found |= carried.attributes
    return {**found, **content}


def request(events: Iterable[Carried]) -> Candidate | None:
    """What the model was given, message by message."""
    messages: list[Any] = []
    tools: list[Any] = []
    first = ""
    for carried in events:
        kind = content_event(carried.name)
        if kind is None or not kind.bare or kind.direction != "in":
            continue
        fields = _fields(carried)
        defined = _definitions(fields)
        if defined is not None:
            tools.extend(defined)
            continue
        found = _prompt(fields) if kind.role is None else [_message(fields, kind)]
        first = first or (carried.name if found else "")
        messages.extend(found)
    if not messages:
        return None
    prompt = {"prompt": messages[0]} if len(messages) == 1 and isinstance(messages[0], str) else {"messages": messages}
    return Candidate(first, {**prompt, **given({"tools": tools or None})})


def response(events: Iterable[Carried]) -> Candidate | None:
    """What the model gave back, choice by choice."""
    answers: list[Any] = []
    reasons: list[Any] = []
    first = ""
    for carried in events:
        kind = content_event(carried.name)
        if kind is None or not kind.bare or kind.direction != "out":
            continue
        fields = _fields(carried)
        whole = [found for name in _COMPLETION if (found := fields.get(name)) is not None]
        listed = otel_messages(whole[0]) if whole else None
        inner = mapping(fields.get("message"))
        reasons.append(fields.get("finish_reason"))
        if whole:
            answers.extend(listed if listed is not None else [whole[0]])
        else:  # some write what belongs to the message beside it
            answers.append(_message(fields if inner is None else {**fields, **inner, "message": None}, kind))
        first = first or carried.name
    found = given({"output": output_of(answers), "finish_reason": one_reason(reasons)})
    return Candidate(first, found) if found else None


def _fields(carried: Carried) -> dict[str, Any]:
    body = mapping(carried.body)
    if body is None:
        body = {} if carried.body is None else {"content": carried.body}
    attributes = dict(carried.attributes)
    whole = attributes.pop(_WHOLE, None)
    inner = mapping(whole)
    if inner is None:
        inner = {} if whole is None else {"content": whole}
    return {**attributes, **inner, **body}


def _definitions(fields: Mapping[str, Any]) -> list[Any] | None:
    """Tool definitions, which one instrumentation hands over as if they were a message of the user's."""
    content = mapping(fields.get("content")) if isinstance(fields.get("content"), Mapping) else None
    return items(content["tools"]) if content is not None and content.keys() == {"tools"} else None


def _prompt(fields: Mapping[str, Any]) -> list[Any]:
    value = next((fields[name] for name in (*_PROMPT, "content", "input", "query") if fields.get(name)), None)
    listed = otel_messages(value)
    if listed is not None:
        return listed
    return [] if text(value) is None else [value]


def _message(fields: Mapping[str, Any], kind: ContentEvent) -> Any:
    role = fields.get("role")
    role = role if isinstance(role, str) else kind.role
    if items(fields.get("parts")) is not None:
        return otel_message({**fields, "role": role})
    content = first_of(fields, ("content", "message"))
    parts = parts_in([content] if isinstance(content, Mapping) else content)
    rest = {name: item for name, item in fields.items() if name not in _NOT_OF_MESSAGE}
    if "tool_calls" in rest:
        rest["tool_calls"] = decoded(rest["tool_calls"])
    if role == "tool" and "tool_call_id" not in rest and isinstance(rest.get("id"), str):
        rest["tool_call_id"] = rest.pop("id")
    return message(role, content if parts is None else [otel_part(part) for part in parts], **rest)
