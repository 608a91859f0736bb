"""JSON with the place of every string: the value that a JSON text stands for, whose strings know where they stood.

Nothing is lost on the way. A name that an object holds twice keeps both values: hosts differ in which of the two they
read. Nesting costs no recursion. What is no JSON is refused, never repaired.
"""

from __future__ import annotations

import re
from json.decoder import scanstring  # type: ignore[attr-defined]  # typeshed leaves it out; the standard library has it
from typing import Any

_TOKEN = re.compile(
    r'[ \t\r\n]*(?:([\[\]{},:])|(")|(-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)|([a-zA-Z]+))'
)
_SPACE = re.compile(r"[ \t\r\n]*")
_WORDS = {"true": True, "false": False, "null": None}
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|.)", re.DOTALL)
SHADOWED = "\u0000"  # between a name that stands twice and a number; no API has such a name


class At(str):
    """A string of a JSON text. ``start`` and ``end`` delimit what stands between its quotes, in code points."""

    __slots__ = ("end", "start")
    start: int
    end: int

    @classmethod
    def of(cls, value: str, start: int, end: int) -> At:
        """The decoded string, with its place."""
        self = cls(value)
        self.start = start
        self.end = end
        return self


class Fields(dict[str, Any]):
    """An object of a JSON text; ``start`` and ``end`` delimit it, its braces included."""

    __slots__ = ("end", "start", "times")
    start: int
    end: int
    times: dict[str, int]  # how often a name has stood here, for those that stand more than once


class Items(list[Any]):
    """An array of a JSON text; ``start`` and ``end`` delimit it, its brackets included."""

    __slots__ = ("end", "start")
    start: int
    end: int


class NotJson(ValueError):
    """The text is no JSON."""


def scan(text: str) -> Any:
    """The value of a JSON text, whose strings (names as well), objects and arrays know their places.

    Raises:
        NotJson: the text is no JSON.
    """
    return _Scanner(text).value()


class _Scanner:
    """Reads token by token. ``want`` is what may come next: value, first, name, first-name, colon or next."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0
        self.want = "value"
        self.root: list[Any] = []
        self.holder: Any = self.root
        self.name: At | None = None
        self.stack: list[tuple[Any, At | None]] = []  # what is around the holder, and the name below which it stands

    def value(self) -> Any:
        while self.stack or not self.root:
            token = _TOKEN.match(self.text, self.position)
            if token is None:
                raise NotJson(f"it ends too early, at {self.position}")
            mark, quote, number, word = token.groups()
            self.position = token.end()
            if quote is not None:
                self._string()
            elif number is not None:
                self._put(_number(number))
            elif word is not None:
                if word not in _WORDS:
                    raise NotJson(f"{word[:20]!r} at {self.position}")
                self._put(_WORDS[word])
            elif mark in "[{":
                self._open(mark)
            elif mark in "]}":
                self._close(mark)
            else:
                self._separate(mark)
        if _SPACE.fullmatch(self.text, self.position) is None:
            raise NotJson(f"it goes on after its end, at {self.position}")
        return self.root[0]

    def _string(self) -> None:
        try:
            decoded, after = scanstring(self.text, self.position, False)
        except ValueError as error:
            raise NotJson(str(error)) from None
        string = At.of(decoded, self.position, after - 1)
        self.position = after
        if self.want in ("name", "first-name"):
            self.name, self.want = string, "colon"
        else:
            self._put(string)

    def _put(self, value: Any) -> None:
        if self.want not in ("value", "first"):
            raise NotJson(f"a value at {self.position}")
        if isinstance(self.holder, list):
            self.holder.append(value)
        else:
            self.holder[self.name if self.name not in self.holder else self._again(self.name)] = value
        self.want = "next"

    def _again(self, name: Any) -> At:
        times = self.holder.times = getattr(self.holder, "times", {})
        while True:
            times[name] = times.get(name, 1) + 1
            numbered = At.of(f"{name}{SHADOWED}{times[name]}", name.start, name.end)
            if numbered not in self.holder:
                return numbered

    def _open(self, mark: str) -> None:
        if self.want not in ("value", "first"):
            raise NotJson(f"{mark!r} at {self.position}")
        self.stack.append((self.holder, self.name))
        self.holder = Items() if mark == "[" else Fields()
        self.holder.start = self.position - 1
        self.want = "first" if mark == "[" else "first-name"

    def _close(self, mark: str) -> None:
        closes = isinstance(self.holder, Items if mark == "]" else Fields)
        if not closes or self.want not in ("next", "first", "first-name"):
            raise NotJson(f"{mark!r} at {self.position}")
        closed = self.holder
        closed.end = self.position
        self.holder, self.name = self.stack.pop()
        self.want = "value"
        self._put(closed)

    def _separate(self, mark: str) -> None:
        if mark == "," and self.want == "next" and self.stack:
            self.want = "value" if isinstance(self.holder, list) else "name"
        elif mark == ":" and self.want == "colon":
            self.want = "value"
        else:
            raise NotJson(f"{mark!r} at {self.position}")


def raw_place(text: str, string: At, start: int, end: int) -> tuple[int, int]:
    """Where the characters ``start`` to ``end`` of a string stand in the text that it was scanned from."""
    if string.end - string.start == len(string):  # no escape in it
        return string.start + start, string.start + end
    found = []
    decoded, position = 0, string.start
    wanted = [start, end]
    while wanted:
        while wanted and wanted[0] <= decoded:
            found.append(position)
            wanted.pop(0)
        if position >= string.end:
            break
        position, decoded = _step(text, position, string.end), decoded + 1
    found += [string.end] * len(wanted)
    return found[0], found[1]


def _step(text: str, position: int, end: int) -> int:
    """The place after one decoded character."""
    escape = _ESCAPE.match(text, position, end)
    if escape is None:
        return position + 1
    if escape[1] is not None and escape[1][:2].lower() in ("d8", "d9", "da", "db"):
        low = _ESCAPE.match(text, escape.end(), end)
        if low is not None and low[1] is not None and low[1][:2].lower() in ("dc", "dd", "de", "df"):
            return low.end()
    return escape.end()


def _number(text: str) -> int | float:
    try:
        return int(text)
    except ValueError:  # a fraction, or more digits than the interpreter converts
        return float(text)
