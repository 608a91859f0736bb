"""A value that arrives in pieces: texts grow, objects take further fields, lists further items.

A text under growth is a list of its pieces, joined once at the end: adding to a string at every piece would cost the
square of its length.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any


class Growing:
    """A text of which the rest is to come."""

    __slots__ = ("pieces",)

    def __init__(self, first: str = "") -> None:
        self.pieces = [first] if first else []

    def add(self, piece: Any) -> None:
        """One more piece; what is no text adds nothing."""
        if isinstance(piece, str):
            self.pieces.append(piece)

    @property
    def text(self) -> str:
        """All pieces so far."""
        return "".join(self.pieces)


def grow(into: dict[str, Any], delta: Mapping[str, Any], *, whole: Collection[str] = ()) -> None:
    """Adds a delta to an object: texts and lists are appended, objects merged, other values replaced.

    Fields named in ``whole`` come whole, though perhaps repeatedly: the first that is not empty stays.
    """
    for name, value in delta.items():
        held = into.get(name)
        if type(held) is Growing and type(value) is str and name not in whole:  # what nearly every delta is
            held.pieces.append(value)
        elif value is None:
            into.setdefault(name, None)
        elif name in whole:
            into[name] = held or value
        elif isinstance(value, str):
            if not isinstance(held, Growing):
                held = into[name] = Growing()
            held.add(value)
        elif isinstance(value, list) and isinstance(held, list):
            held.extend(value)
        elif isinstance(value, Mapping):
            if not isinstance(held, dict):
                held = into[name] = {}
            grow(held, value, whole=whole)
        else:
            into[name] = list(value) if isinstance(value, list) else value


def settled(value: Any) -> Any:
    """The value with every growing text in it as a string; the original goes on growing."""
    if isinstance(value, Growing):
        return value.text
    if isinstance(value, dict):
        return {name: settled(item) for name, item in value.items()}
    return [settled(item) for item in value] if isinstance(value, list) else value
