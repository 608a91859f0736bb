"""A store that fails as a test says, and frames to put into spool files."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from pathlib import Path
from typing import Any

import orjson

from otel_prompt_trace.core.events import Identity
from otel_prompt_trace.exceptions import StoreUnreachable
from otel_prompt_trace.pipeline import frames

WRITER = "01M8P570G00000000000000000"
QIDS = ("01M8P570G1AAAAAAAAAAAAAAAA", "order-17", "a")


class FakePayloads:
    """Keeps what is written. Fails the next ``failures`` writes, or waits for ``gate``; ``odd`` maps qids to errors."""

    def __init__(self, failures: int = 0) -> None:
        self.failures = failures
        self.gate: threading.Event | None = None
        self.odd: dict[str, Exception] = {}
        self.look: Callable[[], None] = lambda: None
        self.writes: list[str] = []  # the qid of each try
        self.lines: dict[str, list[tuple[Identity, bytes]]] = {}

    def write(
        self,
        events: Sequence[tuple[Identity, bytes]],
        qid: str,
        now: datetime,
        blobs: Mapping[str, bytes] | None = None,
        *,
        elsewhere: date | None = None,
    ) -> list[str]:
        """See :meth:`PayloadStore.write <otel_prompt_trace.store.PayloadStore.write>`."""
        assert now.tzinfo is not None
        self.writes.append(qid)
        self.look()
        if self.gate is not None:
            self.gate.wait()
        if self.failures:
            self.failures -= 1
            raise StoreUnreachable("nobody answers. Try again later")
        if qid in self.odd:
            raise self.odd[qid]
        self.lines.setdefault(qid, []).extend(events)
        return [qid]

    def pack(self, queries: Sequence[Any]) -> Sequence[Any]:
        """As they are."""
        return queries

    def kinds(self, qid: str) -> list[str]:
        """The kinds stored under a qid, in order."""
        return [orjson.loads(line)["kind"] for _, line in self.lines.get(qid, ())]

    def times_stored(self) -> Counter[Identity]:
        """How often each identity was written."""
        return Counter(identity for lines in self.lines.values() for identity, _ in lines)


def frame(seq: int, *events: dict[str, Any], qid: str = QIDS[0], flags: int = 0, common: Any = None) -> bytes:
    """A frame as it lies in a file, padding included."""
    given = list(events) or [{"kind": "query", "question": f"number {seq}"}]
    body = frames.pack_events({} if common is None else common, given)
    head, body = frames.build(flags, qid, seq, 1_796_040_000_000_000_000, len(given), body)
    size = frames.size(len(qid), len(body))
    return (head + body).ljust(size, b"\0")


def spool_file(path: Path, *parts: bytes, zeros: int = 4096, writer: str = WRITER) -> Path:
    """A file of these frames, as a process that was killed leaves it."""
    path.parent.mkdir(mode=0o700, exist_ok=True)
    path.write_bytes(frames.header(writer, 7) + b"".join(parts) + bytes(zeros))
    return path
