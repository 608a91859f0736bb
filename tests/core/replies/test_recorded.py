"""Every recorded reply of the corpus that one of the APIs gave is read."""

from __future__ import annotations

import base64
import json
import os
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from otel_prompt_trace.core.replies import ReplyReader, decode_body, read_reply
from otel_prompt_trace.core.usage import normalize

_CORPUS = os.environ.get("PROMPT_TRACE_CORPUS") or Path(__file__).resolve().parents[4] / "shared" / "corpus"
_REQUESTS = Path(_CORPUS) / "cassettes" / "requests.jsonl"
_PATHS = {
    r"/chat/completions$": "openai.chat",
    r"/v1/completions$": "openai.completions",
    r"/v1/responses$": "openai.responses",
    r"^/v1/messages$": "anthropic.messages",
    r":(stream)?[gG]enerateContent$": "google.generate",
    r"/converse(-stream)?$": "bedrock.converse",
    r"/invoke(-with-response-stream)?$": "bedrock.invoke",
    r"^/v[12]/chat$": "cohere.chat",
    r"^/api/chat$": "ollama.chat",
    r"^/api/generate$": "ollama.generate",
}
_NO_WORD = ("content_filter",)  # reasons for which a host gives a choice without any message


def _recorded() -> list[tuple[str, str, int, str, bytes]]:
    if not _REQUESTS.exists():
        pytest.skip("the corpus of recorded requests is not here")
    found = []
    for line in _REQUESTS.read_text(encoding="utf-8").splitlines():
        record: dict[str, Any] = json.loads(line)
        api = next((api for pattern, api in _PATHS.items() if re.search(pattern, record["path"])), None)
        if api is None or not record["response_body"]:
            continue
        text = record["response_body"]
        body = base64.b64decode(text.removeprefix("base64:")) if record["response_kind"] == "binary" else text.encode()
        if body[:2] == b"\x1f\x8b":
            body, reason = decode_body(body, "gzip")
            assert reason is None
        found.append((record["cassette"], api, int(record["status"]), record["response_content_type"] or "", body))
    return found


@pytest.mark.corpus
def test_every_recorded_reply_tells_an_answer_or_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    """Each good one its output, finish reason and usage, whole; each other one its error. Nothing is left unread."""
    counts: Counter[tuple[str, str]] = Counter()
    for cassette, api, status, content_type, body in _recorded():
        found = read_reply(api, status, content_type, body)
        assert not found.keys() & {"unread", "unfinished"}, (cassette, found)
        if status >= 400:
            assert found["error"], cassette
            assert found["error_message"], cassette
            counts[api, "error"] += 1
            continue
        assert found.get("output") or found["finish_reason"] in _NO_WORD, (cassette, found)
        assert found["finish_reason"], cassette
        counts[api, "list" if isinstance(found.get("output"), list) else "text"] += 1
        counts[api, "with usage"] += "usage" in found
    assert sum(number for (_, kind), number in counts.items() if kind in ("text", "list")) > 100
    with capsys.disabled():
        print("", *(f"{api} {kind}: {number}" for (api, kind), number in sorted(counts.items())), sep="\n  ")


@pytest.mark.corpus
def test_recorded_streams_arrive_in_chunks_of_any_size() -> None:
    """In chunks of 1, 7 and 1000 bytes, streams and bodies give what they give at once."""
    streamed = 0
    for cassette, api, status, content_type, body in _recorded():
        if body.lstrip()[:1] in (b"{", b"["):
            continue
        streamed += 1
        at_once = read_reply(api, status, content_type, body)
        for size in (1, 7, 1000):
            reader = ReplyReader(api, status, content_type)
            for start in range(0, len(body), size):
                reader.feed(body[start : start + size])
            assert reader.ended or api == "bedrock.converse", cassette
            assert reader.fields(complete=True) == at_once, cassette
    assert streamed > 5


@pytest.mark.corpus
def test_the_usage_of_every_recorded_reply_has_one_meaning() -> None:
    """Input is what the model was given: with a total that covers all, it is the total less what was written."""
    told: Counter[str] = Counter()
    for cassette, api, status, content_type, body in _recorded():
        usage = read_reply(api, status, content_type, body).get("usage")
        if not isinstance(usage, dict):
            continue
        found = normalize(usage)
        assert normalize(found) == found, cassette
        assert found["input_tokens"] > 0, (cassette, usage)
        assert found["input_tokens"] >= found.get("cached_tokens", 0), (cassette, usage)
        total = next(
            (usage[name] for name in ("total_tokens", "totalTokens", "totalTokenCount") if name in usage), None
        )
        if total is not None:
            beside = usage.get("toolUsePromptTokenCount", 0)
            assert found["input_tokens"] + found.get("output_tokens", 0) + beside == total, (cassette, usage)
            told[f"{api} with a total"] += 1
        told[api] += 1
        told[f"{api} with cached tokens"] += bool(found.get("cached_tokens"))
    apis = {"openai.chat", "openai.responses", "anthropic.messages", "google.generate", "bedrock.converse"}
    assert apis | {"cohere.chat", "ollama.chat"} <= {name for name, number in told.items() if number}
    assert told["anthropic.messages with cached tokens"] > 0
    assert told["openai.chat with cached tokens"] > 0
    assert told["openai.chat with a total"] > 50


@pytest.mark.corpus
def test_a_prompt_that_was_summarized_first_is_counted_as_it_was_sent() -> None:
    """One recorded reply of Anthropic's has 220 input tokens at the top, and 55,196 of the request in a round of it."""
    found = [
        normalize(read_reply(api, status, content_type, body).get("usage"))["input_tokens"]
        for cassette, api, status, content_type, body in _recorded()
        if "compaction_end_to_end" in cassette and status < 400
    ]
    assert 55_196 in found
