"""``show``, ``get`` and ``ls``: read records."""

from __future__ import annotations

import sys
from datetime import date
from typing import Any

import click

from otel_prompt_trace.cli.app import Day, as_json, count_tokens, places, records
from otel_prompt_trace.cli.output import console, mark, print_json, shorten, table
from otel_prompt_trace.core.events import Event
from otel_prompt_trace.core.grade import CallGrade, grade
from otel_prompt_trace.core.published import published
from otel_prompt_trace.core.record import Call, Record
from otel_prompt_trace.core.text import CutText, utf8, wrap
from otel_prompt_trace.exceptions import NotFound, PromptTraceError
from otel_prompt_trace.settings import Settings

_TEXT_FIELDS = ("question", "output", "text", "comment", "result")
_SHOWN = ("model", "evidence", "producer", "source_id", "trust", "top_k", "finish_reason", "name", "score", "error")


@click.command()
@click.argument("qid")
@click.option("--date", "day", type=Day(), help="The UTC day of an id that carries none.")
@places
@as_json
def show(settings: Settings, qid: str, day: date | None, json_: bool) -> int:
    """One row per event, then what may be said of each call."""
    source = records(settings)
    record = source.get(source.resolve(qid), day)
    graded = grade(record, count_tokens)
    if json_:
        print_json({"record": published(record, graded), "events": wrap(list(record.events))})
        return graded.exit_code
    stored = len(record.events) - record.waiting
    out = console()
    out.print(f"[bold]{record.qid}[/]  stored {stored}, waiting in the spool here {record.waiting}")
    table(("time", "kind", "call", "what"), [_row(event, record) for event in record.events])
    for call in graded.calls:
        _show_call(call)
    checks = [(mark(c.status), c.name, c.detail) for c in graded.checks]
    table(("", "check of the query", "detail"), checks)
    for problem in record.problems:
        out.print(f"[red]problem[/]  {problem}", markup=True)
    return graded.exit_code


@click.command()
@click.argument("qid")
@click.option("--date", "day", type=Day(), help="The UTC day of an id that carries none.")
@click.option("--body", is_flag=True, help="Write the exact bytes of the prompt instead of the record.")
@click.option("--call", "number", type=click.IntRange(min=1), help="Which call, counting from 1.")
@places
@as_json
def get(settings: Settings, qid: str, day: date | None, body: bool, number: int | None, json_: bool) -> None:
    """The record as JSON, or with --body the exact bytes that a call was given."""
    del json_  # it is JSON already
    source = records(settings)
    record = source.get(source.resolve(qid), day)
    if body:
        sys.stdout.buffer.write(_body(_call(record, number)))
        sys.stdout.buffer.flush()
        return
    shape = published(record, grade(record, count_tokens))
    print_json(shape["calls"][_call(record, number).number - 1] if number and "calls" in shape else shape)


@click.command()
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True, help="How many.")
@click.option("--since", type=Day(), help="First UTC day.")
@click.option("--until", type=Day(), help="Last UTC day.")
@places
@as_json
def ls(settings: Settings, limit: int, since: date | None, until: date | None, json_: bool) -> None:
    """The newest queries, one a row."""
    source = records(settings)
    rows: list[dict[str, Any]] = []
    for qid in source.newest(limit, since, until):
        try:
            record = source.get(qid)
        except PromptTraceError as error:
            rows.append({"qid": qid, "problem": str(error)})
            continue
        query = record.query or {}
        first = record.events[0]["ts"] if record.events else None
        rows.append(
            {
                "qid": qid,
                "ts": query.get("ts") or first,
                "calls": len(record.calls),
                "verdict": grade(record).verdict,
                "state": "spooled" if record.waiting else "stored",
                "question": query.get("question"),
            }
        )
    if json_:
        print_json(wrap(rows))
    elif not rows:
        click.echo(f"Nothing in {source.store.url}, and nothing waits in {source.spool}.")
    else:
        columns = ("qid", "ts", "calls", "verdict", "state", "question")
        table(columns, [[_cell(row.get(column, row.get("problem"))) for column in columns] for row in rows])


def _row(event: Event, record: Record) -> tuple[str, str, str, str]:
    number = next((str(c.number) for c in record.calls if c.id == event.get("call")), "")
    parts = [f"{name}={event[name]}" for name in _SHOWN if event.get(name) not in (None, "unknown")]
    parts += [f"{name}: {_preview(event[name])}" for name in _TEXT_FIELDS if name in event]
    if "chars" in event:
        parts.append(f"{event['chars']:,} characters")
    if event.get("hits"):
        parts.append(", ".join(f"{hit.get('rank')} {hit.get('chunk_id')}" for hit in event["hits"]))
    if event.get("dropped"):
        parts.append(f"dropped: {', '.join(event['dropped'])}")
    if event.get("ms"):
        parts.append(f"ms: {event['ms']}")
    if event.get("unfinished"):
        parts.append("unfinished")
    return str(event.get("ts", ""))[11:23], str(event.get("kind")), number, "  ".join(parts)


def _show_call(graded: CallGrade) -> None:
    census = graded.census
    reasons = f" ({', '.join(graded.reasons)})" if graded.reasons else ""
    rows: list[tuple[Any, ...]] = []
    if census is not None:
        rows = [("located", producer, chars, "") for producer, chars in census.by_producer().items()]
        rows += [
            (p.state, p.piece.label, p.piece.length, p.note)
            for p in census.pieces
            if p.state not in ("located", "visible") and not (p.state == "not_placed" and p.piece.inferred)
        ]
        rows += [("gap", f"{g.path} [{g.start}:{g.end}]", len(g), shorten(g.text)) for g in census.gaps]
    total = f"{census.total:,} characters, {census.unaccounted:,} unaccounted" if census else "no prompt recorded"
    console().print(f"\n[bold]call {graded.call.number}[/]  {total}  [bold]{graded.verdict}[/]{reasons}")
    if rows:
        table(("state", "producer", "characters", ""), rows)
    table(("", "check", "detail"), [(mark(c.status), c.name, c.detail) for c in graded.checks])


def _call(record: Record, number: int | None) -> Call:
    if not record.calls:
        raise NotFound(f"{record.qid} has no call")
    if number is None and len(record.calls) > 1:
        raise NotFound(f"{record.qid} has {len(record.calls)} calls: say which with --call 1 to {len(record.calls)}")
    if number is not None and number > len(record.calls):
        raise NotFound(f"{record.qid} has {len(record.calls)} call(s), no call {number}")
    return record.calls[(number or 1) - 1]


def _body(call: Call) -> bytes:
    if call.prompt is None:
        raise NotFound(f"call {call.number} has no recorded prompt")
    if len(call.prompt.segments) != 1:
        raise NotFound(
            f"call {call.number} was declared as {len(call.prompt.segments)} message texts; the body that carried "
            "them was not captured. 'prompt-trace get QID' prints each text"
        )
    segment = call.prompt.segments[0]
    if segment.cuts:
        raise NotFound(f"call {call.number} was recorded under a policy that keeps digests, not text")
    return utf8(segment.text)


def _preview(value: Any) -> str:
    if isinstance(value, CutText):
        return f"[{len(value)} characters withheld]"
    text = value if isinstance(value, str) else str(value)
    return shorten(text) if text.strip() else repr(text)


def _cell(value: Any) -> Any:
    return _preview(value) if isinstance(value, str | CutText) and not _is_time(value) else value


def _is_time(value: Any) -> bool:
    return isinstance(value, str) and value.endswith("Z") and value[:2] == "20"


COMMANDS = (show, get, ls)
