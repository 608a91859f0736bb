"""The parts of a runtime, put together from its settings: a spool, a shipper that empties it, a recorder that fills it.

A runtime has parts of its own in each process: after a fork the child makes new ones. The store is opened on the
shipper's thread, when there is something to deliver.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Generator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING

from otel_prompt_trace.pipeline import frames
from otel_prompt_trace.pipeline.adopting import adopt, mark_of
from otel_prompt_trace.pipeline.delivery.together import Together
from otel_prompt_trace.pipeline.fallback import FallbackSpool
from otel_prompt_trace.pipeline.forks import NoFork
from otel_prompt_trace.pipeline.memory import MemorySpool
from otel_prompt_trace.pipeline.reading import POISON
from otel_prompt_trace.pipeline.recorder import Recorder
from otel_prompt_trace.pipeline.shipper import Shipper
from otel_prompt_trace.pipeline.spool import Spool
from otel_prompt_trace.store.memory import MEMORY
from otel_prompt_trace.store.opening import settled

if TYPE_CHECKING:
    from otel_prompt_trace.core.cutting import Digest
    from otel_prompt_trace.pipeline.accounting import Accounts
    from otel_prompt_trace.pipeline.delivery.process import DeliveryProcess
    from otel_prompt_trace.pipeline.delivery.together import Batches, Store
    from otel_prompt_trace.pipeline.shipping import Payloads
    from otel_prompt_trace.settings import Settings
    from otel_prompt_trace.sources import Sources

# What sealing and a provisional verdict need beyond what a process that only records does.
_SEALING = ("otel_prompt_trace.core.replies", "otel_prompt_trace.core.missing.explain",
            "otel_prompt_trace.capture.provisional", "html.entities")  # fmt: skip
_importing = NoFork(2.0)  # a child forked meanwhile could never import the same, nor could the application in it


class Parts:
    """What one process needs to record and deliver.

    Args:
        settings, accounts, sources: of the runtime.
        open_payloads: opens the store of an address.
        new_id: mints the ids of the writer and of files.
        resource: ``service``, ``service_version`` and ``environment``, as far as they are known.
        digest: gives the keyed digest of policy ``hash``.
        before: done on the shipper's thread before each of its turns.
        timing: is told how long each write took, and the name of its error.
    """

    def __init__(
        self,
        settings: Settings,
        accounts: Accounts,
        sources: Sources,
        open_payloads: Callable[[str], Store],
        *,
        new_id: Callable[[], str],
        resource: Mapping[str, str],
        digest: Callable[[], Digest],
        before: Callable[[], None],
        timing: Callable[[float, str | None], None],
    ) -> None:
        self._settings = settings
        self._accounts = accounts
        self._sources = sources
        self._open_payloads = open_payloads
        self._new_id = new_id
        self._process: DeliveryProcess | None = None
        self.mark = mark_of(settings.store)
        self.writer = self._new_id()
        self.spool = self._make_spool()
        self.shipper = Shipper(
            self.spool,
            self._open_store,
            accounts,
            writer=self.writer,
            set_aside=self._set_aside,
            jitter=sources.jitter,
            now=sources.now,
            load=_load,
            before=before,
            adopt=self._adopt if settings.durability != "memory" and settings.adopt else None,
            timing=timing,
        )
        self.recorder = Recorder(
            self.spool,
            accounts,
            writer=self.writer,
            now_ns=sources.now_ns,
            resource=resource,
            digest=digest,
            on_append=self.shipper.ensure_running,
            redact=settings.redact,
        )

    @property
    def delivery_pid(self) -> int | None:
        """The process that delivers for this one, while there is one."""
        return None if self._process is None else self._process.pid

    def abandon_in_child(self) -> None:
        """In a forked child: what these have is the parent's."""
        self.spool.abandon_in_child()
        if self._process is not None:
            self._process.forget_in_child()

    def _open_store(self) -> Batches:
        """Open the store, on the shipper's thread. The libraries that it needs are imported here."""
        with _importing.moment():
            address = settled(self._settings.store)
            if self._settings.delivery == "thread" or address == MEMORY:  # which no other process could fill
                return self._open_here(address)
            from otel_prompt_trace.pipeline.delivery.process import DeliveryProcess

            self._process = DeliveryProcess(address, lambda: self._open_here(address), self._warn)
            return self._process

    def _open_here(self, address: str) -> Batches:
        with _importing.moment():
            import_module("zstandard")
            with contextlib.suppress(RuntimeError):  # the interpreter is exiting, where no pool of threads is made
                import_module("concurrent.futures.thread")  # which looks up what others left, on many days at once
            return Together(self._open_payloads(address))

    def _make_spool(self) -> FallbackSpool | MemorySpool:
        settings = self._settings
        wait = settings.spool_block_ms / 1000 if settings.spool_full == "block" else 0.0
        memory = MemorySpool(settings.memory_max_bytes, max_frames=settings.spool_max_frames, block_seconds=wait)
        if settings.durability == "memory":
            return memory

        def open_disk() -> Spool:
            return Spool(
                settings.spool,
                writer=self.writer,
                new_id=lambda: self._new_id() + self.mark,
                now_ns=self._sources.now_ns,
                file_bytes=settings.spool_file_bytes,
                max_bytes=settings.spool_max_bytes,
                fsync=settings.durability == "fsync",
                max_frames=settings.spool_max_frames,
                max_age_seconds=settings.spool_max_age,
                block_seconds=wait,
                sync_seconds=settings.fsync_ms / 1000,
                warn=self._warn,
            )

        return FallbackSpool(open_disk, memory, place=str(settings.spool), warn=self._warn)

    def _warn(self, key: str, message: str) -> None:
        self._accounts.warn(key, "%s", message)

    def _adopt(self, payloads: Payloads) -> Generator[None, None, None]:
        if self.spool.on_disk:  # else the folder may be one that was refused: others could plant events there
            yield from adopt(self._settings.spool, self.mark, payloads, self._sources.now, self._accounts)

    def _set_aside(self, frame: frames.Frame) -> None:
        """Keep a frame that can't be stored where a person can look at it; we never delete it."""
        if self._settings.durability == "memory":
            return
        folder = self._settings.spool / POISON
        with contextlib.suppress(OSError):
            folder.mkdir(mode=0o700, exist_ok=True)
            head, body = frames.build(frame.flags, frame.qid, frame.seq, frame.ts, frame.events, frame.body)
            header = frames.header(self.writer, frame.ts)
            path = folder / f"{self._new_id()}.spool"
            with open(path, "xb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
                file.write(header + head + body)


def _load() -> None:
    """Import what sealing needs before anything is sealed, so that no fork falls into the middle of it."""
    with _importing.moment(), contextlib.suppress(ImportError):  # whoever needs it says so
        for name in _SEALING:
            import_module(name)
