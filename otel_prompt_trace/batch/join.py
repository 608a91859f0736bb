"""The join of spans to payloads, in DuckDB; the rules are those of ``sql/join.sql``.

Invariants:

- Every call and every span that ought to have a payload is in the result, joined or named with a reason.
- The result does not depend on the order of spans, nor on how they lie in files.
- A span that an exporter wrote twice (same trace and span id) counts once; the number of repeats is kept.
- Nothing is written to the working directory: what does not fit in memory goes to the folder given.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from otel_prompt_trace.batch.rows import Row, digest_of
from otel_prompt_trace.batch.spans import Span
from otel_prompt_trace.batch.tables import JOINS, STAGES, Column, record_batch

if TYPE_CHECKING:
    import duckdb

QueryState = Literal["read", "failed", "absent", "erased", "outside"]

_ROWS = 10_000
_INPUT = {
    "read_span": (
        *(Column(name, "text", "") for name in ("trace_id", "span_id", "parent", "name", "service", "qid", "digest")),
        *(Column(name, "bool", "") for name in ("expects", "in_window")),
        *(Column(name, "int", "") for name in ("start_ns", "end_ns", "dropped")),
    ),
    "recorded": (
        Column("qid", "text", ""),
        Column("call", "text", ""),
        Column("number", "int", ""),
        Column("digest", "text", ""),
    ),
    "ids": tuple(Column(name, "text", "") for name in ("qid", "call", "trace_id", "span_id")),
    "query": (
        Column("qid", "text", ""),
        Column("state", "text", ""),
        Column("calls", "int", ""),
        Column("unreadable", "int", ""),
    ),
    "recorded_stage": (Column("qid", "text", ""), Column("stage", "text", ""), Column("ms", "int", "")),
}
_SQL_TYPES = {"text": "VARCHAR", "bool": "BOOLEAN", "int": "BIGINT"}


@dataclass(frozen=True, slots=True)
class SpanCounts:
    """How many spans an archive holds: ``spans`` distinct ones, and ``duplicates`` further copies of them."""

    spans: int
    duplicates: int


class Join:
    """One join: :meth:`add_span` for each, :meth:`close_spans`, then the queries and calls, then :meth:`run`.

    Args:
        scratch: a folder for what does not fit in memory.
    """

    def __init__(self, scratch: Path) -> None:
        import duckdb

        self._database: duckdb.DuckDBPyConnection = duckdb.connect(
            ":memory:", config={"temp_directory": str(scratch), "autoinstall_known_extensions": "false"}
        )
        self._waiting: dict[str, list[Row]] = {name: [] for name in _INPUT}
        for name, columns in _INPUT.items():
            described = ", ".join(f"{column.name} {_SQL_TYPES[column.type]}" for column in columns)
            self._database.execute(f"CREATE TABLE {name} ({described})")

    def add_span(self, span: Span, *, in_window: bool) -> None:
        """A span; ``in_window`` says whether its payload lies within the days that are looked at."""
        self._add(
            "read_span",
            {
                "trace_id": span.trace_id,
                "span_id": span.span_id,
                "parent": span.parent_span_id,
                "name": span.name,
                "service": span.service,
                "qid": span.qid,
                "digest": span.digest,
                "expects": span.expects_payload,
                "in_window": in_window,
                "start_ns": span.start_ns,
                "end_ns": span.end_ns,
                "dropped": span.dropped_attributes,
            },
        )

    def close_spans(self) -> SpanCounts:
        """All spans are read."""
        self._flush("read_span")
        self._database.execute(_sql("spans"))
        ((read, spans),) = self._all("SELECT (SELECT count(*) FROM read_span), (SELECT count(*) FROM span)")
        self._database.execute("DROP TABLE read_span")
        return SpanCounts(spans, read - spans)

    def add_query(self, qid: str, state: QueryState, *, calls: int = 0, unreadable: int = 0) -> None:
        """A query that was looked for, and what came of it."""
        self._add("query", {"qid": qid, "state": state, "calls": calls, "unreadable": unreadable})

    def add_call(self, row: Row, ids: Iterable[tuple[str, str]]) -> None:
        """A call: its row of ``calls``, and the trace and span ids under which it was recorded or seen."""
        key = {"qid": row["qid"], "call": row["call"]}
        self._add("recorded", {**key, "number": row["number"], "digest": digest_of(row)})
        for trace_id, span_id in ids:
            self._add("ids", {**key, "trace_id": trace_id, "span_id": span_id})

    def add_stage(self, qid: str, stage: str, milliseconds: int | None) -> None:
        """A stage as the query recorded it."""
        self._add("recorded_stage", {"qid": qid, "stage": stage, "ms": milliseconds})

    def unknown_qids(self) -> list[str]:
        """Qids of spans within the window that no :meth:`add_query` told of."""
        self._flush("query")
        found = self._all(
            "SELECT DISTINCT qid FROM span WHERE qid IS NOT NULL AND in_window"
            " AND qid NOT IN (SELECT qid FROM query) ORDER BY qid"
        )
        return [qid for (qid,) in found]

    def run(self) -> None:
        """Apply the rules."""
        for name in ("query", "recorded", "ids", "recorded_stage"):
            self._flush(name)
        self._database.execute(_sql("join"))

    def rows(self) -> Iterator[Row]:
        """The rows of ``joins``, ordered by query, call and time."""
        return self._stream(_sql("joins"), JOINS)

    def stages(self) -> Iterator[Row]:
        """The rows of ``stages``."""
        return self._stream(_sql("stages"), STAGES)

    def joined_by(self) -> dict[tuple[str, str], str]:
        """For each call that has a span of its own: by what it was found."""
        found = self._all("SELECT qid, call, min(joined_by) FROM joined WHERE joined_by <> 'nesting' GROUP BY ALL")
        return {(qid, call): joined_by for qid, call, joined_by in found}

    def close(self) -> None:
        """Free everything."""
        self._database.close()

    def _add(self, table: str, row: Row) -> None:
        waiting = self._waiting[table]
        waiting.append(row)
        if len(waiting) >= _ROWS:
            self._flush(table)

    def _flush(self, table: str) -> None:
        rows = self._waiting[table]
        if rows:
            import pyarrow as pa

            batch = record_batch(_INPUT[table], rows)
            self._database.register("incoming", pa.Table.from_batches([batch]))
            self._database.execute(f"INSERT INTO {table} SELECT * FROM incoming")  # noqa: S608 - a name of _INPUT
            self._database.unregister("incoming")
            self._waiting[table] = []

    def _all(self, query: str) -> list[tuple[Any, ...]]:
        return self._database.execute(query).fetchall()

    def _stream(self, query: str, columns: Sequence[Column]) -> Iterator[Row]:
        names = [column.name for column in columns]
        cursor = self._database.cursor().execute(query)
        while rows := cursor.fetchmany(_ROWS):
            yield from (dict(zip(names, row, strict=False)) for row in rows)


def _sql(name: str) -> str:
    return resources.files("otel_prompt_trace.batch").joinpath("sql", f"{name}.sql").read_text("utf-8")
