"""The local spool: shared mappings of preallocated files, appended to by the application's own threads.

Invariants:

- An append is a copy into the mapping. It keeps the GIL, so that beside a busy thread it does not wait a switch
  interval, and the kernel keeps the pages when the process is killed. It never grows a file.
- A file is preallocated, so that a full disk is met when a file is made, not as SIGBUS in the middle of a copy.
- The owner holds an exclusive ``flock`` for as long as it lives. A forked child closes its copies: it owns nothing.
- A file is unlinked only when the store has acknowledged every frame of it.
- Names are ULIDs. Files are 0600 in a folder that is ours alone, 0700.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import stat
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from otel_prompt_trace.exceptions import ConfigurationError
from otel_prompt_trace.pipeline import frames
from otel_prompt_trace.pipeline.accounting import Ticket

SUFFIX = ".spool"


class SpoolFull(Exception):
    """The spool has reached its bound; the newest events are the ones that are lost."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One appended frame that waits: where it lies, whose it is, and the ticket that tells its fate."""

    file: SpoolFile
    offset: int
    length: int
    qid: str
    flags: int
    events: int
    ticket: Ticket

    def frame(self) -> frames.Frame:
        """The frame, read back from where it lies."""
        return self.file.read(self.offset, self.length)


class SpoolFile:
    """One file and its mapping. Not safe for several threads: :class:`Spool` holds the lock."""

    def __init__(self, path: Path, writer: str, created_ns: int, capacity: int) -> None:
        self.path = path
        self.writer = writer
        self.waiting = 0  # frames that the store has not acknowledged
        self.sealed = False
        self.end = frames.HEADER.size
        self.capacity = capacity
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        self._fd = os.open(path, flags, 0o600)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.posix_fallocate(self._fd, 0, capacity)
            self._map = mmap.mmap(self._fd, capacity, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
        except BaseException:
            path.unlink()
            os.close(self._fd)
            raise
        self._map[: frames.HEADER.size] = frames.HEADER.pack(frames.MAGIC, created_ns, writer.encode("ascii"))

    def room(self, size: int) -> bool:
        """Whether a frame of ``size`` bytes still fits."""
        return self.end + size <= self.capacity

    def append(self, head: bytes, body: bytes, size: int) -> int:
        """Copy a frame in, its marker last, and return its offset."""
        offset = self.end
        marker = len(frames.MARKER)
        start = offset + len(head)
        self._map[offset + marker : start] = head[marker:]
        self._map[start : start + len(body)] = body
        self._map[offset : offset + marker] = head[:marker]
        self.end = offset + size
        return offset

    def sync(self, offset: int, size: int) -> None:
        """Return when the frame is on the disk (durability ``fsync``)."""
        first = offset - offset % mmap.ALLOCATIONGRANULARITY
        self._map.flush(first, offset + size - first)

    def read(self, offset: int, length: int) -> frames.Frame:
        """The frame at an offset.

        Raises:
            ValueError: it is damaged, which in a live mapping means that somebody else wrote into the file.
        """
        data = bytes(frames.HEADER.size) + self._map[offset : offset + length]
        found = next(frames.frames(data, self.path.name), None)
        if not isinstance(found, frames.Frame):
            raise ValueError(f"{self.path.name}: damaged frame at {offset}")  # noqa: TRY004
        return found

    def remove(self) -> None:
        """Unlink the file, then let go of it: whoever waits for its lock finds it gone."""
        self.path.unlink(missing_ok=True)
        self.close()

    def close(self) -> None:
        """Let go of mapping, descriptor and lock; the file stays."""
        self._map.close()
        os.close(self._fd)


class Spool:
    """The spool of one process: appends from any thread, read back by its shipper."""

    def __init__(
        self,
        folder: Path,
        *,
        writer: str,
        new_id: Callable[[], str],
        now_ns: Callable[[], int],
        file_bytes: int,
        max_bytes: int,
        fsync: bool = False,
    ) -> None:
        self._folder = folder
        self._writer = writer
        self._new_id = new_id
        self._now_ns = now_ns
        self._file_bytes = file_bytes
        self._max_bytes = max_bytes
        self._fsync = fsync
        self._lock = threading.Lock()
        self._file: SpoolFile | None = None
        self._fresh: deque[Entry] = deque()
        prepare_folder(folder)

    def append(self, flags: int, qid: str, head: bytes, body: bytes, events: int, ticket: Ticket) -> None:
        """Append one frame; when this returns it survives the process.

        Raises:
            SpoolFull: the bound in bytes is reached.
            OSError: no file could be made (disk full, folder gone or read-only).
        """
        size = frames.size(len(qid), len(body))
        with self._lock:
            file = self._file
            if file is None or not file.room(size):
                file = self._rotate(size)
            offset = file.append(head, body, size)
            file.waiting += 1
            self._fresh.append(Entry(file, offset, size, qid, flags, events, ticket))
        if self._fsync:
            file.sync(offset, size)

    def take_fresh(self) -> list[Entry]:
        """The entries appended since the last time; only the shipper asks."""
        taken = []
        while self._fresh:
            taken.append(self._fresh.popleft())
        return taken

    def acknowledge(self, entries: list[Entry]) -> None:
        """The store holds these frames: drop every file of which nothing waits any more."""
        with self._lock:
            for entry in entries:
                entry.file.waiting -= 1
            for file in {entry.file for entry in entries}:
                if file.sealed and file.waiting == 0:
                    file.remove()

    def close(self) -> None:
        """Let go. A file of which nothing waits is removed; any other stays for the next who drains the folder."""
        with self._lock:
            file, self._file = self._file, None
            if file is not None:
                file.sealed = True
                if file.waiting == 0:
                    file.remove()

    def abandon_in_child(self) -> None:
        """In a forked child: give up the parent's file without touching it, with its lock and its mapping."""
        self._lock = threading.Lock()
        files = {entry.file for entry in self._fresh}
        if self._file is not None:
            files.add(self._file)
        for file in files:
            file.close()
        self._file = None
        self._fresh = deque()

    def _rotate(self, size: int) -> SpoolFile:
        capacity = max(self._file_bytes, frames.HEADER.size + size)
        if spooled_bytes(self._folder) + capacity > self._max_bytes:
            raise SpoolFull
        path = self._folder / f"{self._new_id()}{SUFFIX}"
        file = SpoolFile(path, self._writer, self._now_ns(), capacity)
        old, self._file = self._file, file
        if old is not None:
            old.sealed = True
            if old.waiting == 0:
                old.remove()
        return file


def prepare_folder(folder: Path) -> None:
    """Make the spool folder, 0700.

    Raises:
        ConfigurationError: it belongs to somebody else, or others may write to it: they could plant events.
        OSError: it can't be made.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = folder.stat()
    if status.st_uid != os.geteuid():
        raise ConfigurationError(f"{folder} belongs to another user: set PROMPT_TRACE_SPOOL to a folder of your own")
    if stat.S_IMODE(status.st_mode) & 0o022:
        raise ConfigurationError(f"{folder} can be written to by others: chmod go-w, or set PROMPT_TRACE_SPOOL")


def spooled_bytes(folder: Path) -> int:
    """Bytes that the files of a spool folder take, whoever owns them."""
    total = 0
    for path in folder.glob(f"*{SUFFIX}"):
        try:
            total += path.stat().st_size
        except FileNotFoundError:  # another process has just delivered it
            continue
    return total
