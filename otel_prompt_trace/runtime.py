"""The runtime of one process: what is asked of recorder, spool and shipper, over the life of the process.

There is at most one, made by :func:`otel_prompt_trace.install`. A forked child gets parts of its own at once: a new
writer, a new spool file with its first record, a new thread; what the parent had not delivered stays the parent's.
"""

from __future__ import annotations

import atexit
import logging
import os
import time
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from multiprocessing import util as multiprocessing_util
from typing import TYPE_CHECKING, Any

from opentelemetry import trace

from otel_prompt_trace import observation, reentry
from otel_prompt_trace._version import __version__
from otel_prompt_trace.core.cutting import Digest
from otel_prompt_trace.core.events import Event
from otel_prompt_trace.core.seal import keyed_digest
from otel_prompt_trace.hash_key import hash_key
from otel_prompt_trace.parts import Parts
from otel_prompt_trace.pipeline.accounting import Accounts, FlushResult, Ticket
from otel_prompt_trace.pipeline.delivery.together import Store
from otel_prompt_trace.pipeline.spool import spooled_bytes
from otel_prompt_trace.settings import Settings
from otel_prompt_trace.sources import Sources, default_sources

if TYPE_CHECKING:
    from otel_prompt_trace.wire.rules import Rules

EXIT_SECONDS = 5.0
_REMEMBERED = 10_000
_MOST_LATER = 10_000
TRACER = "otel_prompt_trace"

_log = logging.getLogger("otel_prompt_trace")


class Runtime:
    """Everything that one process needs to record and deliver."""

    def __init__(
        self,
        settings: Settings,
        open_payloads: Callable[[str], Store],
        *,
        sources: Sources | None = None,
        tracer_provider: trace.TracerProvider | None = None,
    ) -> None:
        self.settings = settings
        self.sources = sources or default_sources()
        self.new_id = self.sources.new_id
        self.tracer = trace.get_tracer(TRACER, __version__, tracer_provider)
        self.accounts = Accounts()
        self._open_payloads = open_payloads
        self._resource: Mapping[str, str] = {}
        self._digest: Digest | None = None
        self._open = True
        self._in_vain = 0.0  # seconds that were waited for a store that did not answer
        self._withholding: OrderedDict[str, None] = OrderedDict()  # the newest queries of policy ``hash``
        self.wire: Rules | None = None  # which requests are captured on the wire; None for none
        self._later: deque[Callable[[], None]] = deque()
        self.before_close: list[Callable[[], None]] = []  # must not raise
        self._not_done = 0  # what was to be done later, beyond what can be remembered
        self.diverting = False  # whether content is taken off spans and log records
        self._timing = observation.observe()
        self._assemble()
        _runtimes.add(self)

    def describe(self, resource: Mapping[str, str]) -> None:
        """Take ``service``, ``service_version`` and ``environment``, which each event from now on carries."""
        self._resource = self._recorder.resource = resource
        if self.wire is not None:
            self.wire.service = resource.get("service", "")

    def append(self, qid: str, events: list[Event], **options: Any) -> Ticket:
        """Record events of one query; options as of :meth:`Recorder.append`. Never raises."""
        if reentry.state.at_work:
            return self._put_off(qid, events, options)
        reentry.state.at_work = 1
        try:
            return self._recorder.append(qid, events, **options)
        finally:
            reentry.state.at_work = 0

    def _put_off(self, qid: str, events: list[Event], options: dict[str, Any]) -> Ticket:
        """Told of in the middle of our own work, by a finalizer or a signal handler: recorded a little later."""
        ticket = Ticket("spooled", len(events))
        now = self.sources.now_ns()
        for event in events:
            event.setdefault("ts", now)

        def record() -> None:
            ticket.state = self.append(qid, events, **options).state

        self.later(record)
        return ticket

    def wake(self) -> None:
        """There is something that may have to be recorded later: have the shipper's thread running."""
        if not reentry.state.at_work:
            self._shipper.ensure_running()

    def later(self, what: Callable[[], None]) -> None:
        """Have something done soon, on the shipper's thread. Takes no lock: it may be asked for in a finalizer."""
        if len(self._later) < _MOST_LATER:
            self._later.append(what)
        else:
            self._not_done += 1

    def policy_of(self, qid: str) -> str:
        """The policy of a query that this process opened not long ago, else the installed one."""
        return "hash" if qid in self._withholding else self.settings.policy

    def withhold(self, qid: str) -> None:
        """Remember that a query keeps no text."""
        self._withholding[qid] = None
        if len(self._withholding) > _REMEMBERED:
            self._withholding.popitem(last=False)

    def flush(self, timeout: float) -> FlushResult:
        """Deliver what was recorded, waiting up to ``timeout`` seconds."""
        if reentry.state.at_work:  # asked for by a finalizer or a signal handler, in the middle of our own work
            return FlushResult(0, 0, 0, delivered=False)
        self._catch_up()
        with reentry.at_work():
            return self._shipper.flush(timeout)

    async def aflush(self, timeout: float) -> FlushResult:
        """The same on an event loop, which goes on meanwhile."""
        import asyncio

        self._catch_up()
        deadline = time.monotonic() + timeout
        shipper = self._shipper
        asked = shipper.ask()
        pause = 0.002
        while not shipper.over(asked) and (left := deadline - time.monotonic()) > 0:
            await asyncio.sleep(min(pause, left))
            pause = min(2 * pause, 0.05)
        return shipper.told(asked)

    def settle(self, timeout: float = EXIT_SECONDS) -> FlushResult:
        """Try once to deliver everything; what can't be delivered stays in the spool.

        A process ends in several steps, a provider's shutdown and ours among them: a store that hangs is waited for up
        to ``timeout`` in all of them together.
        """
        if reentry.state.at_work:
            return FlushResult(0, 0, 0, delivered=False)
        self._catch_up()
        if not self.accounts.result().spooled:
            return self.accounts.result()
        began = time.monotonic()
        with reentry.at_work():
            result = self._shipper.flush(max(0.0, timeout - self._in_vain), give_up=True)
        self._in_vain = 0.0 if result.delivered else self._in_vain + time.monotonic() - began
        return result

    def close(self, timeout: float = EXIT_SECONDS) -> FlushResult:
        """Try once to deliver everything, then let go; what is left stays in the spool for whoever drains it."""
        if not self._open:
            return self.accounts.result()
        self._open = False
        for what in self.before_close:
            what()
        self.settle(timeout)
        self._shipper.stop(timeout=1.0)
        with reentry.at_work():
            self._spool.close()
        left = self._spool.volatile
        if left:
            self.accounts.lose(left, "exit_in_memory", "Set PROMPT_TRACE_DURABILITY=written to keep them.")
        return self.accounts.result()

    @property
    def durability(self) -> str:
        """The durability in force: ``memory`` where the spool's folder could not be used."""
        return self.settings.durability if self._spool.on_disk else "memory"

    def digest(self) -> Digest:
        """The keyed digest of policy ``hash``, its key made at first use."""
        if self._digest is None:
            self._digest = keyed_digest(hash_key(self.settings))
        return self._digest

    @property
    def delivery_pid(self) -> int | None:
        """The process that delivers for this one, while there is one."""
        return self._parts.delivery_pid

    @property
    def oldest_seconds(self) -> float:
        """How long the oldest event of this process has waited that is not stored; 0 where none waits."""
        return self._shipper.oldest_seconds

    @property
    def spool_bytes(self) -> int:
        """Bytes that the spool takes: its folder, whoever's the files are, or what is kept in memory."""
        return spooled_bytes(self.settings.spool) if self._spool.on_disk else self._spool.used_bytes

    @property
    def spool_limit(self) -> int:
        """The bound of :attr:`spool_bytes`."""
        return self.settings.spool_max_bytes if self._spool.on_disk else self.settings.memory_max_bytes

    def _catch_up(self) -> None:
        if self._not_done:
            dropped, self._not_done = self._not_done, 0
            self.accounts.miss(dropped, "abandoned", "Their responses were given up before they were read.")
        while self._later:
            try:
                what = self._later.popleft()
            except IndexError:  # another thread was faster
                return
            with reentry.between():
                what()

    def renew(self, sources: Sources) -> None:
        """For a test that begins: deliver what there is, then go on with parts of its own and another clock and ids."""
        self.settle()
        self._shipper.stop(timeout=1.0)
        with reentry.at_work():
            self._spool.close()
        self.sources, self.new_id = sources, sources.new_id
        self.accounts = Accounts()
        self._assemble()

    def renew_in_child(self) -> None:
        """After a fork: parts of our own. Runs in the child, where no other thread exists."""
        if not self._open:
            return
        self._parts.abandon_in_child()
        self._later.clear()
        self._not_done = 0
        self.accounts = Accounts()
        self._assemble()

    def _assemble(self) -> None:
        self._in_vain = 0.0
        self._parts = parts = Parts(
            self.settings,
            self.accounts,
            self.sources,
            self._open_payloads,
            new_id=self.new_id,
            resource=self._resource,
            digest=self.digest,
            before=self._catch_up,
            timing=self._timing,
        )
        self._spool, self._shipper, self._recorder = parts.spool, parts.shipper, parts.recorder


def _close_all() -> None:
    for runtime in list(_runtimes):
        runtime.close()


def _renew_all_in_child() -> None:
    for runtime in list(_runtimes):
        try:
            runtime.renew_in_child()
        except Exception as error:  # noqa: BLE001 - a fork must not fail because of us
            _log.warning("Recording is off in this forked process: %s", type(error).__name__)


_runtimes: weakref.WeakSet[Runtime] = weakref.WeakSet()
atexit.register(_close_all)
os.register_at_fork(after_in_child=_renew_all_in_child)
# A child of multiprocessing ends by os._exit, past atexit: there its own finalizers run. A forked one forgets those
# that it got from its parent, and then runs what was registered for after the fork.
multiprocessing_util.Finalize(None, _close_all, exitpriority=100)
multiprocessing_util.register_after_fork(
    _runtimes, lambda _: multiprocessing_util.Finalize(None, _close_all, exitpriority=100)
)
