"""Queries that run at the same time never take each other's pieces."""

from __future__ import annotations

import asyncio
import contextvars
import random
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from opentelemetry import trace

import otel_prompt_trace as pt
from otel_prompt_trace.capture.context import current_call, current_query
from tests.capture.recording import Recording

_TURNS = 50


def _own(recording: Recording, qid: str, name: str) -> None:
    """Everything under ``qid`` names ``name``, and the verdict says that nothing is missing."""
    record = recording.record(qid)
    pieces = record.of("piece")
    assert len(pieces) == 2 * _TURNS
    assert {piece["producer"] for piece in pieces} == {name, f"{name}'s end"}
    assert {event["prompt"].split()[0] for event in record.of("request")} == {name}
    assert len(record.calls) == _TURNS
    assert pt.grade(record).verdict == "exact"


def test_two_tasks(recording: Recording) -> None:
    """Two asyncio tasks that give way to each other at every step."""

    async def ask(name: str) -> str:
        with pt.query(question=name) as q:
            for turn in range(_TURNS):
                head = pt.declare(name, f"{name} {turn}")
                await asyncio.sleep(0)
                with q.call(prompt=head + f" {name}!") as call:
                    await asyncio.sleep(0)
                    pt.declare(f"{name}'s end", f" {name}!")
                    await asyncio.sleep(0)
                    call.respond(name)
        return q.qid

    async def both() -> tuple[str, str]:
        return await asyncio.gather(ask("ann"), ask("bob"))

    qids = asyncio.run(both())
    for qid, name in zip(qids, ("ann", "bob"), strict=True):
        _own(recording, qid, name)


def test_two_queries_over_one_pool_of_threads(recording: Recording) -> None:
    """Work of both queries runs interleaved on the same threads, each piece in a copy of its query's context."""
    qids: dict[str, str] = {}

    def work(q: pt.Query, name: str, turn: int) -> None:
        head = pt.declare(name, f"{name} {turn}")
        with q.call(prompt=head + f" {name}!") as call:
            pt.declare(f"{name}'s end", f" {name}!")
            call.respond(name)

    with ThreadPoolExecutor(4) as pool:
        tasks = []
        for name in ("ann", "bob"):
            with pt.query(question=name) as q:
                qids[name] = q.qid
                tasks += [(contextvars.copy_context(), q, name, turn) for turn in range(_TURNS)]
        random.Random(3).shuffle(tasks)
        for scope, q, name, turn in tasks:
            pool.submit(scope.run, work, q, name, turn)
    for name, qid in qids.items():
        _own(recording, qid, name)


def test_a_thread_without_the_context_records_nothing(recording: Recording) -> None:
    """There is no query there: the text comes back, and belongs to nobody, least of all to another request."""
    seen: list[object] = []

    def work() -> None:
        seen.extend([current_query(), current_call(), pt.declare("p", "a text of nobody's")])

    with pt.query() as q, q.call(prompt="p"):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert seen == [None, None, "a text of nobody's"]
    assert recording.of(q.qid, "piece") == []
    assert b"nobody" not in recording.stored_bytes()


def test_a_call_in_a_thread_of_its_own(recording: Recording) -> None:
    """Inside a call that a thread opens on the query it holds, pieces belong to that call."""

    def work(q: pt.Query) -> None:
        with q.call(prompt="alpha beta") as call:
            pt.declare("a", "alpha ")
            pt.declare("b", "beta")
            call.respond("o")
        assert current_query() is None

    with pt.query() as q:
        thread = threading.Thread(target=work, args=(q,))
        thread.start()
        thread.join()
    record = recording.record(q.qid)
    assert [piece.producer for piece in record.calls[0].pieces] == ["a", "b"]
    assert pt.grade(record).verdict == "exact"


def test_many_threads_record_into_one_query(recording: Recording) -> None:
    """Calls of one query from eight threads at once: each whole, none twice, numbers without a hole."""
    with pt.query() as q, ThreadPoolExecutor(8) as pool:

        def one(number: int) -> None:
            with q.call(prompt=f"prompt {number}") as call:
                call.respond(f"answer {number}")

        list(pool.map(one, range(100)))
    record = recording.record(q.qid)
    assert sorted(event["seq"] for event in record.events) == list(range(1, 203))
    answers = {
        call.request["prompt"]: call.response["output"] for call in record.calls if call.request and call.response
    }
    assert answers == {f"prompt {number}": f"answer {number}" for number in range(100)}


def test_a_query_entered_twice_is_one_query(recording: Recording) -> None:
    """Entering an open query again, or one that ended, changes nothing, and no context is left behind."""
    q = pt.query(question="once")
    with q, q:
        assert current_query() is q
    with q:
        pass
    assert current_query() is None
    assert [event["kind"] for event in recording.events(q.qid)] == ["query", "end"]
    with pt.query() as later:
        pass
    assert "parent" not in recording.of(later.qid, "query")[0]


def test_generators_leave_no_query_behind(recording: Recording, caplog: pytest.LogCaptureFixture) -> None:
    """A query in a generator that is stepped by copies of a context, or interleaved with another, ends quietly."""

    def stream(name: str) -> Iterator[str]:
        with pt.query(question=name) as q:
            yield q.qid
            yield "more"

    generator = stream("stepped")
    first = contextvars.copy_context().run(next, generator)
    assert contextvars.copy_context().run(list, generator) == ["more"]
    one, two = stream("one"), stream("two")
    qids = [next(one), next(two)]
    assert list(one) == list(two) == ["more"]
    assert current_query() is None
    assert not trace.get_current_span().get_span_context().is_valid
    with pt.query() as later:
        pass
    assert "parent" not in recording.of(later.qid, "query")[0]
    for qid in (first, *qids):
        assert [event["kind"] for event in recording.events(qid)] == ["query", "end"]
    assert "Failed to detach" not in caplog.text
