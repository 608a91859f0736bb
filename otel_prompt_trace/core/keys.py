"""The one module that builds and parses keys.

===========================================================  ==================================================
``payloads/dt=YYYY-MM-DD/<qid>/<writer>-<seq>.jsonl.zst``    events of one qid by one writer: JSON lines, zstd
``payloads/dt=YYYY-MM-DD/<qid>/blobs/<sha256>``              a binary run of bodies of that qid, stored once
``erased/<qid>``                                             a tombstone: one JSON line without content
``probe/<ulid>``                                             what ``doctor`` writes and deletes again
===========================================================  ==================================================

``dt`` is a UTC date. ``seq`` is the first sequence number inside, in at least twelve digits, so that names sort in
the order of a writer's events. Where that name is taken by an object that can't be read whole, the next free number
stands there instead: it names the object, readers go by the events. Parsing accepts exactly what building gives.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date

from otel_prompt_trace.core.qid import check_qid, is_qid
from otel_prompt_trace.exceptions import InvalidEvent

__all__ = [
    "ERASED",
    "PAYLOADS",
    "PayloadKey",
    "blob_key",
    "check_key",
    "check_prefix",
    "day_prefix",
    "day_segment",
    "is_blob",
    "is_sha256",
    "parse_day",
    "parse_tombstone",
    "probe_key",
    "qid_prefix",
    "tombstone_key",
]

PAYLOADS = "payloads/"
ERASED = "erased/"
_PROBE = "probe/"
_SUFFIX = ".jsonl.zst"
_BLOBS = "blobs/"
_SHA256 = re.compile(r"[0-9a-f]{64}")

# 200: a file name has at most 255 bytes, and a folder store's temporary name is longer than the final one.
_SEGMENT = re.compile(r"[A-Za-z0-9_][A-Za-z0-9=._~-]{0,199}")


@dataclass(frozen=True, slots=True, order=True)
class PayloadKey:
    """The parts of a payload object's key.

    Raises:
        InvalidQid: ``qid`` is no legal query id.
        InvalidEvent: ``writer`` or ``first_seq`` can't be an event's identity.
    """

    date: date
    qid: str
    writer: str
    first_seq: int

    def __post_init__(self) -> None:
        check_qid(self.qid)
        if not is_qid(self.writer):
            raise InvalidEvent(f"{self.writer[:40]!r} is no writer: the grammar is that of a query id")
        if self.first_seq < 0:
            raise InvalidEvent(f"{self.first_seq} is no sequence number: they count from 0")

    @property
    def key(self) -> str:
        """The object's key."""
        return f"{qid_prefix(self.date, self.qid)}{self.writer}-{self.first_seq:012d}{_SUFFIX}"

    @classmethod
    def parse(cls, key: str) -> PayloadKey | None:
        """The parts of ``key``, or None if it is no payload object's key."""
        segments = key.split("/")
        if len(segments) != 4 or segments[0] + "/" != PAYLOADS or not segments[3].endswith(_SUFFIX):
            return None
        day = parse_day(segments[1])
        writer, _, seq = segments[3].removesuffix(_SUFFIX).rpartition("-")
        if day is None or not is_qid(segments[2]) or not is_qid(writer) or not (seq.isascii() and seq.isdecimal()):
            return None
        parsed = cls(day, segments[2], writer, int(seq)) if len(seq) < 30 else None
        return parsed if parsed is not None and parsed.key == key else None


def day_segment(day: date) -> str:
    """The segment of a day's folder, ``dt=YYYY-MM-DD``."""
    return f"dt={day.isoformat()}"


def parse_day(segment: str) -> date | None:
    """The date of a day's folder, or None if ``segment`` is none."""
    try:
        day = date.fromisoformat(segment.removeprefix("dt="))
    except ValueError:
        return None
    return day if day_segment(day) == segment else None


def day_prefix(day: date) -> str:
    """The beginning of every payload key of one day."""
    return f"{PAYLOADS}{day_segment(day)}/"


def qid_prefix(day: date, qid: str) -> str:
    """The beginning of every payload key of one qid on one day.

    Raises:
        InvalidQid: ``qid`` is no legal query id.
    """
    return f"{day_prefix(day)}{check_qid(qid)}/"


def blob_key(day: date, qid: str, sha256: str) -> str:
    """The key of a binary run.

    Raises:
        InvalidQid: ``qid`` is no legal query id.
        ValueError: ``sha256`` is none.
    """
    if not is_sha256(sha256):
        raise ValueError(f"{sha256[:80]!r} is no sha256")
    return f"{qid_prefix(day, qid)}{_BLOBS}{sha256}"


def is_sha256(text: str) -> bool:
    """Whether a text is a digest as keys have it: lower-case hex."""
    return _SHA256.fullmatch(text) is not None


def is_blob(key: str) -> bool:
    """Whether a key is that of a binary run."""
    folder, _, name = key.rpartition("/")
    return folder.endswith(f"/{_BLOBS[:-1]}") and _SHA256.fullmatch(name) is not None


def tombstone_key(qid: str) -> str:
    """The key of a qid's tombstone.

    Raises:
        InvalidQid: ``qid`` is no legal query id.
    """
    return ERASED + check_qid(qid)


def parse_tombstone(key: str) -> str | None:
    """The qid whose tombstone has ``key``, or None if it is no tombstone's key."""
    qid = key.removeprefix(ERASED)
    return qid if key.startswith(ERASED) and is_qid(qid) else None


def probe_key(ulid: str) -> str:
    """The key of a probe object."""
    return check_key(_PROBE + ulid)


def check_key(key: str) -> str:
    """Return ``key`` if an object may have it: plain segments, none of them hidden, ``..`` or empty.

    Raises:
        ValueError: with the rule and the offending key.
    """
    if all(map(_SEGMENT.fullmatch, key.split("/"))):
        return key
    raise ValueError(f"{key[:200]!r} is no object key: segments of A-Z a-z 0-9 = . _ ~ -, not beginning with = . ~ -")


def check_prefix(prefix: str) -> str:
    """Return ``prefix`` if legal keys can begin with it.

    Raises:
        ValueError: no legal key begins so.
    """
    if prefix:
        check_key(prefix.removesuffix("/"))
    return prefix
