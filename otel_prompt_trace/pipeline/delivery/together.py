"""A batch of queries into the store: compressed in one go, written side by side.

Invariants:

- The whole batch is compressed in one call, which lets go of the interpreter's lock once.
- Where several are written the first goes alone, so that a store that is down is asked once. After one that the store
  did not take none is begun any more.
- An error is that of one query, and is told; nothing is raised.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, NamedTuple, Protocol, TypeAlias

from otel_prompt_trace.core.events import Identity
from otel_prompt_trace.exceptions import ConfigurationError, StoreError
from otel_prompt_trace.pipeline.delivery.side_by_side import side_by_side
from otel_prompt_trace.pipeline.shipping import Payloads

_FEW = 7  # from here on the first goes alone
_THREADS = 16
_POLL_SECONDS = 0.05


class Sealed(NamedTuple):
    """What is to be stored of one query: its lines, and the binary runs that they name, by their sha256.

    ``elsewhere`` as :meth:`PayloadStore.write <otel_prompt_trace.store.PayloadStore.write>` takes it.
    """

    qid: str
    lines: Sequence[tuple[Identity, bytes]]
    blobs: Mapping[str, bytes] = {}
    elsewhere: date | None = None


@dataclass(slots=True)
class Outcome:
    """What became of one query. ``seconds`` is how long the store took; not ``tried`` where it was not asked."""

    error: Exception | None = None
    seconds: float = 0.0
    tried: bool = True

    @property
    def stops(self) -> bool:
        """Whether the store takes nothing just now."""
        return isinstance(self.error, StoreError | ConfigurationError)


Tell: TypeAlias = Callable[[int, Outcome], None]


class Store(Payloads, Protocol):
    """A payload store that also compresses for several queries at once."""

    def pack(self, queries: Sequence[Sequence[tuple[Identity, bytes]]]) -> Sequence[Any]:
        """The lines of each query in a form that :meth:`write` takes in their place."""


class Batches(Protocol):
    """Where batches go."""

    def write_all(self, batch: Sequence[Sealed], now: datetime, told: Tell) -> None:
        """Store each query of a batch. Raises nothing.

        Args:
            batch: the queries.
            now: the time of storing (aware).
            told: called once for each query with its number in the batch and what became of it, from any thread.
        """

    def close(self) -> None:
        """Let go of it."""


class Together:
    """Batches into a store, on threads of this process."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def write_all(self, batch: Sequence[Sealed], now: datetime, told: Tell) -> None:
        """See :class:`Batches`."""
        packed: Sequence[Any] = [query.lines for query in batch]
        with contextlib.suppress(Exception):  # else each by itself, so that one of them is no trouble for the others
            packed = self._store.pack(packed)
        waiting = set(range(len(batch)))

        def write(number: int) -> bool:
            waiting.discard(number)
            began, query = time.monotonic(), batch[number]
            outcome = Outcome()
            try:
                lines = packed[number] if query.elsewhere is None else query.lines
                self._store.write(lines, query.qid, now, query.blobs, elsewhere=query.elsewhere)
            except Exception as error:  # noqa: BLE001 - told to whoever asked
                outcome.error = error
            outcome.seconds = time.monotonic() - began
            told(number, outcome)
            return not outcome.stops

        numbers = range(len(batch))
        alone = 1 if len(batch) == 1 or len(batch) > _FEW else 0  # one alone needs no thread
        if all(write(number) for number in numbers[:alone]):
            side_by_side(write, numbers[alone:], _THREADS, lambda: None, _POLL_SECONDS)
        for number in sorted(waiting):
            told(number, Outcome(tried=False))

    def close(self) -> None:
        """Nothing to let go of."""


class OneByOne:
    """A payload store over batches, for whoever has one query at a time: it is a batch by itself."""

    def __init__(self, batches: Batches) -> None:
        self._batches = batches

    def write(
        self,
        events: Sequence[tuple[Identity, bytes]],
        qid: str,
        now: datetime,
        blobs: Mapping[str, bytes] | None = None,
        *,
        elsewhere: date | None = None,
    ) -> None:
        """See :class:`Payloads <otel_prompt_trace.pipeline.shipping.Payloads>`.

        Raises:
            StoreError, ConfigurationError, InvalidEvent, RuntimeError: what became of the query instead.
        """
        outcomes: list[Outcome] = []
        query = Sealed(qid, events, blobs or {}, elsewhere)
        self._batches.write_all([query], now, lambda _, outcome: outcomes.append(outcome))
        if outcomes[0].error is not None:
            raise outcomes[0].error
