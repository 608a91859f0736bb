"""An object store in memory for property tests, with faults that a test can switch on."""

# ruff: noqa: D102 - the protocol says what each operation does
from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import datetime, timezone

from otel_prompt_trace.core.keys import check_key
from otel_prompt_trace.exceptions import NotFound, StoreDenied, StoreUnreachable
from otel_prompt_trace.store import ObjectInfo


class MemoryStore:
    """The contract of ``ObjectStore`` in a dictionary; ``locked`` keys refuse deletion, ``down`` fails listings."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.locked: set[str] = set()
        self.down = False
        self.forgetful = False  # ignores If-None-Match, as some servers do
        self.requests: list[tuple[str, str]] = []
        self._lock = threading.Lock()

    @property
    def url(self) -> str:
        return "memory:"

    def put(self, key: str, data: bytes) -> bool:
        self.requests.append(("put", key))
        with self._lock:
            if check_key(key) in self.objects and not self.forgetful:
                return False
            self.objects[key] = data
            return True

    def get(self, key: str) -> bytes:
        self.requests.append(("get", key))
        try:
            return self.objects[key]
        except KeyError:
            raise NotFound(key) from None

    def get_range(self, key: str, start: int, length: int) -> bytes:
        return self.get(key)[start : start + length]

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        self.requests.append(("list", prefix))
        if self.down:
            raise StoreUnreachable("memory: can't list. Try again later")
        for key in sorted(self.objects):
            if key.startswith(prefix):
                yield ObjectInfo(key, len(self.objects[key]), datetime(2026, 11, 30, tzinfo=timezone.utc))

    def folders(self, prefix: str, *, deleted: bool = False) -> Iterator[str]:
        self.requests.append(("folders", prefix))
        base = prefix.rpartition("/")[0]
        start = len(base) + 1 if base else 0
        yield from sorted({key[start:].split("/")[0] for key in self.objects if key.startswith(prefix)})

    def delete(self, key: str) -> None:
        if key in self.locked:
            raise StoreDenied(f"memory: can't delete {key}: locked")
        self.objects.pop(key, None)

    def versions(self, prefix: str) -> Iterator[str]:
        return (info.key for info in self.list(prefix))
