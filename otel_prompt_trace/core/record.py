"""The record: what all events of one qid say together.

The projection interprets and never merges away: a second ``end``, a second declaration, an event that can't be
read, each is kept and can be counted. It is a pure function of the events, so the same objects always give the
same record, whoever reads them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import orjson

from otel_prompt_trace.core.events import Event, Problem, distinct, readable
from otel_prompt_trace.core.pieces import Piece
from otel_prompt_trace.core.request_parts import split_request, visible_parts
from otel_prompt_trace.core.seal import piece_of
from otel_prompt_trace.core.segments import Split
from otel_prompt_trace.core.sightings import Sighting, projected, sightings
from otel_prompt_trace.core.text import as_text, wrap
from otel_prompt_trace.core.verdict import EVIDENCE

OfferKey: TypeAlias = "tuple[str, str | None, str | None, str | None, bytes]"

_RANK: dict[str, int] = {evidence: rank for rank, evidence in enumerate(EVIDENCE)}


@dataclass(frozen=True, slots=True)
class Call:
    """One model request within a query, with its attempts.

    ``number`` counts from 1 in the order in which the calls went out. ``request`` is the one with the strongest
    evidence; None where only a response arrived. ``pieces`` are those of this call, ``offered`` those that the
    query offered to all its calls, ``inferred`` the outputs of earlier calls and the results of tools. ``seen`` is
    everything that told of the call: spans, hooks, log records.
    """

    id: str
    number: int
    requests: tuple[Event, ...]
    responses: tuple[Event, ...]
    pieces: tuple[Piece, ...]
    offered: tuple[Piece, ...]
    inferred: tuple[Piece, ...]
    seen: tuple[Sighting, ...] = ()

    @property
    def request(self) -> Event | None:
        """The request with the strongest evidence, the earliest of equals."""
        return min(self.requests, key=lambda event: _RANK.get(as_text(event.get("evidence")), 9), default=None)

    @property
    def response(self) -> Event | None:
        """The last response: that of the attempt which ended the call."""
        return self.responses[-1] if self.responses else None

    @property
    def evidence(self) -> str | None:
        """How the prompt was learned."""
        evidence = None if self.request is None else self.request.get("evidence")
        return None if evidence is None else as_text(evidence)

    @property
    def unfinished(self) -> bool:
        """Whether no response was recorded, or one that says itself that it was left early."""
        return self.response is None or bool(self.response.get("unfinished"))

    @property
    def prompt(self) -> Split | None:
        """The prompt, taken apart; None where no request was recorded."""
        if self.request is None:
            return None
        taken = split_request(self.request)
        return None if taken is None else taken[0]

    @property
    def visible(self) -> dict[str, Any]:
        """The parts that the model may see beside the prompt, by name: tool definitions, a response schema."""
        return visible_parts(self.request or {})

    @property
    def declared(self) -> tuple[Piece, ...]:
        """Every piece that may account for characters of this call."""
        return self.pieces + self.offered + self.inferred


@dataclass(frozen=True, slots=True)
class Record:
    """The projection of all events of one qid."""

    qid: str
    events: tuple[Event, ...]
    calls: tuple[Call, ...]
    problems: tuple[Problem, ...] = ()
    projected: tuple[Event, ...] = ()  # read out of what spans, hooks and logs carried; never stored
    waiting: int = 0  # events of ``events`` that were read from the local spool, not yet from the store

    @property
    def query(self) -> Event | None:
        """The ``query`` event that began the query; None where it is missing."""
        begun = self.of("query")
        return next((event for event in begun if not event.get("joined")), begun[0] if begun else None)

    @property
    def unreadable(self) -> tuple[Event, ...]:
        """Events of a major version that this one does not know: shown raw, not interpreted."""
        return tuple(event for event in self.events if not readable(event))

    @property
    def ends(self) -> tuple[Event, ...]:
        """The ``end`` events of the query itself, without those of services that joined it. There should be one."""
        return tuple(event for event in self.of("end") if not event.get("joined"))

    @property
    def ms(self) -> dict[str, int]:
        """Milliseconds of each stage, as measured by ``stage()``; of several of one name the sum."""
        total: dict[str, int] = {}
        for end in self.of("end"):
            stages = end.get("ms")
            for stage, milliseconds in stages.items() if isinstance(stages, dict) else ():
                if isinstance(milliseconds, int | float):
                    total[stage] = total.get(stage, 0) + int(milliseconds)
        return total

    @property
    def retrieved(self) -> tuple[dict[str, Any], ...]:
        """The hits of every retrieval, in the order in which they were recorded."""
        hits = (hit for event in self.of("retrieval") for hit in _items(event.get("hits")))
        return tuple(hit for hit in hits if isinstance(hit, dict))

    @property
    def dropped(self) -> tuple[str, ...]:
        """Ids of the chunks which the application says it retrieved and left out of the prompt."""
        return tuple(as_text(chunk) for event in self.of("retrieval") for chunk in _items(event.get("dropped")))

    def of(self, kind: str) -> tuple[Event, ...]:
        """The readable events of one kind, in order; those that were read out of others last."""
        events = (*self.events, *self.projected)
        return tuple(event for event in events if event.get("kind") == kind and readable(event))


def project(qid: str, events: Iterable[Event], problems: Sequence[Problem] = (), waiting: int = 0) -> Record:
    """The record of ``qid`` from its events, in any order and any number of times each."""
    ordered = tuple(sorted(distinct(events), key=_order))
    known = [event for event in ordered if readable(event)]
    read = projected(known)
    calls = _calls([*known, *read])
    return Record(qid, ordered, tuple(calls), tuple(problems), tuple(read), waiting)


def _items(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _order(event: Event) -> tuple[str, str, int]:
    return as_text(event.get("ts", "")), event["writer"], event["seq"]


def _calls(events: list[Event]) -> Iterable[Call]:
    ids = dict.fromkeys(
        event["call"] for event in events if event["kind"] in ("request", "response") and event.get("call") is not None
    )
    offered = _offered(events)
    for number, call in enumerate(ids, 1):
        own = [event for event in events if event.get("call") == call]
        pieces = [piece_of(event) for event in own if event["kind"] == "piece"]
        first = own[0]
        yield Call(
            id=as_text(call),
            number=number,
            requests=tuple(event for event in own if event["kind"] == "request"),
            responses=tuple(event for event in own if event["kind"] == "response"),
            pieces=tuple(piece for piece in pieces if not piece.offered),
            offered=tuple(piece for piece in pieces if piece.offered) or offered,
            inferred=tuple(_inferred(events, first)),
            seen=sightings(events, call),
        )


def _offered(events: list[Event]) -> tuple[Piece, ...]:
    """Pieces declared in the query outside a call; declaring the same again refreshes the offer."""
    pieces = [piece_of(event) for event in events if event["kind"] == "piece" and event.get("call") is None]
    return tuple({offer_key(piece): piece for piece in pieces}.values())


def offer_key(piece: Piece) -> OfferKey:
    """What makes two offers one and the same: producer, source id and text, or what stands in a text's place."""
    value = b"" if piece.value is None else orjson.dumps(wrap(piece.value), option=orjson.OPT_SORT_KEYS)
    return piece.producer, piece.source_id, piece.text, piece.hmac_sha256, value


def _inferred(events: list[Event], first: Event) -> Iterable[Piece]:
    """What earlier calls and tools of the query gave back is offered to the calls after them."""
    for event in events:
        if event is first:
            return
        if event["kind"] == "response" and isinstance(event.get("output"), str):
            yield Piece("model", event["output"], source_id=event.get("call"), offered=True, inferred=True)
        elif event["kind"] == "tool_call" and isinstance(event.get("result"), str):
            name = None if event.get("name") is None else as_text(event["name"])
            yield Piece("tool", event["result"], trust="tool", source_id=name, offered=True, inferred=True)
