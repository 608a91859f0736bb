"""The byte format of a spool file.

A file is one header, then frames, then zeros up to its preallocated size. All integers are little-endian.

Header, 64 bytes::

    0   8   magic        b"PTSPOOL1"
    8   8   created      nanoseconds since the epoch
    16  26  writer       the ULID of the process's writer, ASCII
    42  22  zeros

Frame, beginning at a multiple of 8::

    0   8   marker       F5 50 54 46 52 4D 31 F5: written last, so that a frame that has it was copied whole;
                         the byte F5 occurs in no UTF-8 text
    8   4   length       of the body, in bytes
    12  4   flags        1 holds an ``end``; 2 holds a ``request``; 4 the body is JSON lines, as stored
    16  8   checksum     xxh3-64 over bytes 24 to the end of the body
    24  8   seq          sequence number of the first event
    32  8   ts           nanoseconds since the epoch, for events that carry no time of their own
    40  2   events       their number
    42  2   qid length   in bytes
    44  …   qid          ASCII
    …   …   body         MessagePack ``[common, [event, …]]``, or JSON lines
    …   0-7 zeros        up to the next multiple of 8

A reader that meets a damaged frame looks for the next marker at a multiple of 8 and goes on from there: a torn
record never hides its neighbour.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec
import xxhash

from otel_prompt_trace.core.events import VERSION, Event, Problem, decode, rfc3339
from otel_prompt_trace.core.qid import is_qid

MAGIC = b"PTSPOOL1"
HEADER = struct.Struct("<8sQ26s22x")
MARKER = b"\xf5PTFRM1\xf5"
_PREFIX = struct.Struct("<IIQ")  # length, flags, checksum; stands after the marker
_FIELDS = struct.Struct("<QQHH")  # seq, ts, events, qid length
_FIXED = len(MARKER) + _PREFIX.size + _FIELDS.size

END, REQUEST, LINES = 1, 2, 4

_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder().decode


@dataclass(frozen=True, slots=True)
class Frame:
    """One append: the events of one query that were captured together."""

    qid: str
    flags: int
    seq: int
    ts: int
    events: int
    body: bytes
    offset: int = 0


def pack_events(common: dict[str, Any], events: list[Event]) -> bytes:
    """The body of a frame. One pass in C; a text's UTF-8 form is copied, not scanned for escapes.

    Raises:
        UnicodeEncodeError, OverflowError, TypeError, ValueError: a value that MessagePack has no place for; the
            caller then takes the slow form, JSON lines.
    """
    return _pack((common, events))


def build(flags: int, qid: str, seq: int, ts: int, events: int, body: bytes) -> tuple[bytes, bytes]:
    """A frame as two byte strings: all before the body (marker included), and the body."""
    name = qid.encode("ascii")
    fields = _FIELDS.pack(seq, ts, events, len(name)) + name
    checksum = xxhash.xxh3_64(fields)
    checksum.update(body)
    return MARKER + _PREFIX.pack(len(body), flags, checksum.intdigest()) + fields, body


def frames(data: bytes | memoryview, source: str) -> Iterator[Frame | Problem]:
    """Every whole frame of a spool file, and a problem for each stretch that is damaged.

    Args:
        data: the file's bytes.
        source: the name by which problems are reported.
    """
    view = bytes(data)
    position, end = HEADER.size, len(view)
    while position + _FIXED <= end:
        if view.startswith(MARKER, position):
            frame = _frame_at(view, position)
            if frame is not None:
                yield frame
                position += size(len(frame.qid), len(frame.body))
                continue
        elif not any(view[position : position + _FIXED]) and view.find(MARKER, position) < 0:
            return  # the zeros after the last frame
        following = _next_marker(view, position + 8)
        stop = end if following is None else following
        if any(view[position:stop]):
            yield Problem(source, position, f"damaged frame: {stop - position} bytes skipped")
        if following is None:
            return
        position = following


def size(qid_length: int, body_length: int) -> int:
    """Bytes that a frame takes in the file, padding included."""
    return (_FIXED + qid_length + body_length + 7) & ~7


def read_header(data: bytes) -> tuple[str, int] | None:
    """The writer and the time of creation in nanoseconds; None where the bytes are no spool file's."""
    if len(data) < HEADER.size:
        return None
    magic, created, writer = HEADER.unpack_from(data)
    return (writer.decode("ascii", "replace"), created) if magic == MAGIC else None


def expand(frame: Frame, writer: str, source: str) -> Iterator[Event | Problem]:
    """The events of a frame, each with its identity, qid, version and time."""
    if frame.flags & LINES:
        yield from decode(frame.body, source)
        return
    try:
        common, events = _unpack(frame.body)
        for number, event in enumerate(events):
            ts = rfc3339(event.get("ts", frame.ts))
            stamp = {"v": VERSION, "kind": event["kind"], "qid": frame.qid, "ts": ts, "writer": writer}
            yield {**stamp, "seq": frame.seq + number, **common, **event, "ts": ts}
    except (msgspec.DecodeError, ValueError, TypeError, KeyError, AttributeError) as error:
        yield Problem(source, frame.offset, f"frame that can't be decoded: {type(error).__name__}")


def _frame_at(view: bytes, position: int) -> Frame | None:
    length, flags, checksum = _PREFIX.unpack_from(view, position + len(MARKER))
    start = position + len(MARKER) + _PREFIX.size
    seq, ts, events, name_length = _FIELDS.unpack_from(view, start)
    body = start + _FIELDS.size + name_length
    if body + length > len(view) or xxhash.xxh3_64_intdigest(view[start : body + length]) != checksum:
        return None
    qid = view[start + _FIELDS.size : body].decode("ascii", "replace")
    return Frame(qid, flags, seq, ts, events, view[body : body + length], position) if is_qid(qid) else None


def _next_marker(view: bytes, position: int) -> int | None:
    found = view.find(MARKER, position)
    while found >= 0:
        if found % 8 == 0:
            return found
        found = view.find(MARKER, found + 1)
    return None
