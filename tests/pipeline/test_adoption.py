"""Adoption: a running process delivers what those that are gone have left, and nothing of those that live."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import textwrap
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import otel_prompt_trace as pt
from otel_prompt_trace.core.events import identity
from otel_prompt_trace.exceptions import StoreUnreachable
from otel_prompt_trace.pipeline import shipper
from otel_prompt_trace.pipeline.adopting import mark_of
from otel_prompt_trace.pipeline.delivery import delivering
from otel_prompt_trace.pipeline.flags import END
from otel_prompt_trace.runtime import Runtime
from otel_prompt_trace.store.frames import unpack
from tests.pipeline.fakes import QIDS, WRITER, FakePayloads, frame, spool_file
from tests.waiting import until

Run = Callable[..., Runtime]


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A look at what others have left comes at once, and often."""
    monkeypatch.setattr(shipper, "_FIRST_ADOPT_SECONDS", 0.0)
    monkeypatch.setattr(shipper, "ADOPT_SECONDS", 0.1)
    monkeypatch.setattr(delivering, "FIRST_PAUSE", 0.01)


def _left(runtime: Runtime, name: str, *parts: bytes) -> Path:
    """A file of a process that is gone, for the same store."""
    return spool_file(runtime.settings.spool / f"{name}{runtime._parts.mark}.spool", *parts)


def _wake(runtime: Runtime) -> None:
    runtime.append("own", [{"kind": "query"}, {"kind": "end"}], flags=END)


def _seqs(payloads: FakePayloads, qid: str = QIDS[0]) -> list[int]:
    return sorted(number for (_, number), _ in payloads.lines.get(qid, ()))


def test_what_a_dead_process_left_is_delivered(run: Run, payloads: FakePayloads) -> None:
    """Under the dead one's identities, without anybody asking; its file goes, and the books stay our own."""
    runtime = run()
    path = _left(runtime, "A", frame(1), frame(2, {"kind": "request"}, {"kind": "end"}), frame(4, qid="order-17"))
    _wake(runtime)
    until(lambda: not path.exists())
    assert _seqs(payloads) == [1, 2, 3]
    assert _seqs(payloads, "order-17") == [4]
    assert {writer for (writer, _), _ in payloads.lines[QIDS[0]]} == {WRITER}
    until(lambda: runtime.accounts.result().stored == 2)
    assert runtime.accounts.result().lost == 0
    assert runtime.accounts.adopted == 4


def test_what_a_living_process_holds_is_left_alone(run: Run, payloads: FakePayloads) -> None:
    """A parent, a sibling, whoever: the lock tells. Once it is let go of the file is taken."""
    runtime = run()
    path = _left(runtime, "A", frame(1))
    other = _left(runtime, "B", frame(5, qid="order-17"))
    before = path.read_bytes()
    descriptor = os.open(path, os.O_RDWR)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    _wake(runtime)
    until(lambda: not other.exists())
    assert path.read_bytes() == before
    assert _seqs(payloads) == []
    os.close(descriptor)
    until(lambda: not path.exists())
    assert _seqs(payloads) == [1]


def test_what_was_for_another_store_is_left_alone(run: Run, payloads: FakePayloads) -> None:
    """Two services may share a spool folder: the payloads of one never go to the store of the other."""
    runtime = run()
    other = spool_file(runtime.settings.spool / f"A{mark_of('/elsewhere')}.spool", frame(1))
    bare = spool_file(runtime.settings.spool / "B.spool", frame(2))
    mine = _left(runtime, "C", frame(3))
    _wake(runtime)
    until(lambda: not mine.exists())
    assert _seqs(payloads) == [3]
    assert other.exists()
    assert bare.exists()


def test_nothing_is_adopted_from_a_folder_that_was_refused(run: Run, payloads: FakePayloads) -> None:
    """Others may write to it: what lies there may be planted. Records go to memory, and nothing there is touched."""
    runtime = run()
    path = _left(runtime, "A", frame(1))
    runtime.close()
    path.parent.chmod(0o777)
    refused = run()
    assert refused.durability == "memory"
    _wake(refused)
    assert refused.flush(20).ok
    turn = refused._shipper._adopt_at
    until(lambda: refused._shipper._adopt_at > turn)
    assert _seqs(payloads) == []
    assert path.exists()


def test_a_store_is_known_by_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same folder by a relative name is the same; a bucket is not a folder of its name."""
    monkeypatch.chdir(tmp_path)
    assert mark_of("store") == mark_of(str(tmp_path / "store"))
    assert len({mark_of("store"), mark_of("s3://store"), mark_of("s3://store/a"), mark_of("/store")}) == 4


def test_with_a_store_that_is_down_it_stays(run: Run, payloads: FakePayloads) -> None:
    """The file is where it was until every event of it is stored; the pauses between two tries grow."""
    runtime = run()
    payloads.odd[QIDS[0]] = StoreUnreachable("nobody answers")
    path = _left(runtime, "A", frame(1), frame(2, qid="order-17"))
    before = path.read_bytes()
    _wake(runtime)
    until(lambda: payloads.writes.count(QIDS[0]) >= 3)
    assert path.read_bytes() == before
    assert runtime._shipper._pause >= 0.01
    payloads.odd.clear()
    until(lambda: not path.exists())
    assert (_seqs(payloads), _seqs(payloads, "order-17")) == ([1], [2])


def test_our_own_records_go_first(run: Run, payloads: FakePayloads, monkeypatch: pytest.MonkeyPatch) -> None:
    """A flush in the middle of a large file that somebody left waits for one query of it at most."""
    monkeypatch.setattr(shipper, "_ADOPT_STEP_SECONDS", 1000.0)
    runtime = run()
    seen: list[int] = []

    def look() -> None:
        if payloads.writes[-1] == "left-10":
            runtime.append("own", [{"kind": "query"}])
            runtime._shipper.ask()
        if payloads.writes[-1] == "own":
            seen.append(len(payloads.writes))

    _wake(runtime)
    assert runtime.flush(20).ok
    payloads.look = look
    path = _left(runtime, "A", *(frame(number, qid=f"left-{number}") for number in range(1, 301)))
    until(lambda: not path.exists())
    until(lambda: seen)
    assert seen[0] < 50
    assert sum(len(payloads.lines[f"left-{number}"]) for number in range(1, 301)) == 300


def test_a_store_that_hangs_over_it_holds_up_no_flush_and_no_recording(run: Run, payloads: FakePayloads) -> None:
    """The spool is looked after meanwhile, and the deadline is kept; once the store goes on all is delivered."""
    gate = threading.Event()
    payloads.look = lambda: gate.wait(20) and None if payloads.writes[-1] == QIDS[0] else None
    runtime = run()
    path = _left(runtime, "A", frame(1))
    _wake(runtime)
    until(lambda: QIDS[0] in payloads.writes)
    seen: list[str] = []
    runtime.append("meanwhile", [{"kind": "query"}], watcher=lambda frame, _: seen.append(frame.qid))
    until(lambda: seen)
    began = time.monotonic()
    assert not runtime.flush(0.2).ok
    assert time.monotonic() - began < 2.0
    gate.set()
    assert runtime.flush(20).ok
    until(lambda: not path.exists())


def test_damage_is_set_aside_and_holds_up_no_other(run: Run, payloads: FakePayloads, caplog: Any) -> None:
    """As ``ship`` does it: the good neighbours are stored, the file is kept for a person, and one line says so."""
    runtime = run()
    middle = bytearray(frame(2))
    middle[60] ^= 1
    path = _left(runtime, "A", frame(1), bytes(middle), frame(3))
    after = _left(runtime, "B", frame(4))
    _wake(runtime)
    until(lambda: not path.exists() and not after.exists())
    assert _seqs(payloads) == [1, 3, 4]
    assert (runtime.settings.spool / "poison" / path.name).exists()
    until(lambda: "can't be stored" in caplog.text)


def test_an_error_that_nobody_foresaw_is_of_its_file_alone(run: Run, payloads: FakePayloads) -> None:
    """The others are adopted, and the shipper goes on."""
    payloads.odd["odd"] = ZeroDivisionError("?")
    runtime = run()
    path = _left(runtime, "A", frame(1, qid="odd"))
    after = _left(runtime, "B", frame(2))
    _wake(runtime)
    until(lambda: not after.exists())
    assert path.exists()
    assert runtime.flush(20).ok


def test_closing_in_the_middle_leaves_the_rest(
    run: Run, payloads: FakePayloads, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever comes next delivers it; the lock is free."""
    monkeypatch.setattr(shipper, "_ADOPT_STEP_SECONDS", 1000.0)
    runtime = run()
    path = _left(runtime, "A", *(frame(number, qid=f"left-{number}") for number in range(1, 301)))

    def look() -> None:
        runtime._shipper._stopping = payloads.writes[-1] == "left-10" or runtime._shipper._stopping

    payloads.look = look
    _wake(runtime)
    until(lambda: runtime._shipper._thread is not None and not runtime._shipper._thread.is_alive())
    assert path.exists()
    assert payloads.writes[-1] == "left-10"
    descriptor = os.open(path, os.O_RDWR)
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(descriptor)


_PROGRAM = """
    import os, sys, time
    import otel_prompt_trace as pt
    from otel_prompt_trace.pipeline import shipper
    shipper._FIRST_ADOPT_SECONDS, shipper.ADOPT_SECONDS = 0.0, 0.05
    pt.install(store="store", spool="spool", wire="off")
    with pt.query(qid=sys.argv[1]):
        pass
    print("recorded", flush=True)
    if sys.argv[2] == "dies":
        os._exit(0)
    sys.stdin.readline()
"""


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start the program; it has recorded when this returns."""
    made: list[subprocess.Popen[str]] = []

    def begin(*arguments: str) -> subprocess.Popen[str]:
        program = [sys.executable, "-c", textwrap.dedent(_PROGRAM), *arguments]
        pipe = subprocess.PIPE
        process = subprocess.Popen(program, cwd=tmp_path, stdin=pipe, stdout=pipe, stderr=subprocess.STDOUT, text=True)
        made.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "recorded\n"
        return process

    yield begin
    for process in made:
        if process.poll() is None:
            process.kill()
        process.communicate()


def test_two_processes_share_what_a_third_left(tmp_path: Path, start: Callable[..., subprocess.Popen[str]]) -> None:
    """Both adopt one folder of sixty files at once: no event is there twice, none is missing, no file is left."""
    mark = mark_of(str(tmp_path / "store"))
    for number in range(60):
        parts = [frame(2 * number + 1), frame(2 * number + 2, qid=f"q{number}")]
        spool_file(tmp_path / "spool" / f"{number:02}{mark}.spool", *parts)
    processes = [start(name, "lives") for name in ("own-1", "own-2")]
    until(lambda: not list((tmp_path / "spool").glob("[0-9][0-9]-*")), 40)
    for process in processes:
        process.communicate("\n", timeout=30)
        assert process.returncode == 0
    store = pt.open_store(tmp_path / "store")
    assert sorted(event["seq"] for event in store.events(QIDS[0]).events) == list(range(1, 120, 2))
    assert all(len(store.events(f"q{number}").events) == 1 for number in range(60))
    lines = [line for path in (tmp_path / "store").rglob("*.zst") for line in unpack(path.read_bytes())[0].splitlines()]
    times = Counter(identity(pt_line) for pt_line in map(_parsed, lines))
    assert set(times.values()) == {1}


_FORKS = """
    import os, sys
    from datetime import datetime, timezone
    from pathlib import Path
    from otel_prompt_trace.pipeline.drain import DrainReport, steps
    from tests.pipeline.fakes import FakePayloads
    delivering = steps(Path(sys.argv[1]), FakePayloads(), lambda: datetime.now(timezone.utc), DrainReport())
    next(delivering)                    # in the middle of a file, whose lock is held
    if os.fork() == 0:
        null = os.open("/dev/null", os.O_RDONLY)    # under the number that the file had
        print("forked", flush=True)
        sys.stdin.readline()
        delivering.close()
        os.fstat(null)
        print("closed", flush=True)
    os._exit(0)
"""


def test_a_child_that_is_forked_in_the_middle_keeps_no_lock(tmp_path: Path) -> None:
    """Its parent dies while it adopts: the file is free at once, however long the child lives."""
    path = spool_file(tmp_path / "spool" / "A.spool", frame(1), frame(2, qid="order-17"))
    program = [sys.executable, "-c", textwrap.dedent(_FORKS), str(path)]
    pipe = subprocess.PIPE
    with subprocess.Popen(program, cwd=Path(__file__).parents[2], stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "forked\n"
        process.wait(20)
        descriptor = os.open(path, os.O_RDWR)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.close(descriptor)
        assert process.communicate("\n", timeout=20)[0] == "closed\n"


def test_the_next_process_adopts_what_a_killed_one_left(
    tmp_path: Path, start: Callable[..., subprocess.Popen[str]]
) -> None:
    """A process that ends past every handler loses nothing: its successor's first record brings it home."""
    start("first", "dies").wait(20)
    assert list((tmp_path / "spool").glob("*.spool"))
    second = start("second", "lives")
    store = pt.open_store(tmp_path / "store")
    until(lambda: len(store.events("first").events) == 2)
    second.communicate("\n", timeout=30)
    assert len(store.events("second").events) == 2
    assert list((tmp_path / "spool").glob("*.spool")) == []


def _parsed(line: bytes) -> dict[str, Any]:
    import orjson

    found: dict[str, Any] = orjson.loads(line)
    return found
