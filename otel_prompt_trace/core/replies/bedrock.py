"""Bedrock's Converse: one body for all models, and its stream of typed events.

A stream ends with ``messageStop``; ``metadata`` with the usage follows it.
"""

from __future__ import annotations

from typing import Any

from otel_prompt_trace.core.replies.growing import Growing, grow, settled
from otel_prompt_trace.core.replies.values import fields_of, named, only_text, parsed, place_of, word


def read_converse(body: dict[str, Any]) -> dict[str, Any] | None:
    """The fields of a response event; None for what is no such body."""
    message = fields_of(body.get("output")).get("message")
    if not isinstance(message, dict):
        return None
    blocks = message.get("content") if isinstance(message.get("content"), list) else []
    text = only_text(blocks, None)
    output = text if text is not None else blocks or None
    return named(body, output=output, finish_reason=word(body.get("stopReason")))


class ConverseStream:
    """Events, put together into the body of an answer that was not streamed."""

    def __init__(self) -> None:
        self._blocks: dict[int, dict[str, Any]] = {}
        self._inputs: dict[int, Growing] = {}
        self._fields: dict[str, Any] = {}
        self._seen = False
        self.ended = False

    def add(self, name: str, value: dict[str, Any], /) -> None:
        """One event, under its name."""
        index = place_of(value.get("contentBlockIndex"))
        self._seen = self._seen or name in ("messageStart", "contentBlockStart", "contentBlockDelta", "messageStop")
        if name == "contentBlockStart":
            self._start(index, fields_of(value.get("start")))
        elif name == "contentBlockDelta":
            self._delta(index, fields_of(value.get("delta")))
        elif name == "messageStop":
            self.ended = True
            self._fields["stopReason"] = value.get("stopReason")
        elif name == "metadata" and isinstance(value.get("usage"), dict):
            self._fields["usage"] = value["usage"]

    def _start(self, index: int, start: dict[str, Any]) -> None:
        block = self._blocks.setdefault(index, {})
        for kind, fields in start.items():
            block[kind] = {**fields_of(fields)}

    def _delta(self, index: int, delta: dict[str, Any]) -> None:
        block = self._blocks.setdefault(index, {})
        for kind, told in delta.items():
            fields = fields_of(told)
            if kind == "toolUse":
                block.setdefault("toolUse", {})
                self._inputs.setdefault(index, Growing()).add(fields.get("input"))
            elif kind == "reasoningContent":
                spoken = {name: item for name, item in fields.items() if name in ("text", "signature")}
                rest = {name: item for name, item in fields.items() if name not in spoken}
                grow(block, {kind: {**({"reasoningText": spoken} if spoken else {}), **rest}})
            elif kind == "citation":
                grow(block, {"citationsContent": {"citations": [told]}})
            else:
                grow(block, {kind: told})

    def body(self) -> dict[str, Any] | None:
        """The body so far; None if no event was of this API."""
        if not self._seen:
            return None
        blocks = [block for index in sorted(self._blocks) if (block := self._block(index))]
        return {"output": {"message": {"role": "assistant", "content": blocks}}, **self._fields}

    def _block(self, index: int) -> dict[str, Any]:
        block: dict[str, Any] = settled(self._blocks[index])
        written = self._inputs.get(index)
        if written is not None and isinstance(block.get("toolUse"), dict):
            try:
                block["toolUse"]["input"] = parsed(written.text or "{}")
            except ValueError:  # cut: what there is of it, as it was written
                block["toolUse"]["input"] = written.text
        if "citationsContent" in block and isinstance(block.get("text"), str):
            block["citationsContent"] = {"content": [{"text": block.pop("text")}], **block["citationsContent"]}
        return block
