"""Spools and runtimes over a store that a test controls, closed after it."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from otel_prompt_trace.pipeline.accounting import Ticket
from otel_prompt_trace.pipeline.spool import Spool
from otel_prompt_trace.runtime import Runtime
from otel_prompt_trace.settings import load
from otel_prompt_trace.sources import Sources
from tests.pipeline.fakes import WRITER, FakePayloads, frame
from tests.surroundings import forget_settings


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No setting of the machine reaches a test, and no test writes outside its folder."""
    forget_settings(monkeypatch)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


_seeds = itertools.count()


def _sources() -> Sources:
    clock = itertools.count(1_796_040_000_000_000_000, 1_000_000)
    bits = random.Random(next(_seeds)).getrandbits
    return Sources(now_ns=lambda: next(clock), random_bits=bits, jitter=lambda: 0.0)


class Filled:
    """A spool with a short way of appending and acknowledging."""

    def __init__(self, folder: Path, **options: Any) -> None:
        sources = _sources()
        given: dict[str, Any] = {"file_bytes": 4096, "max_bytes": 1 << 30, "writer": WRITER}
        given |= {"new_id": sources.new_id, "now_ns": sources.now_ns}
        self.folder = folder
        self.spool = Spool(folder, **(given | options))
        self.entries: list[Any] = []

    def append(self, seq: int, size: int = 10) -> None:
        """One frame whose text has ``size`` characters."""
        data = frame(seq, {"kind": "query", "question": "x" * size}).rstrip(b"\0")
        head, body = data[:70], data[70:]  # 44 fixed bytes and a qid of 26
        self.spool.append(0, "01M8P570G1AAAAAAAAAAAAAAAA", head, body, 1, Ticket("spooled", 1))
        self.entries += self.spool.take_fresh()

    def acknowledge(self, count: int) -> None:
        """The store holds the oldest ``count`` frames."""
        taken, self.entries = self.entries[:count], self.entries[count:]
        self.spool.acknowledge(taken)

    @property
    def files(self) -> list[Path]:
        """The folder's files, oldest first."""
        return sorted(self.folder.glob("*.spool"))


@pytest.fixture
def fill(tmp_path: Path) -> Iterator[Callable[..., Filled]]:
    """Make a spool; options as of :class:`Spool`."""
    made: list[Filled] = []

    def make(**options: Any) -> Filled:
        made.append(Filled(tmp_path / "spool", **options))
        return made[-1]

    yield make
    for filled in made:
        filled.spool.close()


@pytest.fixture
def payloads() -> FakePayloads:
    """The store of the test."""
    return FakePayloads()


@pytest.fixture
def run(tmp_path: Path, payloads: FakePayloads) -> Iterator[Callable[..., Runtime]]:
    """Make a runtime over ``payloads``; options as of ``install()``."""
    made: list[Runtime] = []

    def make(**options: Any) -> Runtime:
        given = {"store": str(tmp_path / "store"), "spool": str(tmp_path / "spool")} | options
        made.append(Runtime(load({}, **given), lambda _: payloads, sources=_sources()))
        return made[-1]

    yield make
    if payloads.gate is not None:
        payloads.gate.set()
    for runtime in made:
        runtime.close()
