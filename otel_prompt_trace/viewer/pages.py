"""The page of one record: a pure function of the record and its grade.

A page shows the beginning of long texts and of long lists, says how much is left out, and links to the JSON, which
leaves out nothing. So its own size is bounded whatever the record's is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from otel_prompt_trace.core.call import Call
from otel_prompt_trace.core.events import Event
from otel_prompt_trace.core.grade import CallGrade
from otel_prompt_trace.core.record import Record
from otel_prompt_trace.core.text import CutText, as_text
from otel_prompt_trace.core.usage import normalize
from otel_prompt_trace.viewer.finding import Shown
from otel_prompt_trace.viewer.html import Html, document, join, link, note, plain, state, table, tag

TEXT = 20_000  # characters shown of one text
PAGE = 400_000  # and of all texts of one page
_CALLS = 50
_ROWS = 200
_CELL = 300  # characters of a text in a table
_QUERY = (
    "ts",
    "question",
    "user",
    "session",
    "tenant",
    "conversation_id",
    "origin",
    "parent",
    "service",
    "environment",
)
_EVENT = ("model", "evidence", "producer", "source_id", "trust", "name", "score", "comment", "finish_reason", "error")


class Room:
    """How many characters of texts a page still has room for."""

    def __init__(self) -> None:
        self.left = PAGE

    def show(self, text: str | CutText, whole: str) -> Html:
        """A text as it stands, or its beginning and how much is left out; ``whole`` is the address of all of it."""
        characters = text.filled if isinstance(text, CutText) else text
        part = characters[: min(TEXT, self.left)]
        self.left -= len(part)
        cut = sum(cut.chars for _, _, cut in text.cuts()) if isinstance(text, CutText) else 0
        withheld = note(f"{cut:,} of {len(characters):,} characters were withheld by policy") if cut else Html()
        if len(part) == len(characters):
            return join((tag("pre", part), withheld))
        more = note(
            f"the first {len(part):,} of {len(characters):,} characters; ", link(whole, "the whole text is in the JSON")
        )
        return join((tag("pre", part), more, withheld))


def record_page(shown: Shown, *, trace: str | None = None, jaeger: str | None = None) -> bytes:
    """The page of a record.

    Args:
        shown: the record with its grade.
        trace: the trace id that the link came with.
        jaeger: the address of Jaeger, to link back to.
    """
    record, whole = shown.record, f"/q/{shown.record.qid}?format=json"
    room = Room()
    calls = [_call(graded, room, whole) for graded in shown.grade.calls[:_CALLS]]
    left = len(shown.grade.calls) - _CALLS
    return document(
        f"{record.qid} · prompt-trace",
        tag("h1", record.qid, " ", state(shown.grade.verdict)),
        _standing(record),
        *(tag("p", "problem: ", str(problem), class_="problem") for problem in record.problems[:_ROWS]),
        _traces(shown, trace, jaeger),
        _facts(record),
        _retrieved(record),
        *calls,
        note(f"and {left} more calls, in the JSON") if left > 0 else Html(),
        _checks(shown.grade.checks, "checks of the query"),
        tag("h2", "events"),
        table(("time", "kind", "call", "what"), [_event(event, record) for event in record.events[: _ROWS + 1]]),
        note(
            link(whole, "all of it as JSON"),
            f"; exact bytes of what was sent: prompt-trace get {record.qid} --body",
        ),
    )


def standing(record: Record) -> str:
    """Where its events are: ``stored``, ``spooled`` (some wait on this machine) or ``problem`` (unreadable ones)."""
    return "spooled" if record.waiting else "problem" if record.problems else "stored"


def _standing(record: Record) -> Html:
    count = len(record.events)
    if record.waiting:
        text = f"{record.waiting} of {count} events wait in the spool of this machine and are not stored yet"
    else:
        text = f"{count} events"
    strange = f"; {len(record.foreign)} of another trace, not counted" if record.foreign else ""
    unread = f"; {len(record.unreadable)} of a version not known here" if record.unreadable else ""
    return tag("p", state(standing(record)), f": {text}{strange}{unread}")


def _traces(shown: Shown, asked: str | None, jaeger: str | None) -> Html:
    known = shown.traces[:20]
    items: list[object] = []
    for trace in known:
        items += ["trace ", link(f"/t/{trace}", trace), " "]
        if jaeger is not None:
            items += ["(", link(f"{jaeger}/trace/{trace}", "in Jaeger"), ") "]
    if asked is not None and known and asked not in shown.traces:
        items.append(f"· no event of this record is of trace {asked}, which the link came from")
    return tag("p", *items) if items else Html()


def _facts(record: Record) -> Html:
    query = record.query or (record.events[0] if record.events else {})
    rows: list[tuple[object, ...]] = [
        (tag("b", name), brief(query[name])) for name in _QUERY if query.get(name) not in (None, "unknown")
    ]
    rows += [(tag("b", f"ms {stage}"), milliseconds) for stage, milliseconds in record.ms.items()]
    for name in ("index_version", "embed_model", "top_k"):
        value = record.first("retrieval", name)
        rows += [(tag("b", name), brief(value))] if value is not None else []
    return table(("", ""), rows, most=_ROWS)


def _retrieved(record: Record) -> Html:
    dropped = set(record.dropped)
    rows = [
        (brief(hit.get("rank")), brief(chunk), brief(hit.get("score")), "dropped" if as_text(chunk) in dropped else "")
        for hit in record.retrieved[: _ROWS + 1]
        for chunk in (hit.get("chunk_id"),)
    ]
    return table(("rank", "chunk", "score", ""), rows, most=_ROWS, caption="retrieved")


def _call(graded: CallGrade, room: Room, whole: str) -> Html:
    call, census = graded.call, graded.census
    request, response = call.request or {}, call.response or {}
    total = f"{census.total:,} characters, {census.unaccounted:,} unaccounted" if census else "no prompt recorded"
    reasons = f" ({', '.join(graded.reasons)})" if graded.reasons else ""
    facts = [
        ("model", request.get("model")),
        ("temperature", request.get("temperature")),
        ("prompt tokens counted here", graded.prompt_tokens),
        ("usage", normalize(response.get("usage")) or None),
        ("finish reason", response.get("finish_reason")),
        ("evidence", call.evidence),
        ("error", response.get("error")),
        ("", "unfinished: no whole response was recorded" if call.unfinished else None),
    ]
    return join(
        (
            tag("h2", f"call {call.number}: ", state(graded.verdict), reasons),
            tag("p", total),
            table(("", ""), [(tag("b", name), brief(value)) for name, value in facts if value is not None]),
            _prompt(call, room, whole),
            tag("h3", "output"),
            _output(response, room, whole),
            _producers(graded),
            _attempts(call),
            _checks(graded.checks, "checks"),
        )
    )


def _prompt(call: Call, room: Room, whole: str) -> Html:
    if call.prompt is None:
        return Html()
    parts: list[object] = [tag("h3", "prompt, as sent" if call.evidence == "wire" else "prompt")]
    for segment in call.prompt.segments[:_ROWS]:
        heading = f"{segment.path}{f', {segment.role}' if segment.role else ''}: {len(segment.text):,} characters"
        parts += [note(brief(heading)), room.show(segment.stored or segment.text, whole)]
    left = len(call.prompt.segments) - _ROWS
    if left > 0:
        parts.append(note(f"and {left:,} more texts, in the JSON"))
    outside = [(part.kind, brief(part.path), brief(part.detail)) for part in call.prompt.outside[: _ROWS + 1]]
    return join((*parts, table(("not text", "where", "what"), outside, most=_ROWS)))


def _output(response: Event, room: Room, whole: str) -> Html:
    output = response.get("output")
    if output is None:
        return note("none was recorded")
    return room.show(output if isinstance(output, CutText) else plain(output), whole)


def _producers(graded: CallGrade) -> Html:
    census = graded.census
    if census is None:
        return Html()
    rows: list[tuple[object, ...]] = [("located", brief(p), f"{n:,}", "") for p, n in census.by_producer().items()]
    rows += [
        (piece.state, brief(piece.piece.label), f"{piece.piece.length:,}", brief(piece.note))
        for piece in census.pieces
        if piece.state not in ("located", "visible") and not (piece.state == "not_placed" and piece.piece.inferred)
    ]
    rows += [
        ("gap", f"{gap.path} [{gap.start}:{gap.end}]", f"{len(gap):,}", brief(gap.text)) for gap in census.gaps[:_ROWS]
    ]
    return table(("state", "producer", "characters", ""), rows, most=_ROWS, caption="who put in what")


def _attempts(call: Call) -> Html:
    rows = [
        (
            attempt.number,
            f"{attempt.host}{attempt.path}",
            attempt.status or attempt.error or ("unfinished" if attempt.unfinished else ""),
            "" if attempt.ms is None else f"{attempt.ms} ms",
        )
        for attempt in call.attempts
    ]
    return table(("attempt", "sent to", "answer", "took"), rows, most=_ROWS)


def _checks(checks: Sequence[Any], caption: str) -> Html:
    rows = [(state(check.status), check.name, brief(check.detail)) for check in checks]
    return table(("", "check", "detail"), rows, most=_ROWS, caption=caption)


def _event(event: Event, record: Record) -> tuple[object, ...]:
    number = next((str(call.number) for call in record.calls if call.id == event.get("call")), "")
    said = [f"{name}={brief(event[name])}" for name in _EVENT if event.get(name) not in (None, "unknown")]
    said += [f"{brief(event['chars'])} characters"] if event.get("chars") is not None else []
    return brief(event.get("ts")), brief(event.get("kind")), number, "  ".join(said)


def brief(value: Any) -> str:
    """A value in a table's cell: its beginning."""
    text = plain(value)
    return text if len(text) <= _CELL else f"{text[:_CELL]}…"
