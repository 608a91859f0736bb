"""The runtime of one process: recorder, spool and shipper, put together from the settings.

There is at most one, made by :func:`otel_prompt_trace.install`. A forked child gets parts of its own at once: a new
writer, a new spool file with its first record, a new thread; what the parent had not delivered stays the parent's.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import time
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from multiprocessing import util as multiprocessing_util
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opentelemetry import trace

from otel_prompt_trace._version import __version__
from otel_prompt_trace.core.cutting import Digest
from otel_prompt_trace.core.events import Event
from otel_prompt_trace.core.seal import keyed_digest
from otel_prompt_trace.exceptions import ConfigurationError
from otel_prompt_trace.pipeline import frames
from otel_prompt_trace.pipeline.accounting import Accounts, FlushResult, Ticket
from otel_prompt_trace.pipeline.memory import MemorySpool
from otel_prompt_trace.pipeline.reading import POISON
from otel_prompt_trace.pipeline.recorder import Recorder, SpoolLike
from otel_prompt_trace.pipeline.shipper import Shipper
from otel_prompt_trace.pipeline.shipping import Payloads
from otel_prompt_trace.pipeline.spool import Spool, prepare_folder
from otel_prompt_trace.settings import Settings
from otel_prompt_trace.sources import Sources

if TYPE_CHECKING:
    from otel_prompt_trace.wire.rules import Rules

EXIT_SECONDS = 5.0
_REMEMBERED = 10_000
TRACER = "otel_prompt_trace"

_log = logging.getLogger("otel_prompt_trace")


class Runtime:
    """Everything that one process needs to record and deliver."""

    def __init__(
        self,
        settings: Settings,
        open_payloads: Callable[[str], Payloads],
        *,
        sources: Sources | None = None,
        resource: Mapping[str, str] | None = None,
        tracer_provider: trace.TracerProvider | None = None,
    ) -> None:
        self.settings = settings
        self.sources = sources or Sources()
        self.new_id = self.sources.new_id
        self.tracer = trace.get_tracer(TRACER, __version__, tracer_provider)
        self.accounts = Accounts()
        self._open_payloads = open_payloads
        self._resource = dict(resource or {})
        self._digest: Digest | None = None
        self._open = True
        self._in_vain = 0.0  # seconds that were waited for a store that did not answer
        self._withholding: OrderedDict[str, None] = OrderedDict()  # the newest queries of policy ``hash``
        self.wire: Rules | None = None  # which requests are captured on the wire; None for none
        self._later: deque[Callable[[], None]] = deque()
        self.diverting = False  # whether content is taken off spans and log records
        self._assemble()
        _runtimes.add(self)

    def append(self, qid: str, events: list[Event], **options: Any) -> Ticket:
        """Record events of one query; options as of :meth:`Recorder.append`. Never raises."""
        return self._recorder.append(qid, events, **options)

    def later(self, what: Callable[[], None]) -> None:
        """Have something done soon, on the shipper's thread. Takes no lock: it may be asked for in a finalizer."""
        self._later.append(what)

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
        self._catch_up()
        return self._shipper.flush(timeout)

    def settle(self, timeout: float = EXIT_SECONDS) -> FlushResult:
        """Try once to deliver everything; what can't be delivered stays in the spool.

        A process ends in several steps, a provider's shutdown and ours among them: a store that hangs is waited for up
        to ``timeout`` in all of them together.
        """
        self._catch_up()
        if not self.accounts.result().spooled:
            return self.accounts.result()
        began = time.monotonic()
        result = self._shipper.flush(max(0.0, timeout - self._in_vain), give_up=True)
        self._in_vain = 0.0 if result.delivered else self._in_vain + time.monotonic() - began
        return result

    def close(self, timeout: float = EXIT_SECONDS) -> FlushResult:
        """Try once to deliver everything, then let go; what is left stays in the spool for whoever drains it."""
        if not self._open:
            return self.accounts.result()
        self._open = False
        self.settle(timeout)
        self._shipper.stop(timeout=1.0)
        self._spool.close()
        result = self.accounts.result()
        if result.spooled and isinstance(self._spool, MemorySpool):
            self.accounts.lose(result.spooled, "exit_in_memory", "Set PROMPT_TRACE_DURABILITY=written to keep them.")
        return self.accounts.result()

    @property
    def durability(self) -> str:
        """The durability in force: ``memory`` where the spool's folder could not be used."""
        return "memory" if isinstance(self._spool, MemorySpool) else self.settings.durability

    def digest(self) -> Digest:
        """The keyed digest of policy ``hash``, its key made at first use."""
        if self._digest is None:
            self._digest = keyed_digest(_hash_key(self.settings))
        return self._digest

    def _catch_up(self) -> None:
        while self._later:
            try:
                self._later.popleft()()
            except IndexError:  # another thread was faster
                return

    def renew_in_child(self) -> None:
        """After a fork: parts of our own. Runs in the child, where no other thread exists."""
        if not self._open:
            return
        self._spool.abandon_in_child()
        self.accounts = Accounts()
        self._assemble()

    def _assemble(self) -> None:
        writer = self.new_id()
        self._in_vain = 0.0
        self._spool = self._make_spool(writer)
        self._shipper = Shipper(
            self._spool,
            lambda: self._open_payloads(self.settings.store),
            self.accounts,
            writer=writer,
            set_aside=self._set_aside,
            jitter=self.sources.jitter,
            now=self.sources.now,
            before=self._catch_up,
        )
        self._recorder = Recorder(
            self._spool,
            self.accounts,
            writer=writer,
            now_ns=self.sources.now_ns,
            resource=self._resource,
            digest=self.digest,
            on_append=self._shipper.ensure_running,
            redact=self.settings.redact,
        )

    def _make_spool(self, writer: str) -> SpoolLike:
        settings = self.settings
        if settings.durability != "memory":
            try:
                return Spool(
                    settings.spool,
                    writer=writer,
                    new_id=self.new_id,
                    now_ns=self.sources.now_ns,
                    file_bytes=settings.spool_file_bytes,
                    max_bytes=settings.spool_max_bytes,
                    fsync=settings.durability == "fsync",
                )
            except (OSError, ConfigurationError) as error:
                self.accounts.warn(
                    "spool", "No spool at %s (%s): recording to memory. Set PROMPT_TRACE_SPOOL.", settings.spool, error
                )
        return MemorySpool(settings.memory_max_bytes)

    def _set_aside(self, frame: frames.Frame) -> None:
        """Keep a frame that can't be stored where a person can look at it; we never delete it."""
        if not isinstance(self._spool, Spool):
            return
        folder = self.settings.spool / POISON
        with contextlib.suppress(OSError):
            folder.mkdir(mode=0o700, exist_ok=True)
            head, body = frames.build(frame.flags, frame.qid, frame.seq, frame.ts, frame.events, frame.body)
            header = frames.header(self._recorder.writer, frame.ts)
            path = folder / f"{self.new_id()}.spool"
            with open(path, "xb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
                file.write(header + head + body)


def _hash_key(settings: Settings) -> bytes:
    """The key of keyed digests: as configured, else one of this spool, made once and shared by its processes."""
    if settings.hash_key:
        return settings.hash_key.encode()
    path: Path = settings.spool / "hash.key"
    fresh = os.urandom(32).hex().encode()
    with contextlib.suppress(OSError, ConfigurationError):
        try:
            prepare_folder(settings.spool)
            temporary = path.with_suffix(f".{os.urandom(8).hex()}")
            with open(temporary, "xb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
                file.write(fresh)
            try:
                os.link(temporary, path)  # whole or not at all: another process never reads half a key
            finally:
                temporary.unlink()
        except (FileExistsError, PermissionError):  # another process was faster, or only reading is allowed here
            pass
        kept = path.read_bytes()
        if kept:
            return kept
    return fresh


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
