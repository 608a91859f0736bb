"""JSON with the place of every string: the value that a JSON text stands for, whose strings know where they stood.

Nothing is lost on the way. A name that an object holds twice keeps both values: hosts differ in which of the two they
read. Nesting costs no recursion. What is no JSON is refused, never repaired.
"""

from __future__ import annotations

import re
from json.decoder import scanstring  # type: ignore[attr-defined]  # typeshed leaves it out; the standard library has it
from typing import Any

_SPACE = re.compile(r"[ \t\r\n]*")
_SCALAR = re.compile(r"(-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)|[a-zA-Z]+")
_WORDS = {"true": True, "false": False, "null": None}
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|.)", re.DOTALL)
# What may come next, in this order: first what takes a value, last what takes a name.
_VALUE, _FIRST, _COLON, _NEXT, _NAME, _FIRST_NAME = range(6)
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
    padded = text + "\0"  # there is a character to look at wherever the text ends
    position, want = 0, _VALUE
    root: list[Any] = []
    holder: Any = root
    name: Any = None
    value: Any
    stack: list[tuple[Any, Any]] = []  # what is around the holder, and the name below which it stands
    while stack or not root:  # one loop without calls for each token: a body has thousands of them
        mark = padded[position]
        if mark == '"':
            start = position + 1
            try:
                decoded, position = scanstring(padded, start, False)
            except ValueError as error:
                raise NotJson(str(error)) from None
            value = At(decoded)
            value.start, value.end = start, position - 1
            if want >= _NAME:
                name, want = value, _COLON
                continue
        elif mark == ":" and want == _COLON:
            position, want = position + 1, _VALUE
            continue
        elif mark == "," and want == _NEXT and stack:
            position, want = position + 1, _NAME if type(holder) is Fields else _VALUE
            continue
        elif mark in " \t\r\n":
            position = position + 1 if padded[position + 1] > " " else _after_space(padded, position)
            continue
        elif mark in "[{" and want <= _FIRST:
            stack.append((holder, name))
            holder, want = (Items(), _FIRST) if mark == "[" else (Fields(), _FIRST_NAME)
            holder.start = position
            position += 1
            continue
        elif mark in "]}" and _closes(mark, holder, want):
            position += 1
            value, want = holder, _VALUE
            value.end = position
            holder, name = stack.pop()
        else:
            value, position = _scalar(padded, position)
        if want > _FIRST:
            raise NotJson(f"a value at {position}")
        want = _NEXT
        if type(holder) is not Fields:
            holder.append(value)
        elif name in holder:
            holder[_again(holder, name)] = value
        else:
            holder[name] = value
    if _after_space(text, position) != len(text):
        raise NotJson(f"it goes on after its end, at {position}")
    return root[0]


def _closes(mark: str, holder: Any, want: int) -> bool:
    if mark == "]":
        return type(holder) is Items and want in (_NEXT, _FIRST)
    return type(holder) is Fields and want in (_NEXT, _FIRST_NAME)


def _scalar(text: str, position: int) -> tuple[int | float | bool | None, int]:
    """A number or a word, and the place after it."""
    token = _SCALAR.match(text, position)
    if token is None:
        ends = position == len(text) - 1
        raise NotJson(f"it ends too early, at {position}" if ends else f"{text[position]!r} at {position}")
    if token[1] is not None:
        return _number(token[1]), token.end()
    if token[0] not in _WORDS:
        raise NotJson(f"{token[0][:20]!r} at {position}")
    return _WORDS[token[0]], token.end()


def _after_space(text: str, position: int) -> int:
    space = _SPACE.match(text, position)
    return position if space is None else space.end()


def _again(holder: Fields, name: At) -> At:
    """A name of its own for what stands once more under a name."""
    times = holder.times = getattr(holder, "times", {})
    while True:
        times[name] = times.get(name, 1) + 1
        numbered = At.of(f"{name}{SHADOWED}{times[name]}", name.start, name.end)
        if numbered not in holder:
            return numbered


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
