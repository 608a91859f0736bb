"""What of a record's prompts nobody accounts for, in words for the person whose test fails."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from otel_prompt_trace.core.call import Call
from otel_prompt_trace.core.census import Census, Gap
from otel_prompt_trace.core.derive import derive
from otel_prompt_trace.core.pieces import Placed
from otel_prompt_trace.core.record import Record

_GAPS = 5  # shown of each call
_EXCERPT = 60  # characters


def unaccounted(records: Iterable[Record]) -> list[str]:
    """A paragraph for each call with unaccounted characters, or without a prompt to account for."""
    found = []
    for record in records:
        for derivation in derive(record):
            call, census = derivation.call, derivation.census
            if census is None:
                found.append(f"No prompt was recorded of {_named(record, call)}.")
            elif census.unaccounted:
                found.append("\n".join(_lines(record, call, census)))
    return found


def _lines(record: Record, call: Call, census: Census) -> Iterator[str]:
    yield f"{census.unaccounted:,} of {census.total:,} characters are unaccounted for in {_named(record, call)}:"
    for gap in census.gaps[:_GAPS]:
        yield f"  {gap.path}[{gap.start}:{gap.end}]  {len(gap):,} characters: {_excerpt(gap.text)}"
        yield f"      {_neighbours(gap, census)}"
    if len(census.gaps) > _GAPS:
        yield f"  and {len(census.gaps) - _GAPS} more"
    for placed in census.pieces:
        if placed.state in ("unlocatable", "whole_prompt", "duplicate", "contested"):
            note = f" ({placed.note})" if placed.note else ""
            what = placed.state.replace("_", " ")
            yield f"  {what}: {_label(placed)}, {placed.piece.length:,} characters{note}"


def _neighbours(gap: Gap, census: Census) -> str:
    """The located pieces next to a gap, in its segment."""
    beside = [p for p in census.located if p.segment == gap.segment and p.start is not None and p.end is not None]
    before = max((p for p in beside if (p.end or 0) <= gap.start), key=lambda p: p.end or 0, default=None)
    after = min((p for p in beside if (p.start or 0) >= gap.end), key=lambda p: p.start or 0, default=None)
    said = [f"{where} {_label(p)} [{p.start}:{p.end}]" for where, p in (("after", before), ("before", after)) if p]
    return ", ".join(said) or "no declared piece stands in this text"


def _named(record: Record, call: Call) -> str:
    request = call.request or {}
    model = f" of {request['model']!r}" if isinstance(request.get("model"), str) else ""
    return f"call {call.number}{model}, query {record.qid}"


def _label(placed: Placed) -> str:
    """Producer and source id, with whatever a terminal would obey spelled out."""
    return repr(placed.piece.label)[1:-1]


def _excerpt(text: str) -> str:
    if len(text) <= _EXCERPT:
        return repr(text)
    half = _EXCERPT // 2
    return f"{text[:half]!r} … {text[-half:]!r}"
