"""The payload store: the view by qid of an object store.

Invariants:

- Nothing is overwritten. Storing the same events again, or otherwise grouped, loses nothing, and a reader sees each
  event once.
- Readers hide what was erased: :meth:`PayloadStore.events` says so, listings leave it out.
- The clock is injected; ids are minted from it.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime

from otel_prompt_trace.core.keys import PayloadKey, blob_key, day_prefix
from otel_prompt_trace.core.qid import carried_date, carried_time, check_qid, partition_date, ulid_factory
from otel_prompt_trace.core.record import Record, project
from otel_prompt_trace.exceptions import Erased, NotFound
from otel_prompt_trace.store import erasure
from otel_prompt_trace.store.erasure import ErasureReceipt
from otel_prompt_trace.store.lookup import Found, find_blob, find_events, has_events, held, kept_days
from otel_prompt_trace.store.objects import ObjectStore
from otel_prompt_trace.store.probing import ProbeStep, probe_store
from otel_prompt_trace.store.resolving import resolve_reference
from otel_prompt_trace.store.writing import Line, Packed, pack_lines, store_packed

__all__ = ["PayloadStore"]


class PayloadStore:
    """Payloads by qid.

    Args:
        objects: where they lie.
        clock: nanoseconds since the epoch.
    """

    def __init__(self, objects: ObjectStore, *, clock: Callable[[], int] = time.time_ns) -> None:
        self._objects = objects
        self._clock = clock
        self._mint = ulid_factory(clock, secrets.randbits)

    def __repr__(self) -> str:
        return f"PayloadStore({self._objects!r})"

    @property
    def url(self) -> str:
        """Where the store is, without secrets."""
        return self._objects.url

    @property
    def objects(self) -> ObjectStore:
        """The object store beneath."""
        return self._objects

    # Writing

    def pack(self, queries: Sequence[Sequence[Line]]) -> list[Packed]:
        """The encoded events of each query as :meth:`write` takes them too, compressed in one go.

        Raises:
            InvalidEvent: bytes that are not one line.
        """
        return pack_lines(queries)

    def write(
        self,
        events: Sequence[Line] | Packed,
        qid: str,
        now: datetime,
        blobs: Mapping[str, bytes] | None = None,
        *,
        elsewhere: date | None = None,
    ) -> list[str]:
        """Store encoded events of one qid; the keys of the objects in which they all are now.

        Each writer's events go into an object of their own, of at most 64 MiB of lines unless one event is larger.

        Args:
            events: identity and line (newline included) of each event, or what :meth:`pack` made of them.
            qid: the qid of all of them.
            now: the time of storing (aware).
            blobs: binary runs that the events name, by their sha256; stored first, each once.
            elsewhere: some may have been stored since this UTC day, in an object that begins with an event that is not
                among these: look, and leave them out. Their keys are not given then.

        Raises:
            InvalidQid, InvalidEvent: a qid or identity that no key can carry, or bytes that are not one line.
            StoreUnreachable, StoreDenied: some may be stored, others not; writing all again is harmless.
        """
        day = self._day(qid, now)
        for sha256, data in (blobs or {}).items():
            self._objects.put(blob_key(day, qid, sha256), data)
        if elsewhere is not None and not isinstance(events, Packed):
            known = held(self._objects, qid, elsewhere)
            events = [line for line in events if line[0] not in known]
        packed = events if isinstance(events, Packed) else pack_lines([events])[0]
        return store_packed(self._objects, day, qid, packed)

    def blob(self, qid: str, sha256: str) -> bytes:
        """A binary run of the bodies of ``qid``.

        Raises:
            InvalidQid: ``qid`` is no legal query id.
            Erased: the qid has a tombstone.
            NotFound: it is not stored.
            ObjectCorrupt: what is stored has another digest.
            StoreUnreachable, StoreDenied: nothing can be said about it.
        """
        when = self.erased_at(check_qid(qid))
        if when is not None:
            raise Erased(qid, when)
        return find_blob(self._objects, qid, sha256)

    # Reading

    def events(self, qid: str, date: date | None = None, *, include_erased: bool = False) -> Found:
        """Everything stored under ``qid``; ``events`` is empty if nothing is.

        A qid that carries a date is looked for under it, then on every kept day; any other on every kept day at
        once.

        Args:
            qid: a whole query id.
            date: look only at this UTC day, the one before and the one after.
            include_erased: also what arrived after an erasure and has not been swept yet.

        Raises:
            InvalidQid: ``qid`` is no legal query id.
            Erased: the qid has a tombstone.
            StoreUnreachable, StoreDenied: nothing can be said about the qid.
        """
        when = None if include_erased else self.erased_at(qid)
        if when is not None:
            raise Erased(qid, when)
        return find_events(self._objects, qid, date)

    def get(self, qid: str, date: date | None = None) -> Record:
        """The record of ``qid``: the projection of everything stored under it.

        What waits in a local spool is not in it; ``prompt-trace get`` reads that as well.

        Args:
            qid: a whole query id.
            date: look only at this UTC day, the one before and the one after.

        Raises:
            InvalidQid: ``qid`` is no legal query id.
            Erased: the qid has a tombstone.
            NotFound: nothing is stored under it.
            StoreUnreachable, StoreDenied: nothing can be said about the qid.
        """
        found = self.events(qid, date)
        if not found.events and not found.problems:
            raise NotFound(f"nothing is stored under {qid} in {self.url}")
        return project(qid, found.events, found.problems)

    def erased_at(self, qid: str) -> str | None:
        """When ``qid`` was erased (RFC 3339); None if it was not.

        Raises:
            InvalidQid: ``qid`` is no legal query id.
        """
        return erasure.erased_at(self._objects, qid)

    def qids(self, since: date | None = None, until: date | None = None) -> Iterator[tuple[date, str]]:
        """Day and qid of what is stored, oldest day first, without what was erased.

        A qid whose events lie on several days comes once for each.

        Args:
            since: the first UTC day.
            until: the last UTC day, included.
        """
        hidden = erasure.erased_qids(self._objects)
        for day in kept_days(self._objects):
            if (since is None or day >= since) and (until is None or day <= until):
                yield from ((day, qid) for qid in self._qids_on(day) if qid not in hidden)

    def newest(self, since: date | None = None, until: date | None = None) -> Iterator[str]:
        """What is stored, newest first, without what was erased, each qid once; days are listed as they are reached.

        Within a day an id's time is the one that it carries, else that at which its first object was stored.

        Args:
            since: the first UTC day.
            until: the last UTC day, included.
        """
        hidden = erasure.erased_qids(self._objects)
        for day in reversed(kept_days(self._objects)):
            if (since is None or day >= since) and (until is None or day <= until):
                found = self._times_on(day, hidden)
                yield from sorted(found, key=lambda qid: (found[qid], qid), reverse=True)
                hidden |= found.keys()

    def resolve(self, text: str, extra: Iterable[str] = ()) -> str:
        """The one qid that a person means: by a qid, its beginning, a trace id, a traceparent, or a URL.

        Args:
            text: what was typed or pasted.
            extra: qids known from elsewhere, such as the local spool.

        Raises:
            InvalidQid: none of these forms.
            NotFound: no qid fits.
            Ambiguous: several fit.
        """
        return resolve_reference(self._objects, text, extra)

    # Erasing

    def erase(self, qid: str, *, reason: str | None = None, by: str | None = None) -> ErasureReceipt:
        """Erase everything under ``qid``, on every day and in every version; see the receipt for what is left.

        Args:
            qid: a whole query id.
            reason: why, kept in the tombstone. Not a place for content.
            by: who, kept in the tombstone.

        Raises:
            InvalidQid: ``qid`` is no legal query id.
            StoreUnreachable, StoreDenied: the tombstone could not be written; nothing was deleted.
        """
        now_ns, writer = self._clock(), self._mint()
        return erasure.erase(self._objects, qid, now_ns=now_ns, writer=writer, reason=reason, by=by)

    def sweep(self) -> list[ErasureReceipt]:
        """Delete whatever arrived under erased qids since; a receipt for each of them."""
        return erasure.sweep(self._objects)

    # Trying out

    def probe(self) -> list[ProbeStep]:
        """Try the store out with an object that is deleted again; every step's outcome, nothing raised."""
        return probe_store(self._objects, self._mint())

    def _day(self, qid: str, now: datetime) -> date:
        day = partition_date(check_qid(qid), now)
        carried = carried_date(qid)
        if carried is None or carried == day:
            return day
        # Far from the date that the id carries. What is there already was stored in time, and lookups look there
        # first: late events (feedback after a week, a spool that waited) have to join it, or nobody would see them.
        return carried if has_events(self._objects, qid, [carried]) else day

    def _times_on(self, day: date, hidden: set[str]) -> dict[str, datetime]:
        times: dict[str, datetime] = {}
        for info in self._objects.list(day_prefix(day)):
            key = PayloadKey.parse(info.key)
            if key is None or key.qid in hidden:
                continue
            carried = carried_time(key.qid)
            if carried is not None or key.qid not in times or info.modified < times[key.qid]:
                times[key.qid] = carried or info.modified
        return times

    def _qids_on(self, day: date) -> Iterator[str]:
        last = None
        for info in self._objects.list(day_prefix(day)):  # objects, not folders: servers go on showing empty ones
            key = PayloadKey.parse(info.key)
            if key is not None and key.qid != last:
                last = key.qid
                yield key.qid
