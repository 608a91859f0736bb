"""A candidate: what one convention's keys say of the request, the response or the hits of one span.

Several keys may describe the same prompt. A whole description is preferred to one with holes; then the one that was
given first, unless a later one has more messages and more text, so that the earlier can't be all there was.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from otel_prompt_trace.core.conventions.messages import characters


class Candidate(NamedTuple):
    """Fields of an event as read from ``source``, and the keys that are missing there."""

    source: str
    fields: dict[str, Any]
    missing: tuple[str, ...] = ()


def fullest(candidates: Iterable[Candidate]) -> Candidate | None:
    """The candidate to believe; None where there is none."""
    best: Candidate | None = None
    for found in candidates:
        if best is None or _better(found, best):
            best = found
    return best


def prompt_of(fields: dict[str, Any]) -> Any:
    """The prompt, in the form in which a request event holds it."""
    messages = fields.get("messages")
    return messages if messages is not None else fields.get("prompt")


def _better(found: Candidate, best: Candidate) -> bool:
    if bool(found.missing) != bool(best.missing):
        return not found.missing
    more, before = prompt_of(found.fields), prompt_of(best.fields)
    return _count(more) > _count(before) and characters(more) > characters(before)


def _count(prompt: Any) -> int:
    return len(prompt) if isinstance(prompt, list) else 1
