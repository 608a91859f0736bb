"""A call without its texts: who stood where, in digests. It is what calls are compared by across queries.

Invariants:

- The runs of a sketch are its prompt: located pieces and gaps, in order, without a character twice. Pieces that ride
  inside others are no runs of their own; their producers count as heard.
- A **group** is a conversation: the query's ``conversation_id``, else its ``session``, else the query itself.
- A **zone** says whereabouts a run stands in words that hold from call to call: its field, who speaks there, and the
  nearest producers on both sides that stand once in that field. A field's borders are ``^`` and ``$``.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from otel_prompt_trace.core.call import Call
from otel_prompt_trace.core.census import Census
from otel_prompt_trace.core.pieces import Placed
from otel_prompt_trace.core.record import Record
from otel_prompt_trace.core.residuals.units import Unit, solid, units
from otel_prompt_trace.core.text import as_text
from otel_prompt_trace.core.usage import normalize

Zone: TypeAlias = "tuple[str, str, str, str]"

_NUMBER = re.compile(r"\[\d+\]")
_FRAME = 500  # characters
_INSTRUCTIONS = ("system", "developer")
_SPEAKER = re.compile(r"(?im)^\W{0,3}(?:(user|human|question)|(assistant|ai|bot|model|answer))\W{0,3}(?::|$)")


@dataclass(frozen=True, slots=True)
class Run:
    """A located piece, or a gap where ``producer`` is None: ``segment[start:end]``, in code points.

    ``beyond`` are the next such producers behind those of the zone: its borders for who is one of these himself.
    ``after`` is the producer right before it, ``^`` where the field begins with it. ``key`` is the digest of the text,
    ``dialogue`` whether it names two speakers in turn. ``inferred`` is a piece that the recorder offered. ``solid``
    counts what is neither white space nor the name of the source beside it (``[travel#hotels]`` before that chunk):
    such a frame says nothing of its own.
    """

    producer: str | None
    segment: int
    start: int
    end: int
    path: str
    zone: Zone
    beyond: tuple[str, str]
    after: str
    key: int
    units: tuple[Unit, ...]
    solid: int
    inferred: bool = False
    dialogue: bool = False

    @property
    def chars(self) -> int:
        """Characters (code points)."""
        return self.end - self.start

    @property
    def opens(self) -> bool:
        """Whether the prompt begins with it."""
        return self.segment == 0 and self.start == 0

    @property
    def message(self) -> bool:
        """Whether it is a whole message of a dialogue: what histories are made of."""
        return self.zone[1:] == ("talk", "^", "$")


@dataclass(frozen=True, slots=True)
class Sketch:
    """One call, for comparison with others.

    ``heard`` names every producer that declared anything for the call. ``cached`` is the number of tokens that the
    provider took from its cache, None where it did not say. ``said`` holds the units of the answer.
    """

    qid: str
    call: str
    number: int
    ts: str
    service: str
    group: str
    total: int
    cached: int | None
    runs: tuple[Run, ...]
    heard: frozenset[str]
    said: tuple[Unit, ...] = ()

    @property
    def gaps(self) -> tuple[Run, ...]:
        """The runs that no piece covers."""
        return tuple(run for run in self.runs if run.producer is None)

    @property
    def order(self) -> tuple[str, str, int]:
        """By time, then by query and number."""
        return self.ts, self.qid, self.number


def sketch(record: Record, call: Call, census: Census) -> Sketch:
    """The sketch of a graded call."""
    query, request, response = record.query or {}, call.request or {}, call.response or {}
    group = next((query[name] for name in ("conversation_id", "session") if query.get(name) is not None), record.qid)
    output = response.get("output")
    cached = normalize(response.get("usage")).get("cached_tokens")
    return Sketch(
        qid=record.qid,
        call=as_text(call.id),
        number=call.number,
        ts=as_text(request.get("ts", "")),
        service=as_text(request.get("service", "")),
        group=as_text(group),
        total=census.total,
        cached=cached if isinstance(cached, int) else None,
        runs=tuple(_runs(census)),
        heard=frozenset(p.producer for p in census.pieces if p.state not in ("empty", "not_placed")),
        said=units(output) if isinstance(output, str) else (),
    )


def _runs(census: Census) -> Iterator[Run]:
    placed: list[list[tuple[int, int, Placed | None]]] = [[] for _ in census.segments]
    for found in census.located:
        if not found.piece.inline and found.segment is not None and found.start is not None and found.end is not None:
            placed[found.segment].append((found.start, found.end, found))
    for gap in census.gaps:
        placed[gap.segment].append((gap.start, gap.end, None))
    for number, segment in enumerate(census.segments):
        row = sorted(placed[number], key=lambda item: item[:2])
        zones = _zones([None if p is None else p.producer for _, _, p in row])
        field = _NUMBER.sub("[*]", segment.path)
        speaker = "instructions" if segment.role in _INSTRUCTIONS else "talk" if segment.role else ""
        for at, ((start, end, p), ((left, right), beyond)) in enumerate(zip(row, zones, strict=True)):
            text = segment.text[start:end]
            tiles = units(text)
            own = solid(tiles)
            own -= _named(text, row[max(0, at - 1) : at + 2], own)
            yield Run(
                producer=None if p is None else p.producer,
                segment=number,
                start=start,
                end=end,
                path=segment.path,
                zone=(field, speaker, left, right),
                beyond=beyond,
                after="^" if at == 0 else _producer(row[at - 1][2]),
                key=hash(text),
                units=tiles,
                solid=own,
                inferred=p is not None and p.piece.inferred,
                dialogue=p is None and _dialogue(text),
            )


def _producer(placed: Placed | None) -> str:
    return "" if placed is None else placed.producer


def _zones(producers: list[str | None]) -> list[tuple[tuple[str, str], tuple[str, str]]]:
    """For each run the nearest producers on either side that stand once, other than its own, and the next ones."""
    counts = Counter(producers)
    lefts: list[tuple[str, str]] = []
    rights: list[tuple[str, str]] = []
    for row, border, found in ((producers, "^", lefts), (producers[::-1], "$", rights)):
        nearest, beyond = border, border
        for producer in row:
            found.append((nearest, beyond))
            if producer is not None and counts[producer] == 1:
                nearest, beyond = producer, nearest
    return [((left[0], right[0]), (left[1], right[1])) for left, right in zip(lefts, reversed(rights), strict=True)]


def _named(text: str, beside: list[tuple[int, int, Placed | None]], at_most: int) -> int:
    """Characters of a short text that only name the source of a piece next to it."""
    if len(text) > _FRAME:
        return 0
    names = {p.source_id for _, _, p in beside if p is not None and p.source_id and p.source_id in text}
    return min(at_most, sum(map(len, names)))


def _dialogue(text: str) -> bool:
    asked = answered = False
    for speaker in _SPEAKER.finditer(text):
        asked, answered = asked or speaker[1] is not None, answered or speaker[2] is not None
        if asked and answered:
            return True
    return False
