"""Weaker evidence beside a request as sent: kept as digest, length and difference, where it tells nothing more.

An instrumentation hands over the prompt as it understood it, often twice. Where the bytes that were sent are recorded
in the same delivery, each of its values is compared with them: what it reported that was not sent stays, as text; of
what was sent and not reported the places are named; the value itself gives way to its sha256 and length. It does so
only if every text in it stands in what was sent, or in what stays: one report may be read from one value, and another
value beside it tell more. What nobody here can read stays whole. So does an answer, unless the wire gave it as well.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from otel_prompt_trace.core.contained import Texts
from otel_prompt_trace.core.conventions import content_event, content_key
from otel_prompt_trace.core.conventions.values import decoded
from otel_prompt_trace.core.events import Event
from otel_prompt_trace.core.rendering import Rendering, compare
from otel_prompt_trace.core.request_parts import split_request, visible_parts
from otel_prompt_trace.core.segments import Split
from otel_prompt_trace.core.sightings import read_content
from otel_prompt_trace.core.text import CutText, sha256_text, wrap

_IN = frozenset({"in", "system", "tools", "schema", "params"})
_ANSWER = ("output", "finish_reason", "usage", "model", "response_id")


@dataclass(frozen=True, slots=True)
class _Wire:
    """What the wire told of one call: its request and its answer, and the texts in them."""

    request: Event
    answer: Event
    sent: Texts
    given: Texts


def beside_the_wire(events: Iterable[Event]) -> list[Event]:
    """The events of one query, those of weaker evidence lessened."""
    listed = list(events)
    sent = {e.get("call"): e for e in listed if e["kind"] == "request" and e.get("evidence") == "wire" and "body" in e}
    if not sent:
        return listed
    answers = {
        e.get("call"): e
        for e in listed
        if e["kind"] == "response" and e.get("evidence") == "wire" and "output" in e and not e.get("unfinished")
    }
    told = {event.get("call") for event in listed if event["kind"] == "content"} & sent.keys()
    wires = {call: _wire(sent[call], answers.get(call, {})) for call in told}
    return [
        _lessened(event, wires[event["call"]]) if event["kind"] == "content" and event.get("call") in wires else event
        for event in listed
    ]


def difference(told: Mapping[str, Any], sent: Event, texts: Texts | None = None) -> dict[str, Any] | None:
    """What a reported request and the one that was sent have not in common; None where one of them can't be read.

    ``reported_only`` lists texts of the prompt that stand nowhere in what was sent, ``not_reported`` characters of the
    prompt, by path, that were reported nowhere, ``not_reported_parts`` definitions and schemas that were not reported
    whole. ``moved``: the messages were reported in another order.

    Args:
        texts: those of the body that was sent, where they have been gathered already.
    """
    reported, real = split_request(told), split_request(sent)
    if reported is None or real is None:
        return None
    if texts is None:
        texts = Texts(_body(sent) or [segment.text for segment in real[0].segments])
    filled = [(segment, texts.hold(segment.text)) for segment in reported[0].segments if segment.text]
    standing = Split(tuple(segment for segment, held in filled if held))  # to look for the others would take long
    found = compare(standing, real[0])
    parts = visible_parts(told)
    kinds, of_parts = set(map(_kind, parts)), Texts(parts.values())
    differing = {
        "reported_only": [{"path": segment.path, "text": segment.text} for segment, held in filled if not held],
        "not_reported": _not_reported(found, real[0], told),
        "not_reported_parts": [
            name for name, part in visible_parts(sent).items() if _kind(name) not in kinds or not of_parts.hold(part)
        ],
        "moved": found.moved and _moved(standing, found, real[0]),
    }
    return {name: value for name, value in differing.items() if value}


def _not_reported(found: Rendering, sent: Split, told: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What no reported text was found to cover, and was not reported in another form either: JSON as an object, say."""
    if not found.added:
        return []
    texts = Texts(told[name] for name in ("messages", "prompt", "parameters", "tools") if name in told)
    by_path = {segment.path: segment.text for segment in sent.segments}
    return [{"path": part.path, "chars": part.chars} for part in found.added if not texts.hold(by_path[part.path])]


def _moved(told: Split, found: Rendering, sent: Split) -> bool:
    """Whether texts stand in another message than their order tells: whole ones that were told of once."""
    numbers: dict[str, int] = {}
    messages = [numbers.setdefault(s.path.partition("]")[0], len(numbers)) for s in sent.segments]
    times = Counter(segment.text for segment in told.segments)
    standing = [
        messages[place[0]]
        for segment, place in zip(told.segments, found.places, strict=True)
        if place is not None and times[segment.text] == 1 and segment.text == sent.segments[place[0]].text
    ]
    return standing != sorted(standing)


def _wire(request: Event, answer: Event) -> _Wire:
    return _Wire(request, answer, Texts(_body(request)), Texts([answer[name] for name in _ANSWER if name in answer]))


def _body(request: Event) -> list[Any]:
    """What was sent, where all of it is text and nothing was cut."""
    return [decoded(run) for run in request["body"]] if len(request["body"]) == 1 else []


@dataclass(frozen=True, slots=True)
class _Reading:
    """What could be read of one report, and so which of its values may give way."""

    wire: _Wire
    difference: Mapping[str, Any] | None
    only: frozenset[str]  # the texts that stay in what is said of the difference
    same_answer: bool

    def gives_way(self, name: str, value: Any, direction: str | None) -> bool:
        """Whether a value tells nothing that is not kept elsewhere."""
        sent, given = self.wire.sent, self.wire.given
        if direction in _IN:
            return self.difference is not None and self.only.issuperset(sent.unknown(value, name))
        if direction == "out":
            return self.same_answer and all(map(sent.hold, given.unknown(value, name, codes=True)))
        if direction == "both" and self.difference is not None and self.same_answer:
            return all(leaf in self.only or given.hold(leaf) for leaf in sent.unknown(value, name, codes=True))
        return False

    def event_gives_way(self, name: str, told: Any) -> bool:
        """The same of a span event or log record, with all that it carries."""
        kind = content_event(name)
        if kind is None or not isinstance(told, Mapping):
            return False
        attributes = told.get("attributes") or {}
        return (told.get("body") is None or self.gives_way("", told["body"], kind.direction)) and all(
            self.gives_way(key, value, _direction(key, None if "." in key else kind.direction))
            for key, value in attributes.items()
        )


def _lessened(event: Event, wire: _Wire) -> Event:
    reported = [event.get("values"), event.get("events")]
    if any(_was_cut(run) for run in wire.request["body"]) or _holds_cuts(reported):
        return event  # what a policy left is little enough
    told = read_content(event)
    found = None if told.request is None else difference(told.request, wire.request, wire.sent)
    output = None if told.response is None else told.response.get("output")
    only = frozenset(text["text"] for text in (found or {}).get("reported_only", ()))
    reading = _Reading(wire, found, only, output is not None and output == wire.answer.get("output"))
    values, digests = {}, {}
    for key, value in (event.get("values") or {}).items():
        if reading.gives_way(key, value, _direction(key)):
            digests[key] = _digest(value)
        else:
            values[key] = value
    carried = []
    for item in event.get("events") or ():
        name = next(iter(item), "")
        if reading.event_gives_way(name, item.get(name)):
            digests[f"event {len(digests)} {name}"] = _digest(item[name])
        else:
            carried.append(item)
    if not digests:
        return event if found is None else {**event, "difference": found}
    rest = {name: item for name, item in event.items() if name not in ("values", "events")}
    lessened = {**rest, "values": values, **({"events": carried} if carried else {}), "digests": digests}
    return lessened if found is None else {**lessened, "difference": found}


def _direction(key: str, otherwise: str | None = None) -> str | None:
    place = content_key(key)
    return otherwise if place is None else place.direction


def _kind(name: str) -> str:
    return "tools" if "tool" in name.lower() or "function" in name.lower() else "schema"


def _digest(value: Any) -> dict[str, Any]:
    text = value if isinstance(value, str) else orjson.dumps(wrap(value), option=orjson.OPT_SORT_KEYS).decode()
    return {"sha256": sha256_text(text), "chars": len(text)}


def _was_cut(run: Any) -> bool:
    return isinstance(run, Mapping) and "cut" in run


def _holds_cuts(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(_holds_cuts(item) for item in value.values())
    return any(map(_holds_cuts, value)) if isinstance(value, list) else isinstance(value, CutText)
