"""Lines to a stored object's bytes and back: zstd, level 1, with content size and checksum.

An object holds one query. Level 3 would take one and a half times as long, and save a twentieth of what is stored.

Written as one frame. Read as any number of frames in a row, since concatenated frames are a legal file and a reader
that stops after the first would lose the rest in silence. An object that is torn or damaged gives the bytes that can
still be had, beside the fault: zstd's unit is a block of 128 KiB, so little of a small object survives.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import zstandard

__all__ = ["pack", "unpack"]

_LEVEL = 1
_STEP = 1 << 20  # what one call decompresses; bounds the copies of what follows a frame
_SALVAGE_STEPS = 1 << 16

_idle: list[zstandard.ZstdCompressor] = []  # each for one thread at a time; a new one has its tables to allocate


def pack(lines: Iterable[bytes]) -> bytes:
    """One frame that holds the lines."""
    import zstandard

    try:
        compressor = _idle.pop()
    except IndexError:
        compressor = zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True, write_content_size=True)
    try:
        return compressor.compress(b"".join(lines))
    finally:
        _idle.append(compressor)


def unpack(data: bytes) -> tuple[bytes, str]:
    """The bytes that all frames hold, and what is wrong with the object (empty: nothing)."""
    held, fault, damaged = _decompress(data, _STEP)
    if damaged:  # a call that fails keeps what it had: once more in small steps, to get at that
        held, fault, _ = _decompress(data, max(1, len(data) // _SALVAGE_STEPS))
    if not held and not fault:
        fault = "the object is empty"
    return held, fault


def _decompress(data: bytes, step: int) -> tuple[bytes, str, bool]:
    import zstandard

    held: list[bytes] = []
    view = memoryview(data)
    position = 0
    while position < len(data):
        frame = zstandard.ZstdDecompressor().decompressobj()
        while not frame.eof and position < len(data):
            piece = view[position : position + step]
            try:
                held.append(frame.decompress(piece))
            except zstandard.ZstdError as error:
                return b"".join(held), f"the object is damaged ({error})", True
            position += len(piece) - len(frame.unused_data)
        if not frame.eof:
            return b"".join(held), "the object is torn: it ends inside a frame", False
    return b"".join(held), "", False
