"""The AWS event stream encoding (``application/vnd.amazon.eventstream``), cut into messages.

A message, all numbers big-endian::

    total length (4) | headers length (4) | crc32 of these 8 bytes (4) | headers | payload | crc32 of all before (4)

A header is the length of its name (1), its name, a type (1) and a value whose length the type tells. A message whose
checksum is wrong ends the reading: where the next one would begin is not known any more.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator

_PRELUDE = struct.Struct(">III")
_CHECKSUM = 4
_LONGEST = 24 << 20  # the encoding allows 16 MiB of payload and 128 KiB of headers
_FIXED = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}  # lengths of values by type
_BYTES, _STRING = 6, 7

Headers = dict[str, str]


class Messages:
    """Cuts bytes into messages, each ``(headers that are text, payload)``."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self.broken: str | None = None  # why nothing further can be read

    @property
    def whole(self) -> bool:
        """No message is open."""
        return not self._buffer

    def feed(self, data: bytes) -> Iterator[tuple[Headers, bytes]]:
        """The messages that these bytes complete."""
        if self.broken is not None:
            return
        self._buffer += data
        while len(self._buffer) >= _PRELUDE.size:
            total, headers, checksum = _PRELUDE.unpack_from(self._buffer)
            if zlib.crc32(self._buffer[:8]) != checksum:
                self._break("the checksum of a message's lengths is wrong")
                return
            if not _PRELUDE.size + headers + _CHECKSUM <= total <= _LONGEST:
                self._break("a message's lengths are impossible")
                return
            if len(self._buffer) < total:
                return
            message = bytes(self._buffer[:total])
            del self._buffer[:total]
            if zlib.crc32(message[:-_CHECKSUM]) != int.from_bytes(message[-_CHECKSUM:], "big"):
                self._break("the checksum of a message is wrong")
                return
            start = _PRELUDE.size + headers
            try:
                found = _headers(message[_PRELUDE.size : start])
            except (IndexError, KeyError):
                self._break("a message's headers cannot be read")
                return
            yield found, message[start:-_CHECKSUM]

    def _break(self, reason: str) -> None:
        self.broken = reason
        self._buffer.clear()


def _headers(raw: bytes) -> Headers:
    found: Headers = {}
    position = 0
    while position < len(raw):
        name_end = position + 1 + raw[position]
        name = raw[position + 1 : name_end].decode("utf-8", "replace")
        kind = raw[name_end]
        position = name_end + 1
        if kind in (_BYTES, _STRING):
            length = raw[position] << 8 | raw[position + 1]
            position += 2
        else:
            length = _FIXED[kind]
        if position + length > len(raw):
            raise IndexError(name)
        if kind == _STRING:
            found[name] = raw[position : position + length].decode("utf-8", "replace")
        position += length
    return found
