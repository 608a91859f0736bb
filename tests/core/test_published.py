"""The published shape: what everybody may rely on, under names that stay."""

from __future__ import annotations

import json
from typing import Any

import orjson
import pytest

from otel_prompt_trace.core.events import Problem
from otel_prompt_trace.core.grade import grade
from otel_prompt_trace.core.published import published
from otel_prompt_trace.core.record import Record, project
from tests.core.by_hand import QID, Script
from tests.core.test_grade import words

QUERY = ["qid", "ts", "question", "index_version", "embed_model"]
CALL = ["gen_model", "temperature"]
AFTER = ["top_k", "retrieved"]
ANSWER = ["prompt", "prompt_tokens", "chunks_in_prompt", "chunks_dropped", "output", "finish_reason", "usage"]
NAMES = [*QUERY, *CALL, *AFTER, *ANSWER, "ms"]


def shape(record: Record) -> dict[str, Any]:
    """The record as it is printed, and read again by anybody's JSON reader."""
    found: dict[str, Any] = json.loads(orjson.dumps(published(record, grade(record, words))))
    return found


def answered() -> Script:
    """A query with one call, as a retrieval application records it."""
    script = Script()
    script("query", question="How long?", origin="query", user="u-1", conversation_id="c-9")
    script(
        "retrieval",
        hits=[{"rank": 1, "chunk_id": "a", "score": 0.9, "text": "Ten."}, {"rank": 2, "chunk_id": "b", "score": 0.1}],
        top_k=2,
        index_version="2026-11-01",
        embed_model="embed-3",
        dropped=["b"],
    )
    pieces = [{"producer": "rag", "text": "Ten years. ", "source_id": "a"}, {"producer": "user", "text": "How long?"}]
    script.call("k1", "Ten years. How long?", *pieces, model="public", temperature=0.2)
    usage = {"prompt_tokens": 4, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 0}}
    script("response", call="k1", output="Ten.", finish_reason="stop", usage=usage)
    script("end", ms={"search": 41, "answer": 812})
    return script


def test_one_call() -> None:
    """Exactly these names and values, and nothing of them deeper down."""
    found = shape(answered().record())
    assert {name: found[name] for name in NAMES} == {
        "qid": QID,
        "ts": "2026-11-30T12:00:00.000000001Z",
        "question": "How long?",
        "index_version": "2026-11-01",
        "embed_model": "embed-3",
        "gen_model": "public",
        "temperature": 0.2,
        "top_k": 2,
        "retrieved": [{"rank": 1, "chunk_id": "a", "score": 0.9}, {"rank": 2, "chunk_id": "b", "score": 0.1}],
        "prompt": "Ten years. How long?",
        "prompt_tokens": 4,
        "chunks_in_prompt": 1,
        "chunks_dropped": ["b"],
        "output": "Ten.",
        "finish_reason": "stop",
        "usage": {
            "input_tokens": 4,
            "output_tokens": 2,
            "cached_tokens": 0,
            "prompt_tokens_details": {"cached_tokens": 0},
        },
        "ms": {"search": 41, "answer": 812},
    }
    assert set(found) - set(NAMES) == {"evidence", "census", "tokens", "verdict", "origin", "user", "conversation_id"}
    assert "calls" not in found


def test_the_census_of_one_call() -> None:
    """Counts, verdict, reasons, owners, gaps by place and never by their text."""
    script = answered()
    script("piece", call="k1", producer="lost", text="nowhere", source_id="7")
    census = shape(script.record())["census"]
    assert census == {
        "total": 20,
        "covered": 20,
        "unaccounted": 0,
        "unlocatable": ["lost:7"],
        "not_found": [
            {"producer": "lost", "source_id": "7", "state": "unlocatable", "chars": 7, "note": "", "hint": None}
        ],
        "verdict": "unknown",
        "reasons": ["unlocatable_piece"],
        "by_producer": {"rag": 11, "user": 9},
        "gaps": [],
    }


def test_a_piece_that_was_not_found_says_why() -> None:
    """Reason, place and lengths by name, beside what is contested or a duplicate; of what is found nothing."""
    script = Script()
    pieces = [("a", "One & two."), ("b", " Why?"), ("b", " Why?"), ("c", "hy?"), ("d", "nowhere at all")]
    script.call("k1", "One &amp; two. Why?", *[{"producer": name, "text": text} for name, text in pieces])
    (first, *others) = shape(script.record())["census"]["not_found"]
    place = {"path": "prompt", "segment": 0, "start": 0, "end": 14, "detail": "4 characters longer"}
    assert first == {
        "producer": "a",
        "source_id": None,
        "state": "unlocatable",
        "chars": 10,
        "note": "HTML or XML escapes in prompt at 0..14: 4 characters longer",
        "hint": {"reason": "html_escaped", **place},
    }
    assert [(p["producer"], p["state"], p["hint"]) for p in others] == [
        ("b", "duplicate", None),
        ("c", "contested", None),
        ("d", "unlocatable", None),
    ]
    assert others[0]["note"] == "declared more often than it stands"


def test_several_calls() -> None:
    """What belongs to a call stands in ``calls``, under the same names; what belongs to the query stays above."""
    script = answered()
    script.call("k2", [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Why?"}], model="m-2")
    found = shape(script.record())
    assert [name for name in NAMES if name in found] == [*QUERY, *AFTER, "ms"]
    first, second = found["calls"]
    assert [(c["call"], c["number"], c["gen_model"]) for c in (first, second)] == [
        ("k1", 1, "public"),
        ("k2", 2, "m-2"),
    ]
    assert set(first) - {"call", "number", "evidence", "census", "tokens"} == {*CALL, *ANSWER}
    assert set(second) - set(first) == {"unfinished"}
    assert second["output"] is None
    assert second["prompt"] == [
        {"path": "messages[0].content", "role": "system", "text": "Be brief."},
        {"path": "messages[1].content", "role": "user", "text": "Why?"},
    ]
    assert found["verdict"] == "unknown"


def test_names_stay_where_nothing_is_known() -> None:
    """A reader can rely on every name, with null or nothing in it."""
    script = Script()
    script.call("k1", "Why?")
    found = shape(script.record())
    assert set(NAMES) <= set(found)
    nothing = {name: found[name] for name in NAMES if name not in ("qid", "ts", "prompt")}
    assert set(map(repr, nothing.values())) == {"None", "0", "[]", "{}"}
    assert found["ts"] == "2026-11-30T12:00:00.000000001Z"


def test_no_calls() -> None:
    """There is none, and none is made up."""
    script = Script()
    script("query", question="Why?")
    assert shape(script.record())["calls"] == []
    assert shape(project(QID, []))["ts"] is None


@pytest.mark.parametrize(
    ("prompt", "printed"),
    [
        ("Why?", "Why?"),
        ([{"role": "user", "content": "Why?"}], "Why?"),
        ([{"role": "user", "content": [{"type": "text", "text": "Why?"}]}], "Why?"),
        ([], []),
    ],
)
def test_one_segment_is_a_string(prompt: Any, printed: Any) -> None:
    """Whoever sent one text gets one text."""
    script = Script()
    script.call("k1", prompt)
    assert shape(script.record())["prompt"] == printed


@pytest.mark.parametrize(
    "text",
    [
        "a\r\nb\x00c",
        "👩‍👩‍👧‍👦 🏳️‍🌈",
        "a\u2028b\u2029c",
        "\u202eevil\u202c a\u200f",
        "e\u0301 \ufeff\u00a0",
        "日本語 ไทย",
    ],
)
def test_a_text_is_printed_as_it_was(text: str) -> None:
    """JSON carries it, and brings back the same characters."""
    script = Script()
    script.call("k1", text)
    script("response", call="k1", output=text)
    found = shape(script.record())
    assert (found["prompt"], found["output"]) == (text, text)


def test_a_text_that_json_can_t_carry_is_wrapped() -> None:
    """A lone surrogate has no place in a JSON string."""
    script = Script()
    script.call("k1", "half \ud83d")
    assert shape(script.record())["prompt"] == {"base64": "aGFsZiDtoL0=", "encoding": "utf-8/surrogatepass"}


def test_what_was_cut_is_shown_as_cut() -> None:
    """By length and digest; a filler would look like a text."""
    script = Script()
    script.call("k1", "Why?")
    (run,) = shape(script.record("hash"))["prompt"]["runs"]
    assert (run["cut"], run["policy"], len(run["hmac_sha256"])) == (4, "hash", 64)
    script.call(
        "k2", [{"content": "Why?"}, {"content": "Why not?"}], {"producer": "u", "text": "Why?", "policy": "hash"}
    )
    texts = [segment["text"] for segment in shape(script.record())["calls"][1]["prompt"]]
    assert texts[1] == "Why not?"
    assert texts[0]["runs"][0]["cut"] == 4


def test_what_is_not_as_it_should_be_is_shown() -> None:
    """Problems, events of another version, a second end, what is still in the spool: where there is something."""
    clean = shape(answered().record())
    assert not {"problems", "unreadable", "waiting", "ends", "unfinished", "error"} & set(clean)
    script = answered()
    script("end")
    script("content", v="2.0")
    script("response", call="k1", unfinished=True, error="APITimeoutError")
    record = script.record()
    problem = Problem("payloads/x", 3, "torn line at the end")
    found = shape(project(QID, record.events, [problem], waiting=2))
    assert found["problems"] == ["payloads/x:3: torn line at the end"]
    assert [event["v"] for event in found["unreadable"]] == ["2.0"]
    assert (found["waiting"], found["ends"], found["unfinished"], found["error"]) == (2, 2, True, "APITimeoutError")


def test_feedback_and_tools_are_shown() -> None:
    """As they were recorded."""
    script = answered()
    script("feedback", score=-1, comment="It is seven.")
    script("tool_call", name="look_up", world="sandbox")
    found = shape(script.record())
    assert found["feedback"][0]["comment"] == "It is seven."
    assert found["tool_calls"][0]["world"] == "sandbox"


def test_a_call_as_it_was_sent() -> None:
    """The body by its size and digest, each attempt with the host that received it, and what is held elsewhere."""
    body = b'{"model":"m","previous_response_id":"resp_7","input":"How long?"}'
    script = Script()
    script("query", origin="query")
    sent = {"evidence": "wire", "api": "openai.responses", "host": "gateway.example:8443", "path": "/v1/responses"}
    told = {"evidence": "wire", "api": "openai.responses", "content_type": "application/json", "complete": True}
    answer = {"id": "r", "model": "m", "status": "completed", "output": [{"type": "message", "role": "assistant"}]}
    answer["output"][0]["content"] = [{"type": "output_text", "text": "Ten.", "annotations": []}]  # type: ignore[index]
    script("request", call="k1", attempt=1, body=body, **sent)
    script("response", call="k1", attempt=1, status=429, ms=3, raw=b'{"error":{"type":"rate"}}', **told)
    script("request", call="k1", attempt=2, same_body=True, **sent)
    script("response", call="k1", attempt=2, status=200, ms=9, raw=json.dumps(answer).encode(), **told)
    found = shape(script.record())
    assert found["evidence"] == "wire"
    assert found["as_sent_to"] == "gateway.example:8443"
    assert found["prompt"] == "How long?"
    assert found["output"] == "Ten."
    assert found["held_by_reference"] == [{"path": "previous_response_id", "what": "resp_7"}]
    assert found["body"]["bytes"] == len(body) == sum(found["body"]["parts"].values())
    tries = [(one["attempt"], one["status"], one["ms"], one.get("error")) for one in found["attempts"]]
    assert tries == [(1, 429, 3, "rate"), (2, 200, 9, None)]
