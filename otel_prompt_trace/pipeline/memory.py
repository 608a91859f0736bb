"""The spool in memory: for durability ``memory``, and where no folder can be written.

It survives nothing; it is bounded in bytes and in frames, and what does not fit is lost and counted.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from dataclasses import dataclass

from otel_prompt_trace.pipeline import frames
from otel_prompt_trace.pipeline.accounting import Ticket
from otel_prompt_trace.pipeline.spool import Entry, SpoolFull
from otel_prompt_trace.pipeline.spool_file import SpoolClosed


@dataclass(slots=True, eq=False)
class MemoryEntry:
    """One frame that waits in memory, or did so until it was moved to the disk: then ``twin`` is where it lies."""

    head: bytes
    body: bytes
    qid: str
    flags: int
    events: int
    ticket: Ticket
    twin: Entry | None = None

    @property
    def length(self) -> int:
        """Bytes that the frame takes."""
        return len(self.head) + len(self.body)

    def frame(self) -> frames.Frame:
        """The frame itself."""
        data = bytes(frames.HEADER_SIZE) + self.head + self.body
        if self.twin is not None:  # looked at last: what was read above may be gone already
            return self.twin.frame()
        found = next(frames.frames(data, "memory"), None)
        if not isinstance(found, frames.Frame):
            raise ValueError("damaged frame in memory")  # noqa: TRY004
        return found


class MemorySpool:
    """The same face as :class:`otel_prompt_trace.pipeline.spool.Spool`, without a file."""

    def __init__(self, max_bytes: int, *, max_frames: int = 1_000_000, block_seconds: float = 0.0) -> None:
        self._max_bytes = max_bytes
        self._max_frames = max_frames
        self._block_seconds = block_seconds
        self._closed = False
        self._reset()

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._room = threading.Condition(self._lock)
        self._bytes = 0
        self._fresh: deque[MemoryEntry] = deque()
        self._waiting: dict[MemoryEntry, None] = {}
        self._servant = 0

    def append(self, flags: int, qid: str, head: bytes, body: bytes, events: int, ticket: Ticket) -> None:
        """Keep one frame.

        Raises:
            SpoolFull: a bound is reached, and no room came within ``block_seconds``.
            SpoolClosed: nobody would ever deliver it.
        """
        entry = MemoryEntry(head, body, qid, flags, events, ticket)
        deadline = 0.0
        with self._lock:
            while True:
                if self._closed:
                    raise SpoolClosed
                if self._bytes + entry.length <= self._max_bytes and len(self._waiting) < self._max_frames:
                    break
                now = time.monotonic()
                deadline = deadline or now + self._block_seconds
                if now >= deadline or threading.get_ident() == self._servant:
                    raise SpoolFull
                self._room.wait(deadline - now)
            self._bytes += entry.length
            self._waiting[entry] = None
            self._fresh.append(entry)

    def take_fresh(self) -> list[MemoryEntry]:
        """The entries appended since the last time; only the shipper asks."""
        taken = []
        while self._fresh:
            taken.append(self._fresh.popleft())
        return taken

    def acknowledge(self, entries: list[MemoryEntry]) -> None:
        """The store holds these frames."""
        with self._lock:
            for entry in entries:
                if entry in self._waiting:
                    del self._waiting[entry]
                    self._bytes -= entry.length
            self._room.notify_all()

    def moved(self, entry: MemoryEntry, twin: Entry) -> None:
        """A frame lies on the disk now."""
        entry.twin = twin
        self.acknowledge([entry])
        entry.head = entry.body = b""

    def prepare(self) -> None:
        """Nothing is done ahead."""
        self._servant = threading.get_ident()

    def close(self) -> None:
        """Take nothing more."""
        with self._lock:
            self._closed = True
            self._room.notify_all()

    def abandon_in_child(self) -> None:
        """In a forked child: what waits is the parent's to deliver."""
        self._reset()

    def __contains__(self, entry: MemoryEntry) -> bool:
        return entry in self._waiting

    @property
    def used_bytes(self) -> int:
        """Bytes of what is kept."""
        return self._bytes

    @property
    def waiting(self) -> list[MemoryEntry]:
        """What is not acknowledged, oldest first."""
        with self._lock:
            return list(self._waiting)

    @property
    def on_disk(self) -> bool:
        """Whether records go to a disk."""
        return False

    @property
    def volatile(self) -> int:
        """Events that would go with the process."""
        return sum(entry.events for entry in self.waiting)
