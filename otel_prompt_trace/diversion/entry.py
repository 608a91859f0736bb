"""The entry of a request that nobody opened a query for: the nearest local root, SERVER or CONSUMER span.

Its qid is ``<trace_id>-<span_id>``, so that one nightly trace does not merge ten thousand people, and a trace id finds
all its queries by prefix.
"""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from otel_prompt_trace.core.qid import entry_qid
from otel_prompt_trace.pipeline.forks import RenewedLock

if TYPE_CHECKING:
    from otel_prompt_trace.diversion.calls import EndedCall
    from otel_prompt_trace.runtime import Runtime

_REMEMBERED = 4096
_ROUTES = ("http.route", "url.path", "http.target")
_dropped: weakref.WeakKeyDictionary[Runtime, DroppedEntries] = weakref.WeakKeyDictionary()


class Entry:
    """One entry. ``opened`` once its ``query`` event is recorded."""

    __slots__ = ("_ended", "_minted", "_qid", "_span", "opened", "reference", "sent", "span_id", "trace_id")

    def __init__(self, trace_id: int, span_id: int, span: Callable[[], Any] | None = None) -> None:
        self._span = span  # gives the entry span while somebody holds it
        self.sent: Any = None  # the calls that wire capture saw outside any model-call span, None for none
        self.trace_id = trace_id
        self.span_id = span_id
        self.opened = False
        self.reference: str | None = None  # the folder in the store, once somebody asked for it
        self._minted = False
        self._qid: str | None = None
        self._ended: list[EndedCall] | None = None

    @property
    def ended(self) -> list[EndedCall]:
        """The last model calls that ended under this entry; the list is made when it is asked for, as the qid is."""
        if self._ended is None:
            self._ended = []
        return self._ended

    @property
    def qid(self) -> str:
        """The query id, made when it is asked for: most requests call no model."""
        if self._qid is None:
            self._qid = entry_qid(self.trace_id, self.span_id)
        return self._qid

    @property
    def route(self) -> str:
        """The route of the request, as the instrumentation of its web framework names it; empty where none does."""
        span = None if self._span is None else self._span()
        attributes = getattr(span, "attributes", None) or {}
        return str(next((attributes[key] for key in _ROUTES if attributes.get(key)), ""))

    @property
    def origin(self) -> str:
        """``entry``, or ``minted`` where there is no valid span."""
        return "minted" if self._minted else "entry"

    def mint(self, qid: str) -> None:
        """Give an entry without a valid span an id."""
        self._minted, self._qid = True, qid

    @property
    def ids(self) -> dict[str, str]:
        """Trace and span id as events carry them; none without a valid span."""
        return {} if self._minted else {"trace_id": f"{self.trace_id:032x}", "span_id": f"{self.span_id:016x}"}


def entry_here(runtime: Runtime, span: Any) -> Entry:
    """The entry of what happens under a span that is not ours to divert: that span; one of its own where it is remote.

    A remote span may be above many requests, of this process and of others.
    """
    context = span.get_span_context()
    if context.is_valid and not context.is_remote:
        return dropped_entries(runtime).entry(context.trace_id, context.span_id)
    entry = Entry(0, 0)
    entry.mint(runtime.new_id())
    return entry


def dropped_entries(runtime: Runtime) -> DroppedEntries:
    """Those of a runtime."""
    found = _dropped.get(runtime)
    return _dropped.setdefault(runtime, DroppedEntries()) if found is None else found


class DroppedEntries:
    """Entries of spans that the sampler dropped: they have no callbacks, so that what is above them is not known.

    Each dropped span is the entry of what happens right below it. A trace would be too much: its id comes from whoever
    calls, and may be that of many requests. Bounded: of a span that is forgotten a later call gets an entry anew.
    """

    def __init__(self) -> None:
        self._by_span: OrderedDict[tuple[int, int], Entry] = OrderedDict()
        self._lock = RenewedLock()

    def entry(self, trace_id: int, span_id: int) -> Entry:
        """The entry of what happens below a span."""
        with self._lock():
            found = self._by_span.get((trace_id, span_id))
            if found is None:
                found = self._by_span[trace_id, span_id] = Entry(trace_id, span_id)
                if len(self._by_span) > _REMEMBERED:
                    self._by_span.popitem(last=False)
            return found
