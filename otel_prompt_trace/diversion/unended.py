"""Spans that carry content and have not ended: what they carry is recorded all the same, and bounded meanwhile.

A span that nobody ends (a stream that was left, a callback that never came) is recorded as unfinished when its object
is gone, when recording stops, or when so many wait that memory must be given back: then the oldest go first, about as
much as came, so that no caller pays for all of it. A span that ends after that tells the rest.

No lock: a span may be given content in the middle of anything, by a finalizer as well. Entries come and go by single
steps of a dict; sums may be a little off, and are taken anew before anybody goes by them.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from otel_prompt_trace.runtime import Runtime

MOST_SPANS = 10_000
_AT_ONCE = 4  # spans that are recorded to make room for what one caller brought, and then what is as large
_ANEW = 256  # times that room is made, after which the sum is taken anew
_DEPTH = 6
_SMALL = 64  # bytes, about, of a value that is neither text nor holds any


class Carrying(Protocol):
    """The state of a span that carries content."""

    size: int

    @property
    def span(self) -> weakref.ref[Any] | None:
        """The span, while somebody holds it; None where the state is nobody's but the caller's."""


class Unended:
    """Those of one process, the oldest first."""

    def __init__(self) -> None:
        self._held: dict[int, tuple[Any, weakref.ref[Any]]] = {}
        self._size = 0
        self._made_room = 0
        self._runtime: Runtime | None = None
        self._record: Callable[[Any], None] = lambda _: None

    def __len__(self) -> int:
        return len(self._held)

    def begin(self, runtime: Runtime, record: Callable[[Any], None]) -> None:
        """Hold from now on; ``record`` is what is done with the state of a span that does not end. It never raises."""
        self._runtime, self._record = runtime, record

    def grown(self, state: Carrying, by: int) -> None:
        """A span was given content, of ``by`` bytes."""
        runtime = self._runtime
        if runtime is None or state.span is None:
            return
        key = id(state)
        state.size += by
        self._size += by
        if key not in self._held:
            span = state.span()
            if span is None:
                return
            # A finalizer can do nothing by itself; and when it is done, the key may be another state's.
            self._held[key] = (state, weakref.ref(span, lambda gone: runtime.later(partial(self._give_up, key, gone))))
            runtime.wake()
        if self._over(runtime):
            self._make_room(runtime, by)

    def ended(self, state: Carrying) -> None:
        """The span has ended, and was recorded."""
        if self._held.pop(id(state), None) is not None:
            self._size -= state.size
            state.size = 0

    def stop(self) -> None:
        """Recording stops: what all of them carry is recorded now."""
        for key in list(self._held):
            self._give_up(key)
        self._runtime = None

    def forget(self) -> None:
        """In a forked child: they are the parent's to record."""
        self._held.clear()
        self._size = 0

    def _over(self, runtime: Runtime) -> bool:
        return self._size > runtime.settings.memory_max_bytes or len(self._held) > MOST_SPANS

    def _make_room(self, runtime: Runtime, came: int) -> None:
        self._made_room += 1
        if self._made_room % _ANEW == 0:
            self._size = sum(state.size for state, _ in list(self._held.values()))
        until, done = self._size - came, 0
        while self._over(runtime) and (done < _AT_ONCE or self._size > until):
            try:
                key = next(iter(self._held))
            except StopIteration:
                self._size = 0
                return
            except RuntimeError:  # another thread was quicker: it makes room as well
                return
            self._give_up(key)
            done += 1

    def _give_up(self, key: int, gone: weakref.ref[Any] | None = None) -> None:
        if gone is not None and self._held.get(key, (None, None))[1] is not gone:
            return
        state, _ = self._held.pop(key, (None, None))
        if state is None:
            return
        self._size -= state.size
        state.size = 0
        if self._runtime is not None:
            self._record(state)


def size_of(value: Any, depth: int = 0) -> int:
    """Bytes that a value takes, about: of its texts a byte a character."""
    kind = type(value)  # nearly all are texts and small numbers: the first question answers it
    if kind is str or isinstance(value, str | bytes | bytearray):
        return len(value)
    if kind is int or kind is float or kind is bool:
        return _SMALL
    if depth < _DEPTH and isinstance(value, Mapping):
        return sum(_SMALL + size_of(item, depth + 1) for item in value.values())
    if depth < _DEPTH and isinstance(value, Sequence):
        return sum(_SMALL + size_of(item, depth + 1) for item in value)
    return _SMALL


UNENDED = Unended()
os.register_at_fork(after_in_child=UNENDED.forget)
