"""The shipper: one daemon thread that delivers what the spool holds.

Invariants:

- There is no thread before the first record, and none is made while the interpreter exits. A thread that died is
  noticed at the next record and replaced.
- A query's object is written when its ``end`` is spooled, after 30 s without a new event, at ``flush`` and at exit.
- A store that can't be reached stops the drain: nothing is given up, the next try comes after a jittered, growing
  pause, or once at the next flush. Any other error holds up no more than the query that it belongs to.
- Only what can never be stored is set aside, under ``poison/``, and nothing there is deleted by us.
- An entry is acknowledged to the spool only when the store has acknowledged all lines of its query's object.

The thread polls: waking it from the calling thread would cost more than the append itself.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from typing import Any

from opentelemetry import context

from otel_prompt_trace.exceptions import ConfigurationError, StoreError
from otel_prompt_trace.pipeline import frames
from otel_prompt_trace.pipeline.accounting import Accounts, FlushResult
from otel_prompt_trace.pipeline.flags import END
from otel_prompt_trace.pipeline.recorder import SpoolLike, Waiting
from otel_prompt_trace.pipeline.shipping import Payloads, deliverable
from otel_prompt_trace.pipeline.spool_file import DamagedFrame

POLL_SECONDS = 0.05
QUIET_SECONDS = 30.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 60.0
_SUPPRESS = tuple(
    key
    for name in ("_SUPPRESS_INSTRUMENTATION_KEY", "_SUPPRESS_HTTP_INSTRUMENTATION_KEY")
    if (key := getattr(context, name, None)) is not None
)

_log = logging.getLogger("otel_prompt_trace")


@dataclass(slots=True)
class _Pending:
    """What waits of one query."""

    entries: list[Waiting] = field(default_factory=list)
    ended: bool = False
    touched: float = 0.0
    failures: int = 0
    resume_at: float = 0.0


class Shipper:
    """Delivers in the background; :meth:`flush` waits for it."""

    def __init__(
        self,
        spool: SpoolLike,
        open_payloads: Callable[[], Payloads],
        accounts: Accounts,
        *,
        writer: str,
        set_aside: Callable[[frames.Frame], None],
        jitter: Callable[[], float],
        now: Callable[[], datetime] = lambda: datetime.now(timezone.utc),
        before: Callable[[], None] = lambda: None,
    ) -> None:
        self._spool = spool
        self._open_payloads = open_payloads
        self._payloads: Payloads | None = None
        self._accounts = accounts
        self._writer = writer
        self._set_aside = set_aside
        self._jitter = jitter
        self._now = now
        self._before = before  # done on this thread before each look at the spool
        self._pending: dict[str, _Pending] = {}
        self._pause = 0.0
        self._resume_at = 0.0
        self._condition = threading.Condition()
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None
        self._stopping = False
        self._asked = self._tried = self._done = 0  # generations of flushes

    def ensure_running(self) -> None:
        """Start the thread if there is none; called after every append, so cheap while it runs."""
        thread = self._thread
        if thread is not None and thread.is_alive():
            return
        with self._condition:
            if self._stopping or (self._thread is not None and self._thread.is_alive()):
                return
            thread = threading.Thread(target=self._run, name="prompt-trace-shipper", daemon=True)
            try:
                thread.start()
            except RuntimeError:  # the interpreter is exiting: the spool keeps the events
                return
            self._thread = thread

    def flush(self, timeout: float, *, give_up: bool = False) -> FlushResult:
        """Deliver everything that was recorded before this call, and wait for it up to ``timeout`` seconds.

        With ``give_up`` one whole try is enough, whether it succeeds or not: at exit the spool is the better place.
        """
        self.ensure_running()
        deadline = time.monotonic() + timeout
        with self._condition:
            self._asked += 1
            asked = self._asked
            self._wake.set()
            while (self._tried if give_up else self._done) < asked:
                left = deadline - time.monotonic()
                if left <= 0 or self._thread is None or not self._thread.is_alive():
                    break
                self._condition.wait(min(left, 0.25))
            result = self._accounts.result()
            return replace(result, delivered=self._done >= asked)

    def stop(self, timeout: float) -> None:
        """End the thread after what it is doing; what waits stays in the spool."""
        self._stopping = True
        self._wake.set()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout)

    def _run(self) -> None:
        scope = context.Context()  # not the one of whoever recorded first, which an instrumented thread would carry on
        for key in _SUPPRESS:
            scope = context.set_value(key, True, scope)
        token = context.attach(scope)
        try:
            while not self._stopping:
                self._turn()
                self._wake.wait(POLL_SECONDS)
                self._wake.clear()
        finally:
            context.detach(token)

    def _turn(self) -> None:
        asked = self._asked
        try:
            self._before()
            self._collect()
            delivered = self._deliver(everything=asked > self._done, at_once=asked > self._tried)
        except Exception as error:  # noqa: BLE001 - this thread is the only way out for what is recorded
            self._accounts.warn("shipper", "The shipper met an error and goes on: %s", type(error).__name__)
            _log.debug("shipper", exc_info=True)
            delivered = False
            self._back_off()
        with self._condition:
            self._tried = max(self._tried, asked)
            if delivered:
                self._done = max(self._done, asked)
            self._condition.notify_all()

    def _collect(self) -> None:
        now = time.monotonic()
        for entry in self._spool.take_fresh():
            pending = self._pending.setdefault(entry.qid, _Pending())
            pending.entries.append(entry)
            pending.touched = now
            pending.ended = pending.ended or bool(entry.flags & END)
            watcher: Any = entry.ticket.watcher
            if watcher is not None:
                entry.ticket.watcher = None
                try:
                    watcher(entry.frame(), self._writer)
                except Exception as error:  # noqa: BLE001 - what is said early of a call is worth no record
                    self._accounts.warn("watcher", "A provisional verdict failed: %s", type(error).__name__)

    def _deliver(self, *, everything: bool, at_once: bool) -> bool:
        """Whether all that was due is stored now.

        ``everything`` is due at a flush; ``at_once`` is the first try of one, which waits for no pause.
        """
        now = time.monotonic()
        if now < self._resume_at and not at_once:
            return False
        whole = True
        for qid, pending in list(self._pending.items()):
            if not (everything or pending.ended or now - pending.touched >= QUIET_SECONDS):
                continue
            if now < pending.resume_at and not at_once:
                whole = False
                continue
            try:
                self._ship(qid, pending)
            except (StoreError, ConfigurationError) as error:
                self._accounts.warn("store", "The store does not take events; they wait in the spool: %s", error)
                self._back_off()
                return False
            except Exception as error:  # noqa: BLE001 - this thread is the only way out for what is recorded
                self._accounts.warn("shipper", "A query can't be shipped and waits: %s", type(error).__name__)
                _log.debug("shipper", exc_info=True)
                pending.failures += 1
                pending.resume_at = now + min(_LONGEST_PAUSE, _FIRST_PAUSE * 2**pending.failures)
                whole = False
        self._pause = 0.0
        return whole

    def _ship(self, qid: str, pending: _Pending) -> None:
        read = self._read(pending)
        found = deliverable([(self._writer, frame) for _, frame in read], "spool")
        if found.lines:
            if self._payloads is None:
                self._payloads = self._open_payloads()
            found.write(self._payloads, qid, self._now())
        for entry, frame in read:
            if any(frame is held for held in found.poison):
                self._set_aside(frame)
                entry.ticket.state = "lost"
        lost = sum(entry.events for entry in pending.entries) - len(found.lines)
        if lost:
            self._accounts.lose(lost, "set_aside", f"{found.problems[0].reason}; kept under poison/ in the spool.")
        self._accounts.store(len(found.lines))
        for entry in pending.entries:
            if entry.ticket.state == "spooled":
                entry.ticket.state = "stored"
        self._spool.acknowledge(pending.entries)
        del self._pending[qid]

    def _read(self, pending: _Pending) -> list[tuple[Waiting, frames.Frame]]:
        """The waiting frames of a query. One that is damaged is never acknowledged, so that its file stays."""
        read = []
        for entry in list(pending.entries):
            try:
                read.append((entry, entry.frame()))
            except DamagedFrame as error:
                pending.entries.remove(entry)
                entry.ticket.state = "lost"
                self._accounts.lose(entry.events, "spool_damaged", f"{error}; the file stays for ship.")
        return read

    def _back_off(self) -> None:
        self._pause = min(_LONGEST_PAUSE, self._pause * 2 or _FIRST_PAUSE)
        self._resume_at = time.monotonic() + self._pause * (0.5 + self._jitter())
