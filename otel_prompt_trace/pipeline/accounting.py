"""The books: every event is stored, spooled or lost, and each loss has a reason.

``stored + spooled + lost`` is what was recorded, at any moment and at the end.
"""

from __future__ import annotations

import logging
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

from otel_prompt_trace.reentry import OwnLock

Watcher = Callable[[Any, str], None]  # called by the shipper with the frame and its writer, once
State = Literal["spooled", "stored", "lost", "off"]

Reason = Literal[
    "spool_full", "spool_unwritable", "spool_damaged", "set_aside", "exit_in_memory", "not_captured", "not_encodable",
    "abandoned", "closed",
]  # fmt: skip
REASONS: tuple[Reason, ...] = get_args(Reason)

_log = logging.getLogger("otel_prompt_trace")
_WARN_EVERY_NS = 60_000_000_000


@dataclass(frozen=True, slots=True)
class FlushResult:
    """What became of the events of this process.

    ``stored``, ``lost`` and ``reasons`` are counted since it began. ``spooled`` are those that wait now, also those
    recorded while the flush went on. ``delivered`` says whether everything that was recorded before the flush has left
    the spool; ``newly_lost`` is the part of ``lost`` that no flush has told of before.
    """

    stored: int
    spooled: int
    lost: int
    reasons: dict[str, int] = field(default_factory=dict)
    delivered: bool = True
    newly_lost: int = field(default=0, compare=False)

    @property
    def ok(self) -> bool:
        """Whether everything that was recorded before the flush is stored, less what an earlier one has told of."""
        return self.delivered and self.newly_lost == 0

    def __bool__(self) -> bool:
        return self.ok


@dataclass(frozen=True, slots=True)
class Receipt:
    """What became of one query's events so far. ``state`` is the worst: lost, then spooled, then stored."""

    qid: str
    state: State
    stored: int
    spooled: int
    lost: int


class Ticket:
    """One append's fate. Written by the recorder and the shipper, read by whoever holds the query."""

    __slots__ = ("__weakref__", "events", "state", "watcher")

    def __init__(self, state: State, events: int, watcher: Watcher | None = None) -> None:
        self.state = state
        self.events = events
        self.watcher = watcher


def receipt(qid: str, tickets: list[Ticket]) -> Receipt:
    """The receipt of a query from the tickets of its appends."""
    counts = Counter[str]()
    for ticket in tickets:
        counts[ticket.state] += ticket.events
    order: tuple[State, ...] = ("lost", "spooled", "stored", "off")
    state: State = next((name for name in order if counts[name]), "off")
    return Receipt(qid, state, counts["stored"], counts["spooled"], counts["lost"])


class Accounts:
    """Counters of one process, safe to use from any thread."""

    def __init__(self) -> None:
        self._lock = OwnLock()
        self._recorded = 0
        self._fresh: deque[int] = deque()  # recorded, and not added up yet
        self._stored = 0
        self._adopted = 0
        self._told = 0  # losses that a flush has told of
        self._reasons: Counter[str] = Counter()
        self._warned: dict[str, int] = {}

    def record(self, events: int) -> None:
        """Events were handed to the pipeline. Takes no lock, for which whoever appends might wait."""
        self._fresh.append(events)

    def add_up(self) -> None:
        """Add up what was recorded; the shipper does now and then, so that nothing piles up."""
        with self._lock:
            self._add_up()

    def store(self, events: int) -> None:
        """The store acknowledged events."""
        with self._lock:
            self._stored += events

    def adopt(self, events: int) -> None:
        """The store acknowledged events that a process which is gone had recorded; they are in no other count."""
        with self._lock:
            self._adopted += events

    @property
    def adopted(self) -> int:
        """Events of processes that are gone, stored by this one."""
        return self._adopted

    @property
    def recorded(self) -> int:
        """Events that were handed to the pipeline."""
        with self._lock:
            self._add_up()
            return self._recorded

    def lose(self, events: int, reason: Reason, hint: str = "") -> None:
        """Events were lost: counted, and said at most once a minute for each reason."""
        with self._lock:
            self._reasons[reason] += events
            total = self._reasons[reason]
        self.warn(f"lost:{reason}", "%d event(s) lost so far: %s. %s", total, reason, hint)

    def miss(self, events: int, reason: Reason, hint: str = "") -> None:
        """Events were lost before they reached the recorder."""
        self.record(events)
        self.lose(events, reason, hint)

    def warn(self, key: str, message: str, *arguments: object) -> None:
        """Log a warning at most once a minute for each key; never any payload text."""
        now = time.monotonic_ns()
        with self._lock:
            last = self._warned.get(key)
            if last is not None and now - last < _WARN_EVERY_NS:
                return
            self._warned[key] = now
        _log.warning(message, *arguments)

    def result(self) -> FlushResult:
        """The counts as they stand."""
        with self._lock:
            return self._result()

    def tell(self, *, delivered: bool) -> FlushResult:
        """The counts for whoever has flushed: each loss is new to one of them."""
        with self._lock:
            result = replace(self._result(), delivered=delivered)
            self._told = result.lost
            return result

    def _add_up(self) -> None:
        while self._fresh:
            self._recorded += self._fresh.popleft()

    def _result(self) -> FlushResult:
        self._add_up()
        lost = sum(self._reasons.values())
        waiting = self._recorded - self._stored - lost
        return FlushResult(self._stored, waiting, lost, dict(self._reasons), waiting == 0, lost - self._told)
