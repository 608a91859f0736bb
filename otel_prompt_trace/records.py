"""A record by qid, from the store and, for what is not stored yet, from the local spool.

What is spooled on this machine is shown as such, never as not found.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from otel_prompt_trace.core.events import Problem, distinct, identity
from otel_prompt_trace.core.qid import carried_date
from otel_prompt_trace.core.record import Record, project
from otel_prompt_trace.exceptions import NotFound, StoreUnreachable
from otel_prompt_trace.pipeline.reading import waiting_events, waiting_qids
from otel_prompt_trace.store import PayloadStore


@dataclass(frozen=True, slots=True)
class Records:
    """The records that can be read here: those of a store, and those waiting in a spool folder."""

    store: PayloadStore
    spool: Path

    def get(self, qid: str, day: date | None = None) -> Record:
        """The record of one qid.

        Args:
            qid: a whole query id.
            day: for an id that carries no date: look only around this UTC day.

        Raises:
            Erased: it was erased.
            NotFound: neither stored nor waiting.
            StoreError: the store can't be read, and nothing waits here either.
        """
        waiting, damaged = waiting_events(self.spool, qid)
        try:
            found = self.store.events(qid, day)
            stored, problems = found.events, found.problems
        except StoreUnreachable as error:
            if not waiting:
                raise
            stored, problems = [], [Problem(self.store.url, 0, f"store not reachable: {error}")]
        known = {identity(event) for event in stored}
        fresh = [event for event in waiting if identity(event) not in known]
        if not stored and not fresh and not problems:
            raise NotFound(f"{qid}: nothing in {self.store.url}, and nothing waits in {self.spool}")
        return project(qid, distinct([*stored, *fresh]), [*problems, *(damaged if fresh else ())], waiting=len(fresh))

    def resolve(self, reference: str) -> str:
        """The qid that a reference means: see :meth:`PayloadStore.resolve`; the spool's qids count as well."""
        return self.store.resolve(reference, extra=sorted(waiting_qids(self.spool)))

    def newest(self, limit: int, since: date | None = None, until: date | None = None) -> list[str]:
        """The newest qids, newest first: those that wait here, then those of the store by day and id.

        Ids that carry a time are in its order; others are in the order of their names within a day.
        """
        waiting = sorted(waiting_qids(self.spool), reverse=True)
        if since is not None or until is not None:
            waiting = [qid for qid in waiting if _within(carried_date(qid), since, until)]
        chosen = dict.fromkeys(waiting)
        for day_qids in self._days(since, until):
            if len(chosen) >= limit:
                break
            chosen |= dict.fromkeys(sorted(day_qids, reverse=True))
        erased = {qid for qid in waiting if self.store.erased_at(qid) is not None} if waiting else set()
        return [qid for qid in chosen if qid not in erased][:limit]

    def _days(self, since: date | None, until: date | None) -> Iterator[list[str]]:
        by_day: dict[date, list[str]] = {}
        for day, qid in self.store.qids(since, until):
            by_day.setdefault(day, []).append(qid)
        for day in sorted(by_day, reverse=True):
            yield by_day[day]


def _within(day: date | None, since: date | None, until: date | None) -> bool:
    return day is None or ((since is None or day >= since) and (until is None or day <= until))
