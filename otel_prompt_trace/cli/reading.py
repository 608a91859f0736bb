"""``show``, ``get`` and ``ls``: read records."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from datetime import date
from functools import partial
from typing import Any

import click
from rich.text import Text

from otel_prompt_trace.cli.app import Day, as_json, count_tokens, damage, places, records
from otel_prompt_trace.cli.choosing import choose_call
from otel_prompt_trace.cli.output import console, mark, print_json, printable, shorten, table, words
from otel_prompt_trace.core.bodies.runs import rebuild
from otel_prompt_trace.core.call import Call
from otel_prompt_trace.core.events import Event
from otel_prompt_trace.core.grade import CallGrade, grade
from otel_prompt_trace.core.published import published
from otel_prompt_trace.core.record import Record
from otel_prompt_trace.core.text import CutText, as_text, sha256_bytes, utf8, wrap
from otel_prompt_trace.exceptions import NotFound, ObjectCorrupt, PromptTraceError
from otel_prompt_trace.records import Records
from otel_prompt_trace.settings import Settings

_TEXT_FIELDS = ("question", "output", "text", "comment", "result")
_SHOWN = (
    "model",
    "evidence",
    "producer",
    "source_id",
    "trust",
    "top_k",
    "rule",
    "finish_reason",
    "name",
    "score",
    "error",
)


@click.command()
@click.argument("qid")
@click.option("--date", "day", type=Day(), help="The UTC day of an id that carries none, or of a trace.")
@places
@as_json
def show(settings: Settings, qid: str, day: date | None, json_: bool) -> int:
    """One row per event, then what may be said of each call.

    Exits with 0 if all is exact, 1 on a mismatch, a failed check or where nothing is found, 3 if something is unknown.
    """
    source = records(settings)
    record = source.get(source.resolve(qid, day), day)
    graded = grade(record, count_tokens)
    if json_:
        print_json({"record": published(record, graded), "events": wrap(list(record.events))})
        return graded.exit_code
    stored = len(record.events) - record.waiting
    out = console()
    counts = f"stored {stored}, waiting in the spool here {record.waiting}"
    if record.problems:
        counts += f", problems {len(record.problems)}"
    if record.foreign:
        counts += f", of another trace and not counted {len(record.foreign)}"
    out.print(Text.assemble((record.qid, "bold"), f"  {counts}"))
    for problem in record.problems:
        out.print(Text.assemble(("problem", "red"), f"  {printable(str(problem))}"))
    table(("time", "kind", "call", "what"), [_row(event, record) for event in record.events])
    for call in graded.calls:
        _show_call(call)
    checks = [(mark(c.status), c.name, c.detail) for c in graded.checks]
    table(("", "check of the query", "detail"), checks)
    return graded.exit_code


@click.command()
@click.argument("qid")
@click.option("--date", "day", type=Day(), help="The UTC day of an id that carries none, or of a trace.")
@click.option("--body", is_flag=True, help="Write the exact bytes of the prompt instead of the record.")
@click.option("--call", "number", type=click.IntRange(min=1), help="Which call, counting from 1.")
@places
@as_json
def get(settings: Settings, qid: str, day: date | None, body: bool, number: int | None, json_: bool) -> None:
    """The record as JSON, or with --body the exact bytes that a call was given.

    Exits with 0 when it is found, whatever its verdict is (see show and grade), and with 1 when it is not.
    """
    del json_  # it is JSON already
    source = records(settings)
    record = source.get(source.resolve(qid, day), day)
    if body:
        sys.stdout.buffer.write(_body(choose_call(record.qid, record.calls, number), source))
        sys.stdout.buffer.flush()
        return
    shape = published(record, grade(record, count_tokens))
    if number and "calls" in shape:
        shape = choose_call(record.qid, shape["calls"], number)
    print_json(shape)


@click.command()
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True, help="How many.")
@click.option("--since", type=Day(), help="First UTC day.")
@click.option("--until", type=Day(), help="Last UTC day.")
@places
@as_json
def ls(settings: Settings, limit: int, since: date | None, until: date | None, json_: bool) -> None:
    """The newest queries, one a row.

    Exits with 0, whatever their verdicts are and also where there are none. State: stored, spooled (some of it waits
    on this machine) or damaged (some of it can't be read: see show).
    """
    source = records(settings)
    rows: list[dict[str, Any]] = []
    for qid in source.newest(limit, since, until):
        try:
            record = source.get(qid)
        except PromptTraceError as error:
            rows.append({"qid": qid, "problem": str(error)})
            continue
        query = record.query or {}
        first = record.events[0].get("ts") if record.events else None
        rows.append(
            {
                "qid": qid,
                "ts": query.get("ts") or first,
                "calls": len(record.calls),
                "verdict": grade(record, count_tokens).verdict,
                "state": "damaged" if damage(record, source) else "spooled" if record.waiting else "stored",
                "question": query.get("question"),
            }
        )
    if json_:
        print_json(wrap(rows))
    elif not rows:
        click.echo(f"{source.nothing[0].upper()}{source.nothing[1:]}.")
    else:
        columns = ("qid", "ts", "calls", "verdict", "state", "question")
        table(columns, [[_cell(row.get(column, row.get("problem"))) for column in columns] for row in rows])


def _row(event: Event, record: Record) -> tuple[str, str, str, str]:
    number = next((str(c.number) for c in record.calls if c.id == event.get("call")), "")
    parts = [f"{name}={_brief(event[name])}" for name in _SHOWN if event.get(name) not in (None, "unknown")]
    parts += [f"{name}: {_preview(event[name])}" for name in _TEXT_FIELDS if name in event]
    if event.get("chars") is not None:
        parts.append(f"{words(event['chars'], ',')} characters")
    hits = [
        f"{_brief(h.get('rank'))} {_brief(h.get('chunk_id'))}" if isinstance(h, dict) else _brief(h)
        for h in _items(event.get("hits"))
    ]
    if hits:
        parts.append(", ".join(hits))
    dropped = [_brief(chunk) for chunk in _items(event.get("dropped"))]
    if dropped:
        parts.append(f"dropped: {', '.join(dropped)}")
    if event.get("ms"):
        parts.append(f"ms: {_brief(event['ms'])}")
    if event.get("unfinished"):
        parts.append("unfinished")
    return words(event.get("ts", ""))[11:23], words(event.get("kind")), number, "  ".join(parts)


def _items(value: Any) -> list[Any]:
    """What should be a list, as one: events come from outside, and a reader shows what is there."""
    return value if isinstance(value, list) else [] if value is None else [value]


def _brief(value: Any) -> str:
    return shorten(words(value), 200)


def _show_call(graded: CallGrade) -> None:
    census = graded.census
    reasons = f" ({', '.join(graded.reasons)})" if graded.reasons else ""
    rows: list[tuple[Any, ...]] = []
    if census is not None:
        nested = census.overlaps().by_producer
        for producer, chars in census.by_producer().items():
            again = nested.get(producer)
            rows.append(("located", producer, chars, f"{again:,} of them other pieces' text too" if again else ""))
        rows += [
            (p.state, p.piece.label, p.piece.length, p.note)
            for p in census.pieces
            if p.state not in ("located", "visible") and not (p.state == "not_placed" and p.piece.inferred)
        ]
        rows += [("gap", f"{g.path} [{g.start}:{g.end}]", len(g), shorten(g.text)) for g in census.gaps]
    total = f"{census.total:,} characters, {census.unaccounted:,} unaccounted" if census else "no prompt recorded"
    tokens = graded.tokens
    if tokens.template is not None:
        total += f"; {tokens.prompt:,} tokens: {tokens.chunks:,} of chunks, {tokens.template:,} of the template"
    heading = (f"\ncall {graded.call.number}", "bold"), f"  {total}  ", (graded.verdict, "bold"), reasons
    console().print(Text.assemble(*heading))
    if graded.call.prompt is not None:
        table(("segment", "role", "characters", "tokens", ""), _segments(graded.call))
    if rows:
        table(("state", "producer", "characters", ""), rows)
    for attempt in graded.call.attempts:
        became = attempt.status or attempt.error or ("unfinished" if attempt.unfinished else "")
        took = "" if attempt.ms is None else f", {as_text(attempt.ms)} ms"
        sent = f"attempt {as_text(attempt.number)} as sent to {attempt.host}: {as_text(became)}{took}"
        console().print(Text(printable(sent)))
    for seen in graded.call.seen:
        told = f"told by {seen.route} of {seen.scope or '?'}, span {as_text(seen.span_id)}"
        console().print(Text(printable(told + _difference(seen.difference))))
    table(("", "check", "detail"), [(mark(c.status), c.name, c.detail) for c in graded.checks])


def _difference(found: Mapping[str, Any] | None) -> str:
    """What an instrumentation reported otherwise than it was sent."""
    if found is None:
        return ""
    counts = (
        ("reported and not sent", len(_items(found.get("reported_only")))),
        ("sent and not reported", len(_items(found.get("not_reported")) + _items(found.get("not_reported_parts")))),
    )
    said = [f"{number} {what}" for what, number in counts if number]
    return f": {', '.join(said)}" if said else ": as sent"


def _segments(call: Call) -> list[tuple[Any, ...]]:
    """The prompt broken down: where each text stood, whose role it has, and how long it is."""
    model = call.encoding
    segments = call.prompt.segments if call.prompt is not None else ()
    return [
        (
            segment.path,
            segment.role or "",
            len(segment.text),
            count_tokens(segment.text, model) if isinstance(model, str) and not segment.cuts else None,
            "" if segment.cuts else shorten(segment.text, 50),
        )
        for segment in segments
    ]


def _body(call: Call, source: Records) -> bytes:
    if call.prompt is None:
        raise NotFound(f"call {call.number} has no recorded prompt")
    if call.request is not None and "body" in call.request:
        return _sent_body(call.request, source)
    if len(call.prompt.segments) != 1:
        raise NotFound(
            f"call {call.number} was declared as {len(call.prompt.segments)} message texts; the body that carried "
            "them was not captured. 'prompt-trace get QID' prints each text"
        )
    segment = call.prompt.segments[0]
    if segment.cuts:
        raise NotFound(f"call {call.number} was recorded under a policy that keeps digests, not text")
    return utf8(segment.text)


def _sent_body(request: Event, source: Records) -> bytes:
    """The bytes as sent, verified; where some are not kept, as many asterisks stand for them, and that is said."""
    body, missing = rebuild(request["body"], partial(source.store.blob, as_text(request.get("qid"))))
    recorded = request.get("sha256")
    if not missing and recorded is not None and sha256_bytes(body) != recorded:
        raise ObjectCorrupt("the stored body has another sha256 than the one that was sent: nothing of it is printed")
    if missing:
        click.echo(f"{missing} of {len(body)} bytes were withheld when this was recorded: * stands for each", err=True)
    return body


def _preview(value: Any) -> str:
    if isinstance(value, CutText):
        return f"[{len(value)} characters withheld]"
    text = words(value)
    return shorten(text) if text.strip() else repr(text)


def _cell(value: Any) -> Any:
    return _preview(value) if isinstance(value, str | CutText) and not _is_time(value) else value


def _is_time(value: Any) -> bool:
    return isinstance(value, str) and value.endswith("Z") and value[:2] == "20"


COMMANDS = (show, get, ls)
