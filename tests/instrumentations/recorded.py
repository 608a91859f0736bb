"""Recorded calls of the corpus: the body as it was recorded, and the recorded reply to it."""

from __future__ import annotations

import base64
import gzip
import json
from pathlib import Path

import pytest

from tests.instrumentations.by_hand import Prepared
from tests.instrumentations.replay_server import Reply

_REQUESTS = Path(__file__).resolve().parents[3] / "shared" / "corpus" / "cassettes" / "requests.jsonl"
_PATHS = {
    "openai": ("api.openai.com", ("/v1/chat/completions", "/v1/responses")),
    "anthropic": ("api.anthropic.com", ("/v1/messages",)),
}
_CALLS_AN_ENTRY = 8


def recorded_calls(provider: str) -> list[list[Prepared]]:
    """The recorded calls of a provider, a few of them under one entry span each; skips where there is no corpus."""
    if not _REQUESTS.exists():
        pytest.skip("the corpus of recorded requests is not here")
    host, paths = _PATHS[provider]
    found: list[Prepared] = []
    with _REQUESTS.open() as lines:
        for line in lines:
            record = json.loads(line)
            if record["host"] == host and record["path"] in paths and record["request_body"]:
                found.append(_prepared(record))
    return [found[at : at + _CALLS_AN_ENTRY] for at in range(0, len(found), _CALLS_AN_ENTRY)]


def _prepared(record: dict[str, str]) -> Prepared:
    text = record["response_body"]
    body = base64.b64decode(text.removeprefix("base64:")) if record["response_kind"] == "binary" else text.encode()
    if body[:2] == b"\x1f\x8b":
        body = gzip.decompress(body)
    streamed = body.lstrip()[:6] in (b"data: ", b"event:")
    content_type = "text/event-stream" if streamed else "application/json"
    reply = Reply(record["path"], body, int(record["status"]), content_type)
    return Prepared(record["path"], record["request_body"], reply)
