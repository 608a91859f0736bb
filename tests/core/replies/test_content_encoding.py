"""Content codings are undone, as far as the bytes go, and no further than the bound."""

from __future__ import annotations

import gzip
import zlib

import pytest
import zstandard

from otel_prompt_trace.core.replies import decode_body

_TEXT = "Ein Körper, der oft genug wiederkehrt. ".encode() * 400


def _raw_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packer.compress(data) + packer.flush()


_CODED = {
    "gzip": gzip.compress(_TEXT),
    "x-gzip": gzip.compress(_TEXT[:99]) + gzip.compress(_TEXT[99:]) + bytes(7),
    "deflate": zlib.compress(_TEXT),
    "Deflate ": _raw_deflate(_TEXT),
    "zstd": zstandard.compress(_TEXT),
    "ZSTD": zstandard.compress(_TEXT[:99]) + zstandard.compress(_TEXT[99:]),
    "gzip, zstd": zstandard.compress(gzip.compress(_TEXT)),
    "identity": _TEXT,
    "": _TEXT,
}


@pytest.mark.parametrize("coding", _CODED)
def test_a_coding_is_undone(coding: str) -> None:
    """Names in any case, members and frames one after the other, codings from the last to the first."""
    assert decode_body(_CODED[coding], coding) == (_TEXT, None)


@pytest.mark.parametrize("coding", [name for name in _CODED if name.strip(" ") not in ("", "identity")])
def test_a_body_that_was_cut_gives_its_beginning(coding: str) -> None:
    """Cut anywhere, it gives a beginning of the text and says so, unless it was cut between two members."""
    raw = _CODED[coding]
    for at in range(1, len(raw), 7):
        found, reason = decode_body(raw[:at], coding)
        assert _TEXT.startswith(found)
        assert reason is not None or found in (_TEXT, _TEXT[:99])


def test_a_stream_flushed_piece_by_piece_gives_every_piece() -> None:
    """What a host has flushed can be read, though the stream has no end yet."""
    for packer, coding in ((zlib.compressobj(wbits=31), "gzip"), (zlib.compressobj(), "deflate")):
        raw = packer.compress(b"data: 1\n\n") + packer.flush(zlib.Z_SYNC_FLUSH)
        assert decode_body(raw, coding) == (b"data: 1\n\n", f"{coding}: ended before its end")
    frame = zstandard.ZstdCompressor().compressobj()
    raw = frame.compress(b"data: 1\n\n") + frame.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
    assert decode_body(raw, "zstd") == (b"data: 1\n\n", "zstd: ended before its end")


@pytest.mark.parametrize("coding", ["gzip", "deflate", "zstd"])
def test_what_is_decoded_is_bounded(coding: str) -> None:
    """A small body may stand for a great one; it is said where it was cut."""
    great = bytes(3_000_000)
    raw = {"gzip": gzip.compress, "deflate": zlib.compress, "zstd": zstandard.compress}[coding](great)
    found, reason = decode_body(raw, coding, limit=100_000)
    assert (len(found), reason) == (100_000, f"{coding}: more than 100000 bytes")
    assert decode_body(raw, coding, limit=3_000_000) == (great, None)


@pytest.mark.parametrize("coding", ["gzip", "deflate", "zstd", "br", "gzip, br"])
def test_noise_is_said(coding: str) -> None:
    """Bytes of no such coding give nothing and a reason, and never an exception."""
    for raw in (b"plain text", bytes(64), bytes(range(256))):
        found, reason = decode_body(raw, coding)
        assert reason is not None
        assert len(found) < 512


def test_a_coding_that_is_not_known_is_said() -> None:
    """Its bytes are not handed on as if they were the body."""
    assert decode_body(b"x", "compress") == (b"", "unknown content coding 'compress'")


def test_brotli_where_it_is_installed() -> None:
    """Without it the reason names it."""
    try:
        import brotli
    except ImportError:
        assert decode_body(b"x", "br") == (b"", "br: brotli is not installed")
        return
    raw = brotli.compress(_TEXT)
    assert decode_body(raw, "br") == (_TEXT, None)
    found, reason = decode_body(raw[:-3], "br")
    assert _TEXT.startswith(found)
    assert reason == "br: ended before its end"
