"""Events: what may be written, and what is made of whatever is read."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otel_prompt_trace.core.events import (
    KINDS,
    Event,
    Problem,
    check_event,
    decode,
    distinct,
    encode,
    identity,
    readable,
    rfc3339,
)
from otel_prompt_trace.core.text import Cut, CutText, Foreign
from otel_prompt_trace.exceptions import InvalidEvent
from tests.core.by_hand import QID, WRITER, Script
from tests.core.test_text import same, values

GOLDEN = Path(__file__).parent / "golden" / "events-v1.jsonl"
DIGEST = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
CALL = "01JDZQ4K8BCACACACACACACACB"


def event(**fields: Any) -> Event:
    """A smallest event, or one with a fault."""
    whole: Event = {"v": "1.0", "kind": "end", "qid": QID, "ts": rfc3339(0), "writer": WRITER, "seq": 1, **fields}
    return {name: value for name, value in whole.items() if value is not ...}


def read_one(line: bytes) -> Event | Problem:
    """What is made of one line."""
    (found,) = decode(line, "payloads/x")
    return found


def as_written(seq: int, kind: str, **fields: Any) -> Event:
    """An event of the golden file."""
    return {
        "v": "1.0",
        "kind": kind,
        "qid": QID,
        "ts": f"2026-11-30T12:00:00.{seq:09d}Z",
        "writer": WRITER,
        "seq": seq,
        **fields,
    }


TOOLS = [{"type": "function", "function": {"name": "look_up"}}]
GOLDEN_EVENTS = [
    as_written(
        1,
        "query",
        trace_id="0af7651916cd43dd8448eb211c80319c",
        span_id="b7ad6b7169203331",
        service="answers",
        version="2.1.0",
        environment="production",
        policy="store",
        origin="query",
        question="How long are invoices kept? 🗄️",
        user="u-17",
        session="s-4",
        tenant="t-1",
        conversation_id="c-9",
        parent={"qid": "01JDZQ4K8B0000000000000000", "call": "01JDZQ4K8BCACACACACACACACA"},
    ),
    as_written(
        2,
        "retrieval",
        hits=[
            {"rank": 1, "chunk_id": "policy-v2#3", "score": 0.875},
            {"rank": 2, "chunk_id": "policy-v1#3", "score": -0.5},
        ],
        top_k=2,
        index_version="2026-11-01",
        embed_model="embed-3",
        dropped=["policy-v1#3"],
        rule="continue",
    ),
    as_written(
        3,
        "piece",
        call=CALL,
        producer="rag",
        trust="retrieved",
        source_id="policy-v2#3",
        inline=True,
        offered=True,
        text="Ten years.",
        segment=1,
        start=0,
        end=10,
    ),
    as_written(
        4,
        "piece",
        call=CALL,
        producer="user",
        trust="user",
        policy="hash",
        chars=6,
        hmac_sha256=DIGEST,
        segment=1,
        start=11,
        end=17,
    ),
    as_written(5, "piece", producer="tools", trust="owner", value=TOOLS),
    as_written(
        6,
        "request",
        call=CALL,
        evidence="declared",
        model="gpt-4o",
        temperature=0.2,
        prompt_tokens=21,
        encoding="o200k_base",
        parameters={"seed": 1000 * 2**64, "stop": None},
        tools=TOOLS,
        response_format={"type": "json_object"},
        messages=[
            {"role": "system", "content": "“no \ud83d"},
            {"role": "user", "content": CutText(("Ten years. ", Cut(6, "hash", DIGEST)))},
            {
                "role": "user",
                "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}],
            },
        ],
        chars=22,
        segments=[
            {
                "path": "messages[0].content",
                "role": "system",
                "chars": 5,
                "sha256": "c8c5ad06130c94dd0c66a3865729a15997b241835aa2092eb9871b48dbed2aa7",
            },
            {
                "path": "messages[1].content",
                "role": "user",
                "chars": 17,
                "hmac_sha256": "60303ae22b998861bce3b28f33eec1be758a213c86c93c076dbe9f558c11c752",
            },
        ],
        outside=[
            {
                "path": "messages[2].content[0].image_url.url",
                "kind": "binary",
                "detail": "34 characters of image/png",
            }
        ],
    ),
    as_written(
        7,
        "response",
        call=CALL,
        ms=812,
        output="Ten years.\x00\r\n",
        finish_reason="stop",
        usage={"prompt_tokens": 25, "completion_tokens": 4, "prompt_tokens_details": {"cached_tokens": 0}},
        model="gpt-4o-2024-08-06",
        response_id="chatcmpl-1",
    ),
    as_written(8, "response", call="01JDZQ4K8BCACACACACACACACC", ms=3, unfinished=True, error="APITimeoutError"),
    as_written(
        9,
        "tool_call",
        name="look_up",
        arguments={"integer": 2**64},
        arguments_hmac_sha256=DIGEST,
        result="3 invoices",
        world="sandbox",
    ),
    as_written(
        10,
        "content",
        key="gen_ai.input.messages",
        value=[
            b"\xff\xfe",
            math.nan,
            -math.inf,
            Foreign("app.Message", "Message(1)"),
            2**53 + 1,
            1e-7,
            True,
            None,
        ],
    ),
    as_written(11, "end", ms={"search": 41, "answer": 812}, total_ms=860, error="ValueError", joined=True),
    as_written(12, "feedback", score=-1.0, comment="It is seven.", fields={"by": "audit"}),
    as_written(13, "erasure", reason="asked for", by="dpo"),
]


def test_version_1_stays_readable() -> None:
    """The golden file holds a line of every kind with every field; it decodes to just these values."""
    found = list(decode(GOLDEN.read_bytes(), "golden"))
    assert {item["kind"] for item in found if isinstance(item, dict)} == KINDS
    assert len(found) == len(GOLDEN_EVENTS)
    for item, expected in zip(found, GOLDEN_EVENTS, strict=True):
        assert same(item, expected)


def test_version_1_stays_written() -> None:
    """Encoding what was read gives the file again, byte for byte."""
    found = list(decode(GOLDEN.read_bytes(), "golden"))
    assert b"".join(encode(item) for item in found if isinstance(item, dict)) == GOLDEN.read_bytes()


@given(st.dictionaries(st.text(min_size=1, max_size=8), values, max_size=5), st.sampled_from(sorted(KINDS)))
@settings(deadline=None, max_examples=200)
def test_what_is_encoded_is_decoded_to_the_same(fields: dict[str, Any], kind: str) -> None:
    """Whatever an application hands over, the event comes back whole, from one line."""
    written = {**fields, **event(kind=kind), "call": "c"}
    line = encode(written)
    assert line.count(b"\n") == 1
    assert line.endswith(b"\n")
    assert same(read_one(line), written)


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ({"kind": "prompt"}, "unknown event kind 'prompt'"),
        ({"kind": ["end"]}, "unknown event kind"),
        ({"qid": "../../etc"}, r"illegal qid '\.\./\.\./etc'"),
        ({"qid": 5}, "illegal qid 5"),
        ({"v": "1"}, "'1' is no schema version"),
        ({"v": 1.0}, "1.0 is no schema version"),
        ({"v": "1.0.0"}, "is no schema version"),
        ({"v": "\u0661.0"}, "is no schema version"),
        ({"v": "9" * 5000 + ".0"}, "is no schema version"),
        ({"writer": 5}, "without identity"),
        ({"seq": "1"}, "without identity"),
        ({"seq": True}, "without identity"),
        ({"call": ["c"]}, "illegal call"),
        ({"kind": ..., "ts": ...}, "an event without kind, ts"),
    ],
)
def test_a_faulty_event_is_refused_when_written_and_named_when_read(fault: dict[str, Any], reason: str) -> None:
    """The same fault, both ways: an error for the writer, a problem with place and reason for the reader."""
    with pytest.raises(InvalidEvent, match=reason):
        encode(event(**fault))
    with pytest.raises(InvalidEvent, match=reason):
        check_event(event(**fault))
    found = read_one(orjson.dumps(event(**fault)) + b"\n")
    assert isinstance(found, Problem)
    assert (found.source, found.line) == ("payloads/x", 1)
    assert re.search(reason, found.reason)
    assert found.raw.startswith("{")


def test_a_good_event_is_returned_as_it_is() -> None:
    """Checking changes nothing."""
    written = event(anything={"else": 1})
    assert check_event(written) is written


def test_an_unknown_minor_and_unknown_fields_are_kept() -> None:
    """A newer writer within the major version adds fields; an older reader shows them."""
    newer = event(v="1.99", novelty={"of": ["tomorrow"]})
    found = read_one(orjson.dumps(newer) + b"\n")
    assert found == newer
    assert readable(newer)
    assert encode(newer) == orjson.dumps(newer) + b"\n"


def test_an_unknown_major_is_kept_raw() -> None:
    """What another major version means is not guessed: its wrapped values stay wrapped, its kind may be new."""
    later = event(v="2.0", kind="premonition", text={"base64": "YQ==", "encoding": "bytes"})
    found = read_one(orjson.dumps(later) + b"\n")
    assert found == later
    assert not readable(later)


def test_an_unknown_major_without_identity_is_a_problem() -> None:
    """Without writer and seq nobody could tell whether it was seen before."""
    found = read_one(orjson.dumps(event(v="2.0", seq=...)) + b"\n")
    assert isinstance(found, Problem)
    assert found.reason == "an event without identity"


def test_a_torn_last_line_is_named_and_the_lines_before_it_are_read() -> None:
    """A process that died while writing costs the line that it was writing."""
    whole = encode(event()) + encode(event(seq=2))
    for cut in range(1, len(encode(event(seq=3))) - 2):
        first, second, torn = decode(whole + encode(event(seq=3))[:cut], "a")
        assert isinstance(first, dict)
        assert isinstance(second, dict)
        assert isinstance(torn, Problem)
        assert (torn.line, torn.reason) == (3, "torn line at the end")
    *_, last = decode(whole + encode(event(seq=3)).rstrip(b"\n"), "a")
    assert isinstance(last, dict)


@pytest.mark.parametrize(
    "line",
    [
        b"{",
        b"\xff\xfe",
        b'"\\ud800"',
        b"[]",
        b"5",
        b"null",
        b"NaN",
        b"not json",
        b"[" * 1000 + b"]" * 1000,
        b"[" * 100_000 + b"]" * 100_000,
        orjson.dumps(event(x={"integer": "many"})),
        orjson.dumps(event(x={"base64": "?", "encoding": "bytes"})),
        orjson.dumps(event(x=1))[:-1] + b',"y":' + b"[" * 900 + b"]" * 900 + b"}",
    ],
)
def test_a_malformed_line_is_named_and_the_others_are_read(line: bytes) -> None:
    """Nothing from outside is trusted, and nothing from outside ends the reading."""
    before, found, after = decode(encode(event()) + line + b"\n" + encode(event(seq=2)), "payloads/y")
    assert isinstance(found, Problem)
    assert str(found).startswith("payloads/y:2: ")
    assert isinstance(before, dict)
    assert isinstance(after, dict)
    assert (before["seq"], after["seq"]) == (1, 2)


@given(st.binary(max_size=200))
@settings(deadline=None, max_examples=200)
def test_no_bytes_make_the_reader_raise(data: bytes) -> None:
    """Whatever an object holds, each line that is not blank is an event or a problem."""
    lines = [line for line in data.split(b"\n") if line.strip()]
    assert len(list(decode(data, "a"))) == len(lines)


def test_blank_lines_are_no_problem() -> None:
    """An empty file holds no event, and no fault either."""
    assert list(decode(b"", "a")) == []
    assert list(decode(b"\n \r\n\n", "a")) == []


def test_a_problem_keeps_only_the_beginning_of_a_line() -> None:
    """A megabyte of garbage is not carried about in an error list."""
    found = read_one(b"x" * 1_000_000 + b"\n")
    assert isinstance(found, Problem)
    assert len(found.raw) == 200


def test_the_reason_of_a_problem_tells_nothing_of_the_payload() -> None:
    """Reasons are logged; texts never are."""
    found = read_one(orjson.dumps(event(x={"integer": "my secret"})) + b"\n")
    assert isinstance(found, Problem)
    assert "secret" not in str(found)


def test_an_identity_counts_once() -> None:
    """Shipping twice is harmless: of one (writer, seq) the first is kept; two writers may count alike."""
    first, again = event(), event(ts="later", extra=1)
    other, next_one = event(writer="01JDZQ4K8BWRWRWRWRWRWRWRWS"), event(seq=2)
    assert list(distinct([first, again, other, next_one, first])) == [first, other, next_one]
    assert identity(first) == identity(again) == (WRITER, 1)


@given(st.lists(st.integers(0, 4), max_size=20))
@settings(deadline=None, max_examples=50)
def test_reading_twice_changes_nothing(chosen: list[int]) -> None:
    """What is distinct stays distinct, in the order of first appearance."""
    script = Script()
    for _ in range(5):
        script("end")
    events = [script.events[number] for number in chosen]
    once = list(distinct(events))
    assert [identity(e)[1] for e in once] == [number + 1 for number in dict.fromkeys(chosen)]
    assert list(distinct(once + events)) == once


def test_times_are_utc_with_nanoseconds() -> None:
    """Nine digits, always, so that times sort as texts."""
    assert rfc3339(0) == "1970-01-01T00:00:00.000000000Z"
    assert rfc3339(1_796_040_000_000_000_001) == "2026-11-30T12:00:00.000000001Z"
    assert rfc3339(1_796_040_000_999_999_999) == "2026-11-30T12:00:00.999999999Z"
