"""Which call a model-call span tells of: one call is one innermost model-call span, those around it are sightings.

Mostly "around" is parentage: a span tells of the call that ended inside it. Two things happen besides:

- Some instrumentations do not make their span the current one: the span further in is its sibling. It tells of a call
  that ended while it was open, with the same parent, in the same thread and task, where one thing follows another.
- A stream's outer span may end before the inner one, at the last event instead of at the end of the stream. Then the
  outer one names the call, and what ends inside it later tells of it.

In both, only spans of different instrumentations can tell of one call, since each makes one span of it; and neither the
ids of the answers nor the models asked for may differ.
"""

from __future__ import annotations

import sys
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from otel_prompt_trace.diversion.state import SpanState

_LAST = 16  # calls of an entry that are remembered; what is open beside them is about to end
_TELLING = ("gen_ai.response.id", "gen_ai.request.model")


@dataclass(slots=True)
class EndedCall:
    """A call whose innermost span has ended. ``scopes`` are the instrumentations that have told of it."""

    id: str
    parent: int | None
    started: int
    where: tuple[int, int]
    facts: dict[str, Any]
    scopes: set[str]


def call_so_far(span: Any, state: SpanState, own: str) -> str:
    """The call that a model-call span tells of while it is open: as :func:`call_told`, and nothing is remembered."""
    scope = getattr(state.scope, "name", "")
    known = state.ended or _above(state, scope) or _beside(span, state, scope)
    return known.id if known is not None else _around(state, own)


def call_told(span: Any, state: SpanState, own: str) -> tuple[str, bool]:
    """The call that a model-call span tells of as it ends, and whether another span has told of it: a sighting.

    Args:
        own: the span's id, in hex.
    """
    scope = getattr(state.scope, "name", "")
    known = state.ended or _above(state, scope) or _beside(span, state, scope)
    if known is not None:
        known.scopes.add(scope)
    else:
        facts = {name: state.facts[name] for name in _TELLING if name in state.facts} if state.facts else {}
        known = EndedCall(_around(state, own), _parent(span), span.start_time or 0, _where(), facts, {scope})
        state.told = known
        state.entry.ended.append(known)
        del state.entry.ended[:-_LAST]
        outer = state.parent
        while outer is not None:
            outer.ended = known
            outer = outer.parent
        return known.id, state.call is not None
    return known.id, True


def _around(state: SpanState, own: str) -> str:
    return state.call.id if state.call is not None else own


def _above(state: SpanState, scope: str) -> EndedCall | None:
    """The call of a span around this one that has ended already."""
    outer = state.parent
    while outer is not None:
        if outer.told is not None and _may_be(outer.told, state, scope):
            return outer.told
        outer = outer.parent
    return None


def _beside(span: Any, state: SpanState, scope: str) -> EndedCall | None:
    """The call that ended while a span was open that is not around it by parentage."""
    parent, started, where = _parent(span), getattr(span, "start_time", None) or 0, _where()
    for ended in reversed(state.entry.ended):
        if (
            ended.parent == parent
            and ended.started >= started
            and ended.where == where
            and _may_be(ended, state, scope)
        ):
            return ended
    return None


def _may_be(ended: EndedCall, state: SpanState, scope: str) -> bool:
    facts = state.facts or {}
    return scope not in ended.scopes and all(facts.get(name, told) == told for name, told in ended.facts.items())


def _parent(span: Any) -> int | None:
    above = getattr(span, "parent", None)
    return None if above is None else int(above.span_id)


def _where() -> tuple[int, int]:
    """The thread, and the task that runs in it."""
    asyncio = sys.modules.get("asyncio")
    task = None
    if asyncio is not None:
        try:
            task = asyncio.current_task()
        except RuntimeError:  # no loop runs here
            task = None
    return threading.get_ident(), id(task)
