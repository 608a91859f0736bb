"""One installation of a test: where it records to, and what came of it."""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import zstandard
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import otel_prompt_trace as pt
from otel_prompt_trace.core.record import Record, project
from otel_prompt_trace.current import current
from otel_prompt_trace.runtime import Runtime
from otel_prompt_trace.sources import Sources

NOON = 1_796_040_000_000_000_000  # 2026-11-30T12:00:00Z
TICK = 1_000_000


def fixed_sources() -> Sources:
    """A clock that starts at noon and gains a millisecond each time it is read, and the same ids every time."""
    wall, perf = itertools.count(NOON, TICK), itertools.count(0, TICK)
    return Sources(
        now_ns=lambda: next(wall),
        perf_ns=lambda: next(perf),
        random_bits=random.Random(7).getrandbits,
        jitter=lambda: 0.5,
        pid=lambda: 4711,
    )


@dataclass
class Recording:
    """Store, spool and spans of one installation."""

    store: Path
    spool: Path
    provider: TracerProvider
    exporter: InMemorySpanExporter

    @property
    def runtime(self) -> Runtime:
        """The runtime in force."""
        found = current()
        assert found is not None
        return found

    def events(self, qid: str) -> list[dict[str, Any]]:
        """The stored events of one query, after a flush, in the order of their numbers."""
        pt.flush(20)
        found = pt.open_store(self.store).events(qid)
        assert found.problems == []
        return sorted(found.events, key=lambda event: (event["writer"], event["seq"]))

    def of(self, qid: str, kind: str) -> list[dict[str, Any]]:
        """The stored events of one kind."""
        return [event for event in self.events(qid) if event["kind"] == kind]

    def record(self, qid: str) -> Record:
        """The record of one query, read from the store."""
        return project(qid, self.events(qid))

    def span(self, name: str) -> ReadableSpan:
        """The one finished span of this name."""
        (found,) = (span for span in self.exporter.get_finished_spans() if span.name == name)
        return found

    def attributes(self, name: str) -> dict[str, Any]:
        """The attributes of the one finished span of this name."""
        return dict(self.span(name).attributes or {})

    def stored_qids(self) -> set[str]:
        """The qids of which something is stored."""
        return {qid for _, qid in pt.open_store(self.store).qids()}

    def spooled_bytes(self) -> bytes:
        """Every byte of the spool's files."""
        return b"".join(path.read_bytes() for path in sorted(self.spool.rglob("*.spool")))

    def stored_bytes(self) -> bytes:
        """Every byte of the store's objects, uncompressed."""
        objects = sorted(self.store.rglob("*.jsonl.zst"))
        return b"".join(zstandard.ZstdDecompressor().stream_reader(path.read_bytes()).read() for path in objects)
