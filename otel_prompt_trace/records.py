"""A record by qid, from the store and, for what is not stored yet, from the local spool.

Invariants:

- What is spooled on this machine is shown as such, never as not found.
- A trace id finds the entry qids that begin with it. Any other query carries the trace id only in its events: these
  are searched newest first and not without bound, and whoever finds nothing is told how far the search went.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from itertools import islice
from pathlib import Path
from urllib.parse import unquote, urlsplit

from otel_prompt_trace.core.events import Problem, distinct, identity
from otel_prompt_trace.core.qid import carried_date, is_trace_id
from otel_prompt_trace.core.record import Record, project
from otel_prompt_trace.exceptions import Ambiguous, Erased, NotFound, StoreUnreachable
from otel_prompt_trace.pipeline import frames
from otel_prompt_trace.pipeline.reading import content, files, waiting_events, waiting_qids
from otel_prompt_trace.store import PayloadStore
from otel_prompt_trace.store.fanout import each
from otel_prompt_trace.store.lookup import kept_days
from otel_prompt_trace.store.resolving import qids_beginning, read_reference

_SEARCHED_DAYS = 3
_SEARCHED = 500  # queries without --date
_SEARCHED_AROUND = 10_000  # queries with --date: a person who names the day can wait longer


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
            raise NotFound(f"{qid}: {self.nothing}")
        return project(qid, distinct([*stored, *fresh]), [*problems, *(damaged if fresh else ())], waiting=len(fresh))

    @property
    def nothing(self) -> str:
        """Where there is nothing, in words; a folder that is not there is not called empty."""
        missing = self.missing
        where = f"nothing in {self.store.url}" if missing is None else f"the folder {missing} does not exist (yet)"
        return f"{where}, and nothing waits in {self.spool}"

    @property
    def missing(self) -> Path | None:
        """The store's folder if it does not exist: mistyped, or nothing was stored so far."""
        url = urlsplit(self.store.url)
        folder = Path(unquote(url.path))
        return folder if url.scheme == "file" and not folder.exists() else None

    def resolve(self, reference: str, day: date | None = None) -> str:
        """The qid that a reference means: see :meth:`PayloadStore.resolve`; the spool's qids count as well.

        A trace id that no qid begins with is looked for in the events that wait here and in those of the newest 500
        queries of the last 3 stored days.

        Args:
            reference: a qid, its beginning, a trace id, a traceparent, or a URL.
            day: look for a trace id around this UTC day instead, in at most 10,000 queries.

        Raises:
            InvalidQid: none of these forms.
            NotFound: no qid fits; the message says how far the search went.
            Ambiguous: several fit, or several queries are of one trace.
        """
        try:
            return self.resolve_qid(reference)
        except NotFound as error:
            trace_id = _trace_id(reference)
            if trace_id is None:
                raise
            found, searched = self.search_trace(trace_id, day)
            if not found and self.missing is not None:
                raise
            if not found:
                raise NotFound(f"{error}; no event of that trace in {searched}") from error
        if len(found) > 1:
            several = Ambiguous(trace_id, sorted(found))
            several.args = (f"trace {trace_id} has {len(found)} queries: {', '.join(sorted(found)[:5])}",)
            raise several
        return found.pop()

    def resolve_qid(self, reference: str) -> str:
        """As :meth:`resolve`, by qids alone: for what must not rest on a search that has a bound.

        Raises:
            InvalidQid, NotFound, Ambiguous: as there.
        """
        try:
            return self.store.resolve(reference, extra=sorted(waiting_qids(self.spool)))
        except NotFound as error:
            if self.missing is None:
                raise
            raise NotFound(f"{reference}: {self.nothing} under this id") from error

    def newest(self, limit: int, since: date | None = None, until: date | None = None) -> list[str]:
        """The newest qids, newest first: see :meth:`newest_first`."""
        return list(islice(self.newest_first(since, until), limit))

    def newest_first(self, since: date | None = None, until: date | None = None) -> Iterator[str]:
        """The qids, newest first: those that wait here, then those of the store, by the times of their ids.

        The time of an id that carries none is that at which it was first stored.
        """
        waiting = sorted(waiting_qids(self.spool), reverse=True)
        if since is not None or until is not None:
            waiting = [qid for qid in waiting if _within(carried_date(qid), since, until)]
        for qid in waiting:
            if self.store.erased_at(qid) is None:
                yield qid
        seen = set(waiting)
        yield from (qid for qid in self.store.newest(since, until) if qid not in seen)

    def entries_of_trace(self, trace_id: str, most: int = 100) -> set[str]:
        """The entry qids of a trace, by its id alone: stored (at most so many of a day), erased, or waiting here.

        Args:
            trace_id: 32 lower-case hexadecimal digits.
            most: of one day.
        """
        days = kept_days(self.store.objects)
        return qids_beginning(self.store.objects, f"{trace_id}-", days, waiting_qids(self.spool), most)

    def search_trace(self, trace_id: str, day: date | None = None) -> tuple[set[str], str]:
        """The queries with an event of this trace, and in words where they were looked for.

        Args:
            trace_id: 32 lower-case hexadecimal digits.
            day: as for :meth:`resolve`, which says also how far this goes.
        """
        found = {qid for qid in self._waiting_of_trace(trace_id) if self.store.erased_at(qid) is None}
        days = kept_days(self.store.objects)
        days = days[-_SEARCHED_DAYS:] if day is None else [kept for kept in days if abs((kept - day).days) <= 1]
        stored = sorted(self.store.qids(days[0], days[-1]), reverse=True) if days else []
        stored = stored[: _SEARCHED if day is None else _SEARCHED_AROUND]

        def carries(where: tuple[date, str]) -> bool:
            try:
                events = self.store.events(where[1], where[0]).events
            except Erased:  # meanwhile
                return False
            return any(event.get("trace_id") == trace_id for event in events)

        found |= {qid for (_, qid), fits in zip(stored, each(carries, stored), strict=True) if fits}
        where = f"what waits in {self.spool}"
        if stored:
            queries = len({qid for _, qid in stored})
            where = f"the newest {queries} queries stored from {stored[-1][0]} to {stored[0][0]}, or in {where}"
        return found, f"{where}; --date YYYY-MM-DD searches around another day"

    def _waiting_of_trace(self, trace_id: str) -> set[str]:
        found: set[str] = set()
        for path in files(self.spool):
            try:
                writer, _, waiting, _ = content(path)
            except FileNotFoundError:  # delivered since we looked
                continue
            for frame in waiting:
                for item in frames.expand(frame, writer, path.name):
                    if not isinstance(item, Problem) and item.get("trace_id") == trace_id:
                        found.add(frame.qid)
        return found


def _within(day: date | None, since: date | None, until: date | None) -> bool:
    return day is None or ((since is None or day >= since) and (until is None or day <= until))


def _trace_id(reference: str) -> str | None:
    """The trace id that a reference is or carries."""
    for beginning in read_reference(reference).beginnings:
        trace_id = beginning.removesuffix("-").lower()
        if is_trace_id(trace_id):
            return trace_id
    return None
