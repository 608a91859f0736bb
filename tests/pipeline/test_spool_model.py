"""The spool, a simple shipper and a drain against a model of a few sets: nothing is lost, nothing comes twice."""

from __future__ import annotations

import errno
import shutil
import tempfile
from collections import Counter
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from otel_prompt_trace.core.events import Identity
from otel_prompt_trace.core.qid import ulid_factory
from otel_prompt_trace.pipeline import frames, rotation, spool_file
from otel_prompt_trace.pipeline.accounting import Ticket
from otel_prompt_trace.pipeline.drain import drain
from otel_prompt_trace.pipeline.fallback import FallbackSpool
from otel_prompt_trace.pipeline.memory import MemorySpool
from otel_prompt_trace.pipeline.reading import content
from otel_prompt_trace.pipeline.spool import Spool, SpoolFull
from otel_prompt_trace.pipeline.spool_folder import usage
from tests.pipeline.fakes import QIDS, FakePayloads

_FILE, _MOST_BYTES, _MOST_FRAMES = 4096, 6 * 4096, 25
_MEMORY = 8192
_AGE = 60.0


class SpoolMachine(RuleBasedStateMachine):
    """One process after another over one folder, which die in order or not; a store that may be slow to answer."""

    fallback = False

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp()) / "spool"
        self.store = FakePayloads()
        self.clock = 1_796_040_000_000_000_000
        bits = iter(range(1, 10**9))
        self.new_id = ulid_factory(lambda: self.clock, lambda _: next(bits))
        self.seq = 0
        self.refuses = False
        self.kept: set[Identity] = set()  # an append has returned
        self.refused = 0
        self.acknowledged: set[Identity] = set()
        self.in_memory: set[Identity] = set()
        self.gone: set[Identity] = set()  # in memory, of a process that was killed
        self.unsure: set[Identity] = set()  # stored when their process was killed, before it acknowledged them
        self.pending: list[tuple[Identity, Any]] = []  # as the shipper has them
        self.really_make, spool_file._make = spool_file._make, self._make_or_refuse
        self.retry, rotation._RETRY_SECONDS = rotation._RETRY_SECONDS, 0.0

    def _make_or_refuse(self, path: Path, capacity: int) -> Any:
        if self.refuses:
            raise OSError(errno.ENOSPC, "No space left on device")
        return self.really_make(path, capacity)

    @initialize()
    def begin(self) -> None:
        """A process starts."""
        self.writer = self.new_id()

        def disk() -> Spool:
            return Spool(
                self.folder, writer=self.writer, new_id=self.new_id, now_ns=lambda: self.clock, file_bytes=_FILE,
                max_bytes=_MOST_BYTES, max_frames=_MOST_FRAMES, max_age_seconds=_AGE,
            )  # fmt: skip

        self.spool: Any = disk()
        if self.fallback:
            self.spool.close()
            self.spool = FallbackSpool(disk, MemorySpool(_MEMORY), place="", warn=lambda *_: None, retry_seconds=0)

    @rule(size=st.sampled_from([0, 300, 900, 3000, 6000]), qid=st.sampled_from(QIDS))
    def append(self, size: int, qid: str) -> None:
        """A record: kept, or refused, and then it is nowhere."""
        self.seq += 1
        identity = (self.writer, self.seq)
        head, body = frames.build(0, qid, self.seq, 7, 1, frames.pack_events({}, [{"kind": "end", "x": "y" * size}]))
        try:
            self.spool.append(0, qid, head, body, 1, Ticket("spooled", 1))
        except (SpoolFull, OSError):
            self.refused += 1
            return
        self.kept.add(identity)
        if identity not in self._on_disk():
            assert self.fallback
            self.in_memory.add(identity)

    @rule()
    def prepare(self) -> None:
        """A turn of the shipper's thread begins: what waits in memory moves to a disk that takes it."""
        self.spool.prepare()
        self.in_memory -= self._on_disk()

    @rule()
    def take(self) -> None:
        """The shipper learns of what is fresh."""
        self.pending += [((self.writer, entry.frame().seq), entry) for entry in self.spool.take_fresh()]

    @rule(which=st.integers(0, 9), count=st.integers(1, 9))
    def deliver(self, which: int, count: int) -> None:
        """The store takes some of it, in any order, and the spool is told."""
        which %= max(1, len(self.pending))
        chosen = self.pending[which : which + count]
        del self.pending[which : which + count]
        for identity, entry in chosen:
            self._write(identity, entry)
        self.spool.acknowledge([entry for _, entry in chosen])
        self.acknowledged |= {identity for identity, _ in chosen}
        self.in_memory -= self.acknowledged

    @rule(count=st.integers(0, 5))
    def die(self, count: int) -> None:
        """Killed, after the store has taken some that the spool was not told of; another process starts."""
        for identity, entry in self.pending[:count]:
            self._write(identity, entry)
            self.unsure.add(identity)
            if identity in self.in_memory:
                self.acknowledged.add(identity)
                self.in_memory.discard(identity)
        self.spool.abandon_in_child()  # what the kernel does at the end of a process: it closes
        self.gone |= self.in_memory
        self.in_memory = set()
        self.pending = []
        self.begin()

    @rule()
    def end(self) -> None:
        """Ended in order, with whatever waits; another process starts."""
        self.spool.close()
        if self.in_memory:
            self.gone |= self.in_memory - self._on_disk()
            self.in_memory = set()
        self.pending = []
        self.begin()

    @rule()
    def drain(self) -> None:
        """Somebody delivers what dead processes left; the living one's files are left alone."""
        mine = {identity for identity in self._on_disk() if identity[0] == self.writer}
        report = drain(self.folder, self.store)
        assert report.problems == []
        assert self._on_disk() == mine
        self.acknowledged |= self.kept - mine - self.in_memory - self.gone

    @rule()
    def get_old(self) -> None:
        """Time passes."""
        self.clock += int(_AGE * 2e9)
        self.prepare()

    @precondition(lambda self: not self.refuses)
    @rule(which=st.integers(0, 9), shorter=st.booleans())
    def meddle(self, which: int, shorter: bool) -> None:
        """Somebody deletes a file of the living process, or all of the folder; the next turn notices."""
        mine = [path for path in sorted(self.folder.glob("*.spool")) if content(path)[0] == self.writer]
        for path in mine[which % len(mine) :] if mine and shorter else mine:
            path.unlink()
        self._inner_files()._looked = 0.0
        self.prepare()

    @rule()
    def fill_up(self) -> None:
        """The disk takes no new file, or does again."""
        self.refuses = not self.refuses

    @invariant()
    def nothing_is_missing_or_left(self) -> None:
        """On disk is exactly what was kept there and not acknowledged: once, and no trace of what was refused."""
        assert self._on_disk() == self.kept - self.acknowledged - self.in_memory - self.gone

    @invariant()
    def the_books_add_up(self) -> None:
        """Every record was kept or refused; memory holds what it says; the folder is within its bound."""
        assert len(self.kept) + self.refused == self.seq
        assert self.spool.volatile == len(self.in_memory)
        assert usage(self.folder)[1] <= _MOST_BYTES

    @invariant()
    def each_is_stored_once(self) -> None:
        """But those of which a killed process could not say that they were stored."""
        stored = self.store.times_stored()
        assert set(stored) >= self.acknowledged
        assert {identity for identity, times in stored.items() if times > 1} <= self.unsure

    def teardown(self) -> None:
        """At the very end everything that was kept is in the store."""
        try:
            self.refuses = False
            if hasattr(self, "spool"):
                self.end()
                self.spool.close()
                self.drain()
                self.nothing_is_missing_or_left()
                assert set(self.store.times_stored()) >= self.kept - self.gone
                assert self.fallback or not self.gone
                assert list(self.folder.glob("*.spool")) == []
        finally:
            spool_file._make = self.really_make
            rotation._RETRY_SECONDS = self.retry
            shutil.rmtree(self.folder.parent)

    def _inner_files(self) -> Any:
        spool = self.spool._disk if self.fallback else self.spool
        return spool._files if spool is not None else type("None", (), {})()

    def _write(self, identity: Identity, entry: Any) -> None:
        frame = entry.frame()
        assert (self.writer, frame.seq) == identity
        self.store.write([(identity, frame.body)], frame.qid, datetime(2026, 11, 30, tzinfo=timezone.utc))

    def _on_disk(self) -> set[Identity]:
        found: Counter[Identity] = Counter()
        for path in self.folder.glob("*.spool"):
            writer, _, items, problems = content(path)
            assert problems == []
            found.update((writer, item.seq) for item in items)
        assert set(found.values()) <= {1}
        return set(found)


class FallbackMachine(SpoolMachine):
    """The same with memory to fall back on."""

    fallback = True


_SETTINGS = settings(
    max_examples=60, stateful_step_count=40, deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)  # fmt: skip
TestSpool = SpoolMachine.TestCase
TestSpool.settings = _SETTINGS
TestFallback = FallbackMachine.TestCase
TestFallback.settings = _SETTINGS
