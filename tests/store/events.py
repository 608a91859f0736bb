"""Events for tests of the payload store."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

from otel_prompt_trace.core.events import Event, Identity, encode, identity, rfc3339
from otel_prompt_trace.core.qid import ulid

NOW = datetime(2026, 11, 30, 12, tzinfo=timezone.utc)
NOW_NS = int(NOW.timestamp()) * 1_000_000_000
W1, W2 = "01KBAVC4Z0W1W1W1W1W1W1W1W1", "01KBAVC4Z0W2W2W2W2W2W2W2W2"


def at(days: float) -> datetime:
    """The time ``days`` after noon of the tests' day."""
    return NOW + timedelta(days=days)


def dated_qid(days: float = 0, randomness: int = 7) -> str:
    """A ULID minted ``days`` after noon of the tests' day."""
    return ulid(int(at(days).timestamp() * 1000), randomness)


def event(qid: str, seq: int, writer: str = W1, **fields: Any) -> Event:
    """A request event; a later number is a later time."""
    ts = rfc3339(NOW_NS + seq)
    return {"v": "1.0", "kind": "request", "qid": qid, "ts": ts, "writer": writer, "seq": seq, **fields}


def lines(*events: Event) -> list[tuple[Identity, bytes]]:
    """The events as the payload store takes them."""
    return [(identity(one), encode(one)) for one in events]


def run(qid: str, first: int, last: int, writer: str = W1) -> list[tuple[Identity, bytes]]:
    """The encoded events from ``first`` to ``last``, both included."""
    return lines(*(event(qid, seq, writer) for seq in range(first, last + 1)))
