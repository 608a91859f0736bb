"""Pieces declared in a query outside a call: offered to every call of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from otel_prompt_trace.core.events import Event
    from otel_prompt_trace.core.pieces import Piece


class Offers:
    """The offers of one query. Declaring the same producer, source id and text again refreshes the offer."""

    __slots__ = ("_by_length", "withheld")

    def __init__(self) -> None:
        # By length, not by text: equal texts are mostly the same object, and a hash would read every character.
        self._by_length: dict[tuple[str, str | None, int], list[Event]] = {}
        self.withheld = False

    def add(self, event: Event) -> bool:
        """Keep an offer; False where it stands already."""
        text = event.get("text")
        key = (event["producer"], event.get("source_id"), len(text) if isinstance(text, str) else -1)
        same = self._by_length.setdefault(key, [])
        if any(other.get("text") == text and other.get("value") == event.get("value") for other in same):
            return False
        same.append(event)
        self.withheld = self.withheld or "policy" in event
        return True

    def events(self) -> list[Event]:
        """The offers, as piece events without a call."""
        return [event for same in list(self._by_length.values()) for event in list(same)]

    def pieces(self) -> list[Piece]:
        """The offers as pieces."""
        from otel_prompt_trace.core.seal import piece_of

        return [piece_of(event) for event in self.events()]

    def __len__(self) -> int:
        return sum(len(same) for same in list(self._by_length.values()))
