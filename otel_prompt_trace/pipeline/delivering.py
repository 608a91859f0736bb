"""Delivering what waits of queries: from the spool, through what seals it, into the store.

A store may hang for minutes, so it is written to on threads that the shipper's own does not wait for idly. Many
queries are delivered side by side; the first of them goes alone, so that a store that is down is asked once. The
books and the spool change for one query at a time.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from datetime import datetime

from otel_prompt_trace.exceptions import ConfigurationError, StoreError
from otel_prompt_trace.pipeline import frames
from otel_prompt_trace.pipeline.accounting import Accounts
from otel_prompt_trace.pipeline.recorder import SpoolLike, Waiting
from otel_prompt_trace.pipeline.shipping import Delivery, Payloads, deliverable
from otel_prompt_trace.pipeline.side_by_side import side_by_side
from otel_prompt_trace.pipeline.spool_file import DamagedFrame
from otel_prompt_trace.pipeline.waiting import Index, Pending

POLL_SECONDS = 0.05
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 60.0
_MANY = 8  # queries that are due at once: from here on side by side
_THREADS = 8

_log = logging.getLogger("otel_prompt_trace")


class Delivering:
    """Delivers queries of an index. ``timing`` is told how long each write took, and the name of its error."""

    def __init__(
        self,
        spool: SpoolLike,
        index: Index,
        open_payloads: Callable[[], Payloads],
        accounts: Accounts,
        *,
        writer: str,
        set_aside: Callable[[frames.Frame], None],
        now: Callable[[], datetime],
        timing: Callable[[float, str | None], None],
    ) -> None:
        self._spool = spool
        self._index = index
        self._open_payloads = open_payloads
        self._payloads: Payloads | None = None
        self._accounts = accounts
        self._writer = writer
        self._set_aside = set_aside
        self._now = now
        self._timing = timing
        self._settling = threading.Lock()

    @property
    def payloads(self) -> Payloads:
        """The store, opened when it is first asked for."""
        if self._payloads is None:
            self._payloads = self._open_payloads()
        return self._payloads

    def ship(self, ready: Sequence[tuple[str, Pending]], meanwhile: Callable[[], None]) -> bool | None:
        """Whether all of these are stored; None where the store does not take them.

        ``meanwhile`` is called now and then on the calling thread, however long a write may hang.
        """
        failed: list[str] = []

        def attempt(item: tuple[str, Pending]) -> bool:
            qid, pending = item
            try:
                self._ship(qid, pending)
            except (StoreError, ConfigurationError) as error:
                self._accounts.warn("store", "The store does not take events; they wait in the spool: %s", error)
                failed.append("store")
                return False
            except Exception as error:  # noqa: BLE001 - these threads are the only way out for what is recorded
                self._accounts.warn("shipper", "A query can't be shipped and waits: %s", type(error).__name__)
                _log.debug("shipper", exc_info=True)
                pending.failures += 1
                pending.resume_at = time.monotonic() + min(LONGEST_PAUSE, FIRST_PAUSE * 2**pending.failures)
                failed.append("query")
            return True

        if len(ready) >= _MANY:
            side_by_side(attempt, ready[:1], 1, meanwhile, POLL_SECONDS)
            ready = ready[1:]
        if "store" not in failed:
            side_by_side(attempt, ready, _THREADS if len(ready) >= _MANY - 1 else 1, meanwhile, POLL_SECONDS)
        return None if "store" in failed else not failed

    def _ship(self, qid: str, pending: Pending) -> None:
        read = self._read(pending)
        found = deliverable([(self._writer, frame) for _, frame in read], "spool")
        if found.lines:
            self._write(found, qid)
        with self._settling:
            self._settle(qid, read, found)

    def _write(self, found: Delivery, qid: str) -> None:
        began, error = time.monotonic(), None
        try:
            found.write(self.payloads, qid, self._now())
        except Exception as raised:
            error = type(raised).__name__
            raise
        finally:
            self._timing(time.monotonic() - began, error)

    def _settle(self, qid: str, read: list[tuple[Waiting, frames.Frame]], found: Delivery) -> None:
        for entry, frame in read:
            if any(frame is held for held in found.poison):
                self._set_aside(frame)
                entry.ticket.state = "lost"
        gone = self._index.shipped(qid)
        lost = sum(entry.events for entry in gone) - len(found.lines)
        if lost:
            self._accounts.lose(lost, "set_aside", f"{found.problems[0].reason}; kept under poison/ in the spool.")
        self._accounts.store(len(found.lines))
        for entry in gone:
            if entry.ticket.state == "spooled":
                entry.ticket.state = "stored"
        self._spool.acknowledge(gone)

    def _read(self, pending: Pending) -> list[tuple[Waiting, frames.Frame]]:
        """The waiting frames of a query. One that is damaged is never acknowledged, so that its file stays."""
        read = []
        for entry in self._index.begin(pending):
            try:
                read.append((entry, entry.frame()))
            except DamagedFrame:
                self._index.damaged(pending, entry)
                entry.ticket.state = "lost"
                self._index.lost(entry.events)
        return read
