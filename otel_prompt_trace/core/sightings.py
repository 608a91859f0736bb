"""What spans, hooks and log records carried of a call, read as requests, responses and retrievals.

``content`` events are stored value by value as handed over. Reading them is left to whoever reads the record, so that
a better reading needs no new recording. What is read out of them is marked ``projected`` and is never stored.

One call may be told of several times: by the hook, by its own span, by the spans around it. The strongest is read,
the others are *sightings*. Beside a request that was declared, or captured on the wire, all of them are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from otel_prompt_trace.core.conventions.message_events import Carried
from otel_prompt_trace.core.conventions.projection import Projection
from otel_prompt_trace.core.conventions.projection import project as read
from otel_prompt_trace.core.events import Event
from otel_prompt_trace.core.text import as_text

_COMMON = ("v", "qid", "ts", "writer", "seq", "trace_id", "span_id", "service", "service_version", "environment")
_STRENGTH = {"hook": 0, "attributes": 1, "log": 2}


@dataclass(frozen=True, slots=True)
class Sighting:
    """One telling of a call: by which route, from which instrumentation's scope, by which span."""

    route: str
    scope: str
    trace_id: str | None
    span_id: str | None
    difference: Mapping[str, Any] | None = None  # what it reported otherwise than it was sent; None where unknown


def sightings(events: Iterable[Event], call: str) -> tuple[Sighting, ...]:
    """Everything that told of a call."""
    return tuple(
        Sighting(
            as_text(e.get("route")),
            as_text(e.get("scope") or ""),
            e.get("trace_id"),
            e.get("span_id"),
            e["difference"] if isinstance(e.get("difference"), Mapping) else None,
        )
        for e in events
        if e["kind"] == "content" and e.get("call") == call
    )


def lost_attributes(event: Event) -> int:
    """How many attributes the span of a ``content`` event had lost by then: what was read out of it may lack them."""
    lost = event.get("dropped_attributes")
    return lost if isinstance(lost, int) and lost > 0 else 0


def projected(events: list[Event]) -> list[Event]:
    """The requests, responses and retrievals that ``content`` events tell of and that are not recorded themselves."""
    found: list[Event] = []
    by_call: dict[Any, list[Event]] = {}
    own: dict[Any, list[Event]] = {}
    for event in events:
        own.setdefault(event.get("call"), []).append(event)
        if event["kind"] == "content":
            by_call.setdefault(event.get("call"), []).append(event)
    for call, told in by_call.items():
        if call is None:
            found += [made for event in told for made in _retrieval(event, read_content(event))]
        else:
            found += _of_call(call, told, own[call])
    return found


def _of_call(call: Any, told: list[Event], own: list[Event]) -> Iterator[Event]:
    requested = any(event["kind"] == "request" for event in own)
    answered = any(event["kind"] == "response" and not event.get("unfinished") for event in own)
    left = {"unfinished": True} if all(event.get("unfinished") for event in told) else {}  # no span of it ended
    for event in sorted(told, key=_rank):
        projection = read_content(event)
        evidence = "hook" if event.get("route") == "hook" else "attributes"
        if projection.request is not None and not requested:
            requested = True
            yield _made(event, "request", {"call": call, "evidence": evidence, **projection.request, **_lost(event)})
        if projection.response is not None and not answered:
            answered = "output" in projection.response
            yield _made(event, "response", {"call": call, **projection.response, **left})
        yield from _retrieval(event, projection)


def _lost(event: Event) -> dict[str, Any]:
    lost = lost_attributes(event)
    return {"dropped_attributes": lost} if lost else {}


def _rank(event: Event) -> tuple[bool, int]:
    return bool(event.get("sighting")), _STRENGTH.get(as_text(event.get("route")), 9)


def _retrieval(event: Event, projection: Projection) -> Iterator[Event]:
    if projection.retrieval is not None:
        yield _made(event, "retrieval", projection.retrieval)


def read_content(event: Event) -> Projection:
    """What a ``content`` event tells of."""
    values, attributes = event.get("values"), event.get("attributes")
    events = event.get("events")
    carried = [
        Carried(str(name), _mapping(_mapping(told).get("attributes")), _mapping(told).get("body"))
        for item in (events if isinstance(events, list) else ())
        for name, told in _mapping(item).items()
    ]
    return read(_mapping(values), _mapping(attributes), carried)


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _made(event: Event, kind: str, fields: Mapping[str, Any]) -> Event:
    common = {name: event[name] for name in _COMMON if name in event}
    return {**common, "kind": kind, "projected": True, **fields}
