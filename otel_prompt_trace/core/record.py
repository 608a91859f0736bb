"""The record: what all events of one qid say together.

The projection interprets and never merges away: a second ``end``, a second declaration, an event that can't be
read, each is kept and can be counted. It is a pure function of the events, so the same objects always give the
same record, whoever reads them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, TypeAlias

import orjson

from otel_prompt_trace.core.events import Event, Problem, distinct, identity, readable
from otel_prompt_trace.core.pieces import Piece
from otel_prompt_trace.core.rendering import Rendering, carry_over, compare
from otel_prompt_trace.core.request_parts import split_request, visible_parts
from otel_prompt_trace.core.seal import piece_of
from otel_prompt_trace.core.segments import Split
from otel_prompt_trace.core.sightings import Sighting, projected, sightings
from otel_prompt_trace.core.text import as_text, wrap
from otel_prompt_trace.core.verdict import EVIDENCE

OfferKey: TypeAlias = "tuple[str, str | None, str | None, str | None, bytes]"

_RANK: dict[str, int] = {evidence: rank for rank, evidence in enumerate(EVIDENCE)}


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try of a call on the wire: as sent to ``host``, and what became of it."""

    number: int
    host: str
    path: str
    status: int | None
    ms: int | None
    error: str | None
    unfinished: bool


@dataclass(frozen=True, slots=True)
class Call:
    """One model request within a query, with its attempts.

    ``number`` counts from 1 in the order in which the calls went out. ``request`` is the one with the strongest
    evidence; None where only a response arrived. ``pieces`` are those of this call, ``offered`` those that the
    query offered to all its calls, ``inferred`` the outputs of earlier calls and the results of tools. ``seen`` is
    everything that told of the call: spans, hooks, log records. ``left_out`` are the pieces that a placement was given
    and did without: nobody claims that they stand in the prompt.
    """

    id: str
    number: int
    requests: tuple[Event, ...]
    responses: tuple[Event, ...]
    pieces: tuple[Piece, ...]
    offered: tuple[Piece, ...]
    inferred: tuple[Piece, ...]
    seen: tuple[Sighting, ...] = ()
    left_out: tuple[Piece, ...] = ()

    @property
    def request(self) -> Event | None:
        """The request with the strongest evidence, the earliest of equals."""
        whole = [event for event in self.requests if not event.get("same_body")] or self.requests
        whole = [event for event in whole if event.get("changed") and "body" in event] or whole  # on the way out
        return min(whole, key=lambda event: _RANK.get(as_text(event.get("evidence")), 9), default=None)

    @property
    def declared_request(self) -> Event | None:
        """The request as the application handed it to us, beside one that was captured as it was sent."""
        return next((event for event in self.requests if event.get("evidence") == "declared"), None)

    @property
    def encoding(self) -> str | None:
        """The tokenizer to count with: as the application named it, else the model's own."""
        named = (
            request.get(name)
            for name in ("encoding", "model")
            for request in (self.declared_request, self.request)
            if request is not None
        )
        return next((value for value in named if isinstance(value, str)), None)

    @property
    def rendering(self) -> Rendering | None:
        """Where the declared prompt stands in the request as sent; None unless both were recorded."""
        declared = self.declared_request
        if self.evidence != "wire" or declared is None or self.prompt is None:
            return None
        taken = split_request(declared)
        return None if taken is None else compare(taken[0], self.prompt)

    @property
    def attempts(self) -> tuple[Attempt, ...]:
        """The tries of the call on the wire, in order; none where it was not captured there."""
        return tuple(_attempts(self.requests, self.responses))

    @property
    def response(self) -> Event | None:
        """The last response: that of the attempt which ended the call.

        Where the application told of the answer as well, what came over the wire counts, and it fills in the rest.
        """
        last = self.responses[-1] if self.responses else None
        sent = next((event for event in reversed(self.responses) if event.get("evidence") == "wire"), None)
        if last is None or sent is None or sent is last:
            return last
        told = {name: item for name, item in last.items() if name not in ("unfinished", "error")}
        return {**told, **{name: item for name, item in sent.items() if item is not None}}

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
    foreign: tuple[Event, ...] = ()  # of another trace than the query's own, by whoever joined it: they count nowhere
    waiting: int = 0  # events of ``events`` that were read from the local spool, not yet from the store
    unreadable: tuple[Event, ...] = field(init=False, repr=False, compare=False)  # of a major version unknown here
    _by_kind: dict[str, tuple[Event, ...]] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Sort the readable events by kind, once: each check of each call asks for some of them."""
        strange = {identity(event) for event in self.foreign}
        own = (event for event in self.events if identity(event) not in strange)
        found: dict[str, list[Event]] = {}
        for event in chain(own, self.projected):
            kind = event.get("kind")
            if isinstance(kind, str) and readable(event):
                found.setdefault(kind, []).append(event)
        object.__setattr__(self, "unreadable", tuple(event for event in self.events if not readable(event)))
        self._by_kind.update((kind, tuple(events)) for kind, events in found.items())

    @property
    def query(self) -> Event | None:
        """The ``query`` event that began the query; None where it is missing."""
        begun = self.of("query")
        return next((event for event in begun if not event.get("joined")), begun[0] if begun else None)

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
        return self._by_kind.get(kind, ())


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


def _attempts(requests: Iterable[Event], responses: Iterable[Event]) -> Iterable[Attempt]:
    ended = {_number(event.get("attempt")): event for event in responses if event.get("evidence") == "wire"}
    for request in requests:
        if request.get("evidence") != "wire":
            continue
        number = _number(request.get("attempt"))
        response = ended.get(number, {})
        yield Attempt(
            number=number or 1,
            host=as_text(request.get("host")),
            path=as_text(request.get("path")),
            status=_number(response.get("status")),
            ms=_number(response.get("ms")),
            error=None if response.get("error") is None else as_text(response["error"]),
            unfinished=not response or bool(response.get("unfinished")),
        )


def _number(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


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
