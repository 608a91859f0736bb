"""The index of what waits for the store: by query, in the order in which queries began.

Invariants:

- It is bounded. Once :data:`MOST_INDEXED` frames are in it, a frame that follows is remembered by its place in the
  spool alone, eight bytes, and so are all after it. They are read back from the spool in the same order as there is
  room again. So a store that stays down costs no memory for each query that is asked meanwhile.
- While the index is full everything in it is due: what ends a query may be among the frames that are not in it.
- A ticket that nobody holds any more is forgotten with its frame; one that is held learns its frame's fate.

Only the shipper's thread adds, and reads back; those that write take out what they have stored, and what comes for the
same query meanwhile waits on. A frame in memory has no place that it could be read back from: there
the bound in bytes is the only one.
"""

from __future__ import annotations

import threading
import weakref
from array import array
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from otel_prompt_trace.pipeline.accounting import Ticket
from otel_prompt_trace.pipeline.flags import END
from otel_prompt_trace.pipeline.recorder import Waiting
from otel_prompt_trace.pipeline.spool import Entry
from otel_prompt_trace.pipeline.spool_file import DamagedFrame, SpoolFile

MOST_INDEXED = 20_000
_STEP = 8  # frames begin, and end, at multiples of it


@dataclass(slots=True)
class Pending:
    """What waits of one query. ``since`` and ``touched`` are of the monotonic clock: its first and its last frame.

    The first ``flying`` of its frames are being written just now. ``tried`` is when it was first given to the store,
    which may have stored it and not been able to say so.
    """

    since: float
    touched: float
    entries: list[Waiting] = field(default_factory=list)
    ended: bool = False
    flying: int = 0
    failures: int = 0
    resume_at: float = 0.0
    tried: datetime | None = None


class _Places:
    """Frames of one file that are known by their place alone."""

    __slots__ = ("events", "pairs", "read", "since", "template", "tickets")

    def __init__(self, template: Entry, since: float) -> None:
        self.template = template
        self.since = since
        self.events = 0  # of the frames that were not read back yet
        self.pairs = array("I")  # offset and length by turns, in steps
        self.read = 0
        self.tickets: dict[int, weakref.ref[Ticket]] = {}  # by offset

    def add(self, entry: Entry) -> None:
        self.pairs.append(entry.offset // _STEP)
        self.pairs.append(entry.length // _STEP)
        self.events += entry.events
        self.tickets[entry.offset] = weakref.ref(entry.ticket)

    def forget_tickets(self) -> None:
        """Of those that nobody holds, once whoever added them has let go."""
        self.tickets = {offset: ticket for offset, ticket in self.tickets.items() if ticket() is not None}

    def next(self) -> Entry | None:
        """Read one back; None where it is damaged."""
        offset, length = self.pairs[self.read] * _STEP, self.pairs[self.read + 1] * _STEP
        self.read += 2
        held = self.tickets.pop(offset, None)
        ticket = None if held is None else held()
        try:
            frame = self.template.file.read(offset, length)
        except DamagedFrame:
            if ticket is not None:
                ticket.state = "lost"
            return None
        self.events -= frame.events
        return replace(
            self.template,
            offset=offset,
            length=length,
            qid=frame.qid,
            flags=frame.flags,
            events=frame.events,
            ticket=ticket or Ticket("spooled", frame.events),
        )


class Index:
    """What waits. ``lost`` is called with the number of events of frames that were damaged when they were read back."""

    def __init__(self, lost: Callable[[int], None]) -> None:
        self.queries: dict[str, Pending] = {}
        self.lost = lost
        self._most = MOST_INDEXED
        self._lock = threading.Lock()
        self._frames = 0
        self._places: dict[SpoolFile, _Places] = {}  # oldest first
        self._grown: set[_Places] = set()

    @property
    def full(self) -> bool:
        """Whether frames wait that are not in it."""
        return bool(self._places)

    @property
    def frames(self) -> int:
        """How many frames are in it."""
        return self._frames

    @property
    def oldest(self) -> float | None:
        """Since when, by the monotonic clock, the oldest has waited. May be asked for from any thread."""
        try:
            return next(iter(self.queries.values())).since
        except (StopIteration, RuntimeError):  # empty, or it changed just now
            return None

    def add(self, entries: Iterable[Any], now: float) -> None:
        """Take fresh entries in, oldest first; then let go of them, and :meth:`trim`."""
        with self._lock:
            for entry in entries:
                if isinstance(entry, Entry) and (self._places or self._frames >= self._most):
                    places = self._places.get(entry.file)
                    if places is None:
                        places = self._places[entry.file] = _Places(entry, now)
                    places.add(entry)
                    self._grown.add(places)
                else:
                    self._index(entry, now, now)

    def trim(self) -> None:
        """After :meth:`add`, when the fresh entries have been let go of."""
        while self._grown:
            self._grown.pop().forget_tickets()

    def read_back(self, now: float) -> int:
        """Fill the index up from the spool; how many frames were read."""
        count = 0
        while self._places and self._frames < self._most:
            file, places = next(iter(self._places.items()))
            while places.read < len(places.pairs) and self._frames < self._most:
                entry = places.next()
                count += 1
                if entry is not None:
                    self._index(entry, places.since, now)
            if places.read == len(places.pairs):
                del self._places[file]
                if places.events:
                    self.lost(places.events)
        return count

    def begin(self, pending: Pending) -> list[Waiting]:
        """The frames of a query that are to be written now."""
        with self._lock:
            pending.flying = len(pending.entries)
            return list(pending.entries)

    def damaged(self, pending: Pending, entry: Waiting) -> None:
        """One of those can't be read: it waits no longer."""
        with self._lock:
            pending.entries.remove(entry)
            pending.flying -= 1
            self._frames -= 1

    def shipped(self, qid: str) -> list[Waiting]:
        """Those that were begun have left the spool; what has come since then waits on."""
        with self._lock:
            pending = self.queries[qid]
            gone, rest = pending.entries[: pending.flying], pending.entries[pending.flying :]
            self._frames -= len(gone)
            if rest:
                ended = any(entry.flags & END for entry in rest)
                self.queries[qid] = Pending(pending.touched, pending.touched, rest, ended)
            else:
                del self.queries[qid]
        return gone

    def _index(self, entry: Waiting, since: float, now: float) -> None:
        pending = self.queries.get(entry.qid)
        if pending is None:
            pending = self.queries[entry.qid] = Pending(since, now)
        pending.entries.append(entry)
        pending.touched = now
        pending.ended = pending.ended or bool(entry.flags & END)
        self._frames += 1
