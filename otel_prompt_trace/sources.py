"""Where time, chance and the process id come from: one place, so that tests can put their own there."""

from __future__ import annotations

import os
import random
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timezone

from otel_prompt_trace.core.qid import ulid_factory


@dataclass(frozen=True, slots=True)
class Sources:
    """Clock, ids, jitter and pid. ``now_ns`` is since the epoch, ``perf_ns`` only good for differences."""

    now_ns: Callable[[], int] = time.time_ns
    perf_ns: Callable[[], int] = time.perf_counter_ns
    random_bits: Callable[[int], int] = secrets.randbits  # not `random`: an application may seed it the same everywhere
    jitter: Callable[[], float] = random.random
    pid: Callable[[], int] = os.getpid

    @property
    def new_id(self) -> Callable[[], str]:
        """A function that mints ULIDs."""
        return ulid_factory(self.now_ns, self.random_bits)

    def now(self) -> datetime:
        """The time, aware, in UTC."""
        return datetime.fromtimestamp(self.now_ns() / 1e9, timezone.utc)
