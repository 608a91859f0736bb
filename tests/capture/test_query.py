"""What a query records, and how queries are related."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from opentelemetry import baggage, context

import otel_prompt_trace as pt
from otel_prompt_trace.core.qid import is_qid
from otel_prompt_trace.exceptions import ConfigurationError, InvalidQid
from tests.capture.recording import Recording


def _prompt() -> pt.Prompt:
    return pt.Prompt().add("system", "Answer.", trust="policy").literal("\n").add("user", "Why?", trust="user")


def _incoming(qid: str) -> context.Context:
    return baggage.set_baggage("prompt_trace.qid", qid)


def test_everything_that_one_query_records(recording: Recording) -> None:
    """Kinds, order, numbers, times and fields of a query with retrieval, tool, stage, offer, call and end."""
    with pt.query(question="Why?", user="u", session="s", tenant="t", conversation_id="c") as q:
        with q.stage("search"):
            q.retrieved([("c1", 0.9), ("c2", 0.5)], top_k=2, index_version="v3", embed_model="e")
        q.dropped(["c2"], rule="continue")
        q.tool_call("clock", arguments={"zone": "UTC"}, result="noon", world="sandbox")
        pt.declare("history", "Hello.", source_id="turn-1", trust="owner")
        with q.call(model="m", prompt=_prompt(), temperature=0.5, seed=1) as call:
            call.respond("Because.", finish_reason="stop", usage={"input_tokens": 3}, response_id="r1")
    events = recording.events(q.qid)

    kinds = ["query", "retrieval", "retrieval", "tool_call", "piece", "piece", "piece", "piece", "request"]
    assert [event["kind"] for event in events] == [*kinds, "response", "end"]
    assert [event["seq"] for event in events] == list(range(1, 12))
    assert len({event["writer"] for event in events}) == 1
    assert {event["v"] for event in events} == {"1.0"}
    assert {event["qid"] for event in events} == {q.qid}
    times = [event["ts"] for event in events if event["kind"] not in ("piece", "request")]
    assert times == sorted(times)
    assert all(time.startswith("2026-11-30T12:00:00.") and len(time) == 30 for time in times)

    query, retrieval, dropped, tool = events[:4]
    assert query == query | {"question": "Why?", "user": "u", "session": "s", "tenant": "t", "conversation_id": "c"}
    assert query == query | {"origin": "query", "policy": "store"}
    assert "parent" not in query
    hits = [{"rank": 1, "chunk_id": "c1", "score": 0.9}, {"rank": 2, "chunk_id": "c2", "score": 0.5}]
    assert retrieval == retrieval | {"hits": hits, "top_k": 2, "index_version": "v3", "embed_model": "e"}
    assert dropped == dropped | {"dropped": ["c2"], "rule": "continue"}
    assert tool == tool | {"name": "clock", "result": "noon", "world": "sandbox"}
    assert "arguments" not in tool
    assert len(tool["arguments_hmac_sha256"]) == 64

    offer, *placed, request, response, end = events[4:]
    assert offer == offer | {"producer": "history", "text": "Hello.", "source_id": "turn-1", "trust": "owner"}
    assert "call" not in offer
    assert [(p["producer"], p["text"], p["start"], p["end"]) for p in placed] == [
        ("system", "Answer.", 0, 7),
        ("literal", "\n", 7, 8),
        ("user", "Why?", 8, 12),
    ]
    assert {p["call"] for p in placed} == {request["call"]} == {response["call"]} == {call.id}
    assert request == request | {"prompt": "Answer.\nWhy?", "chars": 12, "evidence": "declared", "model": "m"}
    assert request == request | {"temperature": 0.5, "parameters": {"seed": 1}}
    assert response == response | {"output": "Because.", "finish_reason": "stop", "response_id": "r1"}
    assert response["usage"] == {"input_tokens": 3}
    assert isinstance(response["ms"], int)
    assert list(end["ms"]) == ["search"]
    assert end["ms"]["search"] == 1
    assert end["total_ms"] > response["ms"] > 0


def test_one_writer_counts_over_all_queries(recording: Recording) -> None:
    """Numbers rise by one over the whole process, without a hole, whichever query an event belongs to."""
    qids = []
    for number in range(5):
        with pt.query(question=str(number)) as q:
            q.retrieved(["c"])
        qids.append(q.qid)
    events = [event for qid in qids for event in recording.events(qid)]
    assert sorted(event["seq"] for event in events) == list(range(1, 16))
    assert len({event["writer"] for event in events}) == 1


def test_the_service_of_the_provider_stands_on_every_event(
    install: Callable[..., Recording], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Service, version and environment come from the resource."""
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "service.version=7,deployment.environment.name=test")
    monkeypatch.setenv("OTEL_SERVICE_NAME", "shop")
    recording = install()
    with pt.query() as q:
        pass
    for event in recording.events(q.qid):
        assert event == event | {"service": "shop", "service_version": "7", "environment": "test"}


def test_a_query_inside_a_query_is_its_child(recording: Recording) -> None:
    """The child names its parent, and inside a call that call; the outer query goes on after it."""
    with pt.query() as outer:
        with pt.query() as child:
            pass
        with outer.call(prompt="p") as call, pt.query() as grandchild:
            pt.declare("x", "inner")
        pt.declare("y", "outer")
    assert recording.of(child.qid, "query")[0]["parent"] == {"qid": outer.qid}
    assert recording.of(grandchild.qid, "query")[0]["parent"] == {"qid": outer.qid, "call": call.id}
    assert [piece["producer"] for piece in recording.of(grandchild.qid, "piece")] == ["x"]
    assert [piece["producer"] for piece in recording.of(outer.qid, "piece")] == ["y"]
    assert len({outer.qid, child.qid, grandchild.qid}) == 3


def test_an_adopted_id_inside_a_query_names_its_parent_too(recording: Recording) -> None:
    """An id of the application's own changes nothing about lineage."""
    with pt.query(qid="order-17") as outer, pt.query(qid="order-17.part") as child:
        pass
    assert (outer.qid, child.qid) == ("order-17", "order-17.part")
    assert recording.of("order-17.part", "query")[0]["parent"] == {"qid": "order-17"}
    assert "parent" not in recording.of("order-17", "query")[0]


def test_join_continues_the_query_that_is_open(recording: Recording) -> None:
    """The same qid, its own ``query`` and ``end`` events marked as joined, and one end that counts."""
    with pt.query(question="outer") as outer, pt.query(join=True) as inner:
        inner.retrieved(["c1"])
    assert inner.qid == outer.qid
    record = recording.record(outer.qid)
    assert [event.get("joined") for event in record.of("query")] == [None, True]
    assert [event.get("joined") for event in record.of("end")] == [True, None]
    assert len(record.ends) == 1
    assert record.query is not None
    assert record.query["question"] == "outer"


def test_join_without_anything_to_join_begins_a_query(recording: Recording) -> None:
    """A library that joins works the same where nobody opened a query before."""
    with pt.query(join=True) as q:
        pass
    (opened,) = recording.of(q.qid, "query")
    assert "joined" not in opened
    assert "parent" not in opened


def test_join_keeps_the_policy_of_the_query(recording: Recording) -> None:
    """What joins a query that withholds its texts withholds them as well."""
    with pt.query(policy="hash"), pt.query(join=True, question="a secret question") as inner:
        assert inner.policy == "hash"
    pt.flush(20)
    assert b"secret" not in recording.stored_bytes()


def test_a_qid_in_baggage_is_only_linked(recording: Recording) -> None:
    """A caller's qid becomes the parent, never the id, also where joining is asked for."""
    token = context.attach(_incoming("VICTIM"))
    with pt.query() as plain:
        pass
    with pt.query(join=True) as joining:
        pass
    context.detach(token)
    for q in (plain, joining):
        (opened,) = recording.of(q.qid, "query")
        assert q.qid != "VICTIM"
        assert opened["parent"] == {"qid": "VICTIM"}
        assert opened["origin"] == "query"
    assert "VICTIM" not in recording.stored_qids()


def test_a_trusted_qid_in_baggage_is_joined_when_asked(install: Callable[..., Recording]) -> None:
    """With ``accept_qid=trusted`` a query that joins continues the caller's; one that does not is its child."""
    recording = install(accept_qid="trusted")
    token = context.attach(_incoming("upstream-1"))
    with pt.query() as child:
        pass
    with pt.query(join=True) as joined:
        pass
    context.detach(token)
    assert recording.of(child.qid, "query")[0]["parent"] == {"qid": "upstream-1"}
    assert joined.qid == "upstream-1"
    (opened,) = recording.of("upstream-1", "query")
    assert opened == opened | {"origin": "baggage", "joined": True}


@pytest.mark.parametrize("odd", ["../../etc", "", "a b", "ü", "x" * 129, "-a"])
def test_an_illegal_qid_in_baggage_is_ignored(install: Callable[..., Recording], odd: str) -> None:
    """What comes from outside is checked against the grammar before it is even linked."""
    recording = install(accept_qid="trusted")
    token = context.attach(_incoming(odd))
    with pt.query(join=True) as q:
        pass
    context.detach(token)
    assert is_qid(q.qid)
    assert "parent" not in recording.of(q.qid, "query")[0]


@pytest.mark.parametrize("propagate", [True, False])
def test_the_qid_is_in_baggage_only_when_asked(install: Callable[..., Recording], propagate: bool) -> None:
    """Baggage reaches model hosts too: it is set inside the query, only with ``propagate``, and gone after it."""
    install(propagate=propagate)
    with pt.query() as q:
        assert baggage.get_baggage("prompt_trace.qid") == (q.qid if propagate else None)
    assert baggage.get_baggage("prompt_trace.qid") is None


@pytest.mark.parametrize("bad", ["", "a b", "../x", "ä", "x" * 129, 7, None.__class__])
def test_an_illegal_qid_is_refused(recording: Recording, bad: Any) -> None:
    """The one misuse that is said at once; nothing was recorded."""
    with pytest.raises(InvalidQid, match="is not a query id"):
        pt.query(qid=bad)
    with pytest.raises(InvalidQid, match="is not a query id"):
        pt.feedback(bad, score=1.0)
    assert pt.flush(20).stored == 0


def test_an_unknown_policy_is_refused(recording: Recording) -> None:
    """The message names the policies that there are."""
    with pytest.raises(ConfigurationError, match="store, hash"):
        pt.query(policy="shred")


def test_minted_qids_are_legal_and_carry_their_date(recording: Recording) -> None:
    """A minted qid is a ULID of the clock's time, and so the object lies under the clock's date."""
    with pt.query() as q:
        pass
    assert len(q.qid) == 26
    assert q.qid == q.qid.upper()
    recording.events(q.qid)
    (key,) = [path.relative_to(recording.store).as_posix() for path in recording.store.rglob("*.zst")]
    assert key.startswith(f"payloads/dt=2026-11-30/{q.qid}/")


def test_feedback_is_part_of_the_record_whenever_it_comes(recording: Recording) -> None:
    """Days later, from anywhere, under nothing but the qid."""
    with pt.query() as q:
        pass
    recording.events(q.qid)
    pt.feedback(q.qid, score=0.0, comment="wrong", fields={"by": "reviewer"})
    (feedback,) = recording.of(q.qid, "feedback")
    assert feedback == feedback | {"score": 0.0, "comment": "wrong", "fields": {"by": "reviewer"}}


def test_stages_of_one_name_add_up(recording: Recording) -> None:
    """Two runs of a stage are one number, the sum; another stage has its own."""
    with pt.query() as q:
        for name in ("search", "search", "rank"):
            with q.stage(name):
                pass
    (end,) = recording.of(q.qid, "end")
    assert end["ms"] == {"search": 2, "rank": 1}


@pytest.mark.parametrize(
    ("hit", "expected"),
    [
        ("c1", ("c1", None)),
        (17, ("17", None)),
        (("c1", 0.5), ("c1", 0.5)),
        ({"id": "c1", "similarity": 0.5}, ("c1", 0.5)),
        (({"metadata": {"chunk_id": "c1"}}, 0.25), ("c1", 0.25)),
        ({"chunk_id": "c1", "score": "high"}, ("c1", None)),
    ],
)
def test_hits_in_the_shapes_they_come_in(recording: Recording, hit: Any, expected: tuple[Any, Any]) -> None:
    """Ids, pairs, mappings, documents with metadata: the chunk's id and its score are found in each."""
    with pt.query() as q:
        q.retrieved([hit])
    (retrieval,) = recording.of(q.qid, "retrieval")
    assert retrieval["hits"] == [{"rank": 1, "chunk_id": expected[0], "score": expected[1]}]


def test_what_comes_after_the_end_is_kept(recording: Recording) -> None:
    """A late hit belongs to the record, and does not wait for an end that was there already."""
    with pt.query() as q:
        pass
    q.retrieved(["late"])
    assert [event["kind"] for event in recording.events(q.qid)] == ["query", "end", "retrieval"]


def test_the_receipt_follows_the_events(recording: Recording) -> None:
    """Spooled while they wait, stored once the store has them."""
    with pt.query() as q:
        with q.call(prompt="p") as call:
            call.respond("o")
        assert q.receipt.spooled + q.receipt.stored == 3
    assert pt.flush(20)
    assert q.receipt == pt.Receipt(q.qid, "stored", 4, 0, 0)


def test_a_child_keeps_the_policy_of_its_parent(recording: Recording) -> None:
    """A query inside a query of policy hash keeps no text either, unless it says otherwise."""
    with pt.query(policy="hash"):
        with pt.query() as child:
            assert child.policy == "hash"
        with pt.query(policy="store") as open_one:
            assert open_one.policy == "store"


def test_hits_that_are_a_mapping_or_longer_tuples_and_iterators(recording: Recording) -> None:
    """A mapping of scores, triples, odd ranks and a single dropped id are read; an iterator is left alone."""
    hits = iter([{"id": 1}])
    with pt.query() as q:
        q.retrieved({"a": 0.5, "b": 0.25})
        q.retrieved([("c", 0.5, {"meta": 1}), {"chunk_id": "d", "rank": True}, {"chunk_id": "e", "rank": -3}])
        q.dropped("chunk-1")
        q.retrieved(hits)
    assert list(hits) == [{"id": 1}]
    first, second, third = recording.of(q.qid, "retrieval")
    assert [(hit["chunk_id"], hit["score"]) for hit in first["hits"]] == [("a", 0.5), ("b", 0.25)]
    assert [(hit["rank"], hit["chunk_id"]) for hit in second["hits"]] == [(1, "c"), (2, "d"), (3, "e")]
    assert third["dropped"] == ["chunk-1"]


def test_feedback_keeps_the_policy_of_its_query(recording: Recording) -> None:
    """A comment on a query of policy hash is withheld as its other texts are."""
    with pt.query(policy="hash") as q:
        pass
    pt.feedback(q.qid, score=1, comment="a secret remark")
    pt.flush(20)
    assert b"secret remark" not in recording.stored_bytes()
