"""Where a qid's events lie, and reading them.

Invariants:

- Events come once each: a pair of writer and seq that was seen is dropped. Objects that read whole go first, so that
  of two copies the sound one counts.
- What can't be read is a named problem; it never hides what can.
- A qid that carries a date lies under it, unless it was first stored more than two days off. Any other qid's events
  lie under the dates on which they were written, and are joined.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date, timedelta

from otel_prompt_trace.core.events import Event, Identity, Problem, decode, distinct, identity
from otel_prompt_trace.core.keys import PAYLOADS, PayloadKey, blob_key, is_blob, is_sha256, parse_day, qid_prefix
from otel_prompt_trace.core.qid import carried_date
from otel_prompt_trace.exceptions import NotFound, ObjectCorrupt
from otel_prompt_trace.store.fanout import each
from otel_prompt_trace.store.frames import unpack
from otel_prompt_trace.store.objects import ObjectStore

__all__ = ["Found", "find_blob", "find_events", "has_events", "kept_days", "object_keys"]

_RAW = 2000


@dataclass(frozen=True, slots=True)
class Found:
    """What the store holds under one qid.

    ``events`` are distinct by identity and sorted by time, writer and number; ``problems`` name everything that
    could not be read as an event of this qid; ``keys`` are the objects that were read.
    """

    qid: str
    events: list[Event]
    problems: list[Problem]
    keys: list[str]


def kept_days(objects: ObjectStore, *, deleted: bool = False) -> list[date]:
    """The days that have a folder, oldest first; with ``deleted`` also those of which only old versions are left."""
    days = map(parse_day, objects.folders(PAYLOADS, deleted=deleted))
    return [day for day in days if day is not None]


def object_keys(objects: ObjectStore, qid: str, days: Iterable[date]) -> list[str]:
    """The keys of all objects in the folders of ``qid`` on ``days``."""
    found = each(lambda day: [info.key for info in objects.list(qid_prefix(day, qid))], days)
    return [key for keys in found for key in keys]


def has_events(objects: ObjectStore, qid: str, days: Iterable[date]) -> bool:
    """Whether any object of ``qid`` is stored on one of ``days``."""
    return any(each(lambda day: next(objects.list(qid_prefix(day, qid)), None) is not None, days))


def find_events(objects: ObjectStore, qid: str, day: date | None = None) -> Found:
    """Everything stored under ``qid``: with ``day`` on that day, the one before and the one after, else on any.

    Raises:
        InvalidQid: ``qid`` is no legal query id.
        StoreUnreachable, StoreDenied: nothing can be said about the qid.
    """
    keys, read = _read_all(objects, _keys(objects, qid, day), qid)
    sound = [item for items, whole in read if whole for item in items]
    others = [item for items, whole in read if not whole for item in items]
    events = distinct(item for item in (*sound, *others) if not isinstance(item, Problem))
    problems = [item for items, _ in read for item in items if isinstance(item, Problem)]
    return Found(qid, sorted(events, key=_order), problems, keys)


def held(objects: ObjectStore, qid: str, since: date) -> set[Identity]:
    """What those objects of ``qid`` hold that can be read whole: those since a UTC day, and under the id's own date.

    Raises:
        InvalidQid, StoreUnreachable, StoreDenied: as :func:`find_events`.
    """
    carried = carried_date(qid)
    days = [day for day in kept_days(objects) if day >= since or day == carried]
    _, read = _read_all(objects, object_keys(objects, qid, days), qid)
    return {identity(item) for items, whole in read if whole for item in items if not isinstance(item, Problem)}


def _read_all(
    objects: ObjectStore, keys: Iterable[str], qid: str
) -> tuple[list[str], list[tuple[list[Event | Problem], bool]]]:
    kept = [key for key in keys if not is_blob(key)]
    return kept, each(lambda key: _read(objects, key, qid), kept)


def find_blob(objects: ObjectStore, qid: str, sha256: str) -> bytes:
    """A binary run of a qid's bodies, on whichever day it lies.

    Raises:
        NotFound: it is not stored, or ``sha256`` is no digest.
        ObjectCorrupt: what is stored has another digest.
        StoreUnreachable, StoreDenied: nothing can be said about it.
    """
    carried = carried_date(qid)
    days = kept_days(objects) if is_sha256(sha256) else []
    corrupt: str | None = None
    for day in dict.fromkeys([*([carried] if carried is not None and days else []), *reversed(days)]):
        key = blob_key(day, qid, sha256)
        try:
            data = objects.get(key)
        except NotFound:
            continue
        if hashlib.sha256(data).hexdigest() == sha256:
            return data
        corrupt = key
    if corrupt is not None:
        raise ObjectCorrupt(f"{corrupt} in {objects.url} has another digest than its name says")
    raise NotFound(f"no binary run {sha256[:80]!r} of {qid} in {objects.url}")


def _keys(objects: ObjectStore, qid: str, day: date | None) -> list[str]:
    if day is not None:
        return object_keys(objects, qid, _around(day))
    carried = carried_date(qid)
    keys = object_keys(objects, qid, [carried]) if carried is not None else []
    return keys or object_keys(objects, qid, kept_days(objects))


def _around(day: date) -> Iterator[date]:
    for offset in (-1, 0, 1):
        if date.min.toordinal() <= day.toordinal() + offset <= date.max.toordinal():
            yield day + timedelta(days=offset)


def _read(objects: ObjectStore, key: str, qid: str) -> tuple[list[Event | Problem], bool]:
    if PayloadKey.parse(key) is None:
        return [Problem(key, 0, "not a payload object's name; not read")], False
    try:
        lines, fault = unpack(objects.get(key))
    except NotFound:
        return [Problem(key, 0, "deleted while it was being read")], False
    items = [_checked(item, key, number, qid) for number, item in enumerate(decode(lines, key), 1)]
    if fault:
        items.append(Problem(key, 0, fault))
    return items, not fault


def _checked(item: Event | Problem, key: str, number: int, qid: str) -> Event | Problem:
    if isinstance(item, Problem) or item["qid"] == qid:
        return item
    return Problem(key, number, f"an event of another query, {item['qid']}", repr(item)[:_RAW])


def _order(event: Event) -> tuple[str, str, int]:
    return str(event.get("ts")), event["writer"], event["seq"]
