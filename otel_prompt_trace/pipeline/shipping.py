"""From frames to stored lines: what the shipper and ``ship`` have in common."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Protocol

from otel_prompt_trace.core.events import Event, Identity, Problem, encode, identity
from otel_prompt_trace.core.seal import seal
from otel_prompt_trace.exceptions import InvalidEvent
from otel_prompt_trace.pipeline import frames
from otel_prompt_trace.pipeline.flags import LINES


class Payloads(Protocol):
    """The part of :class:`otel_prompt_trace.store.PayloadStore` that delivery needs."""

    def write(self, events: Sequence[tuple[Identity, bytes]], qid: str, now: datetime) -> list[str]:
        """Store lines of one qid; what is stored already is left as it is."""


def stored_lines(
    parts: Iterable[tuple[str, frames.Frame]], source: str
) -> tuple[list[tuple[Identity, bytes]], list[Problem]]:
    """The lines to store for frames of one qid, and a problem for each event that is none.

    Args:
        parts: pairs of (writer, frame).
        source: the name by which problems are reported.
    """
    lines: list[tuple[Identity, bytes]] = []
    problems: list[Problem] = []
    for writer, frame in parts:
        events: list[Event] = []
        for item in frames.expand(frame, writer, source):
            if isinstance(item, Problem):
                problems.append(item)
            else:
                events.append(item)
        try:
            sealed = events if frame.flags & LINES else seal(events)
        except Exception as error:  # noqa: BLE001 - one frame that can't be sealed must not hold up the others
            problems.append(Problem(source, frame.offset, f"events that can't be sealed: {type(error).__name__}"))
            continue
        for event in sealed:
            try:
                lines.append((identity(event), encode(event)))
            except (InvalidEvent, TypeError, ValueError) as error:
                problems.append(Problem(source, frame.offset, f"event that can't be stored: {error}"))
    return lines, problems
