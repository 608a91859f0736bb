"""The shipper: one daemon thread that delivers what the spool holds.

Invariants:

- There is no thread before the first record, and none is made while the interpreter exits. A thread that died is
  noticed at the next record and replaced.
- A query's object is written when its ``end`` is spooled, after 30 s without a new event, at ``flush`` and at exit.
- A store that can't be reached stops the drain: nothing is given up, the next try comes after a jittered, growing
  pause, or once at the next flush. Any other error holds up no more than the query that it belongs to.
- Only what can never be stored is set aside, under ``poison/``, and nothing there is deleted by us.
- An entry is acknowledged to the spool only when the store has acknowledged all lines of its query's object.
- What processes that are gone have left is adopted when nothing of our own is due, a query at a time.

The thread polls: waking it from the calling thread would cost more than the append itself. Others write to the store
for it, and end with that, so that it looks after the spool also while the store hangs: see
:mod:`otel_prompt_trace.pipeline.delivery`.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Generator
from datetime import datetime, timezone
from typing import Any

from opentelemetry import context

from otel_prompt_trace.exceptions import ConfigurationError, StoreError
from otel_prompt_trace.pipeline import frames
from otel_prompt_trace.pipeline.accounting import Accounts, FlushResult
from otel_prompt_trace.pipeline.delivery import delivering
from otel_prompt_trace.pipeline.delivery.side_by_side import side_by_side
from otel_prompt_trace.pipeline.delivery.together import Batches, OneByOne
from otel_prompt_trace.pipeline.recorder import SpoolLike
from otel_prompt_trace.pipeline.shipping import Payloads
from otel_prompt_trace.pipeline.waiting import Index
from otel_prompt_trace.reentry import at_work

QUIET_SECONDS = 30.0
ADOPT_SECONDS = 60.0  # between two looks at what others have left
_FIRST_ADOPT_SECONDS = 5.0
_ADOPT_STEP_SECONDS = 0.5  # how long our own records wait for those of others
_POLL = delivering.POLL_SECONDS
_CHUNK = 2 * delivering.BATCH  # queries that are begun together
_SUPPRESS = tuple(
    key
    for name in ("_SUPPRESS_INSTRUMENTATION_KEY", "_SUPPRESS_HTTP_INSTRUMENTATION_KEY")
    if (key := getattr(context, name, None)) is not None
)

_log = logging.getLogger("otel_prompt_trace")


class Shipper:
    """Delivers in the background; :meth:`flush` waits for it."""

    def __init__(
        self,
        spool: SpoolLike,
        open_store: Callable[[], Batches],
        accounts: Accounts,
        *,
        writer: str,
        set_aside: Callable[[frames.Frame], None],
        jitter: Callable[[], float],
        now: Callable[[], datetime] = lambda: datetime.now(timezone.utc),
        load: Callable[[], None] = lambda: None,
        before: Callable[[], None] = lambda: None,
        adopt: Callable[[Payloads], Generator[None, None, None]] | None = None,
        timing: Callable[[float, str | None], None] = lambda _seconds, _error: None,
    ) -> None:
        self._spool = spool
        self._accounts = accounts
        self._writer = writer
        self._jitter = jitter
        self._load: Callable[[], None] | None = load  # done once on this thread, before anything else
        self._before = before  # done on this thread before each look at the spool
        self._adopt = adopt
        self._index = Index(self._damaged)
        self._delivering = delivering.Delivering(
            spool, self._index, open_store, accounts, writer=writer, set_aside=set_aside, now=now, timing=timing
        )
        self._looked = time.monotonic()
        self._adopting: Generator[None, None, None] | None = None
        self._adopt_at = self._looked + _FIRST_ADOPT_SECONDS * (0.5 + jitter())
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
            if self._stopping or self._alive:
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
        deadline = time.monotonic() + timeout
        asked = self.ask()
        with self._condition:
            while (self._tried if give_up else self._done) < asked:
                left = deadline - time.monotonic()
                if left <= 0 or not self._alive:
                    break
                self._condition.wait(min(left, 0.25))
        return self.told(asked)

    def ask(self) -> int:
        """Begin a flush without waiting for it; what is returned names it."""
        self.ensure_running()
        with self._condition:
            self._asked += 1
            self._wake.set()
            return self._asked

    def over(self, asked: int) -> bool:
        """Whether a flush is over: everything that was recorded before it is delivered, or nobody would do it."""
        return self._done >= asked or not self._alive

    def told(self, asked: int) -> FlushResult:
        """What became of the events, for whoever has asked for a flush."""
        return self._accounts.tell(delivered=self._done >= asked)

    @property
    def oldest_seconds(self) -> float:
        """How long the oldest event has waited that is not stored; 0 where none waits."""
        oldest = self._index.oldest
        if oldest is None:
            if not self._accounts.result().spooled:
                return 0.0
            oldest = self._looked  # what waits has come since then
        return max(0.0, time.monotonic() - oldest)

    @property
    def _alive(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def stop(self, timeout: float) -> None:
        """End the thread after what it is doing; what waits stays in the spool."""
        self._stopping = True
        self._wake.set()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout)
        self._delivering.close()

    def _run(self) -> None:
        scope = context.Context()  # not the one of whoever recorded first, which an instrumented thread would carry on
        for key in _SUPPRESS:
            scope = context.set_value(key, True, scope)
        token = context.attach(scope)
        try:
            with at_work():
                while not self._stopping:
                    self._turn()
                    self._wake.wait(_POLL)
                    self._wake.clear()
        finally:
            if self._adopting is not None:
                with contextlib.suppress(ValueError):  # it runs: this thread has died, and that one has not
                    self._adopting.close()
            context.detach(token)

    def _turn(self) -> None:
        asked = self._asked
        try:
            if self._load is not None:
                self._load()
                self._load = None
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
        if delivered:
            self._adopt_some()

    def _collect(self) -> None:
        self._accounts.add_up()
        self._spool.prepare()
        now = self._looked = time.monotonic()
        fresh = self._spool.take_fresh()
        for entry in fresh:
            watcher: Any = entry.ticket.watcher
            if watcher is not None:
                entry.ticket.watcher = None
                try:
                    watcher(entry.frame(), self._writer)
                except Exception as error:  # noqa: BLE001 - what is said early of a call is worth no record
                    self._accounts.warn("watcher", "A provisional verdict failed: %s", type(error).__name__)
        if fresh:
            self._index.add(fresh, now)
            del fresh, entry
            self._index.trim()

    def _meanwhile(self) -> None:
        """What goes on while the store is written to."""
        try:
            self._before()
            self._collect()
        except Exception as error:  # noqa: BLE001 - what is being written goes on
            self._accounts.warn("shipper", "The shipper met an error and goes on: %s", type(error).__name__)

    def _deliver(self, *, everything: bool, at_once: bool) -> bool:
        """Whether all that was due is stored now.

        ``everything`` is due at a flush; ``at_once`` is the first try of one, which waits for no pause.
        """
        if time.monotonic() < self._resume_at and not at_once:
            return False
        whole = True
        while True:
            now = time.monotonic()
            all_due = everything or self._index.full
            due = [
                (qid, pending)
                for qid, pending in self._index.queries.items()
                if all_due or pending.ended or now - pending.touched >= QUIET_SECONDS
            ]
            ready = [(qid, pending) for qid, pending in due if at_once or now >= pending.resume_at]
            whole = whole and len(ready) == len(due)
            for start in range(0, len(ready), _CHUNK):
                outcome = self._delivering.ship(ready[start : start + _CHUNK], self._meanwhile)
                if outcome is None:
                    self._back_off()
                    return False
                whole = whole and outcome
            if ready:
                self._pause = 0.0
            if not self._index.read_back(time.monotonic()):
                break
        return whole and not self._index.full

    def _damaged(self, events: int) -> None:
        self._accounts.lose(events, "spool_damaged", "Somebody wrote into the spool; the file stays for ship.")

    def _adopt_some(self) -> None:
        """Go on with what others have left, for a moment; begin anew from time to time."""
        if self._adopt is None or (self._adopting is None and time.monotonic() < self._adopt_at):
            return
        side_by_side(self._adopt_until, [time.monotonic() + _ADOPT_STEP_SECONDS], 1, self._meanwhile, _POLL)

    def _adopt_until(self, deadline: float) -> bool:
        try:
            if self._adopting is None:
                assert self._adopt is not None
                self._adopt_at = time.monotonic() + ADOPT_SECONDS * (0.5 + self._jitter())
                self._adopting = self._adopt(OneByOne(self._delivering.store))
            for _ in self._adopting:
                self._pause = 0.0
                if self._stopping or self._asked > self._tried or time.monotonic() > deadline:
                    return True
        except (StoreError, ConfigurationError) as error:
            self._accounts.warn("store", "The store does not take what other processes left: %s", error)
            self._back_off()
        except Exception as error:  # noqa: BLE001 - our own records go on
            self._accounts.warn("adopt", "What other processes left can't be adopted: %s", type(error).__name__)
            _log.debug("adopt", exc_info=True)
        self._adopting = None
        return True

    def _back_off(self) -> None:
        self._pause = min(delivering.LONGEST_PAUSE, self._pause * 2 or delivering.FIRST_PAUSE)
        self._resume_at = time.monotonic() + self._pause * (0.5 + self._jitter())
