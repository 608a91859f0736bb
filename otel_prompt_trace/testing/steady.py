"""A clock and ids that are the same on every run.

Reading the clock moves it on by a millisecond. The shipper's thread looks at it without moving it, and ids do not
depend on it, so that what a test with one thread records does not depend on when something is delivered.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timezone

from otel_prompt_trace.core.qid import ulid
from otel_prompt_trace.sources import Sources

START_NS = 1_767_268_800_000_000_000  # 2026-01-01T12:00:00Z
_TICK_NS = 1_000_000
_PID = 4711


class _Clock:
    """Nanoseconds since ``start``, a millisecond more each time."""

    def __init__(self, start: int) -> None:
        self._ticks = itertools.count(start, _TICK_NS)
        self.last = start

    def __call__(self) -> int:
        self.last = next(self._ticks)
        return self.last


@dataclass(frozen=True, slots=True)
class Steady(Sources):
    """Sources that start anew: ids are ULIDs of one time, numbered from 1."""

    number: Callable[[], int] = lambda: 0
    last_ns: Callable[[], int] = lambda: START_NS

    @property
    def new_id(self) -> Callable[[], str]:
        """A function that gives the next id."""
        return lambda: ulid(START_NS // 1_000_000, self.number())

    def now(self) -> datetime:
        """The time at which the clock was last read."""
        return datetime.fromtimestamp(self.last_ns() / 1e9, timezone.utc)


def steady_sources() -> Steady:
    """Clock, ids, jitter and pid, from their beginning."""
    wall, numbers = _Clock(START_NS), itertools.count(1)
    return Steady(
        now_ns=wall,
        perf_ns=_Clock(0),
        random_bits=random.Random(0).getrandbits,  # noqa: S311 - the same on every run is what is wanted
        jitter=lambda: 0.5,
        pid=lambda: _PID,
        number=lambda: next(numbers),
        last_ns=lambda: wall.last,
    )
