"""Anthropic's messages, and its older completions as Bedrock still answers them.

A stream opens a message, fills its content blocks by index, and closes with ``message_stop``. Its usage stands in
``message_start`` and is corrected by ``message_delta``.
"""

from __future__ import annotations

from typing import Any

from otel_prompt_trace.core.replies.growing import Growing, grow, settled
from otel_prompt_trace.core.replies.values import fields_of, named, objects_in, only_text, parsed, place_of, word

_INPUT = "input_json_delta"
_GROWS = frozenset({"text", "thinking", "signature", "content"})


def read_anthropic(body: dict[str, Any]) -> dict[str, Any] | None:
    """The fields of a response event; None for what is no such body."""
    reason = word(body.get("stop_reason"))
    if isinstance(body.get("completion"), str):
        return named(body, output=body["completion"], finish_reason=reason)
    blocks = body.get("content")
    if not isinstance(blocks, list) or not (body.get("type") == "message" or "stop_reason" in body):
        return None
    text = only_text(blocks)
    return named(body, output=text if text is not None else blocks or None, finish_reason=reason)


class AnthropicStream:
    """Events, put together into the message that they are about."""

    def __init__(self) -> None:
        self._message: dict[str, Any] | None = None
        self._usage: dict[str, Any] = {}
        self._blocks: dict[int, dict[str, Any]] = {}
        self._inputs: dict[int, Growing] = {}
        self._completion = Growing()
        self.ended = False

    def add(self, name: str, value: dict[str, Any], /) -> None:
        """One event."""
        kind = value.get("type") or name
        index = place_of(value.get("index"))
        if isinstance(value.get("completion"), str):
            self._completed(value)
        elif kind in ("message_start", "message"):
            self._message = {**fields_of(value.get("message") or value)}
            self._count(self._message.pop("usage", None))
            for place, block in enumerate(objects_in(self._message.pop("content", None))):
                self._blocks[place] = block
        elif kind == "content_block_start":
            self._blocks[index] = _open_block(fields_of(value.get("content_block")))
        elif kind == "content_block_delta":
            self._delta(index, fields_of(value.get("delta")))
        elif kind == "message_delta":
            told = {field: item for field, item in fields_of(value.get("delta")).items() if item is not None}
            self._message = {**(self._message or {}), **told}
            self._count(value.get("usage"))
            self.ended = self.ended or "stop_reason" in told  # after it comes message_stop, and nothing else
        self.ended = self.ended or kind == "message_stop"

    def _completed(self, value: dict[str, Any]) -> None:
        self._completion.add(value["completion"])
        rest = {name: item for name, item in value.items() if name != "completion" and item is not None}
        self._message = {**(self._message or {}), **rest}
        self.ended = self.ended or bool(value.get("stop_reason"))

    def _delta(self, index: int, delta: dict[str, Any]) -> None:
        block = self._blocks.setdefault(index, {})
        if delta.get("type") == _INPUT:
            self._inputs.setdefault(index, Growing()).add(delta.get("partial_json"))
            return
        told = {name: item for name, item in delta.items() if name not in ("type", "citation")}
        if "citation" in delta:
            told["citations"] = [delta["citation"]]
        kind = delta.get("type")
        if "type" not in block and isinstance(kind, str):  # its start was lost
            block["type"] = kind.removesuffix("_delta")
        grow(block, told)

    def _count(self, usage: Any) -> None:
        self._usage.update({name: item for name, item in fields_of(usage).items() if item is not None})

    def body(self) -> dict[str, Any] | None:
        """The message so far; None if no event was of this API."""
        if self._completion.pieces:
            return {**(self._message or {}), "completion": self._completion.text}
        if self._message is None and not self._blocks:
            return None
        blocks = [self._block(index) for index in sorted(self._blocks)]
        head = {"type": "message", **(self._message or {})}
        return {**head, "content": blocks, "usage": self._usage}

    def _block(self, index: int) -> dict[str, Any]:
        block: dict[str, Any] = settled(self._blocks[index])
        written = self._inputs.get(index)
        if written is not None and written.text:
            try:
                block["input"] = parsed(written.text)
            except ValueError:  # cut: what there is of it, as it was written
                block["input"] = written.text
        return block


def _open_block(block: dict[str, Any]) -> dict[str, Any]:
    """A block to grow: a text that it starts with is the first piece of it."""
    return {name: Growing(item) if isinstance(item, str) and name in _GROWS else item for name, item in block.items()}
