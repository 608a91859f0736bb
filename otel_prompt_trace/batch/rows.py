"""A graded call as rows of the tables.

Invariants:

- Nothing is computed here that a verdict rests on: rows say what the grade says.
- Text that a policy cut is in no row, and no filler stands in for it.
- A field of an event is anything that somebody wrote. What does not fit its column is null, never an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

from otel_prompt_trace.core.again import Again
from otel_prompt_trace.core.call import Call
from otel_prompt_trace.core.census import Census, Gap
from otel_prompt_trace.core.grade import CallGrade, Grade, sketches
from otel_prompt_trace.core.pieces import Placed
from otel_prompt_trace.core.qid import is_span_id, is_trace_id
from otel_prompt_trace.core.record import Record
from otel_prompt_trace.core.residuals.shapes import Shape
from otel_prompt_trace.core.residuals.sketch import Sketch
from otel_prompt_trace.core.seal import prompt_digest
from otel_prompt_trace.core.text import encodable
from otel_prompt_trace.core.usage import normalize

Row = dict[str, Any]

_INT64 = range(-(2**63), 2**63)
_RFC3339 = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(?:Z|\+00:00)")
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


@dataclass(frozen=True, slots=True)
class QueryRows:
    """The rows of one graded query, and what the join needs beside them.

    ``ids`` holds, for each of ``calls``, the trace and span ids under which it was recorded or seen. ``stages`` are
    the recorded milliseconds by stage. ``unreadable`` is the number of events that can't be interpreted. ``placements``
    is what came of asking placements again. ``sketches`` are its calls as they are compared with those of other
    queries.
    """

    calls: tuple[Row, ...]
    ids: tuple[tuple[tuple[str, str], ...], ...]
    pieces: tuple[Row, ...]
    gaps: tuple[Row, ...]
    stages: dict[str, int | None]
    unreadable: int
    placements: tuple[Again, ...] = ()
    sketches: tuple[Sketch, ...] = ()


def query_rows(record: Record, grade: Grade) -> QueryRows:
    """Everything that a graded query puts into the tables."""
    counted = [(call_id(g.call), g.census) for g in grade.calls if g.census is not None]
    return QueryRows(
        calls=tuple(call_row(record, g) for g in grade.calls),
        ids=tuple(tuple(span_ids(g.call)) for g in grade.calls),
        pieces=tuple(row for call, census in counted for row in piece_rows(record.qid, call, census)),
        gaps=tuple(row for call, census in counted for row in gap_rows(record.qid, call, census)),
        stages={stage: integer(milliseconds) for stage, milliseconds in record.ms.items()},
        unreadable=len(record.unreadable),
        placements=tuple(g.again for g in grade.calls if g.again is not None),
        sketches=sketches(record, grade),
    )


def call_row(record: Record, grade: CallGrade) -> Row:
    """The row of ``calls``, less what only the join can say."""
    call, census = grade.call, grade.census
    request, response = call.request or {}, call.response or {}
    usage = normalize(response.get("usage")) if isinstance(response.get("usage"), dict) else {}
    trace_id, span_id = next(iter(span_ids(call)), (None, None))
    return {
        "qid": record.qid,
        "call": call_id(call),
        "number": call.number,
        "ts": nanoseconds((request or response).get("ts")),
        "service": text((request or response).get("service")),
        "model": text(request.get("model")),
        "evidence": text(call.evidence),
        **_counts(census),
        "verdict": grade.verdict,
        "reasons": list(grade.reasons),
        "failed_checks": [check.name for check in grade.checks if check.status == "fail"],
        **_digest(request),
        "prompt_tokens": integer(grade.prompt_tokens),
        "chunk_tokens": integer(grade.tokens.chunks),
        "template_tokens": integer(grade.tokens.template),
        "template_around": integer(grade.tokens.around),
        "template_between": integer(grade.tokens.between),
        "input_tokens": integer(usage.get("input_tokens")),
        "output_tokens": integer(usage.get("output_tokens")),
        "finish_reason": text(response.get("finish_reason")),
        "unfinished": call.unfinished,
        "trace_id": trace_id,
        "span_id": span_id,
    }


def call_id(call: Call) -> str:
    """The call's id as every table has it."""
    identifier: str = encodable(call.id)
    return identifier


def piece_rows(qid: str, call: str, census: Census) -> Iterator[Row]:
    """The rows of ``pieces``."""
    for ordinal, placed in enumerate(census.pieces, 1):
        piece = placed.piece
        yield {
            "qid": qid,
            "call": call,
            "ordinal": ordinal,
            "producer": text(piece.producer),
            "source_id": text(piece.source_id),
            "trust": text(piece.trust),
            "state": placed.state,
            "segment": placed.segment,
            "path": None if placed.segment is None else census.segments[placed.segment].path,
            "start": placed.start,
            "end": placed.end,
            "chars": integer(piece.length),
            "note": placed.note or None,
            **_hint(placed, census),
            "inferred": piece.inferred,
            "offered": piece.offered,
        }


def gap_rows(qid: str, call: str, census: Census) -> Iterator[Row]:
    """The rows of ``gaps``."""
    for ordinal, gap in enumerate(census.gaps, 1):
        yield {
            "qid": qid,
            "call": call,
            "ordinal": ordinal,
            "segment": gap.segment,
            "path": gap.path,
            "start": gap.start,
            "end": gap.end,
            "chars": len(gap),
            "text": None if _cut(gap, census) else gap.text,
        }


def shape_row(shape: Shape) -> Row:
    """The row of ``shapes``."""
    return {
        "shape": shape.shape,
        "cause": shape.cause,
        "place": encodable(shape.place),
        "paths": [encodable(path) for path in shape.paths],
        "calls": shape.calls,
        "share": shape.share,
        "texts": shape.texts,
        "chars": shape.chars,
        "chars_least": shape.least,
        "chars_most": shape.most,
        "chars_total": shape.total,
        "cached_with": shape.cached.with_it,
        "reported_with": shape.cached.of_with,
        "cached_without": shape.cached.without,
        "reported_without": shape.cached.of_without,
        "first_qid": shape.origin.qid,
        "example_qid": shape.example.qid,
        "example_call": shape.example.number,
        "example_segment": shape.example.segment,
        "example_start": shape.example.start,
        "example_end": shape.example.end,
    }


def span_ids(call: Call) -> dict[tuple[str, str], None]:
    """Trace and span ids under which the call was recorded or seen, each once, the request's own first."""
    ids: dict[tuple[str, str], None] = {}
    for event in call.requests or call.responses:
        ids.update(_pair(event.get("trace_id"), event.get("span_id")))
    for told in call.seen:
        ids.update(_pair(told.trace_id, told.span_id))
    return ids


def digest_of(row: Row) -> str | None:
    """The digest of the prompt, keyed or not: what a span names under ``prompt_trace.sha256``."""
    digest: str | None = row["prompt_sha256"] or row["prompt_hmac_sha256"]
    return digest


def nanoseconds(ts: object) -> int | None:
    """Nanoseconds since 1970 of an RFC 3339 time in UTC; None for anything else."""
    parts = _RFC3339.fullmatch(ts) if isinstance(ts, str) else None
    if parts is None:
        return None
    try:
        seconds = (datetime.fromisoformat(parts[1]).replace(tzinfo=timezone.utc) - _EPOCH) // timedelta(seconds=1)
    except ValueError:  # the 31st of February
        return None
    return integer(seconds * 1_000_000_000 + int((parts[2] or "0").ljust(9, "0")))


def text(value: object) -> str | None:
    """``value`` if it is a text."""
    return value if isinstance(value, str) else None


def integer(value: object) -> int | None:
    """``value`` if it is a whole number that 64 bits hold."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value in _INT64 else None


def _hint(placed: Placed, census: Census) -> Row:
    hint = placed.hint
    if hint is None:
        return dict.fromkeys(("reason", "reason_segment", "reason_path", "reason_start", "reason_end"))
    return {
        "reason": hint.reason,
        "reason_segment": hint.segment,
        "reason_path": census.segments[hint.segment].path,
        "reason_start": hint.start,
        "reason_end": hint.end,
    }


def _counts(census: Census | None) -> Row:
    if census is None:
        return dict.fromkeys(("total", "covered", "unaccounted", "unlocatable", "pieces", "gaps"))
    return {
        "total": census.total,
        "covered": census.covered,
        "unaccounted": census.unaccounted,
        "unlocatable": len(census.unlocatable),
        "pieces": len(census.pieces),
        "gaps": len(census.gaps),
    }


def _digest(request: dict[str, Any]) -> Row:
    segments = [segment for segment in request.get("segments") or () if isinstance(segment, dict)]
    keyed = "hmac_sha256" in request or any("hmac_sha256" in segment for segment in segments)
    digest = prompt_digest(request)
    return {"prompt_sha256": None if keyed else digest, "prompt_hmac_sha256": digest if keyed else None}


def _pair(trace_id: object, span_id: object) -> dict[tuple[str, str], None]:
    if not (isinstance(trace_id, str) and isinstance(span_id, str)):
        return {}
    trace, span = trace_id.lower(), span_id.lower()
    return {(trace, span): None} if is_trace_id(trace) and is_span_id(span) else {}


def _cut(gap: Gap, census: Census) -> bool:
    return any(start < gap.end and gap.start < end for start, end in census.segments[gap.segment].cuts)
