"""The spool in memory: for durability ``memory``, and where no folder can be written.

It survives nothing; it is bounded in bytes, and what does not fit is lost and counted.
"""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass

from otel_prompt_trace.pipeline import frames
from otel_prompt_trace.pipeline.accounting import Ticket
from otel_prompt_trace.pipeline.spool import SpoolFull
from otel_prompt_trace.pipeline.spool_file import SpoolClosed


@dataclass(frozen=True, slots=True)
class MemoryEntry:
    """One frame that waits in memory."""

    head: bytes
    body: bytes
    qid: str
    flags: int
    events: int
    ticket: Ticket

    @property
    def length(self) -> int:
        """Bytes that the frame takes."""
        return len(self.head) + len(self.body)

    def frame(self) -> frames.Frame:
        """The frame itself."""
        data = bytes(frames.HEADER_SIZE) + self.head + self.body
        found = next(frames.frames(data, "memory"), None)
        if not isinstance(found, frames.Frame):
            raise ValueError("damaged frame in memory")  # noqa: TRY004
        return found


class MemorySpool:
    """The same face as :class:`otel_prompt_trace.pipeline.spool.Spool`, without a file."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._closed = False
        self._lock = threading.Lock()
        self._fresh: deque[MemoryEntry] = deque()

    def append(self, flags: int, qid: str, head: bytes, body: bytes, events: int, ticket: Ticket) -> None:
        """Keep one frame.

        Raises:
            SpoolFull: the bound in bytes is reached.
            SpoolClosed: nobody would ever deliver it.
        """
        entry = MemoryEntry(head, body, qid, flags, events, ticket)
        with self._lock:
            if self._closed:
                raise SpoolClosed
            if self._bytes + entry.length > self._max_bytes:
                raise SpoolFull
            self._bytes += entry.length
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
            self._bytes -= sum(entry.length for entry in entries)

    def close(self) -> None:
        """Take nothing more."""
        with self._lock:
            self._closed = True

    def abandon_in_child(self) -> None:
        """In a forked child: what waits is the parent's to deliver."""
        self._lock = threading.Lock()
        self._fresh = deque()
        self._bytes = 0
