"""From what a person pastes to one qid.

==============================================================  ================================================
a qid, or the beginning of one                                  that qid, if only one begins so
32 hexadecimal digits                                           a qid, or a trace id: the entry qids of that trace
``00-<trace id>-<span id>-01`` (W3C traceparent)                the entry qid, else as the trace id
a URL with ``/q/<qid>``, ``/t/<trace id>``, ``/trace/<id>``     as what it names (viewer, Jaeger)
==============================================================  ================================================

Whole ids go before beginnings. An erased qid is found by its tombstone, so that the answer is «erased» and not «not
found».
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from itertools import islice
from urllib.parse import unquote, urlsplit

from otel_prompt_trace.core.keys import ERASED, PayloadKey, day_prefix, parse_tombstone
from otel_prompt_trace.core.qid import carried_date, check_qid
from otel_prompt_trace.exceptions import Ambiguous, InvalidQid, NotFound
from otel_prompt_trace.store.erasure import erased_at
from otel_prompt_trace.store.fanout import each
from otel_prompt_trace.store.lookup import has_events, kept_days
from otel_prompt_trace.store.objects import ObjectStore

__all__ = ["Wanted", "qids_beginning", "read_reference", "resolve_reference"]

_TRACE = re.compile(r"[0-9a-fA-F]{32}")
_SHORT_TRACE = re.compile(r"[0-9a-fA-F]{1,32}")
_TRACEPARENT = re.compile(r"(?!ff)[0-9a-f]{2}-(?P<trace>[0-9a-f]{32})-(?P<span>[0-9a-f]{16})-[0-9a-f]{2}")
_IN_URL = re.compile(r"/(?P<kind>q|t|trace)/(?P<id>[^/]+)")
_SHOWN = 10  # candidates a day


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a reference names: whole qids that it may be, then beginnings of qids."""

    whole: tuple[str, ...]
    beginnings: tuple[str, ...]


def read_reference(text: str) -> Wanted:
    """What ``text`` names, by its form alone.

    Raises:
        InvalidQid: it has none of the forms above.
    """
    text = text.strip()
    if "://" in text:
        return _read_url(text)
    parent = _TRACEPARENT.fullmatch(text)
    if parent is not None:
        return Wanted((f"{parent['trace']}-{parent['span']}",), (f"{parent['trace']}-",))
    check_qid(text)
    if _TRACE.fullmatch(text) and text != text.lower():
        return Wanted((text,), (text, f"{text.lower()}-"))
    return Wanted((text,), (text,))


def resolve_reference(objects: ObjectStore, text: str, extra: Iterable[str] = ()) -> str:
    """The one qid that ``text`` names, among those stored, erased, and in ``extra`` (what waits in a spool).

    Raises:
        InvalidQid: ``text`` has none of the forms above.
        NotFound: no qid fits.
        Ambiguous: several do, and none is ``text`` itself.
    """
    wanted = read_reference(text)
    known = set(extra)
    days: list[date] | None = None
    for qid in wanted.whole:
        if qid in known or erased_at(objects, qid) is not None or _is_dated(objects, qid):
            return qid
        days = kept_days(objects)
        if has_events(objects, qid, days):
            return qid
    days = kept_days(objects) if days is None else days
    fitting = {qid for beginning in wanted.beginnings for qid in qids_beginning(objects, beginning, days, known)}
    if not fitting:
        raise NotFound(f"no qid that is, or begins with, {wanted.beginnings[-1]} is stored in {objects.url}")
    if len(fitting) > 1:
        raise Ambiguous(wanted.beginnings[-1], sorted(fitting))
    return fitting.pop()


def _read_url(text: str) -> Wanted:
    try:
        named = _IN_URL.search(urlsplit(text).path)
    except ValueError:  # a bracket that opens no address
        named = None
    if named is None:
        raise InvalidQid("this URL names no query: it has none of /q/<qid>, /t/<trace id>, /trace/<trace id>")
    identifier = unquote(named["id"])
    if named["kind"] == "q":
        check_qid(identifier)
        return read_reference(identifier)
    if not _SHORT_TRACE.fullmatch(identifier):
        raise InvalidQid(f"{identifier[:40]!r} in this URL is no trace id: 32 hexadecimal digits")
    return Wanted((), (f"{identifier.lower().zfill(32)}-",))  # some interfaces leave out leading zeros


def _is_dated(objects: ObjectStore, qid: str) -> bool:
    carried = carried_date(qid)
    return carried is not None and has_events(objects, qid, [carried])


def qids_beginning(
    objects: ObjectStore, beginning: str, days: list[date], known: Iterable[str] = (), most: int = _SHOWN
) -> set[str]:
    """The qids that begin so: stored on ``days``, erased, or in ``known``; at most ``most`` of each day."""
    fitting = {qid for qid in known if qid.startswith(beginning)}
    erased = (parse_tombstone(info.key) for info in objects.list(ERASED + beginning))
    fitting |= {qid for qid in islice(erased, most) if qid is not None}
    return fitting.union(*each(lambda day: _on_day(objects, beginning, day, most), days))


def _on_day(objects: ObjectStore, beginning: str, day: date, most: int) -> set[str]:
    fitting: set[str] = set()
    for info in objects.list(day_prefix(day) + beginning):  # objects, not folders: servers go on showing empty ones
        key = PayloadKey.parse(info.key)
        if key is not None:
            fitting.add(key.qid)
        if len(fitting) >= most:
            break
    return fitting
