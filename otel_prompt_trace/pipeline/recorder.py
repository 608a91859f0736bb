"""The recorder: the one place where events enter the pipeline.

On the calling thread it numbers the events, encodes them in one pass, and copies them into the spool. It hashes
nothing, searches nothing and waits for nothing, unless a policy says that text must not be kept: then it locates
and digests before anything is written, and an error there drops the text, never the rule (it fails closed).

It never raises. What can't be recorded is lost and counted.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from otel_prompt_trace.core.cutting import Digest
from otel_prompt_trace.core.events import VERSION, Event, encode, rfc3339
from otel_prompt_trace.core.redaction import Redactor
from otel_prompt_trace.core.seal import needs_policy, seal
from otel_prompt_trace.pipeline import frames
from otel_prompt_trace.pipeline.accounting import Accounts, Reason, Ticket, Watcher
from otel_prompt_trace.pipeline.flags import LINES
from otel_prompt_trace.pipeline.spool import SpoolFull
from otel_prompt_trace.pipeline.spool_file import SpoolClosed

_NOT_PACKABLE = (UnicodeError, OverflowError, TypeError, ValueError, RecursionError)


class Waiting(Protocol):
    """A frame that waits to be delivered."""

    @property
    def qid(self) -> str:
        """Whose it is."""

    @property
    def flags(self) -> int:
        """As in the frame's header."""

    @property
    def events(self) -> int:
        """Their number."""

    @property
    def ticket(self) -> Ticket:
        """Where its fate is told."""

    def frame(self) -> frames.Frame:
        """Read it back."""


class SpoolLike(Protocol):
    """What the recorder and the shipper need of a spool, on disk or in memory."""

    def append(self, flags: int, qid: str, head: bytes, body: bytes, events: int, ticket: Ticket) -> None:
        """Keep one frame."""

    def take_fresh(self) -> list[Any]:
        """Entries since the last time."""

    def acknowledge(self, entries: list[Any]) -> None:
        """The store holds these."""

    def prepare(self) -> None:
        """Do ahead what an append should not have to; at each turn of the shipper's thread."""

    @property
    def on_disk(self) -> bool:
        """Whether records go to a disk now."""

    @property
    def volatile(self) -> int:
        """Events that would go with the process."""

    def close(self) -> None:
        """Let go."""

    def abandon_in_child(self) -> None:
        """Give up what is the parent's."""


class Recorder:
    """Numbers, encodes and appends. One per process; a forked child gets a new writer."""

    def __init__(
        self,
        spool: SpoolLike,
        accounts: Accounts,
        *,
        writer: str,
        now_ns: Callable[[], int],
        resource: Mapping[str, str],
        digest: Callable[[], Digest],
        on_append: Callable[[], None],
        redact: Redactor | None = None,
    ) -> None:
        self._spool = spool
        self._accounts = accounts
        self.writer = writer
        self._now_ns = now_ns
        self.resource = resource
        self._digest = digest
        self._on_append = on_append
        self._redact = redact
        self._lock = threading.Lock()
        self._seq = 1

    def append(
        self,
        qid: str,
        events: list[Event],
        *,
        flags: int = 0,
        policy: str = "store",
        withheld: Sequence[str] = (),
        watcher: Watcher | None = None,
        **common: Any,
    ) -> Ticket:
        """Record events of one query that belong together; ``common`` fields are given to each of them.

        An event is a dict with at least ``kind``; ``ts`` is nanoseconds, by default now. ``watcher`` is called with
        the frame on the shipper's thread. ``withheld`` are texts of which no occurrence may be kept. The flag
        ``LINES`` asks for the slow form, which keeps every value's type.
        """
        count = len(events)
        ticket = Ticket("spooled", count, watcher)
        self._accounts.record(count)
        try:
            with self._lock:
                seq = self._seq
                self._seq += count
            ts = self._now_ns()
            shared = {**self.resource, **common}
            if flags & LINES or needs_policy(events, policy, withheld, self._redact):
                flags, body = flags | LINES, self._lines(qid, seq, ts, shared, events, policy, withheld)
            else:
                try:
                    body = frames.pack_events(shared, events)
                except _NOT_PACKABLE:  # a lone surrogate, a huge integer, an object: the slow form has room for them
                    flags, body = flags | LINES, self._lines(qid, seq, ts, shared, events, policy, withheld)
            head, body = frames.build(flags, qid, seq, ts, count, body)
            self._spool.append(flags, qid, head, body, count, ticket)
        except SpoolFull:
            self._lose(ticket, "spool_full", "Is the store reachable? PROMPT_TRACE_SPOOL_MAX_BYTES sets the bound.")
        except SpoolClosed:
            self._lose(ticket, "closed", "Recorded after uninstall(), with nothing but memory to keep it.")
        except OSError as error:
            self._lose(ticket, "spool_unwritable", f"{error.strerror}: check PROMPT_TRACE_SPOOL.")
        except Exception as error:  # noqa: BLE001 - telemetry never raises into the application
            self._lose(ticket, "not_encodable", f"{type(error).__name__} while recording.")
        self._on_append()  # also after a loss: only the shipper makes room, or finds that the disk works again
        return ticket

    def _lines(
        self,
        qid: str,
        seq: int,
        ts: int,
        shared: dict[str, Any],
        events: list[Event],
        policy: str,
        withheld: Sequence[str],
    ) -> bytes:
        digest = self._digest() if needs_policy(events, policy, withheld, self._redact) else None
        lines = []
        for number, event in enumerate(seal(events, policy, digest, withheld, self._redact)):
            stamp = {"v": VERSION, "kind": event["kind"], "qid": qid, "ts": "", "writer": self.writer}
            when = rfc3339(event.get("ts", ts))
            lines.append(encode({**stamp, "seq": seq + number, **shared, **event, "ts": when}))
        return b"".join(lines)

    def _lose(self, ticket: Ticket, reason: Reason, hint: str) -> None:
        ticket.state = "lost"
        self._accounts.lose(ticket.events, reason, hint)
