"""The entry of a request that nobody opened a query for: the nearest local root, SERVER or CONSUMER span.

Its qid is ``<trace_id>-<span_id>``, so that one nightly trace does not merge ten thousand people, and a trace id finds
all its queries by prefix.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING

from otel_prompt_trace.core.qid import entry_qid

if TYPE_CHECKING:
    from otel_prompt_trace.diversion.calls import EndedCall

_REMEMBERED = 4096


class Entry:
    """One entry. ``opened`` once its ``query`` event is recorded."""

    __slots__ = ("_ended", "_minted", "opened", "span_id", "trace_id")

    def __init__(self, trace_id: int, span_id: int) -> None:
        self.trace_id = trace_id
        self.span_id = span_id
        self.opened = False
        self._minted: str | None = None
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
        return self._minted or entry_qid(self.trace_id, self.span_id)

    @property
    def origin(self) -> str:
        """``entry``, or ``minted`` where there is no valid span."""
        return "minted" if self._minted else "entry"

    def mint(self, qid: str) -> None:
        """Give an entry without a valid span an id."""
        self._minted = qid

    @property
    def ids(self) -> dict[str, str]:
        """Trace and span id as events carry them; none without a valid span."""
        return {} if self._minted else {"trace_id": f"{self.trace_id:032x}", "span_id": f"{self.span_id:016x}"}


class DroppedEntries:
    """Entries whose own span was dropped by the sampler: it has no callbacks, so its trace stands for it.

    Bounded: of a trace that is forgotten a later call gets an entry of its own.
    """

    def __init__(self) -> None:
        self._by_trace: OrderedDict[int, Entry] = OrderedDict()
        self._lock = threading.Lock()

    def entry(self, trace_id: int, span_id: int) -> Entry:
        """The entry of a trace; ``span_id`` names it where it is new."""
        with self._lock:
            found = self._by_trace.get(trace_id)
            if found is None:
                found = self._by_trace[trace_id] = Entry(trace_id, span_id)
                if len(self._by_trace) > _REMEMBERED:
                    self._by_trace.popitem(last=False)
            return found
