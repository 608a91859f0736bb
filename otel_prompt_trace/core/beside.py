"""Weaker evidence beside a request as sent: kept as digest, length and difference, where it tells nothing more.

An instrumentation hands over the prompt as it understood it, often twice. Where the bytes that were sent are recorded
in the same delivery, each of its values is compared with them: what it reported that was not sent stays, as text; of
what was sent and not reported the places are named; the value itself gives way to its sha256 and length. A value that
nobody here can read stays whole. So does an answer, unless the wire gave it whole as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import orjson

from otel_prompt_trace.core.conventions import content_event, content_key
from otel_prompt_trace.core.events import Event
from otel_prompt_trace.core.rendering import compare
from otel_prompt_trace.core.request_parts import split_request, visible_parts
from otel_prompt_trace.core.segments import Split
from otel_prompt_trace.core.sightings import read_content
from otel_prompt_trace.core.text import CutText, sha256_text, wrap

_IN = frozenset({"in", "system", "tools", "schema", "params"})


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
    return [
        _lessened(event, sent[event["call"]], answers.get(event["call"]))
        if event["kind"] == "content" and event.get("call") in sent
        else event
        for event in listed
    ]


def difference(told: Mapping[str, Any], sent: Event) -> dict[str, Any] | None:
    """What a reported request and the one that was sent have not in common; None where one of them can't be read."""
    reported, real = split_request(told), split_request(sent)
    if reported is None or real is None:
        return None
    found = compare(_filled(reported[0]), real[0])
    only = [
        {"path": segment.path, "text": segment.text}
        for segment, place in zip(_filled(reported[0]).segments, found.places, strict=True)
        if place is None
    ]
    seen = visible_parts(told)
    kinds = {_kind(name) for name in seen}
    missing = [name for name in visible_parts(sent) if _kind(name) not in kinds]
    differing = {
        "reported_only": only,
        "not_reported": [{"path": part.path, "chars": part.chars} for part in found.added],
        "not_reported_parts": missing,
        "moved": found.moved,
    }
    return {name: value for name, value in differing.items() if value}


def _lessened(event: Event, sent: Event, answer: Event | None) -> Event:
    if any(_was_cut(run) for run in sent["body"]) or _holds_cuts(event.get("values")):
        return event  # what a policy left is little enough
    told = read_content(event)
    found = None if told.request is None else difference(told.request, sent)
    known = set(_IN) if found is not None else set()
    if answer is not None and told.response is not None and told.response.get("output") == answer.get("output"):
        known.add("out")
    if known >= {*_IN, "out"}:
        known.add("both")
    values, digests = {}, {}
    for key, value in (event.get("values") or {}).items():
        place = content_key(key)
        if place is not None and place.direction in known:
            digests[key] = _digest(value)
        else:
            values[key] = value
    carried = []
    for item in event.get("events") or ():
        name = next(iter(item), "")
        kind = content_event(name)
        if kind is not None and kind.direction in known:
            digests[f"event {len(digests)} {name}"] = _digest(item[name])
        else:
            carried.append(item)
    if not digests:
        return event if found is None else {**event, "difference": found}
    rest = {name: item for name, item in event.items() if name not in ("values", "events")}
    lessened = {**rest, "values": values, **({"events": carried} if carried else {}), "digests": digests}
    return lessened if found is None else {**lessened, "difference": found}


def _filled(prompt: Split) -> Split:
    return Split(tuple(segment for segment in prompt.segments if segment.text), prompt.outside)


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
