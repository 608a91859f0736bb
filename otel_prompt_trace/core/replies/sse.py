"""Server-sent events, cut into events as the WHATWG specification says, however the bytes arrive.

Lines end with CRLF, LF or CR. Only whole lines are decoded, all that have arrived at once, so that no character is ever
cut: none contains the byte of a line end. Bytes that made up a finished line are not kept.
"""

from __future__ import annotations

from collections.abc import Iterator

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
        self._after_cr = data.endswith(b"\r") or (self._after_cr and not data)
        end = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
        if end:
            whole = b"".join((*self._pieces, data[:end])).decode("utf-8", "replace")
            self._pieces.clear()
            if "\r" in whole:
                whole = whole.replace("\r\n", "\n").replace("\r", "\n")
            yield from self._lines(whole[:-1].split("\n"))
        if end < len(data):
            self._pieces.append(data[end:])

    def rest(self) -> tuple[str, str] | None:
        """The event that lacks only its line ends, if there is one. Servers end their last event in either way."""
        name, data = self._name, list(self._data)
        try:
            if self._pieces:
                for _ in self._lines([b"".join(self._pieces).decode("utf-8", "replace")]):
                    pass
            return (self._name, "\n".join(self._data)) if self._data else None
        finally:
            self._name, self._data = name, data

    def _lines(self, lines: list[str]) -> Iterator[tuple[str, str]]:
        if self._first:
            lines[0], self._first = lines[0].removeprefix(_BOM), False
        for line in lines:
            if not line:
                if self._data:
                    yield self._name, "\n".join(self._data)
                self._name, self._data = "", []
            elif line.startswith("data: "):  # nearly every line; the general form of it is below
                self._data.append(line[6:])
            else:
                field, _, value = line.partition(":")
                if field == "data":
                    self._data.append(value.removeprefix(" "))
                elif field == "event":
                    self._name = value.removeprefix(" ")
