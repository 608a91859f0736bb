"""Erasing a query: a tombstone first, then every version of every object, then a look at what is left.

Invariants:

- The tombstone stands before anything is deleted: from then on readers hide the qid, and :func:`sweep` deletes
  whatever arrives later.
- The tombstone holds no content: an ``erasure`` event with qid and time, and the reason and name that the caller
  gave for the deed.
- A receipt is ``verified`` only if a second look, at objects and at versions, found nothing. Whatever could not be
  reached stands in ``remaining`` with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from datetime import date
from itertools import chain
from typing import Any

from otel_prompt_trace.core.events import VERSION, Event, Problem, decode, encode, rfc3339
from otel_prompt_trace.core.keys import ERASED, PAYLOADS, parse_tombstone, qid_prefix, tombstone_key
from otel_prompt_trace.core.qid import check_qid
from otel_prompt_trace.exceptions import NotFound, StoreError
from otel_prompt_trace.store.fanout import each
from otel_prompt_trace.store.lookup import kept_days
from otel_prompt_trace.store.objects import ObjectStore

__all__ = ["ErasureReceipt", "Remaining", "erase", "erased_at", "erased_qids", "sweep"]


@dataclass(frozen=True, slots=True)
class Remaining:
    """A key, or the beginning of keys, that could not be erased or looked at, and why."""

    key: str
    reason: str


@dataclass(frozen=True, slots=True)
class ErasureReceipt:
    """What an erasure did: the tombstone's key, the keys deleted, and what remains.

    ``verified``: a second look found nothing of the qid, in any version. ``already_erased``: the tombstone stood
    before.
    """

    qid: str
    tombstone: str
    deleted: tuple[str, ...]
    remaining: tuple[Remaining, ...]
    verified: bool
    already_erased: bool

    def to_dict(self) -> dict[str, Any]:
        """The receipt as plain JSON values."""
        plain = asdict(self)
        return {**plain, "deleted": list(self.deleted), "remaining": [asdict(item) for item in self.remaining]}


def erase(
    objects: ObjectStore, qid: str, *, now_ns: int, writer: str, reason: str | None = None, by: str | None = None
) -> ErasureReceipt:
    """Erase everything stored under ``qid``, on every day.

    Args:
        objects: the store.
        qid: the query id; it need not be stored.
        now_ns: the time for the tombstone, nanoseconds since the epoch.
        writer: a fresh ULID, the tombstone's writer.
        reason: why, for the tombstone. Not a place for content.
        by: who, for the tombstone.

    Raises:
        InvalidQid: ``qid`` is no legal query id.
        StoreUnreachable, StoreDenied: the tombstone could not be written; nothing was deleted.
    """
    event: Event = {
        "v": VERSION,
        "kind": "erasure",
        "qid": check_qid(qid),
        "ts": rfc3339(now_ns),
        "writer": writer,
        "seq": 0,
    }
    event.update({name: value for name, value in (("reason", reason), ("by", by)) if value is not None})
    written = objects.put(tombstone_key(qid), encode(event))
    return _empty(objects, qid, lambda: kept_days(objects, deleted=True), already_erased=not written)


def sweep(objects: ObjectStore) -> list[ErasureReceipt]:
    """Delete whatever arrived under erased qids since; a receipt for each tombstone.

    Raises:
        StoreUnreachable, StoreDenied: tombstones or days can't be listed.
    """
    days = kept_days(objects, deleted=True)
    return [_empty(objects, qid, lambda: days, already_erased=True) for qid in sorted(erased_qids(objects))]


def erased_qids(objects: ObjectStore) -> set[str]:
    """All qids that have a tombstone."""
    return {qid for info in objects.list(ERASED) if (qid := parse_tombstone(info.key)) is not None}


def erased_at(objects: ObjectStore, qid: str) -> str | None:
    """The time of a qid's tombstone (RFC 3339), None if it has none; a tombstone that can't be read counts.

    Raises:
        InvalidQid: ``qid`` is no legal query id.
    """
    key = tombstone_key(qid)
    try:
        data = objects.get(key)
    except NotFound:
        return None
    times = [item.get("ts") for item in decode(data, key) if not isinstance(item, Problem)]
    return str(times[0]) if times else "an unknown time"


def _empty(
    objects: ObjectStore, qid: str, find_days: Callable[[], list[date]], *, already_erased: bool
) -> ErasureReceipt:
    deleted: list[str] = []
    remaining: dict[str, str] = {}
    try:
        days = find_days()
    except StoreError as error:
        days, remaining[PAYLOADS] = [], f"not looked at: {error}"
    prefixes = [qid_prefix(day, qid) for day in days]
    for keys, faults in each(lambda prefix: _delete_below(objects, prefix), prefixes):
        deleted += keys
        remaining |= faults
    for left in each(lambda prefix: _left_below(objects, prefix), prefixes):
        for key, reason in left.items():
            remaining.setdefault(key, reason)
    gone = tuple(key for key in deleted if key not in remaining)
    return ErasureReceipt(
        qid,
        tombstone_key(qid),
        gone,
        tuple(Remaining(key, reason) for key, reason in sorted(remaining.items())),
        not remaining,
        already_erased,
    )


def _delete_below(objects: ObjectStore, prefix: str) -> tuple[list[str], dict[str, str]]:
    deleted: list[str] = []
    faults: dict[str, str] = {}
    try:
        keys = _keys_below(objects, prefix)
    except StoreError as error:
        return [], {prefix: f"not looked at: {error}"}
    for key in keys:
        fault = _delete(objects, key)
        if fault is None:
            deleted.append(key)
        else:
            faults[key] = fault
    return deleted, faults


def _delete(objects: ObjectStore, key: str) -> str | None:
    try:
        objects.delete(key)
    except StoreError as error:
        return str(error)
    return None


def _left_below(objects: ObjectStore, prefix: str) -> dict[str, str]:
    try:
        return dict.fromkeys(_keys_below(objects, prefix), "still there after it was deleted, or arrived meanwhile")
    except StoreError as error:
        return {prefix: f"not verified: {error}"}


def _keys_below(objects: ObjectStore, prefix: str) -> Iterable[str]:
    return sorted(set(chain(objects.versions(prefix), (info.key for info in objects.list(prefix)))))
