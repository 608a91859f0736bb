"""The local spool: shared mappings of preallocated files, appended to by the application's own threads.

Invariants:

- An append is a copy into the mapping. It keeps the GIL, so that beside a busy thread it does not wait a switch
  interval, and the kernel keeps the pages when the process is killed. It never grows a file.
- A file is preallocated, so that a full disk is met when a file is made, not as SIGBUS in the middle of a copy.
- The owner holds an exclusive ``flock`` for as long as it lives. A forked child closes its copies: it owns nothing.
- A file is unlinked only when the store has acknowledged every frame of it. A frame is acknowledged at the earliest
  when its append has returned, so that a file never goes away under whoever appends or syncs.
- What is acknowledged is struck out at once: no text stays here longer than it waits.
- Names are ULIDs. Files are 0600 in a folder that is ours alone, 0700.
"""

from __future__ import annotations

import errno
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
from otel_prompt_trace.pipeline.spool_file import SpoolFile, Taken

SUFFIX = ".spool"
_TRIES = 10


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
        self._files: set[SpoolFile] = set()  # the current one, and those of which something waits
        self._fresh: deque[Entry] = deque()
        prepare_folder(folder)

    def append(self, flags: int, qid: str, head: bytes, body: bytes, events: int, ticket: Ticket) -> None:
        """Append one frame; when this returns it survives the process.

        Raises:
            SpoolFull: the bound in bytes is reached.
            OSError: no file could be made (disk full, folder gone or read-only), or the disk failed.
        """
        size = frames.size(len(qid), len(body))
        with self._lock:
            file = self._file
            if file is None or not file.room(size):
                file = self._rotate(size)
            offset = file.append(head, body, size)
            file.waiting += 1
        if self._fsync:
            file.sync(offset, size)
        self._fresh.append(Entry(file, offset, size, qid, flags, events, ticket))

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
            done = {entry.file for entry in entries if entry.file.sealed and entry.file.waiting == 0}
            self._files -= done
        for entry in entries:
            if entry.file not in done:
                entry.file.strike(entry.offset, entry.length)
        for file in done:
            file.remove()

    def close(self) -> None:
        """Let go. A file of which nothing waits is removed; any other stays for the next who drains the folder."""
        with self._lock:
            files, self._files, self._file = self._files, set(), None
            for file in files:
                file.sealed = True
                if file.waiting == 0:
                    file.remove()
                else:
                    file.close()

    def abandon_in_child(self) -> None:
        """In a forked child: give up the parent's files without touching them, with their locks and mappings."""
        self._lock = threading.Lock()
        for file in self._files:
            file.close()
        self._files = set()
        self._file = None
        self._fresh = deque()

    def _rotate(self, size: int) -> SpoolFile:
        old = self._file
        if old is not None and old.waiting == 0:
            self._files.discard(old)
            self._file = None
            old.remove()
        capacity = max(self._file_bytes, frames.HEADER_SIZE + size)
        if spooled_bytes(self._folder) + capacity > self._max_bytes:
            raise SpoolFull
        file = self._make(capacity)
        self._files.add(file)
        if self._file is not None:
            self._file.sealed = True
        self._file = file
        return file

    def _make(self, capacity: int) -> SpoolFile:
        for _ in range(_TRIES):
            path = self._folder / f"{self._new_id()}{SUFFIX}"
            try:
                return SpoolFile(path, self._writer, self._now_ns(), capacity)
            except Taken:
                continue
        raise BlockingIOError(errno.EWOULDBLOCK, "somebody locks every new file in the spool")


def prepare_folder(folder: Path) -> None:
    """Make the spool folder, 0700.

    Raises:
        ConfigurationError: it belongs to somebody else, or others may write to it: they could plant events.
        OSError: it can't be made, or not be written to.
    """
    for parent in reversed([folder, *folder.parents]):  # also those above: the state folder is nobody else's either
        if not parent.exists():
            parent.mkdir(mode=0o700, exist_ok=True)
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, "it can't be written to")
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
