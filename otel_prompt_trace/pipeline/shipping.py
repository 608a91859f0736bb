"""From frames to what is stored: lines, and beside them the binary runs of bodies.

What the shipper and ``ship`` have in common.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any, Protocol

from otel_prompt_trace.core.beside import beside_the_wire
from otel_prompt_trace.core.bodies.blobs import SMALLEST, head_of
from otel_prompt_trace.core.bodies.runs import parts_of
from otel_prompt_trace.core.bodies.scan import At, raw_place
from otel_prompt_trace.core.events import Event, Identity, Problem, encode, identity
from otel_prompt_trace.core.seal import seal
from otel_prompt_trace.core.text import utf8
from otel_prompt_trace.exceptions import InvalidEvent
from otel_prompt_trace.pipeline import frames
from otel_prompt_trace.pipeline.flags import LINES


class Payloads(Protocol):
    """The part of :class:`otel_prompt_trace.store.PayloadStore` that delivery needs."""

    def write(
        self,
        events: Sequence[tuple[Identity, bytes]],
        qid: str,
        now: datetime,
        blobs: Mapping[str, bytes] | None = None,
        *,
        elsewhere: date | None = None,
    ) -> object:
        """Store binary runs and lines of one qid; what is stored already is left as it is."""


@dataclass(slots=True)
class Delivery:
    """What is to be stored of one qid. ``problems`` are events that can't be; ``poison`` the frames that hold them.

    ``begins`` where the query's own event is the first of them.
    """

    lines: list[tuple[Identity, bytes]] = field(default_factory=list)
    blobs: dict[str, bytes] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    poison: list[frames.Frame] = field(default_factory=list)
    begins: bool = False


def deliverable(parts: Iterable[tuple[str, frames.Frame]], source: str) -> Delivery:
    """What to store for frames of one qid.

    Args:
        parts: pairs of (writer, frame).
        source: the name by which problems are reported.
    """
    found = Delivery()
    events: list[Event] = []
    frame_of: dict[Identity, frames.Frame] = {}
    for writer, frame in parts:
        sealed, problems = sealed_events(writer, frame, source)
        events += sealed
        frame_of |= {identity(event): frame for event in sealed}
        if problems:
            found.problems += problems
            found.poison.append(frame)
    first = min(events, key=identity, default=None)
    found.begins = first is not None and first["kind"] == "query"
    for event in beside_the_wire(events):
        try:
            line = encode(_without_binary(event, found.blobs))
        except (InvalidEvent, TypeError, ValueError) as error:
            frame = frame_of[identity(event)]
            found.problems.append(Problem(source, frame.offset, f"event that can't be stored: {error}"))
            if not any(frame is held for held in found.poison):
                found.poison.append(frame)
        else:
            found.lines.append((identity(event), line))
    return found


def sealed_events(writer: str, frame: frames.Frame, source: str) -> tuple[list[Event], list[Problem]]:
    """The events of a frame as they are stored, and a problem for what can't be."""
    expanded = list(frames.expand(frame, writer, source))
    problems = [item for item in expanded if isinstance(item, Problem)]
    events = [item for item in expanded if not isinstance(item, Problem)]
    try:
        return events if frame.flags & LINES else seal(events), problems
    except Exception as error:  # noqa: BLE001 - one frame that can't be sealed must not hold up the others
        return [], [*problems, Problem(source, frame.offset, f"events that can't be sealed: {type(error).__name__}")]


def _without_binary(event: Event, blobs: dict[str, bytes]) -> Event:
    """A request as sent with its images and files named by their digests; their bytes go to ``blobs``."""
    body = event.get("body")
    if event["kind"] != "request" or not isinstance(body, list) or len(body) != 1 or not isinstance(body[0], str):
        return event
    parts, text = parts_of(body), body[0]
    places = sorted(
        _encoded(text, part.value)
        for part in (parts.prompt.outside if parts is not None else ())
        if part.kind == "binary" and isinstance(part.value, At) and len(part.value) >= SMALLEST
    )
    if not places:
        return event
    reached = 0
    runs: list[Any] = []
    for start, end in places:
        data = utf8(text[start:end])
        digest = hashlib.sha256(data).hexdigest()
        blobs[digest] = data
        runs += [text[reached:start], {"blob": digest, "bytes": len(data)}]
        reached = end
    return {**event, "body": [*runs, text[reached:]]}


def _encoded(text: str, value: At) -> tuple[int, int]:
    """The place of what is encoded: a data URL's head says what it is, and stays."""
    head = head_of(value)
    return raw_place(text, value, head, head)[0], value.end
