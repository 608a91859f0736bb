"""Query ids and the ids beside them.

A **qid** matches ``[A-Za-z0-9][A-Za-z0-9._~-]{0,127}``: short and plain enough for an object key, a span
attribute, a header and a URL path. Ids that we mint are ULIDs in upper case (https://github.com/ulid/spec):
48 bits of milliseconds, then 80 random bits, in Crockford's base 32. Entry qids are ``<trace_id>-<span_id>``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, datetime, timedelta, timezone
from functools import lru_cache
from typing import Literal

from otel_prompt_trace.exceptions import InvalidQid

Origin = Literal["query", "entry", "baggage", "minted"]

_GRAMMAR = re.compile(r"[A-Za-z0-9][A-Za-z0-9._~-]{0,127}")
_CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_ULID = re.compile(rf"[0-7][{_CROCKFORD}]{{25}}")
_UUID7 = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", re.IGNORECASE)
_TRACE_ID = re.compile(r"(?!0{32})[0-9a-f]{32}")
_SPAN_ID = re.compile(r"(?!0{16})[0-9a-f]{16}")
_PAIRS = tuple(a + b for a in _CROCKFORD for b in _CROCKFORD)
_ADOPTION = timedelta(days=2)


def is_qid(text: object) -> bool:
    """Whether ``text`` is a legal query id."""
    return isinstance(text, str) and _legal(text)


@lru_cache(maxsize=64)  # asked of each event of a query
def _legal(text: str) -> bool:
    return _GRAMMAR.fullmatch(text) is not None


def is_trace_id(text: str) -> bool:
    """Whether ``text`` is a valid trace id as we write them, in lower case."""
    return _TRACE_ID.fullmatch(text) is not None


def is_span_id(text: str) -> bool:
    """Whether ``text`` is a valid span id as we write them, in lower case."""
    return _SPAN_ID.fullmatch(text) is not None


def check_qid(text: object) -> str:
    """Return ``text`` if it is a legal query id.

    Raises:
        InvalidQid: with the rule and the offending value (cut to 40 characters).
    """
    if isinstance(text, str) and _GRAMMAR.fullmatch(text) is not None:
        return text
    shown = repr(text)
    shown = shown if len(shown) <= 40 else shown[:37] + "..."
    raise InvalidQid(f"{shown} is not a query id: 1 to 128 of A-Z a-z 0-9 . _ ~ -, beginning with a letter or a digit")


def ulid(milliseconds: int, randomness: int) -> str:
    """A ULID of 26 upper-case characters from a time in milliseconds and 80 random bits."""
    time, high, low = milliseconds & 0xFFFFFFFFFFFF, randomness >> 40 & 0xFFFFFFFFFF, randomness & 0xFFFFFFFFFF
    two = _PAIRS  # 10 bits each
    return (
        f"{two[time >> 40]}{two[time >> 30 & 1023]}{two[time >> 20 & 1023]}{two[time >> 10 & 1023]}{two[time & 1023]}"
        f"{two[high >> 30]}{two[high >> 20 & 1023]}{two[high >> 10 & 1023]}{two[high & 1023]}"
        f"{two[low >> 30]}{two[low >> 20 & 1023]}{two[low >> 10 & 1023]}{two[low & 1023]}"
    )


def ulid_factory(now_ns: Callable[[], int], random_bits: Callable[[int], int]) -> Callable[[], str]:
    """A function that mints ULIDs from an injected clock (nanoseconds) and source of random bits.

    The highest 20 of the 80 random bits hold the nanoseconds within the millisecond: ids sort by time within one
    process, without a state that its threads would have to share.
    """

    def mint() -> str:
        milliseconds, nanoseconds = divmod(now_ns(), 1_000_000)
        return ulid(milliseconds, nanoseconds << 60 | random_bits(60))

    return mint


def carried_date(qid: str) -> date | None:
    """The UTC date that an id carries in itself: upper-case ULID or dashed UUIDv7; None for any other."""
    time = carried_time(qid)
    return None if time is None else time.date()


def carried_time(qid: str) -> datetime | None:
    """The time (UTC, to the millisecond) that an id carries in itself; None where it carries none."""
    if _ULID.fullmatch(qid):
        milliseconds = 0
        for char in qid[:10]:
            milliseconds = milliseconds << 5 | _CROCKFORD.index(char)
    elif _UUID7.fullmatch(qid):
        milliseconds = int(qid[:8] + qid[9:13], 16)
    else:
        return None
    try:
        return datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(milliseconds=milliseconds)
    except OverflowError:  # an id of the right shape whose digits are no time of ours
        return None


def partition_date(qid: str, now: datetime) -> date:
    """The ``dt`` under which events of ``qid`` that are written at ``now`` (aware, UTC) are stored.

    It is the date that the id carries, if that lies within two days of the clock, so that one query is one
    folder however long it runs past midnight; for any other id it is the date of writing.
    """
    carried = carried_date(qid)
    today = now.astimezone(timezone.utc).date()
    return carried if carried is not None and abs(carried - today) <= _ADOPTION else today


def entry_qid(trace_id: int, span_id: int) -> str:
    """The qid of an entry span, ``<trace_id>-<span_id>``: a trace id finds all its queries by prefix."""
    return f"{trace_id:032x}-{span_id:016x}"
