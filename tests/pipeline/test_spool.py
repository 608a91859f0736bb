"""The spool: files of a fixed size that only go away once the store has everything in them."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from otel_prompt_trace.exceptions import ConfigurationError
from otel_prompt_trace.pipeline import frames
from otel_prompt_trace.pipeline.accounting import Ticket
from otel_prompt_trace.pipeline.drain import drain
from otel_prompt_trace.pipeline.reading import content
from otel_prompt_trace.pipeline.spool import Spool, SpoolFull, prepare_folder, spooled_bytes
from otel_prompt_trace.pipeline.spool_file import DamagedFrame, SpoolClosed, SpoolFile
from tests.pipeline.conftest import Filled
from tests.pipeline.fakes import WRITER, FakePayloads

Fill = Callable[..., Filled]


def _seqs(path: Path) -> list[int]:
    _, _, found, problems = content(path)
    assert problems == []
    return [item.seq for item in found]


def _locked(path: Path) -> bool:
    descriptor = os.open(path, os.O_RDWR)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def test_files_rotate_by_size(fill: Fill) -> None:
    """A frame that does not fit begins the next file; none is cut, and the order is that of the appends."""
    filled = fill()
    for seq in range(1, 11):
        filled.append(seq, 1000)
    assert [_seqs(path) for path in filled.files] == [[1, 2, 3], [4, 5, 6], [7, 8, 9], [10]]
    assert {path.stat().st_size for path in filled.files} == {4096}


def test_a_record_larger_than_a_file_has_one_of_its_own(fill: Fill) -> None:
    """No payload is truncated: the file is made as large as the frame."""
    filled = fill()
    filled.append(1)
    filled.append(2, 50_000)
    filled.append(3)
    assert [_seqs(path) for path in filled.files] == [[1], [2], [3]]
    frame = filled.entries[1].frame()
    assert len(frame.body) > 50_000
    assert filled.files[1].stat().st_size > 50_000


def test_a_file_goes_only_when_the_store_has_all_of_it(fill: Fill) -> None:
    """With one frame of it unacknowledged a file stays, however many files after it are done."""
    filled = fill()
    for seq in range(1, 8):
        filled.append(seq, 1000)
    first, second, third = filled.files
    filled.acknowledge(2)
    assert first.exists()
    filled.acknowledge(1)
    assert not first.exists()
    filled.acknowledge(3)
    assert not second.exists()
    filled.acknowledge(1)
    assert third.exists()
    filled.spool.close()
    assert filled.files == []


def test_what_is_stored_is_struck_out_at_once(fill: Fill) -> None:
    """No text stays in the file longer than it waits, and nobody who reads the folder takes it for waiting."""
    filled = fill()
    for seq in range(1, 4):
        filled.append(seq, 500)
    (path,) = filled.files
    assert path.read_bytes().count(b"x" * 500) == 3
    filled.entries[0], filled.entries[1] = filled.entries[1], filled.entries[0]
    filled.acknowledge(1)
    assert _seqs(path) == [1, 3]
    assert path.read_bytes().count(b"x" * 500) == 2
    filled.append(4, 500)
    assert _seqs(path) == [1, 3, 4]
    filled.acknowledge(3)
    assert _seqs(path) == []
    assert b"xx" not in path.read_bytes()


def test_what_was_stored_is_not_delivered_again(fill: Fill, tmp_path: Path) -> None:
    """A drain after a crash takes up only what the store had not acknowledged."""
    filled = fill()
    for seq in range(1, 4):
        filled.append(seq)
    filled.acknowledge(2)
    filled.spool.close()
    payloads = FakePayloads()
    assert drain(tmp_path / "spool", payloads).events == 1
    assert [seq for _, seq in payloads.times_stored()] == [3]


def test_order_of_acknowledgement_does_not_matter(fill: Fill) -> None:
    """Queries end in another order than they began."""
    filled = fill()
    for seq in range(1, 7):
        filled.append(seq, 1000)
    filled.entries.reverse()
    filled.acknowledge(5)
    assert len(filled.files) == 2
    filled.acknowledge(1)
    assert len(filled.files) == 1


def test_the_bound_is_kept_and_room_comes_back(fill: Fill) -> None:
    """Beyond the bound an append is refused; what the store acknowledges makes room again, to the last file."""
    filled = fill(max_bytes=2 * 4096)
    for seq in range(1, 7):
        filled.append(seq, 1000)
    with pytest.raises(SpoolFull):
        filled.append(7, 1000)
    filled.append(7, 10)  # the last file has room for a small one
    assert spooled_bytes(filled.folder) == 2 * 4096
    filled.acknowledge(3)
    filled.append(8, 1000)
    filled.acknowledge(20)
    for seq in range(9, 30):
        filled.append(seq, 1000)
        filled.acknowledge(1)
    assert spooled_bytes(filled.folder) <= 2 * 4096


def test_one_file_of_room_is_enough(fill: Fill) -> None:
    """With a bound of one file the spool goes on as soon as the store has what is in it."""
    filled = fill(max_bytes=4096)
    for seq in range(1, 4):
        filled.append(seq, 1000)
    with pytest.raises(SpoolFull):
        filled.append(4, 1000)
    filled.acknowledge(3)
    filled.append(4, 1000)
    assert [_seqs(path) for path in filled.files] == [[4]]


def test_files_of_other_processes_count(fill: Fill, tmp_path: Path) -> None:
    """The bound is the folder's, not the process's."""
    filled = fill(max_bytes=3 * 4096)
    other = Spool(
        tmp_path / "spool", writer=WRITER, new_id=lambda: "OTHER", now_ns=lambda: 1,
        file_bytes=2 * 4096, max_bytes=1 << 30,
    )  # fmt: skip
    head, body = frames.build(0, "a", 1, 7, 1, b"x")
    other.append(0, "a", head, body, 1, Ticket("spooled", 1))
    filled.append(1)
    with pytest.raises(SpoolFull):
        filled.append(2, 4000)
    other.close()


def test_modes(fill: Fill) -> None:
    """The folder is for its owner alone, and so is each file."""
    filled = fill()
    filled.append(1)
    assert stat.S_IMODE(filled.folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in filled.files} == {0o600}


@pytest.mark.parametrize("mode", [0o720, 0o702, 0o777, 0o1777])
def test_a_folder_that_others_write_to_is_refused(tmp_path: Path, mode: int) -> None:
    """They could plant events; the message names the variable."""
    folder = tmp_path / "spool"
    folder.mkdir()
    folder.chmod(mode)
    with pytest.raises(ConfigurationError, match="PROMPT_TRACE_SPOOL"):
        prepare_folder(folder)


def test_a_folder_of_somebody_else_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where this user may write there."""
    owner = tmp_path.stat().st_uid
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    with pytest.raises(ConfigurationError, match="another user"):
        prepare_folder(tmp_path)


def test_a_folder_that_can_t_be_written_to_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A read-only file system is noticed when the spool is made, not when the first event is lost."""
    monkeypatch.setattr(os, "access", lambda path, mode: not mode & os.W_OK)
    with pytest.raises(PermissionError):
        prepare_folder(tmp_path)


def test_the_owner_holds_its_files(fill: Fill) -> None:
    """Every file of which something waits is locked; one that was let go of is not."""
    filled = fill()
    for seq in range(1, 6):
        filled.append(seq, 1000)
    assert [_locked(path) for path in filled.files] == [True, True]
    filled.spool.close()
    assert [_locked(path) for path in filled.files] == [False, False]
    assert [_seqs(path) for path in filled.files] == [[1, 2, 3], [4, 5]]
    with pytest.raises(SpoolClosed):
        filled.entries[0].frame()


def test_a_late_acknowledgement_of_a_closed_file(fill: Fill) -> None:
    """A thread that hung in the store comes back after the close: its file goes, and nobody's descriptor with it."""
    filled = fill()
    filled.append(1)
    filled.spool.close()
    (path,) = filled.files
    mine = os.open(os.devnull, os.O_RDONLY)  # very likely takes the number that was just closed
    filled.acknowledge(1)
    os.fstat(mine)
    os.close(mine)
    assert not path.exists()


def test_a_drain_that_looks_at_a_new_file_costs_nothing(
    fill: Fill, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Between making a file and locking it somebody drains the folder: the event lies in a file that exists."""
    flock = fcntl.flock
    taken: list[int] = []

    def late(descriptor: int, operation: int) -> None:
        if not taken:
            taken.append(descriptor)
            monkeypatch.setattr(fcntl, "flock", flock)
            drain(tmp_path / "spool", FakePayloads())
        flock(descriptor, operation)

    filled = fill()
    monkeypatch.setattr(fcntl, "flock", late)
    filled.append(1)
    assert taken
    assert [_seqs(path) for path in filled.files] == [[1]]
    assert all(_locked(path) for path in filled.files)


def test_somebody_who_holds_a_new_file_costs_nothing(
    fill: Fill, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The same while the other still has the lock: another file is taken, and nothing waits."""
    flock = fcntl.flock
    others: list[int] = []

    def held(descriptor: int, operation: int) -> None:
        if not others:
            others.append(os.open(f"/proc/self/fd/{descriptor}", os.O_RDWR))
            flock(others[0], fcntl.LOCK_EX)
        flock(descriptor, operation)

    filled = fill()
    monkeypatch.setattr(fcntl, "flock", held)
    filled.append(1)
    os.close(others[0])
    assert [_seqs(path) for path in filled.files] == [[1]]


def test_a_disk_that_is_full_is_met_when_a_file_is_made(fill: Fill, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not as a signal in the middle of a copy; nothing is left behind, and appends go on once there is room.

    It is not tried at each append, which would wait for the disk each time, but by the shipper's thread.
    """
    tries: list[int] = []

    def full(*_: int) -> None:
        tries.append(1)
        raise OSError(errno.ENOSPC, "No space left on device")

    filled = fill()
    with monkeypatch.context() as patch:
        patch.setattr(os, "posix_fallocate", full)
        for seq in range(1, 20):
            with pytest.raises(OSError, match="No space"):
                filled.append(seq)
        assert len(tries) == 1
        assert filled.spool.trouble is not None
    assert filled.files == []
    monkeypatch.setattr("otel_prompt_trace.pipeline.rotation._RETRY_SECONDS", 0.0)
    filled.spool._files._refused = (0, 0.0)  # the second is over
    filled.spool.prepare()
    assert filled.spool.trouble is None
    filled.append(20)
    assert [_seqs(path) for path in filled.files] == [[20]]


def test_files_are_allocated_not_sparse(fill: Fill) -> None:
    """The blocks are there from the beginning."""
    filled = fill(file_bytes=1 << 20)
    filled.append(1)
    assert filled.files[0].stat().st_blocks * 512 >= 1 << 20


def test_a_frame_that_somebody_overwrote_is_noticed(fill: Fill) -> None:
    """A live file is ours; whoever writes into it is found out when the frame is read back."""
    filled = fill()
    filled.append(1)
    with filled.files[0].open("r+b") as file:
        file.seek(64 + 80)
        file.write(b"?")
    with pytest.raises(DamagedFrame):
        filled.entries[0].frame()


def test_with_fsync_a_frame_is_synced_before_anybody_may_deliver_it(
    fill: Fill, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While it is being synced it is not on offer, so that its file can't go away under the sync."""
    seen: list[Any] = []
    sync = SpoolFile.sync

    def watched(self: SpoolFile) -> None:
        seen.append((filled.spool.take_fresh(), self.waiting))
        sync(self)

    monkeypatch.setattr(SpoolFile, "sync", watched)
    filled = fill(fsync=True)
    filled.append(1)
    assert seen == [([], 1)]
    assert len(filled.entries) == 1
    fill(fsync=False).append(2)
    assert len(seen) == 1


def test_many_threads_append_at_once(fill: Fill) -> None:
    """Eight threads, two thousand frames, many files: each frame is there once and whole."""
    filled = fill(file_bytes=1 << 16)

    def work(base: int) -> None:
        for number in range(250):
            filled.append(base + number, 300)

    threads = [threading.Thread(target=work, args=(base,)) for base in range(0, 8000, 1000)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = sorted(seq for path in filled.files for seq in _seqs(path))
    assert found == sorted(base + n for base in range(0, 8000, 1000) for n in range(250))


def test_no_descriptor_is_left(fill: Fill) -> None:
    """Rotating through fifty files keeps no more open than those of which something waits."""
    filled = fill()
    before = len(list(Path("/proc/self/fd").iterdir()))
    for seq in range(150):
        filled.append(seq, 1000)
        filled.acknowledge(1)
    filled.spool.close()
    assert len(list(Path("/proc/self/fd").iterdir())) == before
