"""What is held in memory of answers that have not ended, bounded for all of them together.

Where all of them together reach the bound, one that is longer than most is kept no further, and its record says how
many bytes it lacks; those of ordinary size go on, up to twice the bound. So it is the long ones that pay.

No lock: what is asked here comes with every chunk of every stream. The sum is taken anew for each mebibyte, so that
nothing can drift.
"""

from __future__ import annotations

import weakref
from typing import Protocol

_STEP = 1 << 20
_ORDINARY = 64  # an answer is of ordinary size up to this part of the bound


class Holding(Protocol):
    """An answer."""

    @property
    def held(self) -> int:
        """Bytes of its answer that it holds."""


class OpenAnswers:
    """Those of one process."""

    def __init__(self) -> None:
        self._open: dict[int, weakref.ref[Holding]] = {}
        self._since = 0  # bytes that came since the sum was taken
        self._sum = 0
        self._full = False

    def __len__(self) -> int:
        return len(self._open)

    def may_keep(self, answer: Holding, more: int, most: int) -> bool:
        """Whether an answer may hold ``more`` bytes, where all of them may hold ``most``."""
        key = id(answer)
        if key not in self._open:
            self._open[key] = weakref.ref(answer, lambda _: self._gone(key))
        self._since += more
        if self._since >= min(_STEP, most // 8):
            self._since = 0
            answers = [held() for held in list(self._open.values())]
            self._sum = sum(each.held for each in answers if each is not None)
            self._full = self._sum > most
        if not self._full:
            return True
        return self._sum <= 2 * most and answer.held + more <= most // _ORDINARY

    def ended(self, answer: Holding) -> None:
        """It holds nothing more."""
        self._gone(id(answer))

    def _gone(self, key: int) -> None:
        self._open.pop(key, None)
        if self._full:
            self._since = _STEP  # there may be room again


OPEN_ANSWERS = OpenAnswers()
