"""Delivering what waits of queries: from the spool, through what seals it, into the store.

A store may hang for minutes, so it is written to on a thread that the shipper's own does not wait for idly. Queries go
in batches: sealed one after the other, written together. The books and the spool change for one query at a time.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from otel_prompt_trace.core.qid import partition_date
from otel_prompt_trace.exceptions import ConfigurationError, StoreError
from otel_prompt_trace.pipeline import frames
from otel_prompt_trace.pipeline.accounting import Accounts
from otel_prompt_trace.pipeline.delivery.side_by_side import side_by_side
from otel_prompt_trace.pipeline.delivery.together import Batches, Outcome, Sealed
from otel_prompt_trace.pipeline.recorder import SpoolLike, Waiting
from otel_prompt_trace.pipeline.shipping import Delivery, deliverable
from otel_prompt_trace.pipeline.spool_file import DamagedFrame
from otel_prompt_trace.pipeline.waiting import Index, Pending

POLL_SECONDS = 0.05
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 60.0
BATCH = 256  # queries
BATCH_BYTES = 8 * 2**20  # of their lines; a query alone may have more

_log = logging.getLogger("otel_prompt_trace")


@dataclass(slots=True)
class _Sealed:
    """A query that is ready to be written."""

    qid: str
    pending: Pending
    read: list[tuple[Waiting, frames.Frame]]
    found: Delivery


class Delivering:
    """Delivers queries of an index. ``timing`` is told how long each write took, and the name of its error."""

    def __init__(
        self,
        spool: SpoolLike,
        index: Index,
        open_store: Callable[[], Batches],
        accounts: Accounts,
        *,
        writer: str,
        set_aside: Callable[[frames.Frame], None],
        now: Callable[[], datetime],
        timing: Callable[[float, str | None], None],
    ) -> None:
        self._spool = spool
        self._index = index
        self._open_store = open_store
        self._store: Batches | None = None
        self._accounts = accounts
        self._writer = writer
        self._set_aside = set_aside
        self._now = now
        self._timing = timing
        self._settling = threading.Lock()
        self._closed = False

    @property
    def store(self) -> Batches:
        """The store, opened when it is first asked for."""
        if self._store is None:
            self._store = self._open_store()
            if self._closed:  # meanwhile
                self._store.close()
        return self._store

    def close(self) -> None:
        """Let go of the store, also of one that is just being opened."""
        self._closed = True
        if self._store is not None:
            self._store.close()

    def ship(self, ready: Sequence[tuple[str, Pending]], meanwhile: Callable[[], None]) -> bool | None:
        """Whether all of these are stored; None where the store does not take them.

        ``meanwhile`` is called now and then on the calling thread, however long a write may hang.
        """
        outcomes: list[bool | None] = []

        def deliver(queries: Sequence[tuple[str, Pending]]) -> bool:
            try:
                for batch in self._batches(queries, outcomes):
                    self._write(batch, outcomes)
                    if None in outcomes:
                        break
            except Exception as error:  # noqa: BLE001 - nobody is above this on its thread
                self._accounts.warn("shipper", "The shipper met an error and goes on: %s", type(error).__name__)
                _log.debug("shipper", exc_info=error)
                outcomes.append(None)
            return True

        side_by_side(deliver, [ready], 1, meanwhile, POLL_SECONDS)
        return None if None in outcomes else all(outcomes)

    def _batches(self, queries: Sequence[tuple[str, Pending]], outcomes: list[bool | None]) -> Iterator[list[_Sealed]]:
        """Sealed queries, in batches; each that can't be sealed is noted in ``outcomes``."""
        batch: list[_Sealed] = []
        size = 0
        for qid, pending in queries:
            try:
                sealed = self._seal(qid, pending)
            except Exception as error:  # noqa: BLE001 - this thread is the only way out for what is recorded
                self._put_off(pending, error)
                outcomes.append(False)
                continue
            length = sum(len(line) for _, line in sealed.found.lines)
            if batch and (len(batch) == BATCH or size + length > BATCH_BYTES):
                yield batch
                batch, size = [], 0
            batch.append(sealed)
            size += length
        if batch:
            yield batch

    def _seal(self, qid: str, pending: Pending) -> _Sealed:
        read = self._read(pending)
        return _Sealed(qid, pending, read, deliverable([(self._writer, frame) for _, frame in read], "spool"))

    def _write(self, batch: Sequence[_Sealed], outcomes: list[bool | None]) -> None:
        """Write a batch; of each of its queries whether it is stored, and None where the store did not take it."""
        full = [sealed for sealed in batch if sealed.found.lines]
        empty = [sealed for sealed in batch if not sealed.found.lines]  # what can never be stored

        def told(number: int, outcome: Outcome) -> None:
            if outcome.tried:
                self._timing(outcome.seconds, None if outcome.error is None else type(outcome.error).__name__)
            outcomes.append(self._took(full[number], outcome))

        outcomes += [self._took(sealed, Outcome()) for sealed in empty]
        if not full:
            return
        try:
            store = self.store
        except (StoreError, ConfigurationError) as error:
            outcomes.append(self._took(full[0], Outcome(error)))
        else:
            now = self._now()
            store.write_all([_to_store(one, now) for one in full], now, told)

    def _took(self, sealed: _Sealed, outcome: Outcome) -> bool | None:
        error = outcome.error
        if outcome.stops:
            self._accounts.warn("store", "The store does not take events; they wait in the spool: %s", error)
        if outcome.stops or not outcome.tried:
            return None
        if error is None:
            try:
                with self._settling:
                    self._settle(sealed)
            except Exception as failure:  # noqa: BLE001 - one query holds up no other
                error = failure
        if error is not None:
            self._put_off(sealed.pending, error)
        return error is None

    def _put_off(self, pending: Pending, error: Exception) -> None:
        self._accounts.warn("shipper", "A query can't be shipped and waits: %s", type(error).__name__)
        _log.debug("shipper", exc_info=error)
        pending.failures += 1
        pending.resume_at = time.monotonic() + min(LONGEST_PAUSE, FIRST_PAUSE * 2**pending.failures)

    def _settle(self, sealed: _Sealed) -> None:
        found = sealed.found
        for entry, frame in sealed.read:
            if any(frame is held for held in found.poison):
                self._set_aside(frame)
                entry.ticket.state = "lost"
        gone = self._index.shipped(sealed.qid)
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


def _to_store(sealed: _Sealed, now: datetime) -> Sealed:
    """What is written. An id without a date goes under the day of writing: a try of another day is looked for."""
    pending, qid, found = sealed.pending, sealed.qid, sealed.found
    before, pending.tried = pending.tried, pending.tried or now
    moved = before is not None and partition_date(qid, before) != partition_date(qid, now)
    since = pending.tried.date() - timedelta(days=1) if moved else None
    return Sealed(qid, found.lines, found.blobs, since)
