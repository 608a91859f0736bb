"""A store in the memory of this process, for tests: the same contract, and nothing is left when the process ends."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import datetime, timezone

from otel_prompt_trace.core.keys import check_key, check_prefix
from otel_prompt_trace.exceptions import NotFound
from otel_prompt_trace.store.objects import ObjectInfo

__all__ = ["MEMORY", "MemoryStore", "process_store"]

MEMORY = "memory:"


class MemoryStore:
    """An object store in a dictionary. What ``put`` acknowledged is as durable as the process."""

    def __init__(self) -> None:
        self._objects: dict[str, tuple[bytes, datetime]] = {}
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"MemoryStore({len(self._objects)} objects)"

    @property
    def url(self) -> str:
        """The address under which :func:`process_store` is opened."""
        return MEMORY

    def put(self, key: str, data: bytes) -> bool:
        """As :meth:`ObjectStore.put`."""
        with self._lock:
            if check_key(key) in self._objects:
                return False
            self._objects[key] = bytes(data), datetime.now(timezone.utc)
            return True

    def get(self, key: str) -> bytes:
        """As :meth:`ObjectStore.get`."""
        try:
            return self._objects[check_key(key)][0]
        except KeyError:
            raise NotFound(f"{MEMORY} has no {key}") from None

    def get_range(self, key: str, start: int, length: int) -> bytes:
        """As :meth:`ObjectStore.get_range`."""
        if start < 0 or length < 1:
            raise ValueError("a range starts at 0 or later and has at least 1 byte")
        return self.get(key)[start : start + length]

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        """As :meth:`ObjectStore.list`."""
        check_prefix(prefix)
        with self._lock:
            found = [ObjectInfo(k, len(data), at) for k, (data, at) in self._objects.items() if k.startswith(prefix)]
        yield from sorted(found, key=lambda info: info.key.split("/"))

    def folders(self, prefix: str, *, deleted: bool = False) -> Iterator[str]:  # noqa: ARG002 - nothing is versioned
        """As :meth:`ObjectStore.folders`."""
        start = prefix.rfind("/") + 1
        names = (info.key[start:].partition("/") for info in self.list(prefix))
        yield from sorted({name for name, below, _ in names if below})

    def delete(self, key: str) -> None:
        """As :meth:`ObjectStore.delete`."""
        with self._lock:
            self._objects.pop(check_key(key), None)

    def versions(self, prefix: str) -> Iterator[str]:
        """As :meth:`ObjectStore.versions`."""
        return (info.key for info in self.list(prefix))

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._objects.clear()


_of_this_process = MemoryStore()


def process_store() -> MemoryStore:
    """The one store of this process: whoever opens ``memory:`` gets it."""
    return _of_this_process
