"""What the rest asks of an object store: eight operations, whatever lies beneath.

Invariants that every implementation keeps:

- An object is immutable. :meth:`ObjectStore.put` stores it only if its key is free; of any number of racing puts
  of one key exactly one wins.
- What ``put`` acknowledged is durable, and at once visible to every reader.
- Keys are checked (:func:`otel_prompt_trace.core.keys.check_key`): no key leaves the store's own prefix.
- Errors are of this package's tree alone: ``NotFound``, ``StoreUnreachable`` (trying again can help),
  ``StoreDenied`` (somebody has to mend something first). No message carries a secret.
- Implementations may be called from any number of threads.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, runtime_checkable

__all__ = ["ObjectInfo", "ObjectStore"]


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """One object as a listing shows it: its key, its size in bytes, and when it was stored (aware, UTC)."""

    key: str
    size: int
    modified: datetime


@runtime_checkable
class ObjectStore(Protocol):
    """A flat space of immutable objects under keys with ``/`` between their segments.

    Every operation may raise ``StoreUnreachable`` or ``StoreDenied``, and ``ValueError`` for an illegal key.
    """

    @property
    def url(self) -> str:
        """Where this store is, without secrets; opening it again gives the same store."""
        ...

    def put(self, key: str, data: bytes) -> bool:
        """Store ``data`` if ``key`` is free. True: stored. False: the key was taken, and nothing was touched."""
        ...

    def get(self, key: str) -> bytes:
        """The whole object.

        Raises:
            NotFound: no object has this key.
        """
        ...

    def get_range(self, key: str, start: int, length: int) -> bytes:
        """At most ``length`` (at least 1) bytes from offset ``start`` (from 0); fewer where the object ends.

        Raises:
            NotFound: no object has this key.
        """
        ...

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        """The objects whose keys begin with ``prefix``: those of a folder together, and in order.

        Servers differ in whether ``a-b/x`` comes before or after ``a/x``.
        """
        ...

    def folders(self, prefix: str, *, deleted: bool = False) -> Iterator[str]:
        """The distinct segments that follow ``prefix`` and have something below them, in order.

        A prefix that ends inside a segment gives the whole segments that begin so. Some servers keep showing a
        folder that has become empty.

        Args:
            prefix: the beginning of the keys.
            deleted: also those below which nothing but old versions or delete markers is left.
        """
        ...

    def delete(self, key: str) -> None:
        """Remove every version and every delete marker of ``key``; nothing happens if there is none.

        Raises:
            StoreDenied: something can't be removed (an object lock, a missing permission); names the key.
        """
        ...

    def versions(self, prefix: str) -> Iterator[str]:
        """The keys beginning with ``prefix`` of which anything is left: a version, a delete marker, a torn write."""
        ...
