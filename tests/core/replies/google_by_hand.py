"""Replies of Google, written by hand."""

from __future__ import annotations

import json
from typing import Any

from tests.core.replies.wire_forms import JSON, SSE, Case, data_lines

_GOOGLE_USAGE = {"promptTokenCount": 8, "candidatesTokenCount": 4, "cachedContentTokenCount": 6}
_GOOGLE_END = {"modelVersion": "gemini-2.5-pro", "responseId": "g1"}
_GOOGLE_HEAD = {"usage": _GOOGLE_USAGE, "model": "gemini-2.5-pro", "response_id": "g1", "finish_reason": "STOP"}
_GOOGLE_CALL = {"functionCall": {"name": "weather", "args": {"city": "Zürich]}"}}, "thoughtSignature": "c2ln"}


def _candidate(*parts: dict[str, Any], reason: str | None = None, **rest: Any) -> dict[str, Any]:
    candidate = {"content": {"role": "model", "parts": list(parts)}, "index": 0}
    return {"candidates": [{**candidate, **({"finishReason": reason} if reason else {})}], **_GOOGLE_END, **rest}


_GOOGLE_TEXT = [
    _candidate({"text": 'Über "{'}),
    _candidate({"text": "[alles]"}),
    _candidate({"text": ""}, reason="STOP", usageMetadata=_GOOGLE_USAGE),
]
GOOGLE = [
    Case(
        "google: text as events",
        "google.generate",
        SSE,
        data_lines(*_GOOGLE_TEXT, end="\r\n"),
        {"output": 'Über "{[alles]', **_GOOGLE_HEAD},
        _candidate({"text": 'Über "{[alles]'}, reason="STOP", usageMetadata=_GOOGLE_USAGE),
    ),
    Case(
        "google: text as one array",
        "google.generate",
        JSON,
        b"[" + b",\r\n".join(json.dumps(value, indent=1).encode() for value in _GOOGLE_TEXT) + b"\n]\n",
        {"output": 'Über "{[alles]', **_GOOGLE_HEAD},
    ),
    Case(
        "google: thoughts and a function call",
        "google.generate",
        SSE,
        data_lines(
            _candidate({"text": "Think", "thought": True}),
            _candidate({"text": " twice", "thought": True}),
            _candidate({"text": "So:"}, _GOOGLE_CALL, reason="STOP", usageMetadata=_GOOGLE_USAGE),
        ),
        {"output": [{"text": "Think twice", "thought": True}, {"text": "So:"}, _GOOGLE_CALL], **_GOOGLE_HEAD},
        _candidate(
            {"text": "Think twice", "thought": True},
            {"text": "So:"},
            _GOOGLE_CALL,
            reason="STOP",
            usageMetadata=_GOOGLE_USAGE,
        ),
    ),
]
