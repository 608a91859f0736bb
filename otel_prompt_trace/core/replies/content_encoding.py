"""Content codings of HTTP bodies undone: gzip, deflate, zstd, br, and several in a row.

A body that was cut gives what its bytes still tell. What is decoded is bounded, since a few bytes can stand for any
number of them.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator

LIMIT = 256 << 20  # bytes
_STEP = 1 << 20
_PIECE = 512  # bytes given to decoders that have no bound of their own on what they answer at once

_Decoder = Callable[[bytes], Iterator[bytes]]


class _Undecodable(Exception):
    """Why a decoder cannot go on; what it gave before stands."""


def decode_body(body: bytes, content_encoding: str, *, limit: int = LIMIT) -> tuple[bytes, str | None]:
    """The body without its content codings, and why it could not be decoded whole (None if it could).

    Args:
        body: the bytes as received, perhaps not all of them.
        content_encoding: the header's value: codings in the order in which they were applied.
        limit: bytes at which each coding stops.
    """
    reason: str | None = None
    codings = [coding.strip().lower() for coding in content_encoding.split(",")]
    for coding in reversed(codings):
        if coding in ("", "identity"):
            continue
        decoder = _DECODERS.get(coding)
        if decoder is None:
            return b"", f"unknown content coding {coding[:32]!r}"
        body, failed = _bounded(decoder, body, limit)
        reason = reason or (failed and f"{coding}: {failed}")
    return body, reason


def _bounded(decoder: _Decoder, body: bytes, limit: int) -> tuple[bytes, str | None]:
    if not body:
        return b"", None
    pieces: list[bytes] = []
    size = 0
    try:
        for piece in decoder(body):
            pieces.append(piece)
            size += len(piece)
            if size > limit:
                return b"".join(pieces)[:limit], f"more than {limit} bytes"
    except _Undecodable as why:
        return b"".join(pieces), str(why)
    except Exception as why:  # noqa: BLE001 - each library has errors of its own, and all mean the same here
        return b"".join(pieces), f"not decodable ({type(why).__name__})"
    return b"".join(pieces), None


def _gzip(body: bytes) -> Iterator[bytes]:
    while body:
        member = zlib.decompressobj(31)
        yield from _inflated(member, body)
        body = member.unused_data.lstrip(b"\0")  # members may follow each other, with padding between them


def _deflate(body: bytes) -> Iterator[bytes]:
    """With the zlib header that the standard asks for, or without it, as some servers send it."""
    try:
        zlib.decompressobj().decompress(body[:64])
        member = zlib.decompressobj()
    except zlib.error:
        member = zlib.decompressobj(-zlib.MAX_WBITS)
    yield from _inflated(member, body)


def _inflated(member: zlib._Decompress, body: bytes) -> Iterator[bytes]:
    while True:
        found = member.decompress(body, _STEP)
        if found:
            yield found
        body = member.unconsumed_tail
        if member.eof:
            return
        if not found and not body:
            raise _Undecodable("ended before its end")


def _zstd(body: bytes) -> Iterator[bytes]:
    try:
        import zstandard
    except ImportError:
        raise _Undecodable("zstandard is not installed") from None
    while body:
        frame = zstandard.ZstdDecompressor(max_window_size=1 << 27).decompressobj()
        for at in range(0, len(body), _PIECE):
            yield frame.decompress(body[at : at + _PIECE])
            if frame.eof:
                break
        if not frame.eof:
            raise _Undecodable("ended before its end")
        body = frame.unused_data + body[at + _PIECE :]


def _br(body: bytes) -> Iterator[bytes]:
    try:
        import brotli  # type: ignore[import-not-found,import-untyped,unused-ignore]
    except ImportError:
        raise _Undecodable("brotli is not installed") from None
    decoder = brotli.Decompressor()
    bounded = hasattr(decoder, "can_accept_more_data")  # since 1.2
    size = _PIECE if bounded else 16  # a few bytes can stand for many megabytes
    for at in range(0, len(body), size):
        if not bounded:
            yield decoder.process(body[at : at + size])
            continue
        yield decoder.process(body[at : at + size], output_buffer_limit=_STEP)
        while not decoder.can_accept_more_data():
            yield decoder.process(b"", output_buffer_limit=_STEP)
    if not decoder.is_finished():
        raise _Undecodable("ended before its end")


_DECODERS: dict[str, _Decoder] = {
    "gzip": _gzip,
    "x-gzip": _gzip,
    "deflate": _deflate,
    "zstd": _zstd,
    "br": _br,
}
