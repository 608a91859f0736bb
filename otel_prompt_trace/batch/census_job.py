"""The whole run: archived spans and stored payloads in; tables and a report out.

Invariants:

- Every query of the store is read, graded by the pure core, and stands in the report: with its calls, or with the
  reason why not. One query's fault never ends the run.
- Erased queries are in no table and in no list.
- The texts of one query at a time are in memory, and of spans the few columns that the join needs.
- What is seen over several calls only, in the order of time, is seen at the end, from sketches that hold no text.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from operator import itemgetter
from pathlib import Path

from otel_prompt_trace.batch.archive import Location, SpanArchive
from otel_prompt_trace.batch.join import Join, SpanCounts
from otel_prompt_trace.batch.parquet import Tables
from otel_prompt_trace.batch.payloads import Outcome, PayloadReader, list_qids, read_query
from otel_prompt_trace.batch.report import CallRow, CensusReport, Unjoined
from otel_prompt_trace.batch.rows import Row, shape_row
from otel_prompt_trace.batch.sketches import Sketches
from otel_prompt_trace.batch.tables import require_batch
from otel_prompt_trace.core.counting import CountTokens, TokenCounts
from otel_prompt_trace.core.events import Problem
from otel_prompt_trace.core.placement import Placement
from otel_prompt_trace.core.residuals.remainder import Remainders
from otel_prompt_trace.core.residuals.shapes import Shapes, shapes
from otel_prompt_trace.core.residuals.suspicion import Suspicion
from otel_prompt_trace.core.template import track
from otel_prompt_trace.core.text import encodable
from otel_prompt_trace.core.verdict import in_order, verdict

Progress = Callable[[int, "int | None"], None]

_SPANS_PER_STEP = 10_000


def run_census(
    store: PayloadReader,
    spans: Sequence[Location],
    out: Path | None,
    *,
    since: date | None = None,
    until: date | None = None,
    count_tokens: CountTokens | None = None,
    placements: Mapping[str, Placement] | None = None,
    progress: Progress | None = None,
) -> CensusReport:
    """Join spans to payloads, and take the census of every call.

    Args:
        store: where the payloads are.
        spans: span archives: files, folders, glob patterns, ``s3://`` URLs. Without any the join is left out, and
            nothing is said about spans.
        out: the folder for ``calls``, ``pieces``, ``gaps``, ``joins``, ``stages`` and ``shapes`` (``.parquet``); files
            of these names are replaced. None writes nothing.
        since, until: the first and the last UTC day that is looked at. A span belongs to the day of its qid, else of
            its start.
        count_tokens: a function of (text, model), as :func:`otel_prompt_trace.grade` takes it.
        placements: as it takes them, too.
        progress: called with the number of queries that are done and of all; the latter is None while spans are read.

    Raises:
        MissingDependency: the extra ``batch`` is not installed.
        ArchiveError: an archive that can't be read at all.
        ConfigurationError: ``out`` can't be written to.
        StoreUnreachable, StoreDenied: the store can't even be listed.
    """
    require_batch()
    archive = SpanArchive(spans) if spans else None
    with tempfile.TemporaryDirectory(prefix="prompt-trace-") as scratch:
        join, sketches = Join(Path(scratch)), Sketches(Path(scratch))
        try:
            run = _Run(store, join, sketches, count_tokens, placements, progress or _ignore, since, until)
            with Tables(out) as tables:
                run.take(archive, tables)
            return run.report(archive, tables)
        finally:
            sketches.close()
            join.close()


class _Run:
    """One run, and what it found so far."""

    def __init__(
        self,
        store: PayloadReader,
        join: Join,
        sketches: Sketches,
        count_tokens: CountTokens | None,
        placements: Mapping[str, Placement] | None,
        progress: Progress,
        since: date | None,
        until: date | None,
    ) -> None:
        self._store = store
        self._join = join
        self._sketches = sketches
        self._count_tokens = count_tokens
        self._placements = placements
        self._asked: Counter[tuple[str, str, str]] = Counter()
        self._progress = progress
        self._since = since
        self._until = until
        self._states: Counter[str] = Counter()
        self._suspicions: list[Suspicion] = []
        self._shapes = Shapes(0, 0, ())
        self._calls: list[Row] = []
        self._without_calls: list[str] = []
        self._failed: list[str] = []
        self._span_counts = SpanCounts(0, 0)
        self._span_problems: list[Problem] = []
        self._payload_problems: list[Problem] = []
        self._joins: Counter[str] = Counter()
        self._unjoined: dict[str, list[Unjoined]] = {"span_without_payload": [], "payload_without_span": []}

    def take(self, archive: SpanArchive | None, tables: Tables) -> None:
        """Read everything, join it, write the tables."""
        listing = list_qids(self._store, self._since, self._until)
        self._payload_problems += listing.problems
        if archive is not None:
            self._read_spans(archive)
        self._span_counts = self._join.close_spans()
        total = len(listing.qids)
        for done, (qid, day) in enumerate(listing.qids.items()):
            self._progress(done, total)
            outcome = read_query(self._store, qid, day, self._count_tokens, self._placements)
            if outcome.state == "absent":
                self._payload_problems.append(Problem(qid, 0, "was listed, and gone when it was to be read"))
            self._keep(qid, outcome, tables)
        unknown = self._join.unknown_qids()
        for done, qid in enumerate(unknown, total):
            self._progress(done, total + len(unknown))
            self._look_up(qid, tables)
        self._progress(total + len(unknown), total + len(unknown))
        self._look_across(tables)
        self._write(tables, joining=archive is not None)

    def report(self, archive: SpanArchive | None, tables: Tables) -> CensusReport:
        """What was found."""
        return CensusReport(
            rows=tuple(map(_report_row, self._calls)),
            queries=self._states["read"],
            without_calls=tuple(sorted(self._without_calls)),
            erased=self._states["erased"],
            failed=tuple(sorted(self._failed)),
            joins=dict(self._joins),
            spans_without_payload=tuple(self._unjoined["span_without_payload"]),
            payloads_without_span=tuple(self._unjoined["payload_without_span"]),
            spans=None if archive is None else self._span_counts.spans,
            duplicates=self._span_counts.duplicates,
            span_lines=0 if archive is None else archive.lines,
            span_problems=tuple(self._span_problems),
            payload_problems=tuple(self._payload_problems),
            shapes=self._shapes,
            suspicions=tuple(self._suspicions),
            left_out=() if archive is None else archive.left_out,
            templates=tuple(track(_template_counts(row) for row in sorted(self._calls, key=_when))),
            written=tables.written,
            placements=self._asked,
        )

    def _read_spans(self, archive: SpanArchive) -> None:
        for number, span in enumerate(archive):
            if number % _SPANS_PER_STEP == 0:
                self._progress(0, None)
            if isinstance(span, Problem):
                self._span_problems.append(span)
                continue
            if span.illegal_qid is not None:
                reason = f"span {span.span_id} of trace {span.trace_id} carries an illegal qid, {span.illegal_qid}"
                self._span_problems.append(Problem(span.source, span.line, reason))
            self._join.add_span(span, in_window=self._in_window(span.day))

    def _in_window(self, day: date | None) -> bool:
        if day is None:
            return self._since is None and self._until is None
        return (self._since is None or day >= self._since) and (self._until is None or day <= self._until)

    def _look_up(self, qid: str, tables: Tables) -> None:
        """A qid that spans carry and the listing did not show: erased, stored since, outside the window, or absent."""
        outcome = read_query(self._store, qid, None, self._count_tokens, self._placements)
        if outcome.state == "read" and not (self._since is None and self._until is None):
            self._join.add_query(qid, "outside")
        else:
            self._keep(qid, outcome, tables)

    def _keep(self, qid: str, outcome: Outcome, tables: Tables) -> None:
        self._states[outcome.state] += 1
        self._payload_problems += outcome.problems
        if outcome.state == "failed":
            self._failed.append(qid)
        rows = outcome.rows
        if rows is None:
            self._join.add_query(qid, outcome.state)
            return
        self._join.add_query(qid, "read", calls=len(rows.calls), unreadable=rows.unreadable)
        if not rows.calls:
            self._without_calls.append(qid)
        self._calls += rows.calls
        self._asked.update((again.name, again.status, again.detail) for again in rows.placements)
        for sketch in rows.sketches:
            self._sketches.add(sketch)
        for call, ids in zip(rows.calls, rows.ids, strict=True):
            self._join.add_call(call, ids)
        for stage, milliseconds in rows.stages.items():
            self._join.add_stage(qid, stage, milliseconds)
        for table, added in (("pieces", rows.pieces), ("gaps", rows.gaps)):
            for row in added:
                tables.add(table, row)

    def _look_across(self, tables: Tables) -> None:
        """What can be said of all calls together: who took in what others left, and the shapes of the gaps."""
        watch = Remainders()
        for sketch in self._sketches:
            watch.see(sketch)
        self._suspicions = list(watch.suspicions())
        suspected = {(s.qid, encodable(s.call)) for s in self._suspicions}
        for row in self._calls:
            if (row["qid"], row["call"]) in suspected:
                row["reasons"] = list(in_order({*row["reasons"], "remainder_suspected"}))
                row["verdict"] = verdict(row["reasons"])
        self._shapes = shapes(self._sketches)
        for shape in self._shapes.found:
            tables.add("shapes", shape_row(shape))

    def _write(self, tables: Tables, *, joining: bool) -> None:
        self._join.run()
        joined_by = self._join.joined_by()
        self._calls.sort(key=itemgetter("qid", "number"))
        for row in self._calls:
            row["joined_by"] = joined_by.get((row["qid"], row["call"]))
            row["span_joined"] = ("pass" if row["joined_by"] else "fail") if joining else "unknown"
            tables.add("calls", row)
        for stage in self._join.stages():
            tables.add("stages", stage)
        for join in self._join.rows() if joining else ():
            tables.add("joins", join)
            self._joins[join["state"]] += 1
            if join["state"] in self._unjoined:
                self._unjoined[join["state"]].append(_unjoined(join))


def _report_row(row: Row) -> CallRow:
    names = ("qid", "call", "number", "total", "covered", "unaccounted", "unlocatable", "verdict", "span_joined")
    return CallRow(**{name: row[name] for name in names}, reasons=tuple(row["reasons"]))


def _when(row: Row) -> tuple[int, str, int]:
    return row["ts"] or 0, row["qid"], row["number"]


def _template_counts(row: Row) -> tuple[str, int, TokenCounts]:
    counts = TokenCounts(
        row["model"], row["prompt_tokens"], around=row["template_around"], between=row["template_between"]
    )
    return row["qid"], row["number"], counts


def _unjoined(join: Row) -> Unjoined:
    return Unjoined(**{name: join[name] for name in ("qid", "call", "trace_id", "span_id", "span_name", "detail")})


def _ignore(_done: int, _total: int | None) -> None:
    """For a caller that watches no progress."""
