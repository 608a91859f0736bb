"""The byte format of a spool file.

A file is one header, then frames, then zeros up to its preallocated size; once nothing more is appended to it, it may
end with its last frame. All integers are little-endian.

Header, 64 bytes::

    0   8   magic        b"PTSPOOL1"
    8   8   created      nanoseconds since the epoch
    16  26  writer       the ULID of the process's writer, ASCII
    42  8   checksum     xxh3-64 over bytes 0 to 41
    50  14  zeros

Frame, beginning at a multiple of 8::

    0   8   marker       F5 50 54 46 52 4D 31 F5: written last, so that a frame that has it was copied whole;
                         the byte F5 occurs in no UTF-8 text. F5 50 54 44 4F 4E 45 F5 in its place: the store
                         has acknowledged the frame, and from byte 44 on it is zeros
    8   4   length       of the body, in bytes
    12  4   flags        1 holds an ``end``; 2 holds a ``request``; 4 the body is JSON lines, as stored (``flags``)
    16  8   checksum     xxh3-64 over bytes 8 to 15, then 24 to the end of the body
    24  8   seq          sequence number of the first event
    32  8   ts           nanoseconds since the epoch, for events that carry no time of their own
    40  2   events       their number
    42  2   qid length   in bytes
    44  …   qid          ASCII
    …   …   body         MessagePack ``[common, [event, …]]``, or JSON lines
    …   0-7 zeros        up to the next multiple of 8

A reader that meets a damaged frame looks for the next marker at a multiple of 8 and goes on from there: a torn
record never hides its neighbour. Zeros between two frames are damage as well, since frames follow each other without
a gap. Where the last bytes of a file are no frame, and only their marker is missing, an append was never finished:
nobody was told that it had been.
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
from otel_prompt_trace.pipeline.flags import LINES

MAGIC = b"PTSPOOL1"
HEADER_SIZE = 64
MARKER = b"\xf5PTFRM1\xf5"
DONE = b"\xf5PTDONE\xf5"
_ANY_MARKER = b"\xf5PT"
_HEADER = struct.Struct("<8sQ26s")
_PREFIX = struct.Struct("<II")  # length, flags; stand after the marker
_CHECKSUM = struct.Struct("<Q")
_FIELDS = struct.Struct("<QQHH")  # seq, ts, events, qid length
FIXED = len(MARKER) + _PREFIX.size + _CHECKSUM.size + _FIELDS.size

UNFINISHED = "unfinished append"

_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder().decode
_UNREADABLE = (msgspec.DecodeError, ValueError, TypeError, KeyError, AttributeError, ArithmeticError, RecursionError)


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
    prefix = _PREFIX.pack(len(body), flags)
    fields = _FIELDS.pack(seq, ts, events, len(name)) + name
    checksum = xxhash.xxh3_64(prefix + fields)
    checksum.update(body)
    return MARKER + prefix + _CHECKSUM.pack(checksum.intdigest()) + fields, body


def frames(data: bytes | memoryview, source: str) -> Iterator[Frame | Problem]:
    """Every whole frame of a spool file, and a problem for each stretch that is damaged.

    Args:
        data: the file's bytes.
        source: the name by which problems are reported.
    """
    view = bytes(data)
    position, end = HEADER_SIZE, len(view)
    while position < end:
        frame = _frame_at(view, position)
        if frame is not None:
            yield frame
            position += size(len(frame.qid), len(frame.body))
            continue
        following = _next_marker(view, position + 8)
        if view.startswith(DONE, position) and position + FIXED <= end:
            position = min(_end_of_done(view, position), end if following is None else following)
            continue
        rest = view[position:following]
        if following is None:  # else zeros are a gap
            rest = rest.rstrip(b"\0")
        if rest:  # else the zeros after the last frame
            unfinished = following is None and _unfinished(rest)
            what = UNFINISHED if unfinished else "damaged frame"
            yield Problem(source, position, f"{what}: {len(rest)} bytes skipped")
        if following is None:
            return
        position = following


def size(qid_length: int, body_length: int) -> int:
    """Bytes that a frame takes in the file, padding included."""
    return (FIXED + qid_length + body_length + 7) & ~7


def header(writer: str, created_ns: int) -> bytes:
    """The first bytes of a file."""
    fields = _HEADER.pack(MAGIC, created_ns, writer.encode("ascii"))
    return (fields + _CHECKSUM.pack(xxhash.xxh3_64_intdigest(fields))).ljust(HEADER_SIZE, b"\0")


def read_header(data: bytes) -> tuple[str, int] | None:
    """The writer and the time of creation in nanoseconds; None where the bytes are no spool file's."""
    if len(data) < HEADER_SIZE:
        return None
    magic, created, writer = _HEADER.unpack_from(data)
    (checksum,) = _CHECKSUM.unpack_from(data, _HEADER.size)
    if magic != MAGIC or checksum != xxhash.xxh3_64_intdigest(data[: _HEADER.size]):
        return None
    return writer.decode("ascii", "replace"), created


def expand(frame: Frame, writer: str, source: str) -> Iterator[Event | Problem]:
    """The events of a frame, each with its identity, qid, version and time."""
    if frame.flags & LINES:
        yield from decode(frame.body, source)
        return
    try:
        common, events = _unpack(frame.body)
        numbered = enumerate(events, frame.seq)
    except _UNREADABLE as error:
        yield Problem(source, frame.offset, f"frame that can't be decoded: {type(error).__name__}")
        return
    for seq, event in numbered:
        try:
            ts = rfc3339(event.get("ts", frame.ts))
            stamp = {"v": VERSION, "kind": event["kind"], "qid": frame.qid, "ts": ts, "writer": writer}
            yield {**stamp, "seq": seq, **common, **event, "ts": ts}
        except _UNREADABLE as error:
            yield Problem(source, frame.offset, f"event {seq} that can't be decoded: {type(error).__name__}")


def _frame_at(view: bytes, position: int) -> Frame | None:
    if not view.startswith(MARKER, position) or position + FIXED > len(view):
        return None
    start = position + len(MARKER)
    length, flags = _PREFIX.unpack_from(view, start)
    (checksum,) = _CHECKSUM.unpack_from(view, start + _PREFIX.size)
    fields = start + _PREFIX.size + _CHECKSUM.size
    seq, ts, events, name_length = _FIELDS.unpack_from(view, fields)
    body = fields + _FIELDS.size + name_length
    qid = view[fields + _FIELDS.size : body].decode("ascii", "replace")
    if body + length > len(view) or not is_qid(qid):
        return None
    found = xxhash.xxh3_64(view[start : start + _PREFIX.size])
    found.update(view[fields : body + length])
    if found.intdigest() != checksum:
        return None
    return Frame(qid, flags, seq, ts, events, view[body : body + length], position)


def _unfinished(rest: bytes) -> bool:
    """Whether the end of a file is an append that lacks its marker, or that and more.

    What is before the body is copied first, so that a body without it is no such thing: a page of it is missing.
    """
    if any(rest[: len(MARKER)]):
        return False
    if len(rest) <= FIXED:
        return True
    length, _ = _PREFIX.unpack_from(rest, len(MARKER))
    *_, name_length = _FIELDS.unpack_from(rest, FIXED - _FIELDS.size)
    return bool(0 < len(rest) - FIXED <= name_length + length and name_length > 0)


def _end_of_done(view: bytes, position: int) -> int:
    length, _ = _PREFIX.unpack_from(view, position + len(MARKER))
    *_, name_length = _FIELDS.unpack_from(view, position + FIXED - _FIELDS.size)
    return position + size(name_length, length)


def _next_marker(view: bytes, position: int) -> int | None:
    """Where the next frame begins, stored or not."""
    found = view.find(_ANY_MARKER, position)
    while found >= 0:
        if found % 8 == 0 and view.startswith((MARKER, DONE), found):
            return found
        found = view.find(_ANY_MARKER, found + 1)
    return None
