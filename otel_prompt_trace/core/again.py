"""The placement of a recorded call, asked again: whether it gives the prompt that was recorded.

Invariants:

- A name in a record is compared with the names of registered functions. It is never imported, and nothing that is
  not registered is ever called: records come from outside.
- Whatever comes of it, no verdict rests on it alone: offsets are verified against the recorded prompt.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from otel_prompt_trace.core.events import Event
from otel_prompt_trace.core.pieces import Piece
from otel_prompt_trace.core.placement import Placement, placed_at, segments_of, trace
from otel_prompt_trace.core.prompt import Prompt
from otel_prompt_trace.core.rendering import carry_over
from otel_prompt_trace.core.request_parts import split_request
from otel_prompt_trace.core.segments import Segment, split

if TYPE_CHECKING:
    from otel_prompt_trace.core.call import Call

Status = Literal["same", "changed", "differs", "failed", "withheld", "unregistered", "not_asked"]


@dataclass(frozen=True, slots=True)
class Again:
    """What came of asking a recorded call's placement again.

    ``pieces`` are the call's, with offsets by construction where the status is ``same``; else None, and the recorded
    ones stand.
    """

    name: str
    status: Status
    detail: str
    pieces: tuple[Piece, ...] | None = None


def ask_again(call: Call, placements: Mapping[str, Placement] | None) -> Again | None:
    """Have the placement that a call was rendered by render it once more; None where it was rendered by none.

    Args:
        call: of a record.
        placements: the registered functions by name; None asks nothing.
    """
    request = call.declared_request or {}
    named = request.get("placement")
    name = named.get("name") if isinstance(named, Mapping) else None
    if not isinstance(named, Mapping) or not isinstance(name, str):
        return None
    if placements is None:
        return Again(name, "not_asked", "not asked again: the recorded offsets count")
    placement = placements.get(name)
    if placement is None:
        return Again(name, "unregistered", "no placement of this name is registered here: the recorded offsets count")
    recorded = named.get("sha256")
    if recorded != placement.sha256:
        detail = f"placement changed: recorded {_short(recorded)}, now {_short(placement.sha256)}"
        return Again(name, "changed", f"{detail}: the recorded offsets count")
    given = _given(call)
    own = _own_segments(request)
    if given is None or own is None or any(segment.cuts for segment in own):
        return Again(name, "withheld", "what it was given is not whole in the record: the recorded offsets count")
    try:
        prompt = placement.function(given)
        built = segments_of(prompt)
    except Exception as error:  # noqa: BLE001 - the application's, on a record that may be anybody's
        return Again(name, "failed", f"it raised {type(error).__name__}: the recorded offsets count")
    if [segment.text for segment in built] != [segment.text for segment in own]:
        return Again(name, "differs", "the same source gives another prompt today: the recorded offsets count")
    return Again(name, "same", "it gives the same prompt again", _derived(call, placement, given, prompt))


def summary(asked: Mapping[tuple[str, str, str], int]) -> list[str]:
    """What came of asking, a line each: calls counted by name, status and detail."""
    return [f"{name}: {detail} ({calls} call(s))" for (name, _, detail), calls in sorted(asked.items())]


def _derived(call: Call, placement: Placement, given: tuple[Piece, ...], prompt: Any) -> tuple[Piece, ...] | None:
    """The call's pieces with the offsets of today's rendering; None where the recorded ones are by construction."""
    traced = None if isinstance(prompt, Prompt) else trace(placement.function, given, prompt)
    if traced is None:
        return None
    taken = split_request(call.declared_request or {})
    before = 0 if taken is None else taken[1]
    rendering = call.rendering
    pieces = tuple(
        piece if piece.given is None else placed_at(piece, traced.places.get(piece.given), before)
        for piece in call.pieces
        if piece.given not in traced.left_out
    )
    return pieces if rendering is None else carry_over(pieces, rendering)


def _given(call: Call) -> tuple[Piece, ...] | None:
    """The pieces as the placement was given them; None where one is missing, or was kept as a digest alone."""
    numbered = {piece.given: piece for piece in (*call.pieces, *call.left_out) if piece.given is not None}
    if sorted(numbered) != list(range(len(numbered))):
        return None
    given = [numbered[number] for number in range(len(numbered))]
    if any(piece.text is None and piece.value is None for piece in given):
        return None
    return tuple(replace(piece, segment=None, start=None, end=None, given=None) for piece in given)


def _own_segments(request: Event) -> tuple[Segment, ...] | None:
    messages = request.get("messages")
    try:
        return split(messages if messages is not None else request.get("prompt")).segments
    except TypeError:
        return None


def _short(digest: object) -> str:
    return f"sha256 {digest[:12]}" if isinstance(digest, str) else "no digest"
