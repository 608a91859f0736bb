"""A spool on disk that records to memory while the disk takes nothing, and goes back when it does.

Invariants:

- An append that the disk refuses is kept in memory, within memory's bound: a full or failing disk costs no event as
  long as that lasts. A spool that is full by its own bound is no such case.
- It is said when records go to memory, by a warning that names the variable, and when they do not any more.
- What waits in memory is moved to the disk as soon as that works again, at the latest when the process ends.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable
from typing import Any

from otel_prompt_trace.exceptions import ConfigurationError
from otel_prompt_trace.pipeline.accounting import Ticket
from otel_prompt_trace.pipeline.memory import MemoryEntry, MemorySpool
from otel_prompt_trace.pipeline.spool import Entry, Spool, SpoolFull

_RETRY_SECONDS = 5.0
_MOVE_SECONDS = 0.25  # in one turn of the shipper: a disk that syncs slowly must not hold up what it delivers

_log = logging.getLogger("otel_prompt_trace")


class FallbackSpool:
    """The same face as :class:`otel_prompt_trace.pipeline.spool.Spool`. Making it never raises for a folder's sake."""

    def __init__(
        self,
        open_disk: Callable[[], Spool],
        memory: MemorySpool,
        *,
        place: str,
        warn: Callable[[str, str], None],
        retry_seconds: float = _RETRY_SECONDS,
    ) -> None:
        """Open the disk's spool, or begin in memory.

        Args:
            open_disk: opens it; raises ``ConfigurationError`` or ``OSError`` where the folder can't be used.
            memory: stands in for it.
            place: the folder's name, for warnings.
            warn: called with a key and a message.
            retry_seconds: between two tries to open it.
        """
        self._open_disk = open_disk
        self._memory = memory
        self._place = place
        self._warn = warn
        self._retry_seconds = retry_seconds
        self._disk: Spool | None = None
        self._error: OSError | ConfigurationError | None = None  # why records go to memory
        self._retry_at = 0.0
        self._moving = threading.Lock()  # one frame is moved, or acknowledged, at a time
        self._open()

    @property
    def on_disk(self) -> bool:
        """Whether records go to the disk now."""
        return self._error is None

    @property
    def used_bytes(self) -> int:
        """Bytes that are kept in memory."""
        return self._memory.used_bytes

    @property
    def volatile(self) -> int:
        """Events that would go with the process."""
        return self._memory.volatile

    def append(self, flags: int, qid: str, head: bytes, body: bytes, events: int, ticket: Ticket) -> None:
        """Append one frame, to the disk or to memory.

        Raises:
            SpoolFull: the spool's bound is reached.
            OSError: the disk takes nothing, and memory's bound is reached.
            SpoolClosed: the disk takes nothing, and nobody would ever deliver it.
        """
        disk, error = self._disk, self._error
        if disk is not None and error is None:
            try:
                disk.append(flags, qid, head, body, events, ticket)
            except OSError as refused:
                error = refused
                self._stray(refused)
            else:
                return
        try:
            self._memory.append(flags, qid, head, body, events, ticket)
        except SpoolFull:
            if isinstance(error, OSError):
                raise OSError(error.errno, error.strerror or "it takes nothing") from None
            raise

    def take_fresh(self) -> list[Any]:
        """The entries appended since the last time; only the shipper asks."""
        kept: list[Any] = list(self._memory.take_fresh())
        return [*self._disk.take_fresh(), *kept] if self._disk is not None else kept

    def acknowledge(self, entries: list[Any]) -> None:
        """The store holds these frames."""
        on_disk = [entry for entry in entries if isinstance(entry, Entry)]
        in_memory = [entry for entry in entries if isinstance(entry, MemoryEntry)]
        if in_memory:
            with self._moving:
                self._memory.acknowledge([entry for entry in in_memory if entry.twin is None])
                on_disk += [entry.twin for entry in in_memory if entry.twin is not None]
        if on_disk and self._disk is not None:
            self._disk.acknowledge(on_disk)

    def prepare(self) -> None:
        """Do ahead what an append should not have to, and see whether the disk works again."""
        self._memory.prepare()
        if self._disk is None and time.monotonic() >= self._retry_at:
            self._open()
        if self._disk is not None:
            self._disk.prepare()
            if self._error is not None and self._disk.trouble is None:
                self._return()
            if self._error is None:
                self._move(self._disk, time.monotonic() + _MOVE_SECONDS)

    def close(self) -> None:
        """Let go. What waits in memory is written to the disk where that works."""
        if self._disk is None and self._memory.waiting:
            self._open()
        if self._disk is not None:
            self._move(self._disk)
            self._disk.close()
        self._memory.close()

    def abandon_in_child(self) -> None:
        """In a forked child: what waits is the parent's to deliver."""
        if self._disk is not None:
            self._disk.abandon_in_child()
        self._moving = threading.Lock()
        self._memory.abandon_in_child()

    def _move(self, disk: Spool, deadline: float = math.inf) -> None:
        """Put on the disk what waits in memory, as far as there is room for it."""
        for entry in self._memory.waiting:
            if time.monotonic() > deadline:
                return
            with self._moving:
                if entry not in self._memory:
                    continue
                try:
                    twin = disk.keep(entry.flags, entry.qid, entry.head, entry.body, entry.events, entry.ticket)
                except (OSError, SpoolFull):
                    return
                self._memory.moved(entry, twin)

    def _open(self) -> None:
        self._retry_at = time.monotonic() + self._retry_seconds
        try:
            self._disk = self._open_disk()
        except (OSError, ConfigurationError) as error:
            if self._error is None:
                self._stray(error)
        else:
            if self._error is not None:
                self._return()

    def _stray(self, error: OSError | ConfigurationError) -> None:
        self._error = error
        self._warn("spool", f"No spool at {self._place} ({error}): recording to memory. Set PROMPT_TRACE_SPOOL.")

    def _return(self) -> None:
        self._error = None
        _log.info("The spool at %s works again: recording to it.", self._place)
