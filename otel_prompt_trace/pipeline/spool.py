"""The local spool: shared mappings of preallocated files, appended to by the application's own threads.

Invariants:

- An append is a copy into the mapping. It keeps the GIL, so that beside a busy thread it does not wait a switch
  interval, and the kernel keeps the pages when the process is killed. It never grows a file, and meets neither page
  faults nor the making of a file as long as the shipper's thread keeps up with :meth:`Spool.prepare` (``rotation``).
- A file is preallocated, so that a full disk is met when a file is made, not as SIGBUS in the middle of a copy.
- The owner holds an exclusive ``flock`` for as long as it lives. A forked child closes its copies: it owns nothing.
- A file is unlinked only when the store has acknowledged every frame of it. A frame is acknowledged at the earliest
  when its append has returned, so that a file never goes away under whoever appends or syncs.
- What is acknowledged is struck out at once: no text stays here longer than it waits.
- Beyond a bound the newest is refused, at once or after a wait that has a budget; what waits is never given up.
- Names are ULIDs, with a mark of the store after it. Files are 0600 in a folder that is ours alone, 0700.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from otel_prompt_trace.pipeline import frames
from otel_prompt_trace.pipeline.accounting import Ticket
from otel_prompt_trace.pipeline.rotation import Bounds, Rotation, SpoolFull
from otel_prompt_trace.pipeline.spool_file import FileCut, SpoolFile
from otel_prompt_trace.pipeline.spool_folder import SUFFIX, prepare_folder, spooled_bytes
from otel_prompt_trace.pipeline.syncing import Syncer

__all__ = ["SUFFIX", "Entry", "Spool", "SpoolFull", "prepare_folder", "spooled_bytes"]


@dataclass(eq=False, slots=True)  # made for every append: a frozen one takes three times as long
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
        max_files: int = 1_000,
        max_frames: int = 1_000_000,
        max_age_seconds: float = 600.0,
        block_seconds: float = 0.0,
        sync_seconds: float = 0.25,
        warn: Callable[[str, str], None] = lambda _key, _message: None,
    ) -> None:
        """Make the folder, and no file yet.

        Args:
            folder: where the files lie.
            writer: named in each file's header.
            new_id: mints the files' names.
            now_ns: the clock.
            file_bytes: size of a file; a larger frame has a file of its own.
            max_bytes: bound of the folder, whoever's the files are.
            fsync: whether an append waits for the disk.
            max_files: bound of the folder, as ``max_bytes``.
            max_frames: bound of what waits of this process.
            max_age_seconds: a file is appended to for no longer than this.
            block_seconds: how long an append waits for room when a bound is reached; 0 for not at all.
            sync_seconds: how long an append waits for the disk with ``fsync``; then it goes on, and is counted.
            warn: called with a key and a message when somebody else changes the spool, or the disk is slow.

        Raises:
            ConfigurationError, OSError: the folder can't be used.
        """
        self._folder = folder
        self._bounds = Bounds(file_bytes, max_bytes, max_files, int(max_age_seconds * 1e9))
        self._max_frames = max_frames
        self._block_seconds = block_seconds
        self._sync_seconds = sync_seconds
        self._fsync = fsync
        self._warn = warn
        self._rotation: dict[str, Any] = {"writer": writer, "new_id": new_id, "now_ns": now_ns, "count": self._count}
        self.counts: Counter[str] = Counter()  # what befell the files: cut, gone, moved, late
        self._reset()
        prepare_folder(folder)

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._room = threading.Condition(self._lock)
        self._files = Rotation(self._folder, self._lock, self._bounds, **self._rotation)
        self._syncer = Syncer(self._sync_seconds) if self._fsync else None
        self._fresh: deque[Entry] = deque()
        self._waiting = 0  # frames
        self._appended = 0  # bytes, since the shipper's last turn
        self._servant = 0  # the thread that makes room: it never waits for any

    def append(self, flags: int, qid: str, head: bytes, body: bytes, events: int, ticket: Ticket) -> None:
        """Append one frame; when this returns it survives the process.

        Raises:
            SpoolFull, OSError: as of :meth:`keep`.
        """
        self._fresh.append(self.keep(flags, qid, head, body, events, ticket))

    def keep(self, flags: int, qid: str, head: bytes, body: bytes, events: int, ticket: Ticket) -> Entry:
        """The same, for whoever knows already of what waits: it is not among the fresh entries.

        Raises:
            SpoolFull: a bound is reached, and no room came within ``block_seconds``.
            OSError: no file could be made (disk full, folder gone or read-only), or the disk failed.
        """
        size = frames.size(len(qid), len(body))
        with self._lock:
            file = self._place(size)
            try:
                offset = file.append(head, body, size)
            except FileCut:
                self._files.leave("cut")
                file = self._place(size)
                offset = file.append(head, body, size)
            file.waiting += 1
            self._waiting += 1
            self._appended += size
        entry = Entry(file, offset, size, qid, flags, events, ticket)
        if self._syncer is not None:
            self._sync(self._syncer, entry)
        return entry

    def take_fresh(self) -> list[Entry]:
        """The entries appended since the last time; only the shipper asks."""
        taken = []
        while self._fresh:
            taken.append(self._fresh.popleft())
        return taken

    def acknowledge(self, entries: list[Entry]) -> None:
        """The store holds these frames, oldest first: drop every file of which nothing waits any more.

        The last goes first. If the process is killed meanwhile, whoever delivers the rest begins at the first frame,
        by which the object in the store is named, and finds there that it holds the others as well.
        """
        with self._lock:
            for entry in entries:
                entry.file.waiting -= 1
            self._waiting -= len(entries)
            done = self._files.finished({entry.file for entry in entries})
        removed: set[SpoolFile] = set()
        for entry in reversed(entries):
            if entry.file not in done:
                entry.file.strike(entry.offset, entry.length)
            elif entry.file not in removed:
                removed.add(entry.file)
                entry.file.remove()
        self._tell_of_room()

    def prepare(self) -> None:
        """Do ahead what an append should not have to; for the shipper's thread, at each of its turns."""
        self._servant = threading.get_ident()
        with self._lock:
            appended, self._appended = self._appended, 0
        if self._files.prepare(appended):
            self._tell_of_room()

    def close(self) -> None:
        """Let go. A file of which nothing waits is removed; any other stays for the next who drains the folder."""
        if self._syncer is not None:
            self._syncer.stop()
        with self._lock:
            self._files.close()

    def abandon_in_child(self) -> None:
        """In a forked child: give up the parent's files without touching them, with their locks and mappings."""
        self._files.abandon()
        self._reset()

    @property
    def trouble(self) -> OSError | None:
        """Why no file can be made just now; None where nothing is known to stand in the way."""
        return self._files.trouble

    @property
    def on_disk(self) -> bool:
        """Whether records go to a disk."""
        return True

    @property
    def volatile(self) -> int:
        """Events that would go with the process: none."""
        return 0

    def _place(self, size: int) -> SpoolFile:
        """The file to append to. Waits for room if that is the policy, and the lock is free meanwhile."""
        deadline = 0.0
        while True:
            if self._waiting < self._max_frames:
                try:
                    return self._files.place(size)
                except SpoolFull:
                    pass
            now = time.monotonic()
            deadline = deadline or now + self._block_seconds
            if now >= deadline or threading.get_ident() == self._servant:
                raise SpoolFull
            self._room.wait(deadline - now)

    def _sync(self, syncer: Syncer, entry: Entry) -> None:
        try:
            if not syncer.sync(entry.file):
                self._files.said("late")
        except OSError:
            with self._lock:  # it is refused, so nobody is to find it there; and that file is not trusted again
                entry.file.waiting -= 1
                self._waiting -= 1
                entry.file.strike(entry.offset, entry.length)
                self._files.distrust(entry.file)
            raise

    def _tell_of_room(self) -> None:
        with self._room:
            self._files.room_came()
            self._room.notify_all()

    def _count(self, what: str, message: str) -> None:
        self.counts[what] += 1
        self._warn(f"spool:{what}", message)
