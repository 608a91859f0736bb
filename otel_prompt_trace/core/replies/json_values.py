"""JSON values that follow each other: lines (NDJSON), or the items of one array that is written piece by piece.

Only braces, brackets and quotes are looked at; each item is handed over as its bytes as soon as it closes. Bytes
outside items (white space, commas, bare words) carry nothing and are dropped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_OUTSIDE = re.compile(rb'["{}\[\]]')
_INSIDE = re.compile(rb'["\\]')


class JsonValues:
    """Cuts bytes into the objects at the top level, or directly within an array at the top level."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []  # of the item that is open
        self._depth = 0  # of braces and brackets within an item
        self._in_array = False
        self._in_string = False
        self._escaped = False

    @property
    def whole(self) -> bool:
        """Neither an item nor an array is open."""
        return not (self._depth or self._in_string or self._in_array)

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The items that these bytes complete."""
        start = position = 0
        if self._escaped and data:
            self._escaped, position = False, 1
        while position < len(data):
            found = (_INSIDE if self._in_string else _OUTSIDE).search(data, position)
            if found is None:
                break
            at, position = found.start(), found.end()
            mark = data[at:position]
            if mark == b"\\":
                self._escaped = position == len(data)
                position += 1
            elif mark == b'"':
                self._in_string = not self._in_string
            elif mark in b"{[":
                if mark == b"[" and not self._depth and not self._in_array:
                    self._in_array = True
                    continue
                if not self._depth:
                    start = at
                self._depth += 1
            elif self._depth:
                self._depth -= 1
                if not self._depth:
                    yield b"".join((*self._pieces, data[start:position]))
                    self._pieces.clear()
            else:
                self._in_array = False
        if self._depth:
            self._pieces.append(data[start:])
