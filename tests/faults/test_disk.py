"""A spool whose disk is full, that is read-only, or that somebody removes: memory stands in, and the books come out."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import otel_prompt_trace as pt
from otel_prompt_trace.pipeline.drain import drain
from tests.faults.conftest import Start
from tests.faults.running import Program, check_books, check_stored
from tests.waiting import remove_in_use, until

pytestmark = pytest.mark.fault

_MIB = 1 << 20


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 2 MiB; skipped where none may be mounted."""
    place = tmp_path / "small"
    place.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m,mode=0700", "tmpfs", str(place)], capture_output=True)
    if done.returncode:
        pytest.skip("mounting is not permitted here")
    yield place
    until(lambda: subprocess.run(["umount", str(place)], capture_output=True).returncode == 0)


def _down(folder: Path) -> Path:
    store = folder / "store"
    store.write_text("in the way")
    return store


def _whole(store: Path, *programs: Program) -> None:
    lines = check_stored(pt.open_store(store), [told for program in programs for told in program.told])
    check_books(lines, *(books for program in programs for books in program.books.values()))


def test_a_full_disk_while_the_store_is_down(tmp_path: Path, start: Start, small_disk: Path) -> None:
    """What no longer fits waits in memory; the store comes back: all of it is stored, and the disk is used again."""
    store = _down(tmp_path)
    program = start(spool=small_disk / "spool", install={"spool_file_bytes": _MIB // 2})
    program.do("record", count=200)
    durability = program.do("state")
    assert durability == "memory"
    assert (program.last["lost"], program.last["spooled"]) == (0, program.last["recorded"])
    assert "recording to memory. Set PROMPT_TRACE_SPOOL." in program.log
    store.unlink()
    assert program.do("flush", timeout=30)["ok"]
    until(lambda: program.do("state") == "written")
    program.do("record", count=10)
    books = program.exit()
    assert (books["spooled"], books["lost"]) == (0, 0)
    assert list((small_disk / "spool").glob("*.spool")) == []
    _whole(store, program)


def test_a_full_disk_and_then_a_kill(tmp_path: Path, start: Start, small_disk: Path) -> None:
    """What was acknowledged before the warning is on the disk and survives; of what went to memory nobody says so."""
    store = _down(tmp_path)
    program = start(spool=small_disk / "spool", install={"spool_file_bytes": _MIB // 2})
    before: list[object] = []
    while program.do("state") == "written":
        before = list(program.told)
        program.do("record", count=1)
    program.do("record", count=20)
    program.kill()
    store.unlink()
    report = drain(small_disk / "spool", pt.open_store(store))
    assert (report.set_aside, report.problems) == ([], [])
    assert len(before) > 10
    check_stored(pt.open_store(store), before)  # type: ignore[arg-type]


def test_a_disk_and_a_memory_that_are_full(tmp_path: Path, start: Start, small_disk: Path) -> None:
    """Beyond both bounds events are lost: each is counted with its reason, and what is kept is the oldest."""
    store = _down(tmp_path)
    install = {"spool_file_bytes": _MIB // 2, "memory_max_bytes": _MIB}
    program = start(spool=small_disk / "spool", install=install)
    program.do("record", count=600, via="declare")
    program.do("state")
    books = program.last
    assert books["lost"] > 0
    assert books["reasons"].keys() == {"spool_unwritable"}
    assert books["spooled"] + books["lost"] == books["recorded"]
    store.unlink()
    assert not program.do("flush", timeout=30)["ok"]  # it tells of the losses
    assert program.do("flush", timeout=30)["ok"]
    books = program.exit()
    assert books["stored"] == books["recorded"] - books["lost"]
    kept = {line["qid"] for line in check_stored(pt.open_store(store), [])}
    check_books(check_stored(pt.open_store(store), []), books)
    whole = [told for told in program.told if told.qid in kept]
    assert [told.qid for told in whole[:20]] == [told.qid for told in program.told[:20]]
    check_stored(pt.open_store(store), whole[:20])


@pytest.mark.parametrize("reachable", [True, False])
def test_no_file_may_grow_so_large(tmp_path: Path, start: Start, reachable: bool) -> None:
    """A limit on the size of files, as a quota sets it: no spool file can be made, memory stands in."""
    store = tmp_path / "store"
    if not reachable:
        _down(tmp_path)
    program = start(most_bytes=256 * 1024, install={"spool_file_bytes": _MIB})
    program.do("record", count=20)
    assert program.do("state") == "memory"
    books = program.exit()
    assert books["recorded"] == books["stored"] + books["lost"]
    assert books["reasons"] == ({} if reachable else {"exit_in_memory": books["lost"]})
    assert (books["stored"] == books["recorded"]) == reachable
    if reachable:
        _whole(store, program)


@pytest.mark.parametrize("reachable", [True, False])
def test_a_read_only_folder(tmp_path: Path, start: Start, small_disk: Path, reachable: bool) -> None:
    """One warning that names the variable; once it can be written the spool is used, and nothing was lost."""
    store = tmp_path / "store"
    if not reachable:
        _down(tmp_path)
    spool = small_disk / "spool"
    spool.mkdir(mode=0o700)
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    program = start(spool=spool, install={"spool_file_bytes": _MIB // 4})
    assert program.do("state") == "memory"
    program.do("record", count=8)
    assert program.log.count("PROMPT_TRACE_SPOOL") == 1
    subprocess.run(["mount", "-o", "remount,rw", str(small_disk)], check=True)
    until(lambda: program.do("state") == "written")
    program.do("record", count=8)
    program.do("state")
    assert program.last["lost"] == 0
    books = program.exit()  # what was in memory is written to the disk, or stored
    assert books["lost"] == 0
    if not reachable:
        store.unlink()
        assert drain(spool, pt.open_store(store)).events == books["recorded"]
    _whole(store, program)


def test_a_folder_that_is_removed(tmp_path: Path, start: Start) -> None:
    """In the middle of a run, with what waits in it: the files are written out again, and a kill finds them there."""
    store, spool = _down(tmp_path), tmp_path / "spool"
    program = start(install={"spool_file_bytes": _MIB // 4})
    program.do("begin", threads=2, pause=0.002)
    program.read(60)
    remove_in_use(spool)
    before = len(program.told)
    program.read(60)
    program.do("halt")
    until(lambda: _named(spool, program), 20)
    program.do("state")
    assert len(program.told) > before
    program.kill()
    store.unlink()
    assert drain(spool, pt.open_store(store)).set_aside == []
    _whole(store, program)


def _named(spool: Path, program: Program) -> bool:
    """Whether every spool file that the process has mapped has a name again."""
    maps = Path(f"/proc/{program.process.pid}/maps").read_text().splitlines()
    return not any(os.fspath(spool) in line and "(deleted)" in line for line in maps)
