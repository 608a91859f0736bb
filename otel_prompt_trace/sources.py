"""Where time, chance and the process id come from: one place, so that tests can put their own there."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timezone

from otel_prompt_trace.core.qid import ulid_factory

# A generator of our own: an application may seed the shared one, to the same value in every process. Not the system's
# either: asking the kernel lets go of the GIL, and beside a busy thread that costs more than all the rest of a call.
# Ids have to be unique, not secret.
_random = random.Random()  # noqa: S311
os.register_at_fork(after_in_child=_random.seed)


@dataclass(frozen=True, slots=True)
class Sources:
    """Clock, ids, jitter and pid. ``now_ns`` is since the epoch, ``perf_ns`` only good for differences."""

    now_ns: Callable[[], int] = time.time_ns
    perf_ns: Callable[[], int] = time.perf_counter_ns
    random_bits: Callable[[int], int] = _random.getrandbits
    jitter: Callable[[], float] = _random.random
    pid: Callable[[], int] = os.getpid

    @property
    def new_id(self) -> Callable[[], str]:
        """A function that mints ULIDs."""
        return ulid_factory(self.now_ns, self.random_bits)

    def now(self) -> datetime:
        """The time, aware, in UTC."""
        return datetime.fromtimestamp(self.now_ns() / 1e9, timezone.utc)


_default = Sources()


def default_sources() -> Sources:
    """What a runtime takes that is given none."""
    return _default


def set_default_sources(sources: Sources | None = None) -> None:
    """For tests: whatever is installed from now on has these; without an argument, the real ones again."""
    global _default
    _default = sources or Sources()
