"""Server-sent events, cut into events as the WHATWG specification says, however the bytes arrive.

Lines end with CRLF, LF or CR. Lines are cut in bytes and decoded whole, so that no character is ever cut. Bytes that
made up a finished line are not kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_LINE_END = re.compile(rb"\r\n?|\n")
_BOM = "\ufeff"


class EventLines:
    """Cuts bytes into events, each ``(name, data)``."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []  # of the line that has no end yet
        self._after_cr = False  # a LF that follows belongs to the line end already seen
        self._first = True
        self._name = ""
        self._data: list[str] = []

    def feed(self, data: bytes) -> Iterator[tuple[str, str]]:
        """The events that these bytes complete."""
        if self._after_cr and data:
            self._after_cr = False
            data = data.removeprefix(b"\n")
        start = 0
        for end in _LINE_END.finditer(data):
            yield from self._line(b"".join((*self._pieces, data[start : end.start()])))
            self._pieces.clear()
            start = end.end()
        self._after_cr = data.endswith(b"\r") or (self._after_cr and not data)
        if start < len(data):
            self._pieces.append(data[start:])

    def rest(self) -> tuple[str, str] | None:
        """The event that lacks only its line ends, if there is one. Servers end their last event in either way."""
        name, data = self._name, list(self._data)
        try:
            if self._pieces:
                for _ in self._line(b"".join(self._pieces)):
                    pass
            return (self._name, "\n".join(self._data)) if self._data else None
        finally:
            self._name, self._data = name, data

    def _line(self, raw: bytes) -> Iterator[tuple[str, str]]:
        line = raw.decode("utf-8", "replace")
        if self._first:
            line, self._first = line.removeprefix(_BOM), False
        if not line:
            if self._data:
                yield self._name, "\n".join(self._data)
            self._name, self._data = "", []
            return
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "data":
            self._data.append(value)
        elif field == "event":
            self._name = value
