"""Ollama's chat and generate: one object, or lines of objects of which the last is ``done``."""

from __future__ import annotations

from typing import Any

from otel_prompt_trace.core.conventions.messages import output_of
from otel_prompt_trace.core.replies.growing import grow, settled
from otel_prompt_trace.core.replies.values import fields_of, listed, named, word

_COUNTS = (
    "prompt_eval_count",
    "eval_count",
    "total_duration",
    "load_duration",
    "prompt_eval_duration",
    "eval_duration",
)
_TEXTS = ("response", "thinking")


def read_ollama(body: dict[str, Any]) -> dict[str, Any] | None:
    """The fields of a response event; None for what is no such body."""
    message = body.get("message")
    if isinstance(message, dict):
        told = {name: item for name, item in message.items() if item not in (None, [], "") or name == "content"}
        output = listed(output_of([told]))
    elif isinstance(body.get("response"), str):
        output = [{name: body[name] for name in _TEXTS if body.get(name)}] if body.get("thinking") else body["response"]
    else:
        return None
    usage = {name: body[name] for name in _COUNTS if name in body}
    return named(body, output=output, finish_reason=word(body.get("done_reason")), usage=usage)


class OllamaStream:
    """Lines, put together into one object."""

    def __init__(self) -> None:
        self._fields: dict[str, Any] = {}
        self._grown: dict[str, Any] = {}
        self.ended = False

    def add(self, _name: str, value: dict[str, Any], /) -> None:
        """One line."""
        self.ended = self.ended or value.get("done") is True
        grown: dict[str, Any] = {field: value[field] for field in _TEXTS if isinstance(value.get(field), str)}
        if isinstance(value.get("message"), dict):
            grown["message"] = fields_of(value["message"])
        grow(self._grown, grown, whole=("role",))
        self._fields.update({field: item for field, item in value.items() if field not in (*_TEXTS, "message")})

    def body(self) -> dict[str, Any] | None:
        """The object so far; None if no line was of this API."""
        return {**self._fields, **settled(self._grown)} if self._grown else None
