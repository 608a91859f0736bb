"""Queries of a store, read and graded one at a time; whatever goes wrong with one is its own outcome.

Invariants:

- Whether a query is missing is asked of the store by name, never concluded from a listing.
- Every problem is named: an object or a line that can't be read, an event of an unknown major version, a query that
  can't be read or graded at all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Literal, Protocol

from otel_prompt_trace.batch.rows import QueryRows, query_rows
from otel_prompt_trace.core.counting import CountTokens
from otel_prompt_trace.core.events import Event, Problem, identity
from otel_prompt_trace.core.grade import grade
from otel_prompt_trace.core.placement import Placement
from otel_prompt_trace.core.qid import carried_date
from otel_prompt_trace.core.record import project
from otel_prompt_trace.exceptions import Erased, NotFound, PromptTraceError, StoreError


class Found(Protocol):
    """What is stored under one qid: its events, and what could not be read as an event."""

    @property
    def events(self) -> Sequence[Event]:
        """The events, in any order."""
        ...

    @property
    def problems(self) -> Sequence[Problem]:
        """What could not be read as an event."""
        ...


class PayloadReader(Protocol):
    """The part of :class:`otel_prompt_trace.store.PayloadStore` that the batch needs."""

    def qids(self, since: date | None = None, until: date | None = None, /) -> Iterator[tuple[date, str]]:
        """Day and qid of what is stored from ``since`` to ``until`` (included), without what was erased.

        A qid may come once for each of its days.
        """
        ...

    def events(self, qid: str, day: date | None = None, /) -> Found:
        """Everything under ``qid``, nothing if there is none; with ``day`` only of that UTC day and its neighbours.

        Raises:
            Erased: the qid has a tombstone.
            StoreError: nothing can be said about it.
        """
        ...


@dataclass(frozen=True, slots=True)
class Listing:
    """The qids of a store, each with the day around which all of it lies; None where that is not certain."""

    qids: dict[str, date | None]
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of reading one query; ``rows`` are there if and only if ``state`` is ``read``."""

    state: Literal["read", "failed", "absent", "erased"]
    problems: tuple[Problem, ...] = ()
    rows: QueryRows | None = None


def list_qids(store: PayloadReader, since: date | None, until: date | None) -> Listing:
    """What the store lists.

    Raises:
        StoreError: it can't be listed at all; if it fails later, that is a problem of the listing.
    """
    days: dict[str, list[date]] = {}
    problems: tuple[Problem, ...] = ()
    try:
        for day, qid in store.qids(since, until):
            days.setdefault(qid, []).append(day)
    except StoreError as error:
        if not days:
            raise
        problems = (Problem("the store's listing", 0, f"it ended early, so some queries may be missing: {error}"),)
    if problems or since is not None or until is not None:
        return Listing(dict.fromkeys(days), problems)  # other days of a qid may not have been listed
    return Listing({qid: None if carried_date(qid) else _middle(found) for qid, found in days.items()})


def read_query(
    store: PayloadReader,
    qid: str,
    day: date | None,
    count_tokens: CountTokens | None,
    placements: Mapping[str, Placement] | None = None,
) -> Outcome:
    """Read and grade one query. Raises nothing but what is no :class:`Exception`."""
    try:
        found = store.events(qid) if day is None else store.events(qid, day)
    except Erased:
        return Outcome("erased")
    except NotFound:
        return Outcome("absent")
    except PromptTraceError as error:
        return Outcome("failed", (Problem(qid, 0, f"can't be read: {error}"),))
    problems = tuple(found.problems)
    if not found.events:
        return Outcome("failed" if problems else "absent", problems)
    try:
        record = project(qid, found.events, problems)
        rows = query_rows(record, grade(record, count_tokens, placements))
    except Exception as error:  # noqa: BLE001 - an event holds anything that somebody wrote: it is one query's fault
        return Outcome("failed", (*problems, Problem(qid, 0, f"can't be graded: {type(error).__name__}")))
    return Outcome("read", problems + tuple(map(_uninterpreted, record.unreadable)), rows)


def _uninterpreted(event: Event) -> Problem:
    writer, seq = identity(event)
    reason = f"event {seq} of writer {writer} has schema version {str(event.get('v'))[:20]!r}: kept, not interpreted"
    return Problem(str(event.get("qid")), 0, reason)


def _middle(days: list[date]) -> date | None:
    """A day of which all others are neighbours."""
    middle = sorted(days)[len(days) // 2]
    return middle if all(abs((day - middle).days) <= 1 for day in days) else None
