"""What a run found: for a person (:meth:`CensusReport.lines`), for a program (:meth:`CensusReport.to_dict`).

Nothing that went wrong is only counted: each problem, each span without payload and each payload without span is
listed. No text of a prompt is in a report.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from otel_prompt_trace.core.again import summary
from otel_prompt_trace.core.events import Problem
from otel_prompt_trace.core.residuals.shapes import Shapes
from otel_prompt_trace.core.residuals.suspicion import Suspicion, by_producer
from otel_prompt_trace.core.template import TemplateTrack
from otel_prompt_trace.core.text import encodable
from otel_prompt_trace.core.verdict import Verdict, worst

COLUMNS = ("qid", "call", "total", "covered", "unaccounted", "unlocatable", "verdict", "reasons", "span")

NO_SHAPES = Shapes(0, 0, ())


@dataclass(frozen=True, slots=True)
class CallRow:
    """One call. Counts are characters (``unlocatable``: pieces), None where no prompt was recorded.

    ``number`` counts the query's calls from 1. ``span_joined`` is the check of that name: pass or fail, and unknown
    where no spans were given.
    """

    qid: str
    call: str
    number: int
    total: int | None
    covered: int | None
    unaccounted: int | None
    unlocatable: int | None
    verdict: Verdict
    reasons: tuple[str, ...]
    span_joined: str

    @property
    def cells(self) -> tuple[str, ...]:
        """The row as text, one cell for each of :data:`COLUMNS`."""
        counts = (self.total, self.covered, self.unaccounted, self.unlocatable)
        shown = ("-" if count is None else str(count) for count in counts)
        span = {"pass": "joined", "fail": "none", "unknown": "?"}[self.span_joined]
        return (self.qid, str(self.number), *shown, self.verdict, ", ".join(self.reasons), span)


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums over the calls: of the counts, and of calls by verdict."""

    calls: int
    total: int
    covered: int
    unaccounted: int
    unlocatable: int
    exact: int
    mismatch: int
    unknown: int


@dataclass(frozen=True, slots=True)
class Unjoined:
    """A span without payload (``call`` is None), or a payload without span. ``detail`` says why."""

    qid: str | None
    call: str | None
    trace_id: str | None
    span_id: str | None
    span_name: str | None
    detail: str

    def __str__(self) -> str:
        span = None if self.span_id is None else f"span {self.span_id} of trace {self.trace_id}"
        named = f"{span} ({self.span_name})" if span and self.span_name else span
        call = None if self.call is None else f"call {self.call}"
        query = None if self.qid is None else f"query {self.qid}"
        parts = (query, call, named) if self.call is not None else (named, query)
        return f"{', '.join(part for part in parts if part)}: {self.detail}"


@dataclass(frozen=True, slots=True)
class CensusReport:
    """The result of :func:`run_census`.

    Attributes:
        rows: every call, by query and number.
        queries: queries that were read.
        without_calls: queries among them that hold no call.
        erased: queries that are hidden because they were erased; only those that a span names are counted.
        failed: queries that could not be read or graded; each has its problem.
        joins: number of rows of the table joins, by state.
        spans_without_payload, payloads_without_span: each of those rows that is not joined.
        spans, duplicates, span_lines: distinct spans, further copies of them, and lines read; None if no archive was
            given.
        span_problems: what of the archives could not be read.
        payload_problems: what of the store could not be read or interpreted.
        shapes: how the gaps behave over the calls, and why.
        suspicions: calls with a producer that took in what others left; the calls' verdicts say so already.
        left_out: files of the given folders and buckets that were not read, for their names.
        templates: for each model, the tokens of its calls' template, and where they changed.
        written: the Parquet files.
        placements: what came of asking the calls' placements again: name, status and detail, with the number of calls.
    """

    rows: tuple[CallRow, ...]
    queries: int = 0
    without_calls: tuple[str, ...] = ()
    erased: int = 0
    failed: tuple[str, ...] = ()
    joins: Mapping[str, int] = field(default_factory=dict)
    spans_without_payload: tuple[Unjoined, ...] = ()
    payloads_without_span: tuple[Unjoined, ...] = ()
    spans: int | None = None
    duplicates: int = 0
    span_lines: int = 0
    span_problems: tuple[Problem, ...] = ()
    payload_problems: tuple[Problem, ...] = ()
    shapes: Shapes = NO_SHAPES
    suspicions: tuple[Suspicion, ...] = ()
    left_out: tuple[str, ...] = ()
    templates: tuple[TemplateTrack, ...] = ()
    written: tuple[Path, ...] = ()
    placements: Mapping[tuple[str, str, str], int] = field(default_factory=dict)

    @property
    def problems(self) -> tuple[Problem, ...]:
        """All of them: those of the archives, then those of the store."""
        return self.span_problems + self.payload_problems

    @property
    def verdict(self) -> Verdict:
        """The worst of the calls' verdicts; unknown for none, and where anything is not joined or not readable."""
        found = worst(row.verdict for row in self.rows) or "unknown"
        return "unknown" if found == "exact" and self._open else found

    @property
    def exit_code(self) -> int:
        """0 all exact and joined, 1 a mismatch, 3 nothing worse than unknown."""
        return {"exact": 0, "mismatch": 1, "unknown": 3}[self.verdict]

    @property
    def totals(self) -> Totals:
        """Sums over all calls; a call without a prompt adds nothing to the counts."""
        verdicts = [row.verdict for row in self.rows]
        return Totals(
            calls=len(self.rows),
            total=sum(row.total or 0 for row in self.rows),
            covered=sum(row.covered or 0 for row in self.rows),
            unaccounted=sum(row.unaccounted or 0 for row in self.rows),
            unlocatable=sum(row.unlocatable or 0 for row in self.rows),
            exact=verdicts.count("exact"),
            mismatch=verdicts.count("mismatch"),
            unknown=verdicts.count("unknown"),
        )

    def table(self) -> list[tuple[str, ...]]:
        """A row of cells for each call, under :data:`COLUMNS`."""
        return [row.cells for row in self.rows]

    def notes(self) -> Iterator[str]:
        """All that stands below the table, a line each: sums, then whatever is not as it should be, by name."""
        sums = self.totals
        yield (
            f"{sums.calls} calls of {self.queries} queries: {sums.exact} exact, {sums.mismatch} mismatch, "
            f"{sums.unknown} unknown"
        )
        yield (
            f"{sums.total} characters: {sums.covered} covered, {sums.unaccounted} unaccounted; "
            f"{sums.unlocatable} pieces unlocatable"
        )
        if self.spans is not None:
            repeated = f", {self.duplicates} repeated and counted once" if self.duplicates else ""
            yield f"{self.spans} spans in {self.span_lines} lines{repeated}; {self.joins.get('joined', 0)} joins"
        if self.erased:
            yield f"{self.erased} erased queries are hidden"
        for template in self.templates:
            yield encodable(template.sentence)
        for title, items in self._named():
            if items:
                yield f"{title}: {len(items)}"
                yield from (f"  {item}" for item in items)

    def lines(self) -> Iterator[str]:
        """The whole report as plain text."""
        cells = [COLUMNS, *self.table()]
        widths = [max(len(row[column]) for row in cells) for column in range(len(COLUMNS))]
        for row in cells:
            yield "  ".join(
                cell.rjust(width) if 1 <= column <= 5 else cell.ljust(width)
                for column, (cell, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
        yield ""
        yield from self.notes()

    def to_dict(self) -> dict[str, Any]:
        """The report as JSON carries it."""
        sums = self.totals
        return {
            "verdict": self.verdict,
            "exit_code": self.exit_code,
            "totals": _fields(sums),
            "queries": self.queries,
            "without_calls": list(self.without_calls),
            "erased": self.erased,
            "failed": list(self.failed),
            "calls": [{**_fields(row), "reasons": list(row.reasons)} for row in self.rows],
            "joins": dict(self.joins),
            "spans": self.spans,
            "duplicate_spans": self.duplicates,
            "span_lines": self.span_lines,
            "spans_without_payload": [_fields(item) for item in self.spans_without_payload],
            "payloads_without_span": [_fields(item) for item in self.payloads_without_span],
            "problems": [
                {"source": encodable(problem.source), "line": problem.line or None, "reason": problem.reason}
                for problem in self.problems
            ],
            "shapes": [encodable(shape.to_dict()) for shape in self.shapes.found],
            "suspicions": [encodable(suspicion.to_dict()) for suspicion in self.suspicions],
            "left_out": [encodable(name) for name in self.left_out],
            "templates": [encodable(template.sentence) for template in self.templates],
            "written": [encodable(str(path)) for path in self.written],
            "placements": [
                {"name": encodable(name), "status": status, "detail": encodable(detail), "calls": calls}
                for (name, status, detail), calls in sorted(self.placements.items())
            ],
        }

    @property
    def _open(self) -> bool:
        """Whether anything stands against calling the whole exact."""
        return bool(
            self.spans_without_payload
            or self.payloads_without_span
            or self.without_calls
            or self.failed
            or self.span_problems
            or self.payload_problems
        )

    def _named(self) -> tuple[tuple[str, Sequence[object]], ...]:
        found = self.shapes.found
        return (
            (
                "shapes of what nobody declared",
                [f"{s.shape}, likely {s.cause}: {s}; first in {s.origin.qid}" for s in found],
            ),
            ("producers that took in what others left", by_producer(self.suspicions)),
            ("spans without payload", self.spans_without_payload),
            ("payloads without span", self.payloads_without_span),
            ("queries without a call", self.without_calls),
            ("problems in the span archives", [_shown(problem) for problem in self.span_problems]),
            ("problems in the payloads", [_shown(problem) for problem in self.payload_problems]),
            ("files left out, by their names", self.left_out),
            ("placements", summary(self.placements)),
        )


def _shown(problem: Problem) -> str:
    where = encodable(problem.source)
    return f"{where}:{problem.line}: {problem.reason}" if problem.line else f"{where}: {problem.reason}"


def _fields(item: CallRow | Totals | Unjoined) -> dict[str, Any]:
    return {name: getattr(item, name) for name in item.__dataclass_fields__}
