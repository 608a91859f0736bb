"""What an address names: the record of a qid, or the queries of a trace.

A trace's queries are found by three ways: entry qids begin with its id; the spans that Jaeger has of it name the
others; where neither knows any, the events of the newest queries are searched, as ``prompt-trace show`` does.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date

from otel_prompt_trace import tokens
from otel_prompt_trace.core.grade import Grade, grade
from otel_prompt_trace.core.qid import is_trace_id
from otel_prompt_trace.core.record import Record
from otel_prompt_trace.core.text import as_text
from otel_prompt_trace.exceptions import NotFound, PromptTraceError, StoreError
from otel_prompt_trace.records import Records
from otel_prompt_trace.viewer.jaeger import Jaeger

_LISTED = 100  # queries of one trace
_SECONDS = 10.0  # after which further queries of a trace are named and not read
_COUNTED = 2_000_000  # characters; a page does not wait for the tokens of a longer text


@dataclass(frozen=True, slots=True)
class Shown:
    """A record and what may be said of it."""

    record: Record
    grade: Grade

    @property
    def traces(self) -> list[str]:
        """The trace ids of its events, each once; those that are none are left out."""
        found = (as_text(event.get("trace_id")) for event in self.record.events)
        return [trace for trace in dict.fromkeys(found) if is_trace_id(trace)]


@dataclass(frozen=True, slots=True)
class OfTrace:
    """The queries of one trace.

    ``found_by`` says of each qid how it was found: ``id``, ``jaeger`` or ``events``. ``notes`` say what could not be
    asked, and how far a search went.
    """

    trace_id: str
    found_by: dict[str, str]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Row:
    """One query of a trace: with its record, or with why there is none."""

    qid: str
    found_by: str
    shown: Shown | None = None
    problem: str = ""


def find_record(source: Records, reference: str, day: date | None) -> Shown:
    """The record that a qid, its unique beginning, a trace id or a traceparent names.

    Raises:
        InvalidQid, NotFound, Ambiguous, Erased, StoreError: as :class:`Records` has it.
    """
    record = source.get(source.resolve_qid(reference), day)
    return Shown(record, grade(record, _count_tokens))


def find_trace(source: Records, jaeger: Jaeger | None, trace_id: str, day: date | None) -> OfTrace:
    """The queries of a trace, at most 100.

    Raises:
        NotFound: none is known here, with how far the search went.
        StoreError: the store can't be read.
    """
    notes = []
    found = dict.fromkeys(sorted(source.entries_of_trace(trace_id, _LISTED)), "id")
    if jaeger is not None:
        told = jaeger.qids(trace_id)
        notes += [told.fault] if told.fault else []
        found = dict.fromkeys(told.qids, "jaeger") | found
    if not found:
        qids, searched = source.search_trace(trace_id, day)
        found = dict.fromkeys(sorted(qids), "events")
        if not found:
            raise NotFound("; ".join([f"no query of trace {trace_id} in {searched}", *notes]))
        notes.append(f"found by their events in {searched}; there may be more")
    if len(found) > _LISTED:
        notes.append(f"{len(found):,} queries are known; {_LISTED} are listed")
    return OfTrace(trace_id, dict(list(found.items())[:_LISTED]), tuple(notes))


def read_rows(source: Records, found: OfTrace, day: date | None) -> Iterator[Row]:
    """Each query of a trace with its record, in order."""
    until = time.monotonic() + _SECONDS
    for qid, found_by in found.found_by.items():
        if time.monotonic() > until:
            yield Row(qid, found_by, problem="not read here, since that would take long: open it")
            continue
        try:
            record = source.get(qid, day)
            yield Row(qid, found_by, Shown(record, grade(record, _count_tokens)))
        except StoreError:
            raise
        except PromptTraceError as error:  # erased, or not here
            yield Row(qid, found_by, problem=str(error))


def _count_tokens(text: str, model: str) -> int | None:
    return tokens.count(text, model) if len(text) <= _COUNTED else None
