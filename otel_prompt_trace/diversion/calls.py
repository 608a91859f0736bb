"""Which call a model-call span tells of: one call is one innermost model-call span, those around it are sightings.

Mostly "around" is parentage: a span tells of the call that ended inside it. Three things happen besides:

- Some instrumentations do not make their span the current one: the span further in, or a model span around that one,
  is its sibling. It tells of a call that ended while it was open, whose spans stand below the same parent, in the same
  thread and task, where one thing follows another.
- Some keep their span the current one as long as a stream is open: other calls begin and end inside it. It tells of
  the one with the same answer, else of the last one.
- A stream's outer span may end before the inner one, at the last event instead of at the end of the stream. Then the
  outer one names the call, and what ends inside it later tells of it.

Except by parentage, only spans of different instrumentations can tell of one call, since each makes one span of it; and
neither the ids of the answers nor the models asked for may differ.
"""

from __future__ import annotations

import sys
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from otel_prompt_trace.diversion.entry import Entry
    from otel_prompt_trace.diversion.state import SpanState

_LAST = 512  # calls of an entry that are remembered: as many may end at one time, before a span beside one of them
_WITHIN = 16  # calls that are remembered of a span
_ANSWER = "gen_ai.response.id"
_TELLING = (_ANSWER, "gen_ai.request.model")


@dataclass(slots=True)
class EndedCall:
    """A call whose innermost span has ended. ``scopes`` are the instrumentations that have told of it.

    ``parents`` are those of the spans that told of it, and of the model spans around these; ``where`` is the thread and
    the task in which it was last told of.
    """

    id: str
    parents: set[int | None]
    started: int
    where: tuple[int, int]
    facts: dict[str, Any]
    scopes: set[str]


def name_call(state: SpanState, call: str) -> None:
    """A call was sent inside a model-call span: the span tells of it, and so do the spans around it."""
    scope = getattr(state.scope, "name", "")
    known = EndedCall(call, _parents(state), state.started, _where(), _facts(state), {scope})
    if state.told is None:
        state.told = known
    state.entry.ended.append(known)
    del state.entry.ended[:-_LAST]
    _tell_outer(state, known)


def sent_outside(entry: Entry, around: SpanState | None, call: str, parent: int, now: int) -> None:
    """A call was sent inside no span that is known to be a model call's.

    Some instrumentations say only at the end what their span is of, and some make one that is never the current one:
    the spans around may turn out to tell of the call, or one beside it that ends later.

    Args:
        around: the state of the span in which it was sent.
        parent: the id of that span, 0 for none.
        now: the time, in nanoseconds since 1970.
    """
    known = EndedCall(call, {parent or None}, now, _where(), {}, set())
    entry.ended.append(known)
    del entry.ended[:-_LAST]
    if around is not None:
        _tell(around, known)
        _tell_outer(around, known)


def call_so_far(state: SpanState, own: str) -> str:
    """The call that a model-call span tells of while it is open: as :func:`call_told`, and nothing is remembered."""
    scope = getattr(state.scope, "name", "")
    known = state.told or _inside(state) or _above(state, scope) or _beside(state, scope)
    return known.id if known is not None else _around(state, own)


def call_told(state: SpanState, own: str) -> tuple[str, bool]:
    """The call that a model-call span tells of as it ends, and whether another span has told of it: a sighting.

    Args:
        own: the span's id, in hex.
    """
    scope = getattr(state.scope, "name", "")
    known = state.told or _inside(state) or _above(state, scope) or _beside(state, scope)
    if known is not None:
        known.scopes.add(scope)
        known.parents |= _parents(state)
        known.facts = {**_facts(state), **known.facts}
        known.where = _where()
    else:
        known = EndedCall(_around(state, own), _parents(state), state.started, _where(), _facts(state), {scope})
        state.told = known
        state.entry.ended.append(known)
        del state.entry.ended[:-_LAST]
        _tell_outer(state, known)
        return known.id, state.call is not None
    return known.id, True


def _facts(state: SpanState) -> dict[str, Any]:
    return {name: state.facts[name] for name in _TELLING if name in state.facts} if state.facts else {}


def _tell_outer(state: SpanState, known: EndedCall) -> None:
    outer = state.parent
    while outer is not None:
        _tell(outer, known)
        outer = outer.parent


def _tell(state: SpanState, known: EndedCall) -> None:
    state.ended = known
    state.within = [*state.within[1 - _WITHIN :], known]


def _around(state: SpanState, own: str) -> str:
    return state.call.id if state.call is not None else own


def _inside(state: SpanState) -> EndedCall | None:
    """The call that ended inside a span: of several the one with the same answer, else the last."""
    answer = (state.facts or {}).get(_ANSWER)
    same = (ended for ended in reversed(state.within) if answer is not None and ended.facts.get(_ANSWER) == answer)
    return next(same, state.ended)


def _above(state: SpanState, scope: str) -> EndedCall | None:
    """The call of a span around this one that has ended already."""
    outer = state.parent
    while outer is not None:
        if outer.told is not None and _may_be(outer.told, state, scope):
            return outer.told
        outer = outer.parent
    return None


def _beside(state: SpanState, scope: str) -> EndedCall | None:
    """The call that ended while a span was open that is not around it by parentage."""
    if not state.entry.ended:
        return None
    where = _where()
    for ended in reversed(state.entry.ended):
        if (
            ended.where == where
            and state.parent_id in ended.parents
            and ended.started >= state.started
            and _may_be(ended, state, scope)
        ):
            return ended
    return None


def _may_be(ended: EndedCall, state: SpanState, scope: str) -> bool:
    facts = state.facts or {}
    return scope not in ended.scopes and all(facts.get(name, told) == told for name, told in ended.facts.items())


def _parents(state: SpanState) -> set[int | None]:
    """The parent of a model span, and as long as that is a model span too, the parent of that one."""
    found = {state.parent_id}
    outer = state.parent
    while outer is not None and outer.model_call:
        found.add(outer.parent_id)
        outer = outer.parent
    return found


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
