"""The other pages: the queries of a trace, what is wrong with a request and what to do next, and the front page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import orjson

from otel_prompt_trace.core.published import published
from otel_prompt_trace.viewer.finding import OfTrace, Row
from otel_prompt_trace.viewer.html import Html, document, link, note, state, table, tag
from otel_prompt_trace.viewer.pages import brief, standing

_RECORDS_BYTES = 64 * 1024 * 1024  # of records in one answer; further ones are named with their address


def trace_page(found: OfTrace, rows: Sequence[Row], jaeger: str | None) -> bytes:
    """The queries of a trace, one a row."""
    back = note(link(jaeger, "this trace in Jaeger")) if jaeger else Html()
    columns = ("query", "time", "question", "calls", "verdict", "state", "found by")
    return document(
        f"trace {found.trace_id} · prompt-trace",
        tag("h1", f"trace {found.trace_id}"),
        back,
        table(columns, [_row(row) for row in rows], most=len(rows)),
        *(note(text) for text in found.notes),
        note(link(f"/t/{found.trace_id}?format=json", "as JSON")),
    )


def trace_json(found: OfTrace, rows: Iterable[Row]) -> bytes:
    """The same with each query's record, as ``prompt-trace get`` prints it, up to 64 MiB of them."""
    queries: list[dict[str, Any]] = []
    room = _RECORDS_BYTES
    for row in rows:
        query: dict[str, Any] = {"qid": row.qid, "found_by": row.found_by, "href": f"/q/{row.qid}?format=json"}
        if row.shown is None:
            query["problem"] = row.problem
        else:
            query["state"] = standing(row.shown.record)
            written = orjson.dumps(published(row.shown.record, row.shown.grade))
            room -= len(written)
            if room < 0 and queries:
                query["problem"] = "the record is at its own address: this answer would be too large"
            else:
                query["record"] = orjson.Fragment(written)
        queries.append(query)
    return orjson.dumps({"trace_id": found.trace_id, "queries": queries, "notes": list(found.notes)})


def problem_page(title: str, message: str, nexts: Sequence[Html | str], candidates: Sequence[str] = ()) -> bytes:
    """What is wrong, and what to do next."""
    return document(
        f"{title} · prompt-trace",
        tag("h1", title),
        tag("p", message),
        tag("ul", *(tag("li", link(f"/q/{qid}", qid)) for qid in candidates)) if candidates else Html(),
        tag("ul", *(tag("li", each) for each in nexts)) if nexts else Html(),
    )


def front_page(store: str, spool: str, newest: Sequence[str]) -> bytes:
    """What can be asked here."""
    return document(
        "prompt-trace",
        tag("h1", "prompt-trace"),
        tag("p", "What language models were told, by query id."),
        tag(
            "ul",
            tag("li", tag("code", "/q/<qid>"), " the record of a query"),
            tag("li", tag("code", "/t/<trace id>"), " the queries of a trace"),
            tag("li", "either as JSON with ", tag("code", "?format=json"), " or ", tag("code", ".json")),
        ),
        tag("h2", "newest queries"),
        tag("ul", *(tag("li", link(f"/q/{qid}", qid)) for qid in newest)) if newest else note("none so far"),
        note(f"read from {store}, and from what waits in {spool}"),
    )


def _row(row: Row) -> tuple[object, ...]:
    address = link(f"/q/{row.qid}", row.qid)
    if row.shown is None:
        return address, "", tag("span", row.problem, class_="note"), "", "", "", row.found_by
    record, grade = row.shown.record, row.shown.grade
    query = record.query or (record.events[0] if record.events else {})
    question, ts = brief(query.get("question")), brief(query.get("ts"))
    return address, ts, question, len(record.calls), state(grade.verdict), state(standing(record)), row.found_by
