"""A delivery process: a batch is one write and one read, and whatever becomes of the process nothing is lost."""

from __future__ import annotations

import gc
import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import date, datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_prompt_trace import exceptions
from otel_prompt_trace.core.events import identity
from otel_prompt_trace.exceptions import ConfigurationError, StoreDenied, StoreUnreachable
from otel_prompt_trace.pipeline.accounting import FlushResult
from otel_prompt_trace.pipeline.delivery import delivering, messages
from otel_prompt_trace.pipeline.delivery import process as process_module
from otel_prompt_trace.pipeline.delivery.link import Link
from otel_prompt_trace.pipeline.delivery.messages import Answer, Batch, Ended, Failure, Told, receive, send
from otel_prompt_trace.pipeline.delivery.process import DeliveryProcess
from otel_prompt_trace.pipeline.delivery.together import OneByOne, Outcome, Sealed, Together
from otel_prompt_trace.pipeline.flags import END
from otel_prompt_trace.runtime import Runtime
from otel_prompt_trace.settings import load
from otel_prompt_trace.store import PayloadStore, open_store
from tests.faults.running import stored_lines
from tests.waiting import until

_ROOT = Path(__file__).parents[2]
_NOW = datetime(2026, 11, 30, tzinfo=timezone.utc)
Begin = Callable[..., Runtime]


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Begin]:
    """Make a runtime that delivers through a process, into the folder of the test."""
    made: list[Runtime] = []

    def make(**options: Any) -> Runtime:
        folders = {"store": str(tmp_path / "store"), "spool": str(tmp_path / "spool"), "delivery": "process"}
        made.append(Runtime(load({}, **(folders | options)), open_store))
        return made[-1]

    yield make
    for runtime in made:
        runtime.close()


def _process(runtime: Runtime) -> DeliveryProcess:
    assert runtime._parts._process is not None
    return runtime._parts._process


def _pid(runtime: Runtime) -> int:
    assert runtime.delivery_pid is not None
    return runtime.delivery_pid


def _alive(pid: int) -> bool:
    try:
        status = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return status != "Z"


def _query(runtime: Runtime, qid: str, text: str = "what?") -> None:
    runtime.append(qid, [{"kind": "query", "question": text}])
    runtime.append(qid, [{"kind": "request", "call": "c", "prompt": text * 20}, {"kind": "response", "call": "c"}])
    runtime.append(qid, [{"kind": "end", "ms": {}}], flags=END)


def _once(store: PayloadStore, runtime: Runtime) -> None:
    """Each event that was recorded is in the store, and no line twice."""
    lines = stored_lines(store)
    assert set(Counter(identity(line) for line in lines).values()) == {1}
    assert len(lines) == runtime.accounts.recorded


def test_it_stores_what_a_thread_would(tmp_path: Path, begin: Begin) -> None:
    """The same objects, byte for byte less the writer's own ids; and the process ends with the runtime."""
    runtime = begin()
    for number in range(100):
        _query(runtime, f"q{number}", f"what of {number}? éß🏳️‍🌈")
    assert runtime.flush(30) == FlushResult(400, 0, 0)
    pid = _pid(runtime)
    assert _alive(pid)
    runtime.close()
    until(lambda: not _alive(pid))
    _once(open_store(tmp_path / "store"), runtime)
    other = begin(store=str(tmp_path / "other"), delivery="thread")
    for number in range(100):
        _query(other, f"q{number}", f"what of {number}? éß🏳️‍🌈")
    assert other.flush(30).ok
    assert _told(tmp_path / "store") == _told(tmp_path / "other")


def _told(store: Path) -> dict[str, list[dict[str, Any]]]:
    told: dict[str, list[dict[str, Any]]] = {}
    for line in stored_lines(open_store(store)):
        kept = {name: value for name, value in line.items() if name not in ("writer", "ts", "seq")}
        told.setdefault(line["qid"], []).append(kept)
    return told


class _Counting:
    """A connection that counts the calls by which the interpreter's lock is let go of."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self.calls: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        if name in ("sendall", "recv", "recv_into"):
            self.calls[name] += 1
        return getattr(self._connection, name)


def test_a_batch_is_one_write_and_one_read(begin: Begin) -> None:
    """A flush of 256 queries, 1,024 events: at least 64 records for each time that the lock is let go of."""
    runtime = begin()
    _query(runtime, "first")
    assert runtime.flush(30).ok
    runtime._recorder._on_append = lambda: None
    for number in range(delivering.BATCH):
        _query(runtime, f"q{number}")
    link = _process(runtime)._link
    assert link is not None
    counting = link._connection = _Counting(link._connection)  # type: ignore[assignment]
    assert runtime.flush(30).ok
    assert counting.calls["sendall"] == 1
    assert counting.calls["recv"] + counting.calls["recv_into"] <= 2
    assert delivering.BATCH / counting.calls.total() >= 64


@pytest.mark.fault
@pytest.mark.parametrize("seed", range(4))
def test_it_is_killed_again_and_again(tmp_path: Path, begin: Begin, seed: int) -> None:
    """At random moments, in the middle of batches: the next one goes on; nothing is missing, nothing there twice."""
    rng = random.Random(seed)
    runtime = begin()
    _query(runtime, "first")
    assert runtime.flush(30).ok
    store = _process(runtime)
    over = threading.Event()
    killed: set[int] = set()

    def kill() -> None:
        while not over.is_set():
            pid = store.pid
            store._deaths = 0  # this many in a row are the test's own
            if pid is not None and pid not in killed:
                time.sleep(rng.random() * 0.3)  # the moment itself: nothing could be waited for
                os.kill(pid, signal.SIGKILL)
                killed.add(pid)

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        number = 0
        while len(killed) < 8:
            for _ in range(50):
                number += 1
                _query(runtime, f"q{number}", str(rng.random()) * rng.randrange(200))
            runtime.flush(0.5)
    finally:
        over.set()
        killer.join()
    assert runtime.flush(60) == FlushResult(4 * (number + 1), 0, 0)
    _once(open_store(tmp_path / "store"), runtime)


@pytest.mark.fault
def test_it_ends_with_an_application_that_is_killed(tmp_path: Path) -> None:
    """And not before it, by a signal that all processes of a service are sent."""
    program = f"""
import signal, sys, otel_prompt_trace as pt
from otel_prompt_trace.current import current
pt.install(store={str(tmp_path / "store")!r}, spool={str(tmp_path / "spool")!r}, delivery="process")
with pt.query("what?") as q:
    pass
assert pt.flush(30).ok
assert "boto3" not in sys.modules and "zstandard" not in sys.modules
print(current().delivery_pid, flush=True)
sys.stdin.read()
"""
    with subprocess.Popen(
        [sys.executable, "-c", program], cwd=_ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as application:
        assert application.stdout is not None
        pid = int(application.stdout.readline())
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            os.kill(pid, number)
        time.sleep(0.2)  # a signal that ends it would have done so
        assert _alive(pid)
        application.kill()
    until(lambda: not _alive(pid))


@pytest.mark.fault
def test_a_forked_child_neither_uses_nor_keeps_it(tmp_path: Path, begin: Begin) -> None:
    """The child delivers through one of its own, and the parent's ends with the parent's runtime all the same."""
    runtime = begin()
    _query(runtime, "parent")
    assert runtime.flush(30).ok
    pid = _pid(runtime)
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        status = 1
        try:
            _query(runtime, "child")
            status = 0 if runtime.flush(30).ok and _pid(runtime) != pid else 2
            gc.collect()
            os.write(writing, b".")
            signal.pause()
        finally:
            os._exit(status)
    try:
        assert os.read(reading, 1) == b"."
        runtime.close()
        until(lambda: not _alive(pid))
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(reading)
        os.close(writing)
    assert {line["qid"] for line in stored_lines(open_store(tmp_path / "store"))} == {"parent", "child"}


@pytest.mark.parametrize("executable", ["", "/usr/bin/server", "/no/such/python", "false", "true"])
def test_where_there_can_be_none_this_process_delivers(
    tmp_path: Path,
    begin: Begin,
    executable: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """No interpreter, or one that ends at once: after three tries, or none, by a thread, and that is said.

    A server that embeds Python names itself as the interpreter: it is not started a second time.
    """
    if executable in ("false", "true"):
        (tmp_path / "python").symlink_to(f"/bin/{executable}")
        executable = str(tmp_path / "python")
    monkeypatch.setattr(sys, "executable", executable)
    monkeypatch.setattr(delivering, "FIRST_PAUSE", 0.01)
    runtime = begin()
    _query(runtime, "q")
    if executable in ("", "/usr/bin/server"):
        assert runtime.flush(30).ok
    for _ in range(4):
        runtime.flush(5)
    assert runtime.flush(30).ok
    _once(open_store(tmp_path / "store"), runtime)
    assert caplog.text.count("No delivery process can be had") == 1


def test_what_the_store_says_is_told(tmp_path: Path, begin: Begin, caplog: pytest.LogCaptureFixture) -> None:
    """A store that can't be used is an error with its own words, and is tried again."""
    (tmp_path / "store").write_text("in the way")
    runtime = begin()
    _query(runtime, "q")
    assert not runtime.flush(2).ok
    assert "is not a folder; name another in PROMPT_TRACE_STORE" in caplog.text
    (tmp_path / "store").unlink()
    assert runtime.flush(30).ok
    process = _process(runtime)
    one_by_one = OneByOne(process)
    one_by_one.write([], "q", _NOW)
    with pytest.raises(exceptions.InvalidEvent, match="not one line"):
        one_by_one.write([(("W", 1), b"no end of line")], "q", _NOW)
    process.close()
    with pytest.raises(StoreUnreachable):
        one_by_one.write([], "q", _NOW)


def test_what_no_message_can_hold_is_delivered_here(
    tmp_path: Path, begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A line of more than 4 GiB, stood in for by an encoder that takes less: the process goes on for the others."""
    encode = messages._encoder

    class Small:
        """Takes no line of a megabyte."""

        def encode_into(self, message: Any, buffer: bytearray, offset: int) -> None:
            """Fails as the real one does."""
            if isinstance(message, Batch) and any(len(line) > 1 << 20 for q in message.queries for _, line in q.lines):
                raise OverflowError("too long")
            encode.encode_into(message, buffer, offset)

    monkeypatch.setattr(messages, "_encoder", Small())
    runtime = begin()
    _query(runtime, "first")
    assert runtime.flush(30).ok
    pid = _pid(runtime)
    _query(runtime, "large", "x" * 2_000_000)
    _query(runtime, "last")
    assert runtime.flush(30).ok
    assert _pid(runtime) == pid
    _once(open_store(tmp_path / "store"), runtime)


def test_a_store_that_is_opened_while_the_runtime_closes(begin: Begin, monkeypatch: pytest.MonkeyPatch) -> None:
    """No process is made by what comes too late."""
    runtime = begin()
    opening, closed = threading.Event(), threading.Event()
    opened = runtime._shipper._delivering._open_store

    def slow() -> Any:
        opening.set()
        assert closed.wait(20)
        return opened()

    monkeypatch.setattr(runtime._shipper._delivering, "_open_store", slow)
    _query(runtime, "q")
    until(opening.is_set)
    runtime.close(0.0)
    closed.set()
    until(lambda: runtime._parts._process is not None and runtime._shipper.over(99))
    assert runtime.delivery_pid is None
    assert runtime.accounts.result().spooled == 4


def test_a_process_that_is_being_made_while_it_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever made it ends it, and the batch is told that it waits."""
    starting, closed = threading.Event(), threading.Event()
    made: list[int] = []

    class Slow(Link):
        """Is ready only when it is too late."""

        def __init__(self) -> None:
            super().__init__()
            made.append(self.pid)
            starting.set()
            assert closed.wait(20)

    monkeypatch.setattr(process_module, "Link", Slow)
    process = DeliveryProcess(str(tmp_path / "store"), lambda: Together(_Odd()), lambda *_: None)
    outcomes: dict[int, Outcome] = {}
    queries = [Sealed(qid, [(("W", 1), b"{}\n")]) for qid in ("a", "b")]
    writer = threading.Thread(target=process.write_all, args=(queries, _NOW, outcomes.__setitem__))
    writer.start()
    assert starting.wait(20)
    process.close()
    closed.set()
    writer.join(20)
    assert process.pid is None
    until(lambda: not _alive(made[0]))
    assert outcomes.keys() == {0, 1}


def test_a_store_that_can_be_opened_nowhere(tmp_path: Path, begin: Begin, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither by a process nor here: nothing is said to be delivered, and it all waits."""
    monkeypatch.setattr(sys, "executable", "")
    monkeypatch.setattr(delivering, "FIRST_PAUSE", 0.01)
    runtime = begin()

    def fails() -> Any:
        raise ImportError("zstandard")

    monkeypatch.setattr(runtime._parts, "_open_here", lambda _address: fails())
    _query(runtime, "q")
    for _ in range(5):
        assert not runtime.flush(1)
    assert runtime.accounts.result() == FlushResult(0, 4, 0, delivered=False)
    monkeypatch.undo()
    assert runtime.flush(30).ok
    _once(open_store(tmp_path / "store"), runtime)


def test_tests_have_none() -> None:
    """Where payloads go to the memory of the process, no other could put them there."""
    assert load({"PROMPT_TRACE_TEST_STORE": "memory:", "PROMPT_TRACE_DELIVERY": "process"}).delivery == "thread"


@given(
    st.lists(
        st.builds(
            Sealed,
            st.text(max_size=5),
            st.lists(st.tuples(st.tuples(st.text(max_size=3), st.integers(0, 2**63)), st.binary(max_size=200_000))),
            st.dictionaries(st.text(max_size=3), st.binary(max_size=9), max_size=2),
            st.none() | st.dates(),
        ),
        max_size=4,
    )
)
def test_a_batch_arrives_as_it_was_sent(queries: list[Sealed]) -> None:
    """Whatever its size."""
    here, there = socket.socketpair()
    with here, there:
        sender = threading.Thread(target=send, args=(here, Batch(_NOW, queries)))
        sender.start()
        received = receive(there, Batch)
        sender.join()
    assert received == Batch(_NOW, [Sealed(q, [(i, line) for i, line in n], b, e) for q, n, b, e in queries])


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (StoreUnreachable("a"), StoreUnreachable("a")),
        (StoreDenied("a"), StoreDenied("a")),
        (ConfigurationError("a"), ConfigurationError("a")),
        (exceptions.InvalidQid("a"), RuntimeError("InvalidQid")),
        (ZeroDivisionError("a prompt"), RuntimeError("ZeroDivisionError")),
    ],
)
def test_an_error_keeps_its_class_and_tells_no_content(error: Exception, told: Exception) -> None:
    """Of ours the class and the words; of any other the class alone, which may quote what was to be stored."""
    outcome = Told.of(Outcome(error, 0.25)).outcome
    assert (type(outcome.error), str(outcome.error)) == (type(told), str(told))
    assert outcome.stops == isinstance(error, exceptions.StoreError | ConfigurationError)
    assert Told.of(Outcome(tried=False)).outcome == Outcome(tried=False)


@pytest.mark.parametrize(
    "data",
    [b"", b"\x01", bytes(8), (5).to_bytes(8, "little") + b"\x91", (1).to_bytes(8, "little") + b"\xc0", b"\xff" * 90],
)
def test_what_is_no_message_ends_it(data: bytes) -> None:
    """Cut off, empty, of another kind, or with a length that nobody has room for."""
    here, there = socket.socketpair()
    with here, there:
        here.sendall(data)
        here.shutdown(socket.SHUT_WR)
        with pytest.raises(Ended):
            receive(there, Answer)


class _Odd:
    """A store that can compress nothing, and finds one query odd."""

    def __init__(self) -> None:
        self.written: list[str] = []

    def pack(self, queries: Any) -> Any:
        """Fails."""
        raise ValueError(len(queries))

    def write(self, events: Any, qid: str, now: Any, blobs: Any = None, *, elsewhere: date | None = None) -> list[str]:
        """Keeps the qid."""
        assert isinstance(events, list), (now, blobs, elsewhere)
        if qid == "odd":
            raise KeyError(qid)
        self.written.append(qid)
        return []


def test_one_odd_query_is_no_trouble_for_the_others() -> None:
    """Where the batch can't be compressed in one go, each goes by itself."""
    odd, outcomes = _Odd(), dict[int, Outcome]()
    queries = [Sealed(qid, [(("W", 1), b"{}\n")]) for qid in ("a", "odd", "b")]
    Together(odd).write_all(queries, _NOW, outcomes.__setitem__)
    assert sorted(odd.written) == ["a", "b"]
    assert isinstance(outcomes[1].error, KeyError)
    assert [outcomes[number].error for number in (0, 2)] == [None, None]
    assert not any(outcome.stops for outcome in outcomes.values())
    assert json.dumps(Failure.of(KeyError("secret")).message) == '""'
