"""Lines to a stored object's bytes and back: zstd, level 1, with content size and checksum.

An object holds one query. Level 3 would take one and a half times as long, and save a twentieth of what is stored.

Written as one frame. Read as any number of frames in a row, since concatenated frames are a legal file and a reader
that stops after the first would lose the rest in silence. An object that is torn or damaged gives the bytes that can
still be had, beside the fault: zstd's unit is a block of 128 KiB, so little of a small object survives.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import zstandard

__all__ = ["pack", "pack_all", "unpack"]

_LEVEL = 1
_FEW = 2  # a call for several makes its own tables, which one alone does not pay for
_STEP = 1 << 20  # what one call decompresses; bounds the copies of what follows a frame
_SALVAGE_STEPS = 1 << 16

_idle: list[zstandard.ZstdCompressor] = []  # each for one thread at a time; a new one has its tables to allocate


def pack(lines: Iterable[bytes]) -> bytes:
    """One frame that holds the lines."""
    with _compressor() as compressor:
        return compressor.compress(b"".join(lines))


def pack_all(groups: Iterable[Iterable[bytes]]) -> list[bytes]:
    """A frame for each group of lines, the same that :func:`pack` gives.

    All in one call, which lets go of the interpreter's lock once: beside a thread that computes, whoever does so waits
    a switch interval to have it again.
    """
    contents = [b"".join(lines) for lines in groups]
    with _compressor() as compressor:
        together = getattr(compressor, "multi_compress_to_buffer", None)  # zstandard's C backend alone has it
        if together is None or len(contents) < _FEW or not all(contents):  # it refuses empty ones
            return [compressor.compress(content) for content in contents]
        return [frame.tobytes() for frame in together(contents)]


@contextmanager
def _compressor() -> Iterator[zstandard.ZstdCompressor]:
    import zstandard

    try:
        compressor = _idle.pop()
    except IndexError:
        compressor = zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True, write_content_size=True)
    try:
        yield compressor
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
