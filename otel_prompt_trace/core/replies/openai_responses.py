"""OpenAI's Responses API.

A stream tells each item and part twice: in deltas, and whole when it is done; its last event holds the whole response.
The fullest telling is taken: the response, else the items that were done, else what the deltas gave.
"""

from __future__ import annotations

from typing import Any

from otel_prompt_trace.core.replies.growing import Growing, grow, settled
from otel_prompt_trace.core.replies.values import fields_of, named, objects_in, only_text, place_of, word

_TERMINAL = frozenset({"response.completed", "response.incomplete", "response.failed", "response.cancelled"})
# Deltas that are text of a field of the item itself, by what stands before ".delta".
_ITEM_FIELDS = {
    "function_call_arguments": "arguments",
    "mcp_call_arguments": "arguments",
    "custom_tool_call_input": "input",
    "code_interpreter_call_code": "code",
}
# Deltas that are text of a part: the list that holds the part, its index, its type and field.
_PART_FIELDS = {
    "output_text": ("content", "content_index", "output_text", "text"),
    "refusal": ("content", "content_index", "refusal", "refusal"),
    "reasoning_text": ("content", "content_index", "reasoning_text", "text"),
    "reasoning_summary_text": ("summary", "summary_index", "summary_text", "text"),
}


def read_responses(body: dict[str, Any]) -> dict[str, Any] | None:
    """The fields of a response event; None for what is no such body."""
    items = body.get("output")
    if not isinstance(items, list):
        return None
    only = fields_of(items[0]) if len(items) == 1 else {}
    text = only_text(only.get("content"), "output_text") if only.get("type") == "message" else None
    told = [item for item in items if not _says_nothing(item)]
    status = body.get("status")
    open_yet = status in ("queued", "in_progress")  # begun in the background, or cut: no reason to have ended
    reason = None if open_yet else word(fields_of(body.get("incomplete_details")).get("reason")) or word(status)
    output = text if text is not None else told or None
    return named(body, output=output, finish_reason=reason, unfinished=open_yet or None)


def _says_nothing(item: Any) -> bool:
    return isinstance(item, dict) and item.get("type") == "message" and not item.get("content")


class ResponsesStream:
    """Events, put together into the response that they are about."""

    def __init__(self) -> None:
        self._response: dict[str, Any] | None = None
        self._items: dict[int, dict[str, Any]] = {}
        self._done: dict[int, dict[str, Any]] = {}
        self.ended = False

    def add(self, name: str, value: dict[str, Any], /) -> None:
        """One event."""
        kind = value.get("type") if isinstance(value.get("type"), str) else name
        if not isinstance(kind, str) or not kind.startswith("response."):
            return
        if isinstance(value.get("response"), dict):
            self._response = value["response"]
        elif self._response is None:
            self._response = {}
        self.ended = self.ended or kind in _TERMINAL
        index = place_of(value.get("output_index"))
        subject, _, what = kind.removeprefix("response.").rpartition(".")
        if subject == "output_item" and isinstance(value.get("item"), dict):
            into = self._done if what == "done" else self._items
            into[index] = {n: list(v) if isinstance(v, list) else v for n, v in value["item"].items()}
        elif what == "delta" and subject in _ITEM_FIELDS:
            self._grow(self._item(index), _ITEM_FIELDS[subject], value.get("delta"))
        elif subject in _PART_FIELDS:
            self._part(index, subject, what, value)

    def _part(self, index: int, subject: str, what: str, value: dict[str, Any]) -> None:
        held, place, kind, field = _PART_FIELDS[subject]
        item = self._item(index)
        parts = item.get(held)
        if not isinstance(parts, list):
            parts = item[held] = []
        at = min(place_of(value.get(place)), len(parts))
        if at == len(parts):
            parts.append({"type": kind})
        if what == "delta":
            self._grow(fields_of(parts[at]), field, value.get("delta"))
        elif what == "done" and isinstance(value.get(field), str):
            fields_of(parts[at])[field] = value[field]

    def _item(self, index: int) -> dict[str, Any]:
        return self._items.setdefault(index, {})

    @staticmethod
    def _grow(into: dict[str, Any], field: str, delta: Any) -> None:
        held = into.get(field)
        if isinstance(held, str):
            into[field] = Growing(held)
        grow(into, {field: delta} if isinstance(delta, str) else {})

    def body(self) -> dict[str, Any] | None:
        """The response so far; None if no event was of this API."""
        if self._response is None:
            return None
        told = objects_in(self._response.get("output"))
        items = {**self._items, **self._done}
        return {**self._response, "output": told or [settled(item) for _, item in sorted(items.items())]}
