"""Replies as bytes: what tests write them with."""

from __future__ import annotations

import base64
import json
import struct
import zlib
from dataclasses import dataclass, field
from typing import Any

SSE = "text/event-stream; charset=utf-8"
JSON = "application/json"
FRAMES = "application/vnd.amazon.eventstream"
NDJSON = "application/x-ndjson"


@dataclass(frozen=True)
class Case:
    """A streamed reply; ``plain`` is the body of the same answer without streaming."""

    name: str
    api: str
    content_type: str
    raw: bytes
    expected: dict[str, Any]
    plain: dict[str, Any] | None = field(default=None)


def data_lines(*values: Any, done: bool = False, end: str = "\n") -> bytes:
    """Server-sent events without names."""
    texts = [json.dumps(value, ensure_ascii=False) for value in values] + (["[DONE]"] if done else [])
    return "".join(f"data: {text}{end}{end}" for text in texts).encode()


def typed_events(*values: dict[str, Any]) -> bytes:
    """Server-sent events named by their ``type``."""
    return "".join(f"event: {v['type']}\ndata: {json.dumps(v, ensure_ascii=False)}\n\n" for v in values).encode()


def lines(*values: Any) -> bytes:
    """One JSON value a line."""
    return b"".join(json.dumps(value, ensure_ascii=False).encode() + b"\n" for value in values)


def frame(payload: bytes, **headers: str) -> bytes:
    """One message of an AWS event stream; an underscore in a header's name stands for ``-``, in front for ``:``."""
    packed = b""
    for name, value in headers.items():
        key = (":" + name[1:] if name.startswith("_") else name).replace("_", "-").encode()
        packed += bytes([len(key)]) + key + b"\x07" + struct.pack(">H", len(value.encode())) + value.encode()
    prelude = struct.pack(">II", 16 + len(packed) + len(payload), len(packed))
    message = prelude + struct.pack(">I", zlib.crc32(prelude)) + packed + payload
    return message + struct.pack(">I", zlib.crc32(message))


def converse(*events: tuple[str, dict[str, Any]]) -> bytes:
    """Events of a Converse stream."""
    return b"".join(
        frame(json.dumps(value, ensure_ascii=False).encode(), _event_type=name, _message_type="event")
        for name, value in events
    )


def native(*values: dict[str, Any]) -> bytes:
    """Chunks of an InvokeModel stream."""
    return converse(*(("chunk", {"bytes": base64.b64encode(json.dumps(value).encode()).decode()}) for value in values))
