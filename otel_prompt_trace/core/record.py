"""The record: what all events of one qid say together.

The projection interprets and never merges away: a second ``end``, a second declaration, an event that can't be
read, each is kept and can be counted. It is a pure function of the events, so the same objects always give the
same record, whoever reads them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias

import orjson

from otel_prompt_trace.core.call import Call
from otel_prompt_trace.core.events import Event, Problem, distinct, identity, readable
from otel_prompt_trace.core.pieces import Piece, piece_of
from otel_prompt_trace.core.rendering import carry_over
from otel_prompt_trace.core.sightings import projected, sightings
from otel_prompt_trace.core.text import as_text, wrap

OfferKey: TypeAlias = "tuple[str, str | None, str | None, str | None, bytes]"


@dataclass(frozen=True)
class Record:
    """The projection of all events of one qid.

    What every call of it is compared with is worked out once: a record may have as many events as calls.
    """

    qid: str
    events: tuple[Event, ...]
    calls: tuple[Call, ...]
    problems: tuple[Problem, ...] = ()
    projected: tuple[Event, ...] = ()  # read out of what spans, hooks and logs carried; never stored
    foreign: tuple[Event, ...] = ()  # of another trace than the query's own, by whoever joined it: they count nowhere
    waiting: int = 0  # events of ``events`` that were read from the local spool, not yet from the store

    @property
    def query(self) -> Event | None:
        """The ``query`` event that began the query; None where it is missing."""
        begun = self.of("query")
        return next((event for event in begun if not event.get("joined")), begun[0] if begun else None)

    @cached_property
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

    @cached_property
    def retrieved(self) -> tuple[dict[str, Any], ...]:
        """The hits of every retrieval, in the order in which they were recorded."""
        hits = (hit for event in self.of("retrieval") for hit in _items(event.get("hits")))
        return tuple(hit for hit in hits if isinstance(hit, dict))

    @cached_property
    def chunk_ids(self) -> tuple[str, ...]:
        """Ids of the chunks that were retrieved, each once: two searches may find one, and a hit may have no id."""
        named = (hit.get("chunk_id") for hit in self.retrieved)
        return tuple(dict.fromkeys(as_text(chunk) for chunk in named if chunk is not None))

    @cached_property
    def dropped(self) -> tuple[str, ...]:
        """Ids of the chunks which the application says it retrieved and left out of the prompt."""
        return tuple(as_text(chunk) for event in self.of("retrieval") for chunk in _items(event.get("dropped")))

    def of(self, kind: str) -> tuple[Event, ...]:
        """The readable events of one kind, in order; those that were read out of others last."""
        return tuple(self._by_kind.get(kind, ()))

    def first(self, kind: str, name: str) -> Any:
        """What the first event of a kind that tells something under ``name`` tells; None where none does."""
        return next((event[name] for event in self.of(kind) if event.get(name) is not None), None)

    @cached_property
    def _by_kind(self) -> dict[str, list[Event]]:
        strange = {identity(event) for event in self.foreign}
        found: dict[str, list[Event]] = {}
        for event in (*(event for event in self.events if identity(event) not in strange), *self.projected):
            if readable(event):
                found.setdefault(event["kind"], []).append(event)
        return found


def project(qid: str, events: Iterable[Event], problems: Sequence[Problem] = (), waiting: int = 0) -> Record:
    """The record of ``qid`` from its events, in any order and any number of times each."""
    ordered = tuple(sorted(distinct(events), key=_order))
    foreign = _foreign(ordered)
    strange = {identity(event) for event in foreign}
    known = [event for event in ordered if readable(event) and identity(event) not in strange]
    read = projected(known)
    calls = _calls([*known, *read])
    return Record(qid, ordered, tuple(calls), tuple(problems), tuple(read), foreign, waiting)


def _foreign(events: Sequence[Event]) -> tuple[Event, ...]:
    """Events by whoever joined the query from outside, of another trace than the one in which it began.

    A qid that arrives from outside may be anybody's: what is told under it elsewhere must not speak for the query.
    """
    begun = [event for event in events if event.get("kind") == "query" and readable(event)]
    traces = {as_text(event.get("trace_id")) for event in begun if not event.get("joined")}
    if not traces:
        return ()
    own = {event["writer"] for event in begun if not event.get("joined")}
    joined = {event["writer"] for event in begun if event.get("origin") == "baggage"} - own
    return tuple(
        event for event in events if event["writer"] in joined and as_text(event.get("trace_id")) not in traces
    )


def _items(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _order(event: Event) -> tuple[str, str, int]:
    return as_text(event.get("ts", "")), event["writer"], event["seq"]


def _calls(events: list[Event]) -> Iterable[Call]:
    ids = dict.fromkeys(
        event["call"] for event in events if event["kind"] in ("request", "response") and event.get("call") is not None
    )
    offered, given = _offered(events), list(_given_back(events))
    by_call: dict[str, list[Event]] = {}
    begins: dict[str, int] = {}
    for at, event in enumerate(events):
        if (call := event.get("call")) is not None:
            by_call.setdefault(call, []).append(event)
            begins.setdefault(call, at)
    for number, call in enumerate(ids, 1):
        own = by_call[call]
        pieces = [piece_of(event) for event in own if event["kind"] == "piece" and not event.get("left_out")]
        before = bisect_left(given, begins[call], key=lambda item: item[0])
        yield _as_sent(
            Call(
                id=as_text(call),
                number=number,
                requests=tuple(event for event in own if event["kind"] == "request"),
                responses=tuple(event for event in own if event["kind"] == "response"),
                pieces=tuple(piece for piece in pieces if not piece.offered),
                offered=tuple(piece for piece in pieces if piece.offered) or offered,
                inferred=tuple(piece for _, piece in given[:before]),
                seen=sightings(own, call),
                left_out=tuple(piece_of(e) for e in own if e["kind"] == "piece" and e.get("left_out")),
            )
        )


def _as_sent(call: Call) -> Call:
    """The call with its pieces placed in the request as sent, where they were placed in the one that was declared."""
    rendering = call.rendering if any(piece.segment is not None for piece in call.declared) else None
    if rendering is None:
        return call
    return replace(call, pieces=carry_over(call.pieces, rendering), offered=carry_over(call.offered, rendering))


def _offered(events: list[Event]) -> tuple[Piece, ...]:
    """Pieces declared in the query outside a call; declaring the same again refreshes the offer."""
    pieces = [piece_of(event) for event in events if event["kind"] == "piece" and event.get("call") is None]
    return tuple({offer_key(piece): piece for piece in pieces}.values())


def offer_key(piece: Piece) -> OfferKey:
    """What makes two offers one and the same: producer, source id and text, or what stands in a text's place."""
    value = b"" if piece.value is None else orjson.dumps(wrap(piece.value), option=orjson.OPT_SORT_KEYS)
    return piece.producer, piece.source_id, piece.text, piece.hmac_sha256, value


def _given_back(events: list[Event]) -> Iterable[tuple[int, Piece]]:
    """What calls and tools of the query gave back, each with its position: it is offered to the calls after it."""
    given: set[tuple[Any, str]] = set()  # an answer may be told of twice: by the wire, and by the application
    for at, event in enumerate(events):
        if event["kind"] == "response" and isinstance(event.get("output"), str):
            if (event.get("call"), event["output"]) in given:
                continue
            given.add((event.get("call"), event["output"]))
            yield at, Piece("model", event["output"], source_id=event.get("call"), offered=True, inferred=True)
        elif event["kind"] == "tool_call" and isinstance(event.get("result"), str):
            name = None if event.get("name") is None else as_text(event["name"])
            yield at, Piece("tool", event["result"], trust="tool", source_id=name, offered=True, inferred=True)
