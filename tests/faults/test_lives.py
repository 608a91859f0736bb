"""How a process ends, multiplies, stands still or loses its time: nothing is missing, nothing is there twice."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import otel_prompt_trace as pt
from otel_prompt_trace.pipeline.drain import DrainReport, drain
from otel_prompt_trace.store import PayloadStore
from tests.faults.conftest import Start
from tests.faults.running import Program, check_books, check_stored
from tests.lifecycle.serving import environ
from tests.waiting import until

pytestmark = pytest.mark.fault

_ROOT = Path(__file__).parents[2]


def _store(folder: Path) -> PayloadStore:
    return pt.open_store(folder / "store")


def _free(path: Path) -> bool:
    with path.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
    return True


def _drained(folder: Path) -> DrainReport:
    # A delivery process that its owner was just starting has the owner's locks until it is a program of its own.
    until(lambda: all(_free(path) for path in (folder / "spool").glob("*.spool")), 5)
    report = drain(folder / "spool", _store(folder))
    assert (report.set_aside, report.alive) == ([], 0)
    assert list((folder / "spool").glob("*.spool")) == []
    return report


def _whole(folder: Path, *programs: Program) -> None:
    """Everything that these acknowledged is stored once, and the books of all that said theirs come out even."""
    lines = check_stored(_store(folder), [told for program in programs for told in program.told])
    check_books(lines, *(books for program in programs for books in program.books.values()))


@pytest.mark.parametrize("reachable", [True, False])
@pytest.mark.parametrize("how", ["exit", "raise", "_exit", "SIGTERM", "SIGHUP", "SIGSEGV", "SIGKILL"])
@pytest.mark.parametrize(
    ("durability", "delivery"), [("written", "thread"), ("fsync", "thread"), ("written", "process")]
)
def test_an_end(tmp_path: Path, start: Start, durability: str, delivery: str, how: str, reachable: bool) -> None:
    """In order, by an error, past every handler, by a signal; the store reachable or not: books and store agree."""
    if not reachable:
        (tmp_path / "store").write_text("in the way")
    program = start(install={"durability": durability, "delivery": delivery})
    program.do("record", count=30)
    program.do("state")
    if how in ("exit", "raise", "_exit"):
        books = program.exit(how)
        assert books["lost"] == 0
        assert (books["stored"] == books["recorded"]) == reachable or how == "_exit"
    else:
        program.kill(signal.Signals[how])
    if not reachable:
        (tmp_path / "store").unlink()
    report = _drained(tmp_path)
    for books in program.books.values():
        assert report.events == books["spooled"] if not reachable else report.events <= books["spooled"]
    _whole(tmp_path, program)


@pytest.mark.parametrize("how", ["exit", "raise"])
def test_memory_mode_counts_what_goes_with_it(tmp_path: Path, start: Start, how: str) -> None:
    """With durability ``memory`` and the store down an end in order counts every event as lost, and says why."""
    (tmp_path / "store").write_text("in the way")
    program = start(install={"durability": "memory"})
    program.do("record", count=12)
    books = program.exit(how)
    assert (books["lost"], books["reasons"]) == (books["recorded"], {"exit_in_memory": books["recorded"]})
    (tmp_path / "store").unlink()
    program = start(install={"durability": "memory"})
    program.do("record", count=12)
    books = program.exit(how)
    assert (books["lost"], books["stored"]) == (0, books["recorded"])
    _whole(tmp_path, program)


@pytest.mark.parametrize("delivery", ["thread", "process"])
@pytest.mark.parametrize("how", ["exit", "_exit", "kill"])
def test_forks_while_others_append(tmp_path: Path, start: Start, how: str, delivery: str) -> None:
    """Eight children, forked while four threads record: each process has a writer of its own, and none's is missing."""
    program = start(install={"delivery": delivery})
    program.do("record", count=3)  # a fork while another thread imports what a client needs is Python's own trap
    program.do("begin", threads=4, pause=0.001)
    for _ in range(8):
        program.do("fork", count=6, how=how)
    program.do("halt")
    program.exit()
    _drained(tmp_path)
    assert len(program.books) == 9
    assert sum(told.via == "wire" for told in program.told) > 16
    _whole(tmp_path, program)


def test_two_that_adopt_one_spool(tmp_path: Path, start: Start) -> None:
    """Six were killed while the store was down; two that look for it all the time share what they left, once each."""
    (tmp_path / "store").write_text("in the way")
    dead = [start(install={"spool_file_bytes": 1 << 18}) for _ in range(6)]
    for program in dead:
        program.do("record", count=20)
        program.do("state")
    for program in dead:
        program.kill()
    (tmp_path / "store").unlink()
    heirs = [start(adopt_seconds=0.02) for _ in range(2)]
    for heir in heirs:
        heir.do("begin", threads=2, pause=0.002)

    def nothing_left() -> bool:
        names = {path.name for path in (tmp_path / "spool").glob("*.spool")}
        return not names & left

    left = {path.name for path in (tmp_path / "spool").glob("*.spool")}
    until(nothing_left, 30)
    for heir in heirs:
        heir.do("halt")
        assert heir.exit()["spooled"] == 0
    assert _drained(tmp_path).events == 0
    _whole(tmp_path, *dead, *heirs)


def test_a_drain_beside_two_that_adopt(tmp_path: Path, start: Start) -> None:
    """``ship --watch`` as a sidecar, and workers that adopt too: whoever has the lock delivers, the others go by."""
    programs = [start(adopt_seconds=0.02, install={"spool_file_bytes": 1 << 17}) for _ in range(2)]
    with subprocess.Popen(
        [sys.executable, "-m", "otel_prompt_trace.cli", "ship", "--watch", "--interval", "0.1", "--json"],
        cwd=_ROOT, env=environ(tmp_path, {"PYTHONPATH": str(_ROOT)}), stdout=subprocess.DEVNULL,
    ) as sidecar:  # fmt: skip
        for program in programs:
            program.do("begin", threads=2, pause=0.002)
        for turn in range(6):
            programs[turn % 2].read(30)
            programs[turn % 2].kill()
            programs.append(start(adopt_seconds=0.02, install={"spool_file_bytes": 1 << 17}))
            programs[turn % 2], programs[-1] = programs[-1], programs[turn % 2]
            programs[turn % 2].do("begin", threads=2, pause=0.002)
        for program in programs[:2]:
            program.do("halt")
            assert program.exit()["spooled"] == 0
        until(lambda: not list((tmp_path / "spool").glob("*.spool")), 30)
        sidecar.terminate()
        assert sidecar.wait(20) == 0
    lines = check_stored(_store(tmp_path), [told for program in programs for told in program.told])
    check_books(lines, *(books for program in programs for books in program.books.values()))


def test_a_child_of_a_reloading_server_beside_a_living_parent(tmp_path: Path, start: Start) -> None:
    """The parent imports the application and records too; each reload kills a child and starts the next."""
    parent = start(adopt_seconds=0.02)
    parent.do("begin", threads=1, pause=0.005)
    children = []
    for _ in range(4):
        child = start(adopt_seconds=0.02)
        children.append(child)
        child.do("begin", threads=2, pause=0.002)
        child.read(20)
        child.kill(signal.SIGTERM)
    parent.read(20)
    parent.do("halt")
    assert parent.exit()["spooled"] == 0
    _drained(tmp_path)
    _whole(tmp_path, parent, *children)


def test_a_clock_that_jumps_back(tmp_path: Path, start: Start) -> None:
    """By an hour, by three days, and forward again; then killed, and what it left adopted: no id stands twice."""
    program = start(install={"spool_file_bytes": 1 << 17})
    for ahead in (0, -3_600, -3 * 86_400, 7_200, 0):
        program.do("clock", ahead_seconds=ahead)
        program.do("record", count=12)
        assert program.do("flush", timeout=20)["ok"]
    program.do("clock", ahead_seconds=-7_200)
    program.do("record", count=12)
    program.do("state")
    program.kill()
    _drained(tmp_path)
    _whole(tmp_path, program)
    seqs = sorted(event["seq"] for event in check_stored(_store(tmp_path), program.told))
    assert seqs == list(range(1, len(seqs) + 1))


@pytest.mark.parametrize("then", ["goes on", "is killed"])
def test_a_process_that_stands_still(tmp_path: Path, start: Start, then: str) -> None:
    """Stopped under load, it keeps its files: nobody takes them while it may go on; once it is dead somebody does."""
    program = start(install={"spool_file_bytes": 1 << 17})
    program.do("begin", threads=3, pause=0.001)
    program.read(50)
    os.kill(program.process.pid, signal.SIGSTOP)
    os.waitid(os.P_PID, program.process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
    held = {path.name: path.read_bytes() for path in (tmp_path / "spool").glob("*.spool")}
    report = drain(tmp_path / "spool", _store(tmp_path))
    assert (report.events, report.alive) == (0, len(held))
    other = start(adopt_seconds=0.02)
    other.do("record", count=20)
    assert other.exit()["spooled"] == 0
    assert {name: (tmp_path / "spool" / name).read_bytes() for name in held} == held
    if then == "goes on":
        os.kill(program.process.pid, signal.SIGCONT)
        program.read(50)
        program.do("halt")
        assert program.exit()["spooled"] == 0
        assert _drained(tmp_path).events == 0
    else:
        program.kill()
        _drained(tmp_path)
    lines = check_stored(_store(tmp_path), [*program.told, *other.told])
    check_books(lines, *program.books.values(), *other.books.values())
