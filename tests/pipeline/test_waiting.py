"""What is kept in memory of what waits, and of what is not finished, has a bound."""

from __future__ import annotations

import gc
import threading
import tracemalloc
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from otel_prompt_trace import runtime as runtime_module
from otel_prompt_trace.pipeline import waiting
from otel_prompt_trace.pipeline.accounting import FlushResult, Ticket
from otel_prompt_trace.pipeline.delivery import delivering
from otel_prompt_trace.pipeline.flags import END
from otel_prompt_trace.runtime import Runtime
from tests.pipeline.fakes import FakePayloads
from tests.waiting import until

Run = Callable[..., Runtime]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """An index of a hundred frames, and short pauses."""
    monkeypatch.setattr(waiting, "MOST_INDEXED", 100)
    monkeypatch.setattr(delivering, "FIRST_PAUSE", 0.01)
    monkeypatch.setattr(delivering, "LONGEST_PAUSE", 0.02)


def _queries(runtime: Runtime, first: int, count: int) -> list[Ticket]:
    tickets = []
    for number in range(first, first + count):
        tickets.append(runtime.append(f"q{number}", [{"kind": "query", "question": "x" * 50}]))
        tickets.append(runtime.append(f"q{number}", [{"kind": "end"}], flags=END))
    return tickets


def _looked(runtime: Runtime) -> None:
    """Two looks later everything that was recorded before is in the index, or known by its place."""
    for _ in range(2):
        last = runtime._shipper._looked
        until(lambda: runtime._shipper._looked > last)  # noqa: B023 - awaited before the next turn


@pytest.mark.usefixtures("small")
def test_while_the_store_is_down_the_index_stays_as_it_is(run: Run, payloads: FakePayloads) -> None:
    """Twenty times as many frames as the index has room for, over many files: it takes no more, and loses none."""
    payloads.failures = 10**9
    runtime = run(spool_file_bytes=65_536)
    for start in range(0, 1000, 100):
        _queries(runtime, start, 100)
        _looked(runtime)
        assert runtime._shipper._index.frames <= 100
    assert runtime._shipper._index.full
    payloads.failures = 0
    assert runtime.flush(30) == FlushResult(2000, 0, 0)
    assert len(payloads.times_stored()) == 2000
    assert set(payloads.times_stored().values()) == {1}
    assert not runtime._shipper._index.full
    assert runtime._shipper._index.frames == 0
    runtime.close()
    assert list(runtime.settings.spool.glob("*.spool")) == []


@pytest.mark.usefixtures("small")
def test_it_comes_back_without_a_flush_and_in_order(run: Run, payloads: FakePayloads) -> None:
    """The oldest first, as if they had never been away."""
    payloads.failures = 3
    runtime = run(spool_file_bytes=65_536)
    runtime._recorder._on_append = lambda: None
    _queries(runtime, 0, 500)
    runtime._shipper.ensure_running()
    until(lambda: runtime.accounts.result() == FlushResult(1000, 0, 0))
    assert set(payloads.times_stored().values()) == {1}
    first = {qid: place for place, qid in reversed(list(enumerate(payloads.writes)))}
    places = [first[f"q{number}"] for number in range(500)]
    assert max(abs(place - number) for number, place in enumerate(places)) < 300


@pytest.mark.usefixtures("small")
def test_a_ticket_that_is_held_learns_its_fate(run: Run, payloads: FakePayloads) -> None:
    """Though its frame was forgotten in between; one that nobody holds is forgotten too."""
    payloads.failures = 10**9
    runtime = run(spool_file_bytes=65_536)
    _queries(runtime, 0, 100)
    held = _queries(runtime, 100, 3)
    gone = [weakref.ref(ticket) for ticket in _queries(runtime, 103, 100)]
    _looked(runtime)
    until(lambda: gc.collect() + sum(ticket() is not None for ticket in gone) <= 2)  # the first of a file stands for it
    assert {ticket.state for ticket in held} == {"spooled"}
    payloads.failures = 0
    assert runtime.flush(30).ok
    assert {ticket.state for ticket in held} == {"stored"}


@pytest.mark.usefixtures("small")
def test_a_frame_that_was_damaged_meanwhile_is_counted(run: Run, payloads: FakePayloads) -> None:
    """Its neighbours are stored, its file stays."""
    payloads.failures = 10**9
    runtime = run()
    _queries(runtime, 0, 150)
    runtime.append("victim", [{"kind": "query", "question": "VICTIM"}, {"kind": "end"}], flags=END)
    _looked(runtime)
    (path,) = [path for path in runtime.settings.spool.glob("*.spool") if b"VICTIM" in path.read_bytes()]
    with path.open("r+b") as file:
        file.seek(path.read_bytes().index(b"VICTIM"))
        file.write(b"victim")
    payloads.failures = 0
    result = runtime.flush(30)
    assert (result.stored, result.spooled, result.reasons) == (300, 0, {"spool_damaged": 2})
    runtime.close()
    assert path.exists()


@pytest.mark.usefixtures("small")
def test_queries_that_never_end_fill_no_memory(run: Run, payloads: FakePayloads) -> None:
    """Open ones are written out once the index is full: what ends them may not be in it."""
    runtime = run(spool_file_bytes=65_536)
    for number in range(2000):
        runtime.append(f"open{number}", [{"kind": "query"}])
    until(lambda: runtime.accounts.result().stored >= 1000)
    until(lambda: not runtime._shipper._index.full)
    assert runtime._shipper._index.frames <= 100
    assert runtime.flush(30) == FlushResult(2000, 0, 0)


@pytest.mark.usefixtures("small")
def test_memory_is_flat_while_the_store_is_down(run: Run, payloads: FakePayloads) -> None:
    """Ten thousand frames that wait take no more than a few bytes each, where the index would take hundreds."""
    payloads.failures = 10**9
    runtime = run(spool_file_bytes=1 << 20)
    _queries(runtime, 0, 500)
    _looked(runtime)
    tracemalloc.start()
    try:
        gc.collect()
        before, _ = tracemalloc.get_traced_memory()
        for start in range(500, 5500, 250):
            _queries(runtime, start, 250)
            _looked(runtime)
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    per_frame = (after - before) / 10_000
    assert per_frame < 64
    payloads.failures = 0
    assert runtime.flush(60).ok
    assert set(payloads.times_stored().values()) == {1}


def test_what_is_to_be_done_later_has_a_bound(
    run: Run, payloads: FakePayloads, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Responses that were given up wait for the shipper's thread; those beyond the bound are lost and counted."""
    monkeypatch.setattr(runtime_module, "_MOST_LATER", 50)
    payloads.gate = threading.Event()
    runtime = run()
    runtime.append("q", [{"kind": "end"}], flags=END)
    until(lambda: payloads.writes)
    done: list[Any] = []
    for number in range(80):
        runtime.later(lambda number=number: done.append(number))  # type: ignore[misc]
    assert len(runtime._later) == 50
    payloads.gate.set()
    assert runtime.flush(20).reasons == {"abandoned": 30}
    assert done == list(range(50))


def test_watchers_are_let_go_of_with_the_first_look(run: Run, payloads: FakePayloads) -> None:
    """What is said early of a call holds nothing of it while the store is down."""
    payloads.failures = 10**9
    runtime = run()

    class Big:
        def watch(self, _frame: Any, _writer: str) -> None:
            """Do nothing."""

    big = Big()
    gone = weakref.ref(big)
    ticket = runtime.append("q", [{"kind": "query"}], watcher=big.watch)
    del big
    until(lambda: gone() is None)
    assert ticket.state == "spooled"
