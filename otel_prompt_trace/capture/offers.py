"""Pieces declared in a query outside a call: offered to every call of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_prompt_trace.core.pieces import Piece, piece_of

if TYPE_CHECKING:
    from otel_prompt_trace.core.events import Event

_FEW = 8


class Offers:
    """The offers of one query. Declaring the same producer, source id and text again refreshes the offer.

    A refresh that asks for the text to be withheld is a new offer: it was not withheld before.
    """

    __slots__ = ("_by_length", "_by_text", "_events")

    def __init__(self) -> None:
        # By length, not by text: equal texts are mostly the same object, and a hash would read every character. Only
        # where many texts of one producer are equally long is each hashed, once, rather than compared with all others.
        self._by_length: dict[tuple[str, str | None, int], list[Event]] = {}
        self._by_text: dict[tuple[str, str | None, int], set[tuple[str, str | None]]] = {}
        self._events: list[Event] = []  # the offers, as they came

    def add(self, event: Event) -> bool:
        """Keep an offer; False where it stands already."""
        text, policy = event.get("text"), event.get("policy")
        key = (event["producer"], event.get("source_id"), len(text) if isinstance(text, str) else -1)
        same = self._by_length.setdefault(key, [])
        if isinstance(text, str) and len(same) >= _FEW:
            texts = self._by_text.get(key)
            if texts is None:
                texts = self._by_text[key] = {(other["text"], other.get("policy")) for other in same}
            if (text, policy) in texts:
                return False
            texts.add((text, policy))
        elif any(_equal(other, event) for other in same):
            return False
        same.append(event)
        self._events.append(event)
        return True

    def events(self) -> list[Event]:
        """The offers, as piece events without a call."""
        return list(self._events)

    def pieces(self) -> list[Piece]:
        """The offers as pieces."""
        return [piece_of(event) for event in self.events()]

    def __len__(self) -> int:
        return len(self._events)


def _equal(one: Event, other: Event) -> bool:
    return all(one.get(name) == other.get(name) for name in ("text", "value", "policy"))
