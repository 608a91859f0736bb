"""One model request within a query, as the events of a record tell of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from otel_prompt_trace.core.events import Event
from otel_prompt_trace.core.pieces import Piece
from otel_prompt_trace.core.rendering import Rendering, compare
from otel_prompt_trace.core.request_parts import split_request, visible_parts
from otel_prompt_trace.core.segments import Split
from otel_prompt_trace.core.sightings import Sighting
from otel_prompt_trace.core.text import as_text
from otel_prompt_trace.core.verdict import EVIDENCE

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
