"""Cohere's chat, versions 1 and 2.

Version 1 closes its stream with the whole response; version 2 fills a message by events. Usage is reported within
``tokens`` (and what is billed beside it): its counts stand at the top here, the rest as it was given.
"""

from __future__ import annotations

from typing import Any

from otel_prompt_trace.core.conventions.values import given
from otel_prompt_trace.core.replies.growing import grow, settled
from otel_prompt_trace.core.replies.values import fields_of, named, only_text, place_of, word

_V1 = ("text", "tool_calls", "citations")
_WHOLE = frozenset({"id", "type", "role"})


def read_cohere(body: dict[str, Any]) -> dict[str, Any] | None:
    """The fields of a response event; None for what is no such body."""
    message = body.get("message")
    reason = word(body.get("finish_reason"))
    if isinstance(message, dict):
        parts = message.get("content") if isinstance(message.get("content"), list) else []
        told = {name: item for name, item in given(message).items() if item != []}
        text = only_text(parts) if told.keys() <= {"role", "content"} else None
        output: Any = text if text is not None else [told] if told.keys() - {"role"} else None
        return named(body, output=output, finish_reason=reason, usage=_usage(body.get("usage")))
    if not isinstance(body.get("text"), str):
        return None
    told = {name: body[name] for name in _V1 if body.get(name)}
    output = body["text"] if told.keys() <= {"text"} else [told]
    usage = _usage(fields_of(body.get("meta")))
    identity = word(body.get("response_id")) or word(body.get("generation_id")) or word(body.get("id"))
    return named(body, output=output, finish_reason=reason, usage=usage, response_id=identity)


def _usage(told: Any) -> dict[str, Any]:
    kept = {name: item for name, item in fields_of(told).items() if name in ("tokens", "billed_units", "cached_tokens")}
    return {**fields_of(kept.pop("tokens", None)), **kept}


class CohereStream:
    """Events of either version, put together into the response that they are about."""

    def __init__(self) -> None:
        self._body: dict[str, Any] = {}
        self._message: dict[str, Any] = {}
        self._content: dict[int, dict[str, Any]] = {}
        self._calls: dict[int, dict[str, Any]] = {}
        self._seen = False
        self.ended = False

    def add(self, name: str, value: dict[str, Any], /) -> None:
        """One event."""
        kind = value.get("event_type") or value.get("type") or name
        if isinstance(value.get("event_type"), str) or isinstance(value.get("is_finished"), bool):
            self._seen = True
            self._v1(kind, value)
        elif isinstance(kind, str):
            self._v2(kind, value)

    def _v1(self, kind: Any, value: dict[str, Any]) -> None:
        if isinstance(value.get("text"), str):
            grow(self._body, {"text": value["text"]})
        for field in ("generation_id", "response_id", "finish_reason"):
            if value.get(field):
                self._body[field] = value[field]
        if kind in ("tool-calls-generation", "citation-generation"):
            grow(self._body, {field: value[field] for field in ("tool_calls", "citations") if value.get(field)})
        if kind == "stream-end" or value.get("is_finished") is True:
            self.ended = True
            self._body.update(given(fields_of(value.get("response"))))

    def _v2(self, kind: str, value: dict[str, Any]) -> None:
        delta = fields_of(value.get("delta"))
        message = {**fields_of(delta.get("message"))}
        index = place_of(value.get("index"))
        self._seen = self._seen or kind == "message-start" or bool(message)
        content, calls, citations = (message.pop(field, None) for field in ("content", "tool_calls", "citations"))
        if isinstance(content, dict):
            grow(self._content.setdefault(index, {}), content, whole=_WHOLE)
        if isinstance(calls, dict):
            grow(self._calls.setdefault(index, {}), calls, whole=_WHOLE)
        if isinstance(citations, dict):
            grow(self._message, {"citations": [citations]})
        grow(self._message, {field: item for field, item in message.items() if item != []}, whole=_WHOLE)
        if kind == "message-start" and value.get("id"):
            self._body["id"] = value["id"]
        if kind == "message-end":
            self.ended = True
            self._body.update(given({field: delta.get(field) for field in ("finish_reason", "usage")}))

    def body(self) -> dict[str, Any] | None:
        """The response so far; None if no event was of this API."""
        if not self._seen:
            return None
        body: dict[str, Any] = settled(self._body)
        if isinstance(body.get("text"), str):
            return body
        parts = [settled(part) for _, part in sorted(self._content.items())]
        calls = [settled(call) for _, call in sorted(self._calls.items())]
        filled = {"content": parts, "tool_calls": calls}
        message = {**settled(self._message), **{name: item for name, item in filled.items() if item}}
        return {**body, "message": message} if message else {**body, "text": ""} if self.ended else body
