"""Which call a request on the wire is of.

Within one place (``q.call()``, a model-call span, else the span around, the query or the entry) another body is
another call. The same body to the same host and path is a further attempt of the call before it, if that is over and
did not end in a complete 2xx: a client tries again after a failure, and does not send the same thing twice at once.
Two that both succeeded, and two that are under way at the same time, are two calls.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import xxhash

from otel_prompt_trace.pipeline.forks import RenewedLock

_REMEMBERED = 16  # calls of one place; a client tries again right away
_lock = RenewedLock()


class Target(NamedTuple):
    """What makes two requests the same."""

    body: bytes
    host: str
    path: str


@dataclass(slots=True)
class SentCall:
    """A call of which something was sent. ``open`` counts attempts under way."""

    id: str
    target: Target
    attempts: int = 1
    open: bool = True
    complete: bool = False


def target_of(body: bytes, host: str, path: str) -> Target:
    """The body is told apart by a fast digest: in memory, within one place, for a moment."""
    return Target(xxhash.xxh3_128_digest(body) + len(body).to_bytes(8, "big"), host, path)


class SentCalls:
    """The calls of one place, the newest ones."""

    __slots__ = ("_calls", "_number", "base")

    def __init__(self, base: str | None) -> None:
        self.base = base  # the id of the place, which its first call takes; None where calls have ids of their own
        self._calls: list[SentCall] = []
        self._number = 0

    def __len__(self) -> int:
        return self._number

    def next(self, target: Target, new_id: str) -> tuple[SentCall, bool]:
        """The call that a request is of, and whether it is one that was known: then it is a further attempt."""
        with _lock():
            for known in reversed(self._calls):
                if known.target == target and not known.open and not known.complete:
                    known.attempts += 1
                    known.open = True
                    return known, True
            self._number += 1
            call = SentCall(self._id(new_id), target)
            self._calls.append(call)
            del self._calls[:-_REMEMBERED]
            return call, False

    def _id(self, new_id: str) -> str:
        if self.base is None:
            return new_id
        return self.base if self._number == 1 else f"{self.base}-{self._number}"
