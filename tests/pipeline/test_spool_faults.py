"""What other people, disks and forks do to a spool: nothing raises a signal, nothing waits for ever, all is counted."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from otel_prompt_trace.exceptions import ConfigurationError
from otel_prompt_trace.pipeline import frames, rotation
from otel_prompt_trace.pipeline.accounting import Ticket
from otel_prompt_trace.pipeline.drain import drain
from otel_prompt_trace.pipeline.fallback import FallbackSpool
from otel_prompt_trace.pipeline.memory import MemorySpool
from otel_prompt_trace.pipeline.reading import content
from otel_prompt_trace.pipeline.spool import SpoolFull
from otel_prompt_trace.pipeline.spool_file import DamagedFrame, SpoolFile
from tests.pipeline.conftest import Filled
from tests.pipeline.fakes import QIDS, FakePayloads
from tests.waiting import until

Fill = Callable[..., Filled]
_PAGE = os.sysconf("SC_PAGESIZE")


def _seqs(folder: Path) -> list[int]:
    return sorted(item.seq for path in folder.glob("*.spool") for item in content(path)[2])


def _free(path: Path) -> bool:
    """Whether anybody could drain it."""
    descriptor = os.open(path, os.O_RDWR)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True


def _put(spool: Any, seq: int, size: int = 10) -> Ticket:
    head, body = frames.build(0, QIDS[0], seq, 7, 1, frames.pack_events({}, [{"kind": "query", "text": "x" * size}]))
    ticket = Ticket("spooled", 1)
    spool.append(0, QIDS[0], head, body, 1, ticket)
    return ticket


def _refusing(monkeypatch: pytest.MonkeyPatch, code: int) -> Callable[[], None]:
    """From now on no spool file can be made; what is returned ends it."""
    really = os.open

    def refuse(path: Any, flags: int, *rest: Any, **options: Any) -> int:
        if flags & os.O_CREAT and str(path).endswith(".spool"):
            raise OSError(code, os.strerror(code))
        return really(path, flags, *rest, **options)

    monkeypatch.setattr(os, "open", refuse)
    return lambda: monkeypatch.setattr(os, "open", really)


# Prepared ahead


def test_a_rotation_makes_no_file_on_the_calling_thread(fill: Fill, monkeypatch: pytest.MonkeyPatch) -> None:
    """The shipper's thread has made, locked and mapped the next one; the switch opens, asks and removes nothing."""
    filled = fill()
    for seq in (1, 2, 3):
        filled.append(seq, 1000)
    filled.spool.prepare()
    assert len(filled.files) == 2
    assert not any(_free(path) for path in filled.files)
    with monkeypatch.context() as patch:
        for name in ("open", "fstat", "stat", "unlink", "posix_fallocate", "ftruncate"):
            patch.setattr(os, name, lambda *_, **__: pytest.fail("a call to the kernel"))
        filled.append(4, 1000)
    assert _seqs(filled.folder) == [1, 2, 3, 4]
    filled.acknowledge(4)
    filled.spool.close()
    assert filled.files == []


def test_an_idle_spool_prepares_nothing(fill: Fill, monkeypatch: pytest.MonkeyPatch) -> None:
    """No file before the first record; pages that are ready are not made dirty again and again."""
    filled = fill(file_bytes=1 << 20)
    filled.spool.prepare()
    assert filled.files == []
    filled.append(1)
    filled.spool.prepare()
    asked: list[int] = []
    monkeypatch.setattr("otel_prompt_trace.pipeline.spool_file._advise", lambda *_: asked.append(1))
    for _ in range(10):
        filled.spool.prepare()
    assert asked == []


def test_preparing_writes_nothing(fill: Fill) -> None:
    """Pages are asked for, never written: an append that begins meanwhile may be in any of them."""
    filled = fill(file_bytes=1 << 20)
    filled.append(1)
    with filled.files[0].open("r+b") as file:
        file.seek(1000)
        file.write(b"?" * 100_000)
    before = filled.files[0].read_bytes()
    filled.spool.prepare()
    assert filled.files[0].read_bytes() == before


@pytest.mark.parametrize("older", [False, True])
def test_preparing_beside_appends_changes_no_byte(fill: Fill, monkeypatch: pytest.MonkeyPatch, older: bool) -> None:
    """Four threads append, one prepares without a pause: every frame is there, whole, once.

    Also on a kernel that can't be asked for pages, where they are touched.
    """
    if older:
        monkeypatch.setattr("otel_prompt_trace.pipeline.spool_file._advise", lambda *_: False)
    filled = fill(file_bytes=1 << 16)
    over = threading.Event()

    def prepare() -> None:
        while not over.is_set():
            filled.spool.prepare()

    def work(base: int) -> None:
        for number in range(200):
            _put(filled.spool, base + number, 700)

    threads = [threading.Thread(target=work, args=(base,)) for base in range(0, 4000, 1000)]
    preparing = threading.Thread(target=prepare)
    preparing.start()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    over.set()
    preparing.join()
    assert _seqs(filled.folder) == sorted(base + n for base in range(0, 4000, 1000) for n in range(200))
    filled.spool.acknowledge(filled.spool.take_fresh())
    filled.spool.close()
    assert filled.files == []


def test_what_is_only_ready_leaves_room_for_what_waits(fill: Fill) -> None:
    """Many processes share a folder: none makes a next file there once half of the bound is used."""
    filled = fill(max_bytes=4 * 4096)
    for seq in (1, 2, 3):
        filled.append(seq, 1000)
    filled.spool.prepare()
    assert len(filled.files) == 2
    for seq in range(4, 10):
        filled.append(seq, 1000)
        filled.spool.prepare()
    assert len(filled.files) == 3
    for seq in range(10, 13):
        filled.append(seq, 1000)
    with pytest.raises(SpoolFull):
        filled.append(13, 1000)


def test_pages_are_touched_where_the_kernel_can_t_be_asked(fill: Fill, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those behind the end, one byte each, and none that holds anything."""
    monkeypatch.setattr("otel_prompt_trace.pipeline.spool_file._advise", lambda *_: False)
    filled = fill(file_bytes=1 << 20)
    filled.append(1, 5000)
    file: SpoolFile = filled.entries[0].file
    before = file.path.read_bytes()
    touched: list[int] = []

    class Map:
        def __setitem__(self, place: int, value: int) -> None:
            touched.append(place)

        def close(self) -> None:
            pass

    real, file._map = file._map, Map()  # type: ignore[assignment]
    filled.spool.prepare()
    file._map = real
    assert touched == list(range(2 * _PAGE, file.end + 256 * 1024, _PAGE))
    filled.append(2)
    filled.spool.prepare()
    assert _seqs(filled.folder) == [1, 2]
    assert before.rstrip(b"\0") in file.path.read_bytes()


def test_a_large_frame_has_the_room_of_the_spare(fill: Fill) -> None:
    """A frame that no spare holds is given a file of its own, and the spare serves the next."""
    filled = fill()
    for seq in (1, 2, 3):
        filled.append(seq, 1000)
    filled.spool.prepare()
    filled.append(4, 50_000)
    filled.append(5, 1000)
    assert _seqs(filled.folder) == [1, 2, 3, 4, 5]
    assert len(filled.files) == 3


# Bounds


def test_bounds_in_frames_and_in_files(fill: Fill) -> None:
    """What waits is bounded in number too; an acknowledgement makes room."""
    filled = fill(max_frames=3)
    for seq in (1, 2, 3):
        filled.append(seq)
    with pytest.raises(SpoolFull):
        filled.append(4)
    filled.acknowledge(1)
    filled.append(4)
    filled.acknowledge(3)
    filled.spool.close()
    filled = fill(max_files=2)
    for seq in range(1, 7):
        filled.append(seq, 1000)
    with pytest.raises(SpoolFull):
        filled.append(7, 1000)
    assert len(filled.files) == 2


def test_a_full_spool_is_not_looked_through_at_every_append(fill: Fill, monkeypatch: pytest.MonkeyPatch) -> None:
    """Refused once, the next are refused at once, until something is acknowledged."""
    filled = fill(max_bytes=4096)
    looks: list[Path] = []
    usage = rotation.usage
    monkeypatch.setattr(rotation, "usage", lambda folder: looks.append(folder) or usage(folder))
    for seq in (1, 2, 3):
        filled.append(seq, 1000)
    for seq in range(4, 50):
        with pytest.raises(SpoolFull):
            filled.append(seq, 1000)
    assert len(looks) == 2
    filled.acknowledge(3)
    filled.append(50, 1000)
    assert _seqs(filled.folder) == [50]


def test_whoever_may_wait_for_room_gets_it(fill: Fill) -> None:
    """With a budget the append waits, and goes on as soon as the store has acknowledged."""
    filled = fill(max_frames=1, block_seconds=20)
    filled.append(1)
    waiting = threading.Thread(target=_put, args=(filled.spool, 2))
    waiting.start()
    until(lambda: filled.spool._room._waiters)  # type: ignore[attr-defined]
    filled.acknowledge(1)
    waiting.join(10)
    assert not waiting.is_alive()
    assert _seqs(filled.folder) == [2]


def test_waiting_has_an_end(fill: Fill) -> None:
    """After its budget the append is refused, and others could append meanwhile; the shipper's own never waits."""
    filled = fill(max_bytes=4096, block_seconds=0.2)
    for seq in (1, 2, 3):
        filled.append(seq, 1000)
    began = time.monotonic()
    told: list[type] = []

    def wait() -> None:
        with pytest.raises(SpoolFull) as refusal:
            _put(filled.spool, 4, 1000)
        told.append(refusal.type)

    refused = threading.Thread(target=wait)
    refused.start()
    until(lambda: filled.spool._room._waiters)  # type: ignore[attr-defined]
    filled.append(5, 10)
    refused.join(10)
    assert told == [SpoolFull]
    assert 0.2 <= time.monotonic() - began < 5
    filled.spool.prepare()
    began = time.monotonic()
    with pytest.raises(SpoolFull):
        filled.append(6, 1000)
    assert time.monotonic() - began < 0.2


def test_memory_has_the_same_bounds() -> None:
    """In frames, and with a wait that has an end."""
    spool = MemorySpool(10_000, max_frames=2, block_seconds=0.05)
    _put(spool, 1)
    _put(spool, 2)
    with pytest.raises(SpoolFull):
        _put(spool, 3)
    assert spool.volatile == 2
    spool.acknowledge(spool.take_fresh())
    _put(spool, 3)
    assert spool.volatile == 1


# Age


def test_an_old_file_is_left(tmp_path: Path) -> None:
    """It is cut to what is in it; with nothing waiting it goes, and no other is made until there is a record."""
    clock = [0]
    filled = Filled(tmp_path / "spool", now_ns=lambda: clock[0], max_age_seconds=60)
    filled.append(1)
    filled.spool.prepare()
    assert filled.files[0].stat().st_size == 4096
    clock[0] = 61_000_000_000
    filled.spool.prepare()
    (old,) = filled.files
    assert old.stat().st_size < 300
    filled.append(2)
    assert len(filled.files) == 2
    assert _seqs(filled.folder) == [1, 2]
    filled.acknowledge(1)
    assert not old.exists()
    filled.acknowledge(1)
    clock[0] *= 2
    filled.spool.prepare()
    assert filled.files == []
    filled.spool.close()


# Cut, deleted, moved


@pytest.mark.parametrize("left", [0, 64, 200, _PAGE, _PAGE + 64])
@pytest.mark.parametrize("notice", ["append", "prepare"])
def test_a_file_that_somebody_cuts_kills_nobody(fill: Fill, left: int, notice: str) -> None:
    """Not a signal at the next copy: another file is taken, and it is counted and said with the variable's name.

    The frames behind the cut are lost, each noticed when it is read; those before it are there.
    """
    said: list[tuple[str, str]] = []
    filled = fill(file_bytes=1 << 16, warn=lambda *what: said.append(what))
    for seq in range(1, 11):
        filled.append(seq, 1000)
    os.truncate(filled.files[0], left)
    if notice == "prepare":
        filled.spool.prepare()
    filled.append(11, 1000)
    assert filled.spool.counts == {"cut": 1}
    assert [key for key, _ in said] == ["spool:cut"]
    assert "PROMPT_TRACE_SPOOL" in said[0][1]
    good = []
    for entry in filled.entries:
        try:
            good.append(entry.frame().seq)
        except DamagedFrame:
            assert entry.offset + entry.length > left
    whole = [entry.offset + entry.length <= left for entry in filled.entries[:10]]
    assert good == [*(seq for seq, there in enumerate(whole, 1) if there), 11]
    filled.acknowledge(11)  # strikes what is there, and touches nothing that is not
    filled.spool.close()
    assert filled.files == []


def test_a_spare_that_somebody_cuts_or_deletes_is_not_used(fill: Fill) -> None:
    """It is looked at like the file in use."""
    for spoil in (lambda path: os.truncate(path, 0), os.unlink):
        filled = fill()
        for seq in (1, 2, 3):
            filled.append(seq, 1000)
        filled.spool.prepare()
        spoil(filled.files[-1])
        filled.spool.prepare()
        filled.append(4, 1000)
        filled.append(5, 1000)
        assert _seqs(filled.folder) == [1, 2, 3, 4, 5]
        filled.acknowledge(5)
        filled.spool.close()


def test_what_waits_in_a_deleted_file_is_written_out_again(fill: Fill) -> None:
    """Under a new name, locked; the entries hold, and if the process dies now a drain finds everything."""
    filled = fill()
    for seq in (1, 2):
        filled.append(seq, 1000)
    filled.files[0].unlink()
    filled.spool.prepare()
    filled.append(3, 1000)
    assert filled.spool.counts == {"gone": 1}
    assert _seqs(filled.folder) == [1, 2, 3]
    assert not any(_free(path) for path in filled.files)
    assert [entry.frame().seq for entry in filled.entries] == [1, 2, 3]
    filled.acknowledge(1)
    assert _seqs(filled.folder) == [2, 3]
    filled.spool.close()
    payloads = FakePayloads()
    assert drain(filled.folder, payloads).events == 2
    assert filled.files == []


def test_a_file_that_is_cut_and_deleted_kills_nobody(fill: Fill) -> None:
    """What can't be written out again is not touched; the process goes on with another file."""
    filled = fill(file_bytes=1 << 16)
    for seq in range(1, 11):
        filled.append(seq, 1000)
    os.truncate(filled.files[0], 0)
    filled.files[0].unlink()
    filled.spool.prepare()
    filled.append(11, 1000)
    assert _seqs(filled.folder) == [11]
    for entry in filled.entries[:10]:
        with pytest.raises(DamagedFrame):
            entry.frame()
    filled.acknowledge(11)
    filled.spool.close()
    assert filled.files == []


def test_a_sealed_file_that_is_deleted_is_noticed(fill: Fill) -> None:
    """Sealed files are looked at too, if not at every turn."""
    filled = fill()
    for seq in range(1, 8):
        filled.append(seq, 1000)
    filled.files[0].unlink()
    filled.spool.prepare()
    assert _seqs(filled.folder) == [1, 2, 3, 4, 5, 6, 7]


def test_a_folder_that_vanishes_is_made_again(fill: Fill) -> None:
    """With everything in it, for its owner alone."""
    filled = fill()
    for seq in range(1, 6):
        filled.append(seq, 1000)
    shutil.rmtree(filled.folder)
    filled.append(6)
    filled.spool.prepare()
    filled.append(7, 3000)
    assert _seqs(filled.folder) == [1, 2, 3, 4, 5, 6, 7]
    assert filled.folder.stat().st_mode & 0o777 == 0o700
    assert [entry.frame().seq for entry in filled.entries] == [1, 2, 3, 4, 5, 6, 7]


def test_a_folder_that_is_moved_keeps_what_is_in_it(fill: Fill, tmp_path: Path) -> None:
    """New records go to the folder that was asked for; what lies in the moved one is delivered, and removed there."""
    filled = fill()
    filled.append(1)
    filled.folder.rename(tmp_path / "moved")
    filled.spool.prepare()
    filled.append(2)
    filled.append(3, 3500)
    assert filled.spool.counts["moved"] == 1
    assert _seqs(tmp_path / "moved") == [1]
    filled.acknowledge(1)
    assert _seqs(tmp_path / "moved") == []


def test_a_file_that_can_t_be_removed_is_emptied(fill: Fill, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder is read-only by now: nobody reads or delivers again what the store has."""
    filled = fill()
    for seq in range(1, 5):
        filled.append(seq, 1000)

    def refuse(*_: Any, **__: Any) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", refuse)
        patch.setattr(Path, "unlink", refuse)
        filled.acknowledge(3)
    assert _seqs(filled.folder) == [4]
    assert b"xxx" not in filled.files[0].read_bytes()


# Disks


def test_a_disk_that_hangs_holds_up_no_append_beyond_its_budget(fill: Fill, monkeypatch: pytest.MonkeyPatch) -> None:
    """``fsync``: each goes on after its budget, counted, its frame in the file; later it is waited for again."""
    hangs, goes_on = threading.Event(), threading.Event()
    really = os.fdatasync

    def hang(descriptor: int) -> None:
        hangs.set()
        goes_on.wait()
        really(descriptor)

    said: list[str] = []
    filled = fill(fsync=True, sync_seconds=0.1, warn=lambda key, _: said.append(key))
    monkeypatch.setattr(os, "fdatasync", hang)
    began = time.monotonic()
    filled.append(1)
    assert hangs.is_set()
    threads = [threading.Thread(target=_put, args=(filled.spool, seq)) for seq in (2, 3, 4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert time.monotonic() - began < 5
    assert filled.spool.counts == {"late": 4}
    assert set(said) == {"spool:late"}
    assert _seqs(filled.folder) == [1, 2, 3, 4]
    goes_on.set()
    until(lambda: not filled.spool._syncer._queue)
    filled.spool._syncer._budget = 20
    filled.append(5)
    assert filled.spool.counts == {"late": 4}


def test_appends_share_a_sync(fill: Fill, monkeypatch: pytest.MonkeyPatch) -> None:
    """While one sync goes on the others wait together for the next, and each returns after a sync of its own bytes."""
    really, ends = os.fdatasync, []
    gate = threading.Semaphore(0)
    entered = threading.Event()

    def slow(descriptor: int) -> None:
        ends.append(filled.spool._files.current.end)
        entered.set()
        gate.acquire()
        really(descriptor)

    filled = fill(fsync=True, sync_seconds=20, file_bytes=1 << 16)
    monkeypatch.setattr(os, "fdatasync", slow)
    threads = [threading.Thread(target=_put, args=(filled.spool, seq)) for seq in range(1, 9)]
    threads[0].start()
    entered.wait(10)
    for thread in threads[1:]:
        thread.start()
    until(lambda: len(filled.spool._syncer._queue) == 7)
    gate.release(2)
    for thread in threads:
        thread.join(10)
    assert len(ends) == 2
    assert ends[1] == filled.spool._files.current.end


def test_a_frame_that_the_disk_refused_is_nowhere(fill: Fill, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its caller was told that it is not kept, so nobody delivers it; its file is not trusted with another."""

    def broken(_: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    filled = fill(fsync=True)
    filled.append(1)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", broken)
        with pytest.raises(OSError, match="Input/output"):
            filled.append(2)
    filled.append(3)
    assert len(filled.files) == 2
    assert _seqs(filled.folder) == [1, 3]
    filled.acknowledge(2)
    filled.spool.close()
    assert filled.files == []


# Memory instead


class _Steady:
    """A spool with memory to fall back on, over a folder."""

    def __init__(self, folder: Path, memory_bytes: int = 1 << 20) -> None:
        self.folder = folder
        self.said: list[tuple[str, str]] = []
        self.spool = FallbackSpool(
            lambda: Filled(folder).spool,
            MemorySpool(memory_bytes),
            place=str(folder),
            warn=lambda *what: self.said.append(what),
            retry_seconds=0.0,
        )

    def deliver(self) -> list[int]:
        taken = self.spool.take_fresh()
        seqs = [entry.frame().seq for entry in taken]
        self.spool.acknowledge(taken)
        return seqs


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EMFILE, errno.EDQUOT])
def test_while_the_disk_takes_nothing_records_go_to_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, code: int
) -> None:
    """With one warning that names the variable, and back to the disk when it works; nothing is lost or comes twice."""
    monkeypatch.setattr(rotation, "_RETRY_SECONDS", 0.0)
    caplog.set_level("INFO", "otel_prompt_trace")
    steady = _Steady(tmp_path / "spool")
    _put(steady.spool, 1, 3000)
    mend = _refusing(monkeypatch, code)
    for seq in (2, 3, 4):
        _put(steady.spool, seq, 3000)
        steady.spool.prepare()
    assert not steady.spool.on_disk
    assert [key for key, _ in steady.said] == ["spool"]
    assert "PROMPT_TRACE_SPOOL" in steady.said[0][1]
    assert _seqs(steady.folder) == [1]
    assert steady.spool.volatile == 3
    mend()
    steady.spool.prepare()
    assert steady.spool.on_disk
    assert steady.spool.volatile == 0  # a kill would find everything on the disk
    _put(steady.spool, 5, 3000)
    assert _seqs(steady.folder) == [1, 2, 3, 4, 5]
    assert [key for key, _ in steady.said] == ["spool"]
    assert "works again" in caplog.text
    assert sorted(steady.deliver()) == [1, 2, 3, 4, 5]
    assert steady.deliver() == []
    assert steady.spool.volatile == 0
    steady.spool.close()
    assert list(steady.folder.glob("*.spool")) == []


def test_without_a_folder_at_the_start_it_begins_in_memory(tmp_path: Path) -> None:
    """A file in the way, then none: from then on records are on the disk, those from before as well."""
    folder = tmp_path / "spool"
    folder.write_text("in the way")
    steady = _Steady(folder)
    _put(steady.spool, 1)
    steady.spool.prepare()
    assert len(steady.said) == 1
    folder.unlink()
    steady.spool.prepare()
    _put(steady.spool, 2)
    assert _seqs(folder) == [1, 2]
    assert sorted(steady.deliver()) == [1, 2]
    steady.spool.close()


def test_memory_is_written_to_the_disk_at_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the store has not taken by then is found by whoever drains the folder."""
    steady = _Steady(tmp_path / "spool")
    mend = _refusing(monkeypatch, errno.ENOSPC)
    for seq in (1, 2, 3):
        _put(steady.spool, seq)
    assert steady.deliver() == [1, 2, 3]
    for seq in (4, 5):
        _put(steady.spool, seq)
    mend()
    steady.spool._disk._files._refused = None  # type: ignore[union-attr]
    steady.spool.close()
    assert steady.spool.volatile == 0
    assert _seqs(steady.folder) == [4, 5]
    assert all(_free(path) for path in steady.folder.glob("*.spool"))


def test_when_memory_is_full_too_the_disk_s_error_is_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not that the store may be unreachable."""
    steady = _Steady(tmp_path / "spool", memory_bytes=500)
    _refusing(monkeypatch, errno.ENOSPC)
    _put(steady.spool, 1, 300)
    with pytest.raises(OSError, match="No space"):
        _put(steady.spool, 2, 300)
    steady.spool.close()
    assert steady.spool.volatile == 1


def test_a_spool_that_is_full_by_its_own_bound_is_no_fault(tmp_path: Path) -> None:
    """Memory is not a way round the bound."""
    said: list[tuple[str, str]] = []
    spool = FallbackSpool(
        lambda: Filled(tmp_path / "spool", max_frames=1).spool,
        MemorySpool(1 << 20),
        place="x",
        warn=lambda *what: said.append(what),
    )
    _put(spool, 1)
    with pytest.raises(SpoolFull):
        _put(spool, 2)
    assert (said, spool.on_disk, spool.volatile) == ([], True, 0)
    spool.close()


def test_a_folder_that_others_may_write_to_is_never_used(tmp_path: Path) -> None:
    """Records stay in memory for as long as that is so, also at the end."""
    folder = tmp_path / "spool"
    folder.mkdir()
    folder.chmod(0o777)
    with pytest.raises(ConfigurationError):
        Filled(folder)
    steady = _Steady(folder)
    _put(steady.spool, 1)
    steady.spool.prepare()
    steady.spool.close()
    assert steady.spool.volatile == 1
    assert list(folder.iterdir()) == []


# Forks

_PARENT = """
import os, signal, sys, threading, time
sys.path.insert(0, os.getcwd())
from pathlib import Path
from otel_prompt_trace.pipeline import frames
from otel_prompt_trace.pipeline.accounting import Ticket
from otel_prompt_trace.pipeline.spool import Spool
from otel_prompt_trace.sources import Sources

sources = Sources()
def make():
    return Spool(
        Path(sys.argv[1]), writer=sources.new_id(), new_id=sources.new_id, now_ns=sources.now_ns,
        file_bytes=1 << 16, max_bytes=1 << 30,
    )
def put(spool, seq):
    head, body = frames.build(0, "a", seq, 7, 1, frames.pack_events({}, [{"kind": "query", "text": "x" * 9000}]))
    spool.append(0, "a", head, body, 1, Ticket("spooled", 1))
"""


def _parent(tmp_path: Path, body: str) -> tuple[list[Any], list[int]]:
    """Run a parent that ends while its children live: what it said as JSON, and the children's ids."""
    script = tmp_path / "parent.py"
    script.write_text(_PARENT + textwrap.dedent(body))
    with (tmp_path / "errors").open("w") as errors:
        program = [sys.executable, str(script), str(tmp_path / "spool")]
        done = subprocess.run(program, stdout=subprocess.PIPE, stderr=errors, timeout=60, cwd=Path(__file__).parents[2])
    assert done.returncode == -9, (tmp_path / "errors").read_text()
    said, children = json.loads(done.stdout.splitlines()[-1])
    return said, children


@pytest.mark.fault
def test_a_dead_parent_s_files_can_be_drained_although_its_child_lives(tmp_path: Path) -> None:
    """Full ones, the one in use and the next one: the child holds no lock, mapping or descriptor of any."""
    said, children = _parent(
        tmp_path,
        """
        import json
        spool = make()
        for seq in range(1, 19):
            put(spool, seq)
        spool.prepare()
        child = os.fork()
        if child == 0:
            spool.abandon_in_child()
            os.close(1)
            time.sleep(60)
            os._exit(0)
        time.sleep(0.3)     # the child has run its first lines
        print(json.dumps([sorted(path.name for path in Path(sys.argv[1]).iterdir()), [child]]), flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
        """,
    )
    try:
        assert len(said) == 4
        os.kill(children[0], 0)
        payloads = FakePayloads()
        report = drain(tmp_path / "spool", payloads)
        assert (report.alive, report.events, report.problems) == (0, 18, [])
        assert list((tmp_path / "spool").glob("*.spool")) == []
    finally:
        for child in children:
            os.kill(child, 9)


@pytest.mark.fault
def test_forks_while_files_are_made_keep_none_of_them(tmp_path: Path) -> None:
    """Another thread makes and gives up files all the time; no child is born between the making and the knowing."""
    _, children = _parent(
        tmp_path,
        """
        import json
        spool = make()
        over = threading.Event()
        allocate = os.posix_fallocate
        def slowly(*given):
            time.sleep(0.01)
            allocate(*given)
        os.posix_fallocate = slowly
        def churn():
            seq = 0
            while not over.is_set():
                seq += 1
                put(spool, seq)
                spool.prepare()
                if seq % 40 == 0:
                    spool.acknowledge(spool.take_fresh())
        thread = threading.Thread(target=churn)
        thread.start()
        children = []
        for _ in range(30):
            time.sleep(0.005)
            child = os.fork()
            if child == 0:
                spool.abandon_in_child()
                os.close(1)
                time.sleep(60)
                os._exit(0)
            children.append(child)
        over.set()
        thread.join()
        put(spool, 10_000)
        time.sleep(0.5)
        print(json.dumps([[], children]), flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
        """,
    )
    try:
        assert len(children) == 30
        report = drain(tmp_path / "spool", FakePayloads())
        assert (report.alive, report.problems) == (0, [])
        assert report.events >= 1
    finally:
        for child in children:
            os.kill(child, 9)


def test_sync_of_a_file_that_was_let_go_of(fill: Fill) -> None:
    """The store was faster than the disk: that is no error of the disk's."""
    filled = fill()
    filled.append(1)
    file: SpoolFile = filled.entries[0].file
    filled.spool.close()
    file.sync()
