"""The shipper: everything is delivered once, whatever the store does meanwhile."""

from __future__ import annotations

import contextvars
import errno
import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import baggage, context

from otel_prompt_trace.core.events import Problem
from otel_prompt_trace.exceptions import ConfigurationError, StoreDenied, StoreUnreachable
from otel_prompt_trace.pipeline import shipper
from otel_prompt_trace.pipeline.accounting import FlushResult
from otel_prompt_trace.pipeline.delivery import delivering, together
from otel_prompt_trace.pipeline.flags import END, LINES
from otel_prompt_trace.pipeline.reading import content
from otel_prompt_trace.pipeline.shipper import Shipper
from otel_prompt_trace.runtime import Runtime
from otel_prompt_trace.settings import load
from otel_prompt_trace.sources import Sources
from otel_prompt_trace.store import open_store
from tests.lifecycle.serving import stored_lines
from tests.pipeline.fakes import FakePayloads
from tests.waiting import until

Run = Callable[..., Runtime]


def _query(runtime: Runtime, qid: str, *, end: bool = True) -> None:
    runtime.append(qid, [{"kind": "query"}])
    runtime.append(qid, [{"kind": "request", "call": "c", "prompt": "p"}])
    if end:
        runtime.append(qid, [{"kind": "end"}], flags=END)


def _once(payloads: FakePayloads) -> None:
    assert set(payloads.times_stored().values()) == {1}


def test_an_ended_query_is_shipped_on_its_own(run: Run, payloads: FakePayloads) -> None:
    """No flush, no further event: the end is enough, and one write holds the whole query."""
    runtime = run()
    _query(runtime, "q1")
    until(lambda: payloads.kinds("q1") == ["query", "request", "end"])
    assert payloads.writes == ["q1"]
    until(lambda: runtime.accounts.result() == FlushResult(3, 0, 0))


def test_an_open_query_waits(run: Run, payloads: FakePayloads) -> None:
    """Without an end nothing is written while others are; a flush writes it."""
    runtime = run()
    _query(runtime, "open", end=False)
    for number in range(3):
        _query(runtime, f"q{number}")
        until(lambda: len(payloads.writes) > number)  # noqa: B023 - awaited before the next turn
    assert payloads.kinds("open") == []
    assert runtime.flush(20).ok
    assert payloads.kinds("open") == ["query", "request"]
    _once(payloads)


def test_a_quiet_query_is_shipped(run: Run, payloads: FakePayloads, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a time without a new event a query is written though it has not ended."""
    runtime = run()
    _query(runtime, "quiet", end=False)
    until(lambda: runtime._shipper._index.queries)
    assert payloads.writes == []
    monkeypatch.setattr(shipper, "QUIET_SECONDS", 0.0)
    until(lambda: payloads.kinds("quiet") == ["query", "request"])
    runtime.append("quiet", [{"kind": "end"}], flags=END)
    until(lambda: payloads.kinds("quiet") == ["query", "request", "end"])
    _once(payloads)


def test_the_quiet_time_counts_from_the_last_event(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Thirty seconds by default, and every event begins them anew."""
    assert shipper.QUIET_SECONDS == 30.0
    now = [0.0]
    monkeypatch.setattr("otel_prompt_trace.pipeline.shipper.time.monotonic", lambda: now[0])
    runtime = run()
    worker = runtime._shipper
    monkeypatch.setattr(worker, "ensure_running", lambda: None)
    runtime._recorder._on_append = lambda: None

    def turn(at: float) -> list[str]:
        now[0] = at
        worker._turn()
        return list(runtime._open_payloads("").writes)  # type: ignore[attr-defined]

    runtime.append("q", [{"kind": "query"}])
    assert turn(100.0) == []
    runtime.append("q", [{"kind": "request"}])
    assert turn(120.0) == []
    assert turn(149.9) == []
    assert turn(150.0) == ["q"]


def test_a_store_that_is_down_loses_nothing_and_doubles_nothing(
    run: Run, payloads: FakePayloads, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Refused five times, then up: every event is written once, and the pauses grew in between."""
    pauses: list[float] = []
    monkeypatch.setattr(delivering, "FIRST_PAUSE", 0.01)
    back_off = Shipper._back_off

    def watched(self: Shipper) -> None:
        back_off(self)
        pauses.append(self._pause)

    monkeypatch.setattr(Shipper, "_back_off", watched)
    payloads.failures = 5
    runtime = run()
    for number in range(10):
        _query(runtime, f"q{number}")
    until(lambda: runtime.accounts.result() == FlushResult(30, 0, 0))
    _once(payloads)
    assert len(payloads.times_stored()) == 30
    assert pauses == [0.01, 0.02, 0.04, 0.08, 0.16]
    until(lambda: runtime._shipper._pause == 0.0)


@pytest.mark.parametrize("error", [StoreDenied("no such bucket"), ConfigurationError("no such folder")])
def test_a_store_that_says_no_is_asked_again(
    run: Run,
    payloads: FakePayloads,
    error: Exception,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Credentials, permissions and folders can be mended while the process runs; the warning says what to do."""
    monkeypatch.setattr(delivering, "FIRST_PAUSE", 0.01)
    runtime = run()
    payloads.odd["q"] = error
    _query(runtime, "q")
    until(lambda: len(payloads.writes) >= 3)
    assert runtime.accounts.result() == FlushResult(0, 3, 0, delivered=False)
    payloads.odd.clear()
    assert runtime.flush(20).ok
    _once(payloads)
    (warning,) = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert str(error) in warning


def test_after_a_flush_that_failed_the_pauses_are_kept(run: Run, payloads: FakePayloads) -> None:
    """One flush is one try at once; a store that stays down is not hammered because somebody asked."""
    payloads.failures = 1_000_000
    runtime = run()
    _query(runtime, "q")
    until(lambda: payloads.writes)
    assert not runtime.flush(0.05).ok
    tries = len(payloads.writes)
    assert tries >= 2
    until(lambda: runtime._shipper._asked == runtime._shipper._tried)
    turns = [0]
    turn = runtime._shipper._turn

    def counted() -> None:
        turns[0] += 1
        turn()

    runtime._shipper._turn = counted  # type: ignore[method-assign]
    until(lambda: turns[0] >= 4)
    assert len(payloads.writes) <= tries + 1


def test_many_that_are_due_are_written_side_by_side(
    run: Run, payloads: FakePayloads, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Up to sixteen at a time, after one that went alone; each once, and none of them instrumented."""
    runtime = run()
    runtime._recorder._on_append = lambda: None
    for number in range(100):
        _query(runtime, f"q{number}")
    lock, barrier = threading.Lock(), threading.Barrier(16)
    inside, most, first = [0], [0], [0]
    contexts: list[int] = []

    def look() -> None:
        with lock:
            inside[0] += 1
            most[0] = max(most[0], inside[0])
            first[0] = first[0] or inside[0]
            contexts.append(len(context.get_current()))
            early = len(payloads.writes) <= 17
        if early and len(contexts) > 1:
            barrier.wait(10)
        with lock:
            inside[0] -= 1

    payloads.look = look
    assert runtime.flush(20) == FlushResult(300, 0, 0)
    assert (first[0], most[0]) == (1, 16)
    assert set(contexts) == {2}
    _once(payloads)
    until(lambda: not [thread for thread in threading.enumerate() if "writer" in thread.name])


def test_a_store_that_is_down_is_asked_once_a_try(run: Run, payloads: FakePayloads) -> None:
    """However many queries are due."""
    payloads.failures = 1_000_000
    runtime = run()
    runtime._recorder._on_append = lambda: None
    for number in range(100):
        _query(runtime, f"q{number}")
    assert not runtime.flush(0.2).ok
    assert 1 <= len(payloads.writes) <= 2


def test_where_no_thread_can_be_made_all_is_delivered(
    run: Run, payloads: FakePayloads, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An interpreter that exits starts none: the shipper's own thread writes then."""
    runtime = run()
    _query(runtime, "first")
    assert runtime.flush(20).ok
    start = threading.Thread.start

    def refuses(thread: threading.Thread) -> None:
        if "writer" in thread.name:
            raise RuntimeError("can't create new thread at interpreter shutdown")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refuses)
    for number in range(50):
        _query(runtime, f"q{number}")
    assert runtime.flush(20) == FlushResult(153, 0, 0)
    _once(payloads)


def test_while_a_write_hangs_the_spool_is_looked_after(run: Run, payloads: FakePayloads) -> None:
    """What is recorded meanwhile is indexed, its watchers are called, and what comes for the same query waits on."""
    payloads.gate = threading.Event()
    runtime = run()
    _query(runtime, "q")
    until(lambda: payloads.writes)
    seen: list[str] = []
    runtime.append("q", [{"kind": "feedback", "score": 1}], watcher=lambda frame, _: seen.append(frame.qid))
    runtime.append("other", [{"kind": "query"}])
    until(lambda: seen == ["q"])
    until(lambda: "other" in runtime._shipper._index.queries)
    assert payloads.writes == ["q"]
    payloads.gate.set()
    assert runtime.flush(20) == FlushResult(5, 0, 0)
    assert payloads.kinds("q") == ["query", "request", "end", "feedback"]
    assert runtime._shipper._index.frames == 0
    _once(payloads)


def test_a_flush_keeps_its_deadline_while_the_store_hangs(run: Run, payloads: FakePayloads) -> None:
    """It returns within its time and says no; once the store moves again nothing is missing."""
    payloads.gate = threading.Event()
    runtime = run()
    _query(runtime, "q")
    began = time.monotonic()
    result = runtime.flush(0.1)
    assert time.monotonic() - began < 2.0
    assert result == FlushResult(0, 3, 0, delivered=False)
    assert not result.ok
    payloads.gate.set()
    assert runtime.flush(20).ok
    _once(payloads)


def test_appends_do_not_wait_for_a_store_that_hangs(run: Run, payloads: FakePayloads) -> None:
    """The application goes on recording; what it records waits in the spool."""
    payloads.gate = threading.Event()
    runtime = run()
    _query(runtime, "q0")
    until(lambda: payloads.writes)
    began = time.monotonic()
    for number in range(1, 200):
        _query(runtime, f"q{number}")
    assert time.monotonic() - began < 5.0
    assert runtime.accounts.result().spooled == 600
    payloads.gate.set()
    assert runtime.flush(20) == FlushResult(600, 0, 0)


def test_a_flush_is_of_what_was_recorded_before_it(run: Run, payloads: FakePayloads) -> None:
    """Under steady load there is always something new: a flush that delivered all of the old says so."""
    runtime = run()
    _query(runtime, "before", end=False)

    def meanwhile() -> None:
        payloads.look = lambda: None
        other = threading.Thread(target=_query, args=(runtime, "during"), kwargs={"end": False})
        other.start()
        other.join()

    payloads.look = meanwhile
    result = runtime.flush(20)
    assert result.ok
    assert result.spooled == 2
    assert runtime.flush(20) == FlushResult(4, 0, 0)


def test_what_comes_after_the_end_makes_a_further_object(run: Run, payloads: FakePayloads) -> None:
    """Feedback of later belongs to the same qid, in a write of its own."""
    runtime = run()
    _query(runtime, "q")
    until(lambda: payloads.writes == ["q"])
    runtime.append("q", [{"kind": "feedback", "score": 1}], flags=END)
    until(lambda: payloads.kinds("q") == ["query", "request", "end", "feedback"])
    assert payloads.writes == ["q", "q"]
    _once(payloads)


def test_poison_is_set_aside_and_its_neighbours_are_stored(
    run: Run, payloads: FakePayloads, caplog: pytest.LogCaptureFixture
) -> None:
    """An event of no known kind can never be stored: it is kept under ``poison/``, counted, and holds up nothing."""
    runtime = run()
    _query(runtime, "before")
    good = runtime.append("bad", [{"kind": "query"}])
    bad = runtime.append("bad", [{"kind": "response"}, {"kind": "nonsense", "text": "odd"}, {"kind": "end"}], flags=END)
    _query(runtime, "after")
    result = runtime.flush(20)
    assert (result.stored, result.spooled, result.lost) == (9, 0, 1)
    assert result.reasons == {"set_aside": 1}
    assert payloads.kinds("bad") == ["query", "response", "end"]
    assert (good.state, bad.state) == ("stored", "lost")
    (path,) = (runtime.settings.spool / "poison").iterdir()
    assert path.stat().st_mode & 0o777 == 0o600
    writer, _, found, problems = content(path)
    assert problems == []
    assert writer == runtime._recorder.writer
    (kept,) = found
    assert b"nonsense" in kept.body
    assert "poison" in caplog.text
    runtime.close()
    assert list(runtime.settings.spool.glob("*.spool")) == []
    assert path.exists()


def test_a_frame_that_can_t_be_sealed_is_poison_too(
    run: Run, payloads: FakePayloads, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever goes wrong with one frame, the shipper goes on with the next."""

    def fails(events: list[Any]) -> list[Any]:
        if any(event["qid"] == "bad" for event in events):
            raise RecursionError
        return events

    monkeypatch.setattr("otel_prompt_trace.pipeline.shipping.seal", fails)
    runtime = run()
    for qid in ("before", "bad", "after"):
        _query(runtime, qid)
    runtime.append("bad", [{"kind": "response"}, {"kind": "end"}], flags=END)
    result = runtime.flush(20)
    assert (result.stored, result.spooled, result.reasons) == (6, 0, {"set_aside": 5})
    assert payloads.kinds("bad") == []
    assert len(list((runtime.settings.spool / "poison").iterdir())) == 4


def test_poison_is_set_aside_once(run: Run, payloads: FakePayloads, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the write beside it had to be tried several times."""
    monkeypatch.setattr(delivering, "FIRST_PAUSE", 0.01)
    payloads.failures = 3
    runtime = run()
    runtime.append("bad", [{"kind": "query"}, {"kind": "nonsense"}], flags=END)
    assert runtime.flush(20).reasons == {"set_aside": 1}
    assert len(list((runtime.settings.spool / "poison").iterdir())) == 1


def test_one_query_that_the_store_chokes_on_holds_up_no_other(
    run: Run, payloads: FakePayloads, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error that nobody foresaw is of its query alone; that query is tried again, more and more rarely."""
    monkeypatch.setattr(delivering, "FIRST_PAUSE", 0.01)
    payloads.odd["odd"] = ZeroDivisionError("?")
    runtime = run()
    for qid in ("odd", "q1", "q2"):
        _query(runtime, qid)
    until(lambda: payloads.kinds("q1") and payloads.kinds("q2"))
    until(lambda: payloads.writes.count("odd") >= 3)
    assert not runtime.flush(0.05).ok
    payloads.odd.clear()
    assert runtime.flush(20) == FlushResult(9, 0, 0)
    _once(payloads)


def test_a_frame_that_was_damaged_in_the_spool_is_counted_and_its_file_kept(run: Run, payloads: FakePayloads) -> None:
    """Somebody wrote into the file: that frame is lost and said so once, its neighbours are stored, the file stays."""
    payloads.failures = 1
    runtime = run()
    _query(runtime, "q", end=False)
    (path,) = runtime.settings.spool.glob("*.spool")
    data = path.read_bytes()
    with path.open("r+b") as file:
        file.seek(data.index(b"prompt"))
        file.write(b"PROMPT")
    result = runtime.flush(20)
    assert (result.stored, result.spooled, result.reasons) == (1, 0, {"spool_damaged": 1})
    assert payloads.kinds("q") == ["query"]
    runtime.close()
    assert path.exists()
    (problem,) = content(path)[3]
    assert isinstance(problem, Problem)


def test_a_thread_that_died_is_replaced(run: Run, payloads: FakePayloads, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next record finds it out; nothing of what waited is lost or doubled."""
    monkeypatch.setattr(threading, "excepthook", lambda _: None)
    runtime = run()
    _query(runtime, "q1")
    assert runtime.flush(20).ok
    first = runtime._shipper._thread
    assert first is not None

    class Gone(BaseException):
        pass

    def dies(_: bool = True) -> None:
        raise Gone

    with monkeypatch.context() as patch:
        patch.setattr(runtime._shipper, "_turn", dies)
        first.join(20)
    assert not first.is_alive()
    _query(runtime, "q2")
    until(lambda: payloads.kinds("q2"))
    assert runtime._shipper._thread is not first
    assert runtime.flush(20) == FlushResult(6, 0, 0)
    _once(payloads)


def test_what_can_t_be_imported_just_now_is_tried_again(
    run: Run, payloads: FakePayloads, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For want of descriptors: the flush says that nothing is delivered, the next one delivers it."""
    fails = [OSError(errno.EMFILE, "too many")]

    def load() -> None:
        if fails:
            raise fails[0]

    runtime = run()
    monkeypatch.setattr(runtime._shipper, "_load", load)
    _query(runtime, "q1")
    assert runtime.flush(0.2) == FlushResult(0, 3, 0, delivered=False)
    fails.clear()
    assert runtime.flush(20) == FlushResult(3, 0, 0)
    _once(payloads)


def test_there_is_no_thread_before_the_first_record(run: Run) -> None:
    """An installation that records nothing costs no thread."""
    before = threading.active_count()
    runtime = run()
    assert threading.active_count() == before
    runtime.append("q", [{"kind": "query"}])
    assert threading.active_count() == before + 1
    assert runtime._shipper._thread is not None
    assert runtime._shipper._thread.daemon


class _CarryingThread(threading.Thread):
    """A thread that takes the context of whoever starts it along, as an instrumented one does."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._carried = contextvars.copy_context()

    def run(self) -> None:
        self._carried.run(super().run)


@pytest.mark.parametrize("kind", [threading.Thread, _CarryingThread])
def test_our_own_requests_are_not_instrumented(
    run: Run, payloads: FakePayloads, monkeypatch: pytest.MonkeyPatch, kind: type[threading.Thread]
) -> None:
    """In the shipper's thread instrumentations keep quiet, and nothing of an application's context is there."""
    monkeypatch.setattr(threading, "Thread", kind)
    seen: list[dict[str, Any]] = []
    payloads.look = lambda: seen.append(dict(context.get_current()))
    runtime = run()
    token = context.attach(baggage.set_baggage("prompt_trace.qid", "SOMEBODY", context.set_value("own", 1)))
    _query(runtime, "q")
    context.detach(token)
    assert runtime.flush(20).ok
    assert seen
    for values in seen:
        assert values[context._SUPPRESS_INSTRUMENTATION_KEY] is True
        assert values[context._SUPPRESS_HTTP_INSTRUMENTATION_KEY] is True
        assert len(values) == 2


def test_closing_delivers_and_lets_go(run: Run, payloads: FakePayloads) -> None:
    """Ended or not, everything is written once more; the spool's folder is empty after it."""
    runtime = run()
    _query(runtime, "q1")
    _query(runtime, "q2", end=False)
    assert runtime.close() == FlushResult(5, 0, 0)
    assert list(runtime.settings.spool.glob("*.spool")) == []
    assert runtime.close() == FlushResult(5, 0, 0)
    _once(payloads)


def test_closing_while_the_store_is_down_takes_one_try(run: Run, payloads: FakePayloads) -> None:
    """At exit the spool is the better place: one try, then the file stays for whoever drains the folder."""
    payloads.failures = 1_000_000
    runtime = run()
    _query(runtime, "q")
    began = time.monotonic()
    result = runtime.close()
    assert time.monotonic() - began < 4.0
    assert (result.spooled, result.lost) == (3, 0)
    (path,) = runtime.settings.spool.glob("*.spool")
    assert [frame.qid for frame in content(path)[2]] == ["q"] * 3


def test_in_memory_closing_counts_what_it_could_not_deliver(run: Run, payloads: FakePayloads) -> None:
    """There is no other place: it is lost, with its reason."""
    payloads.failures = 1_000_000
    runtime = run(durability="memory")
    _query(runtime, "q")
    assert runtime.close().reasons == {"exit_in_memory": 3}


def test_the_books_add_up_under_load(run: Run, payloads: FakePayloads) -> None:
    """Several threads, a spool that overflows, a store that fails now and then: stored + spooled + lost is recorded."""
    runtime = run(spool_file_bytes=65_536, spool_max_bytes=131_072)
    payloads.failures = 3
    recorded = [0] * 4

    def work(number: int) -> None:
        for turn in range(100):
            _query(runtime, f"q{number}-{turn}")
            runtime.append(f"q{number}-{turn}", [{"kind": "response", "output": "x" * 2000}], flags=END)
            recorded[number] += 4

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    result = runtime.flush(30)
    assert result.stored + result.spooled + result.lost == sum(recorded) == 1600
    assert result.delivered
    assert result.spooled == 0
    assert result.lost == result.reasons.get("spool_full", 0)
    assert len(payloads.times_stored()) == result.stored
    _once(payloads)


def test_frames_of_the_slow_form_are_delivered_as_they_are(run: Run, payloads: FakePayloads) -> None:
    """A lone surrogate is no UTF-8: such events are lines in the spool already, and the same lines in the store."""
    payloads.gate = threading.Event()
    runtime = run()
    runtime.append("q", [{"kind": "response", "output": "half \ud83d"}], flags=END)
    (path,) = runtime.settings.spool.glob("*.spool")
    (frame,) = content(path)[2]
    assert frame.flags == END | LINES
    payloads.gate.set()
    assert runtime.flush(20).ok
    assert frame.body == payloads.lines["q"][0][1]


def _seconds_beside_a_busy_thread(run: Run, payloads: FakePayloads, name: str) -> float:
    """How long the delivery of sixty queries takes whose writes let go of the GIL ten times each, as real ones do."""
    runtime = run()
    runtime._recorder._on_append = lambda: None
    for number in range(60):
        _query(runtime, f"{name}-{number}")

    def write() -> None:
        for _ in range(10):
            time.sleep(0)

    payloads.look = write
    over = threading.Event()

    def compute() -> None:
        while not over.is_set():
            sum(range(1000))

    busy = threading.Thread(target=compute)
    busy.start()
    try:
        began = time.perf_counter()
        assert runtime.flush(60).ok
        return time.perf_counter() - began
    finally:
        over.set()
        busy.join()


def test_beside_a_busy_thread_those_that_wait_share_the_wait(
    run: Run, payloads: FakePayloads, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each release of the GIL costs a switch interval there. Sixteen that wait side by side take far less than one.

    Whatever else the machine does may hide it in one try, not in all of them.
    """
    ratios, many = [], together._THREADS
    for number in range(5):
        monkeypatch.setattr(together, "_THREADS", many)
        side_by_side = _seconds_beside_a_busy_thread(run, payloads, f"together-{number}")
        monkeypatch.setattr(together, "_THREADS", 1)
        ratios.append(_seconds_beside_a_busy_thread(run, payloads, f"alone-{number}") / side_by_side)
        if ratios[-1] > 1.5:
            return
    pytest.fail(f"sixteen side by side are no faster than one: {ratios}")


def test_an_answer_that_is_lost_before_midnight(tmp_path: Path) -> None:
    """The store has it and could not say so; the next try is on the next day, where an id without a date goes now."""
    clock = [1_796_083_190_000_000_000]  # ten seconds before midnight, UTC
    store = open_store(tmp_path / "store")
    write, tries = store.write, [0]

    def lossy(*arguments: Any, **options: Any) -> list[str]:
        tries[0] += 1
        keys = write(*arguments, **options)
        if tries[0] == 1:
            clock[0] += 20_000_000_000
            raise StoreUnreachable("no answer")
        return keys

    store.write = lossy  # type: ignore[method-assign]
    places = {"store": str(tmp_path / "store"), "spool": str(tmp_path / "spool")}
    runtime = Runtime(load({}, **places), lambda _: store, sources=Sources(now_ns=lambda: clock[0]))
    try:
        runtime.append("order-17", [{"kind": "query"}, {"kind": "end"}], flags=END)
        assert runtime.flush(20).ok
        runtime.append("order-17", [{"kind": "feedback"}])
        assert runtime.flush(20).ok
        assert tries[0] == 3
    finally:
        runtime.close()
    days = [info.key.split("/")[1] for info in store.objects.list("payloads/")]
    assert days == ["dt=2026-11-30", "dt=2026-12-01"]
    lines = stored_lines(store)
    assert sorted(line["seq"] for line in lines) == [1, 2, 3]
