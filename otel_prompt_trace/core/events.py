"""Events: the only thing that is written, one JSON object a line.

Invariants:

- The set of kinds is closed. A kind outside it is refused when written, and is a named problem when read.
- ``(writer, seq)`` is an event's identity. Whoever reads drops a pair that was seen before, so that shipping
  twice is harmless.
- ``v`` is ``major.minor``. An unknown minor, and any unknown field, is kept and shown. An unknown major is kept
  raw and makes the verdict unknown. Every major that was ever written stays readable.
- Every line is valid UTF-8 JSON; see :mod:`otel_prompt_trace.core.text` for what JSON can't carry.

In memory an event is a plain ``dict``: it is built on the application's thread, where an object would cost more
than it tells.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import lru_cache
from typing import Any

import orjson

from otel_prompt_trace.core.qid import is_qid
from otel_prompt_trace.core.text import unwrap, wrap
from otel_prompt_trace.exceptions import InvalidEvent

Event = dict[str, Any]
Identity = tuple[str, int]

_PLAIN = frozenset({str, int, bool, type(None)})

VERSION = "1.0"
MAJOR = 1
KINDS = frozenset(
    {
        "query",
        "retrieval",
        "piece",
        "request",
        "response",
        "tool_call",
        "content",
        "end",
        "feedback",
        "erasure",
    }
)
REQUIRED = ("v", "kind", "qid", "ts", "writer", "seq")
_REQUIRED = frozenset(REQUIRED)

_VERSION = re.compile(r"([0-9]{1,9})\.[0-9]{1,9}")


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that could not be read as an event: named and counted, never skipped in silence."""

    source: str
    line: int
    reason: str
    raw: str = ""

    def __str__(self) -> str:
        return f"{self.source}:{self.line}: {self.reason}"


def check_event(event: Event) -> Event:
    """Return ``event`` if it may be written.

    Raises:
        InvalidEvent: unknown kind, missing field, or a field of the wrong type.
    """
    reason = _fault(event)
    if reason:
        raise InvalidEvent(reason)
    return event


def encode(event: Event) -> bytes:
    """One line of JSON, newline included.

    Raises:
        InvalidEvent: as :func:`check_event`.
    """
    # The newline is not orjson's to append: a line is kept for a while, and what orjson returns still holds the room
    # that it took for the worst case, eight bytes a character. Memory that is new costs more than the copy.
    if _PLAIN.issuperset(map(type, check_event(event).values())):  # nearly every event: nothing in it to wrap
        try:
            return orjson.dumps(event) + b"\n"
        except TypeError:  # a lone surrogate, or a number beyond 64 bits
            pass
    return orjson.dumps(wrap(event)) + b"\n"


def identity(event: Event) -> Identity:
    """The pair that makes an event one and the same wherever it is read."""
    return event["writer"], event["seq"]


def decode(data: bytes, source: str) -> Iterator[Event | Problem]:
    """The events of a file of JSON lines, and a problem for each line that is none.

    Args:
        data: the file's bytes, uncompressed.
        source: the name by which a problem is reported (an object's key, a path).
    """
    lines = data.split(b"\n")
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        torn = number == len(lines)  # every whole line ends in a newline
        yield _decode_line(line, source, number, torn)


def distinct(events: Iterable[Event]) -> Iterator[Event]:
    """The events, each identity once: the first that is seen."""
    seen: set[Identity] = set()
    for event in events:
        key = identity(event)
        if key not in seen:
            seen.add(key)
            yield event


def readable(event: Event) -> bool:
    """Whether this version may interpret the event: its major version is known."""
    return _major(event.get("v")) == MAJOR


def rfc3339(nanoseconds: int) -> str:
    """UTC time with nanoseconds, for example ``2026-11-30T12:00:00.000000001Z``."""
    seconds, rest = divmod(nanoseconds, 1_000_000_000)
    return f"{_second(seconds)}.{rest:09d}Z"


@lru_cache(maxsize=64)  # what is recorded together is of a few seconds
def _second(seconds: int) -> str:
    return f"{datetime.fromtimestamp(seconds, timezone.utc):%Y-%m-%dT%H:%M:%S}"


def _decode_line(line: bytes, source: str, number: int, torn: bool) -> Event | Problem:
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        reason = "torn line at the end" if torn else f"not JSON: {error}"
        return Problem(source, number, reason, line[:200].decode("utf-8", "replace"))
    if not isinstance(value, dict):
        return Problem(source, number, "not a JSON object", line[:200].decode("utf-8", "replace"))
    if _major(value.get("v")) in (None, MAJOR):
        fault = _fault(value)
        if fault:
            return Problem(source, number, fault, line[:2000].decode("utf-8", "replace"))
        try:
            return {key: unwrap(item) for key, item in value.items()}
        except (ValueError, RecursionError):  # what we never write; the reason names no text of the payload
            return Problem(source, number, "a value that can't be read", line[:2000].decode("utf-8", "replace"))
    if not _identified(value):
        return Problem(source, number, "an event without identity", line[:2000].decode("utf-8", "replace"))
    return value  # another major: kept as it stands, not interpreted


def _fault(event: Event) -> str | None:
    if not event.keys() >= _REQUIRED:
        return f"an event without {', '.join(name for name in REQUIRED if name not in event)}"
    if not isinstance(event["kind"], str) or event["kind"] not in KINDS:
        return f"unknown event kind {event['kind']!r}"
    if event["v"] != VERSION and _major(event["v"]) is None:
        return f"{event['v']!r} is no schema version (major.minor)"
    if not is_qid(event["qid"]):
        return f"illegal qid {event['qid']!r}"
    call = event.get("call")
    if call is not None and not isinstance(call, str):
        return f"illegal call {call!r}"
    return None if _numbered(event) else "an event without identity (writer, seq)"


def _identified(event: Event) -> bool:
    return _numbered(event) and is_qid(event.get("qid"))


def _numbered(event: Event) -> bool:
    writer, seq = event.get("writer"), event.get("seq")
    return isinstance(writer, str) and isinstance(seq, int) and not isinstance(seq, bool)


def _major(version: object) -> int | None:
    parts = _VERSION.fullmatch(version) if isinstance(version, str) else None
    return int(parts[1]) if parts else None
