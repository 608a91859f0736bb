"""The record: a projection of events that interprets, keeps everything, and merges nothing away."""

from __future__ import annotations

import random
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otel_prompt_trace.core.events import KINDS, Problem, identity
from otel_prompt_trace.core.grade import grade
from otel_prompt_trace.core.pieces import Piece
from otel_prompt_trace.core.published import published
from otel_prompt_trace.core.record import project
from otel_prompt_trace.core.text import CutText
from tests.core.by_hand import QID, WRITER, Script, read
from tests.core.test_text import values


def conversation() -> Script:
    """A query of two calls, with a retrieval before and a tool in between."""
    script = Script()
    script("query", question="How long?", user="u-1", origin="query")
    script("retrieval", hits=[{"rank": 1, "chunk_id": "a", "score": 0.9}, {"rank": 2, "chunk_id": "b", "score": 0.1}])
    script("piece", producer="system", text="Be brief. ", trust="policy")
    script.call("c1", "Be brief. How long?", {"producer": "user", "text": "How long?"})
    script("response", call="c1", output="Let me look.", finish_reason="tool_calls")
    script("tool_call", name="look_up", result="Ten years.")
    script.call("c2", "Be brief. Let me look. Ten years.", {"producer": "sep", "text": " "})
    script("response", call="c2", output="Ten.", finish_reason="stop")
    script("retrieval", dropped=["b"], rule="break")
    script("end", ms={"search": 4, "answer": 9})
    script("feedback", score=1)
    return script


@given(st.randoms(use_true_random=False), st.integers(1, 3))
@settings(deadline=None, max_examples=50)
def test_the_same_events_make_the_same_record(chance: random.Random, times: int) -> None:
    """In any order, from any number of objects, each event any number of times."""
    events = conversation().sealed()
    shuffled = events * times
    chance.shuffle(shuffled)
    assert project(QID, shuffled) == project(QID, events)


def test_events_stand_in_the_order_of_time_then_of_their_writer() -> None:
    """Two processes that wrote at the same nanosecond stand side by side, always in the same order."""
    events = [
        {"v": "1.0", "kind": "end", "qid": QID, "ts": ts, "writer": writer, "seq": seq}
        for ts, writer, seq in [("2", "A", 1), ("1", "B", 2), ("1", "A", 9), ("1", "B", 1)]
    ]
    found = project(QID, events).events
    assert [(e["ts"], e["writer"], e["seq"]) for e in found] == [
        ("1", "A", 9),
        ("1", "B", 1),
        ("1", "B", 2),
        ("2", "A", 1),
    ]


def test_calls_are_numbered_as_they_went_out() -> None:
    """Each with its own pieces, what the query offers, and what came before it."""
    first, second = conversation().record().calls
    assert (first.id, first.number, second.id, second.number) == ("c1", 1, "c2", 2)
    assert [p.producer for p in first.pieces] == ["user"]
    assert [p.producer for p in first.offered] == [p.producer for p in second.offered] == ["system"]
    assert all(p.offered for p in second.offered)
    assert first.inferred == ()
    assert second.inferred == (
        Piece("model", "Let me look.", source_id="c1", offered=True, inferred=True),
        Piece("tool", "Ten years.", trust="tool", source_id="look_up", offered=True, inferred=True),
    )
    assert second.declared == second.pieces + second.offered + second.inferred
    assert first.evidence == "declared"
    assert not first.unfinished


def test_a_request_without_a_response_is_a_call_too() -> None:
    """It went out; what came back is not known."""
    script = Script()
    script.call("c1", "Why?")
    script.call("c2", "Why?")
    script("response", call="c2", unfinished=True, error="APITimeoutError")
    first, second = script.record().calls
    assert (first.response, first.unfinished) == (None, True)
    assert second.unfinished


def test_a_response_without_a_request_is_a_call_too() -> None:
    """Its prompt is not known, and no other call's prompt is taken for it."""
    script = Script()
    script("response", call="c1", output="Ten.")
    (call,) = script.record().calls
    assert (call.request, call.prompt, call.evidence, call.visible) == (None, None, None, {})
    assert not call.unfinished


def test_the_strongest_evidence_counts_and_the_others_are_kept() -> None:
    """Wire before declared before a hook before attributes; of equals the earliest."""
    script = Script()
    for evidence in ("attributes", "declared", "wire", "wire", "hook", "rumour", None):
        script.call("c1", f"by {evidence}", evidence=evidence)  # type: ignore[arg-type]
    (call,) = script.record().calls
    assert call.request == script.record().events[2]
    assert len(call.requests) == 7


def test_the_last_response_ended_the_call() -> None:
    """Two tries that failed, and one that did not."""
    script = Script()
    script.call("c1", "Why?")
    script("response", call="c1", unfinished=True)
    script("response", call="c1", output="Ten.")
    (call,) = script.record().calls
    assert call.response is not None
    assert call.response["output"] == "Ten."
    assert len(call.responses) == 2


def test_declaring_the_same_again_refreshes_the_offer() -> None:
    """One offer, not two; the same text from another producer or source is another."""
    script = Script()
    for producer, source in [("s", None), ("s", None), ("s", "1"), ("t", None), ("s", None)]:
        script("piece", producer=producer, text="Be brief.", source_id=source)
    script.call("c1", "Be brief.")
    (call,) = script.record().calls
    assert [p.label for p in call.offered] == ["s", "s:1", "t"]


def test_two_values_of_one_producer_are_two_offers() -> None:
    """Tool definitions have no text to tell them apart; the values do, whatever the order of their names."""
    script = Script()
    for value in ({"a": 1, "b": 2}, {"b": 2, "a": 1}, {"a": 1}):
        script("piece", producer="tools", value=value)
    script.call("c1", "one two")
    assert [p.value for p in script.record().calls[0].offered] == [{"b": 2, "a": 1}, {"a": 1}]


def test_pieces_of_a_call_are_not_merged() -> None:
    """Within a call the same declaration twice is two: whether both stand is for the census to say."""
    script = Script()
    script.call("c1", "ok", {"producer": "a", "text": "ok"}, {"producer": "a", "text": "ok"})
    assert len(script.record().calls[0].pieces) == 2


def test_a_call_s_own_copies_of_the_offers_stand_for_them() -> None:
    """Under a policy that withholds text each call has the offers with its own offsets."""
    script = Script()
    script("piece", producer="s", text="Be brief.")
    script.call("c1", "Be brief. Why?", {"producer": "s", "text": "Be brief.", "offered": True})
    script.call("c2", "Be brief. How?")
    first, second = script.record("hash").calls
    assert [(p.producer, p.start, p.end) for p in first.offered] == [("s", 0, 9)]
    assert [(p.producer, p.start, p.end) for p in second.offered] == [("s", None, None)]


def test_a_second_end_is_kept() -> None:
    """There should be one; services that joined the query end as well, and are not it."""
    script = Script()
    script("end", ms={"search": 4})
    script("end", ms={"search": 3, "answer": 2}, joined=True)
    assert len(script.record().ends) == 1
    script("end")
    assert len(script.record().ends) == 2
    assert len(script.record().of("end")) == 3
    assert script.record().ms == {"search": 7, "answer": 2}


def test_the_query_is_the_one_that_began_it() -> None:
    """Not that of a service which joined; without any there is none."""
    script = Script()
    script("query", question="joined", joined=True)
    assert script.record().query is not None
    script("query", question="begun")
    assert (script.record().query or {})["question"] == "begun"
    assert project(QID, []).query is None


def test_what_was_retrieved_and_dropped() -> None:
    """Of all retrievals, in the order in which they were recorded."""
    script = Script()
    script("retrieval", hits=[{"rank": 1, "chunk_id": "a"}, "no hit"], dropped=["x", 5])
    script("retrieval", hits=[{"rank": 1, "chunk_id": "b"}])
    script("retrieval", dropped=["b"])
    record = script.record()
    assert [hit["chunk_id"] for hit in record.retrieved] == ["a", "b"]
    assert record.dropped == ("x", "5", "b")


def test_another_major_version_is_kept_and_not_interpreted() -> None:
    """It is listed as unreadable, its kind counts for nothing, and its call is no call."""
    script = conversation()
    script("end", v="2.0")
    script.call("c3", "from the future", v="2.0")
    record = read(script.sealed())
    assert [e["v"] for e in record.unreadable] == ["2.0", "2.0"]
    assert len(record.calls) == 2
    assert len(record.ends) == 1
    assert len(record.events) == len(script.events)


def test_problems_and_what_is_waiting_are_carried() -> None:
    """Whoever reads a store tells the record what could not be read, and what was still in the spool."""
    problem = Problem("payloads/x", 3, "torn line at the end")
    record = project(QID, [], [problem], waiting=2)
    assert (record.problems, record.waiting, record.calls, record.events) == ((problem,), 2, (), ())


def test_a_withheld_output_is_not_offered_to_later_calls() -> None:
    """There is no text to look for."""
    script = conversation()
    (_, second) = script.record("hash").calls
    assert second.inferred == ()
    assert isinstance(second.requests[0]["prompt"], CutText)


def test_an_empty_record() -> None:
    """Nothing is known by that id; nothing is invented."""
    record = project(QID, [])
    assert (record.calls, record.retrieved, record.dropped, record.ms, record.ends) == ((), (), (), {}, ())


FIELDS = ["call", "prompt", "messages", "text", "segment", "start", "end", "chars", "segments", "hits", "dropped"]
FIELDS += ["usage", "output", "result", "ms", "evidence", "model", "encoding", "prompt_tokens", "finish_reason", "rule"]
FIELDS += ["tools", "response_format", "hmac_sha256", "source_id", "producer", "value", "name", "policy", "offered"]
FIELDS += [
    "inline",
    "joined",
    "ts",
    "question",
    "parent",
    "held_by_reference",
    "top_k",
    "inferred",
    "error",
    "unfinished",
    "attempt",
    "route",
    "scope",
    "span_id",
    "difference",
    "host",
    "path",
]
odd = st.one_of(
    values,
    st.integers(-2, 12),
    st.sampled_from(["c1", "c2", "prompt", "abc", "a", "wire", "declared", "gpt-4o", "stop"]),
    st.lists(
        st.dictionaries(st.sampled_from(["rank", "chunk_id", "path", "chars", "content", "role"]), values), max_size=2
    ),
)


@given(
    st.lists(
        st.tuples(st.sampled_from(sorted(KINDS)), st.dictionaries(st.sampled_from(FIELDS), odd, max_size=6)), max_size=6
    )
)
@settings(deadline=None, max_examples=200)
def test_no_event_from_outside_makes_a_reader_raise(events: list[tuple[str, dict[str, Any]]]) -> None:
    """Whatever stands in the fields: the record can be projected, derived, graded and published."""
    script = Script()
    for kind, fields in events:
        script(kind, **{**fields, "call": fields["call"] if isinstance(fields.get("call"), str) else "c1"})
    record = read(script.events)
    result = grade(record, lambda text, _: len(text))
    published(record, result)
    assert result.verdict in ("exact", "mismatch", "unknown")
    for call in result.calls:
        if call.verdict == "exact":
            assert call.census is not None
            assert call.census.unaccounted == 0


@pytest.mark.parametrize("prompt", [5, {"a": 1}, True, None])
def test_a_stored_prompt_of_an_unknown_shape_is_no_prompt(prompt: object) -> None:
    """It is kept in the event; nothing is said of it."""
    script = Script()
    script("request", call="c1", evidence="wire", prompt=prompt)
    (call,) = read(script.events).calls
    assert call.prompt is None
    assert call.request is not None
    assert call.request["prompt"] == prompt


def test_what_a_stranger_tells_under_a_qid_counts_nowhere() -> None:
    """Whoever joined by a qid from outside tells of the query only within its trace; else its events are foreign."""
    own, friend, stranger = Script(), Script(writer=f"{WRITER[:-1]}1"), Script(writer=f"{WRITER[:-1]}2")
    own("query", origin="query", trace_id="a" * 32)
    own.call("c1", "Hello, you.", {"producer": "user", "text": "you."}, trace_id="a" * 32)
    for script, trace_id in ((friend, "a" * 32), (stranger, "b" * 32)):
        script("query", origin="baggage", joined=True, trace_id=trace_id)
        script("piece", producer=script.writer[-1], text="Hello, ", trace_id=trace_id)
        script("end", joined=True, trace_id=trace_id)
    stranger.call("c2", "Something that was never asked.", trace_id="b" * 32)
    record = read([*own.sealed(), *friend.sealed(), *stranger.sealed()])
    assert [event["writer"][-1] for event in record.foreign] == ["2"] * 4
    assert [call.id for call in record.calls] == ["c1"]
    assert [piece.producer for piece in record.calls[0].declared] == ["user", "1"]
    assert len(record.of("piece")) == 2
    assert grade(record).verdict == "exact"
    assert set(map(identity, record.foreign)) <= set(map(identity, record.events))


def test_a_thousand_calls_of_one_query_cost_about_ten_times_as_much_as_a_hundred() -> None:
    """An agent's loop: what a call needs of the record is not looked for among all events again and again."""

    def cost(calls: int) -> float:
        script = Script()
        for number in range(calls):
            script.call(f"k{number}", f"Step {number}", {"producer": "user", "text": f"Step {number}"})
            script("response", call=f"k{number}", finish_reason="stop")
        begun = time.thread_time()
        grade(script.record())
        return time.thread_time() - begun

    assert cost(1_000) < 40 * cost(100)
