"""Makes many processes that record, in one spool and by turns, and kills each at a moment that chance chooses.

Its argument is a JSON object: ``install``, ``host``, ``seed``, ``runs``, ``drains``. They are forked from one process
in which everything is imported and nothing is installed, so that a run costs some tens of milliseconds. Each is killed
while the next one records beside it, and looks for what others have left all the time. After them, where ``drains`` is
not 0, so many drain the spool, two at a time, and are killed as well. Standard output is what
:mod:`tests.faults.recording` says, of all of them, and ``{"killed": …}`` at the end.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import select
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import otel_prompt_trace as pt
from otel_prompt_trace.exceptions import StoreError
from otel_prompt_trace.pipeline.drain import drain
from tests.faults.recording import Program, say

_PATIENCE = 20.0


def _forked(work: Callable[[], None]) -> tuple[int, int]:
    """A child that does ``work`` and never returns from it; its process, and where what it writes can be read."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        with contextlib.suppress(BaseException):
            os.dup2(writing, 1)
            os.close(reading)
            os.close(writing)
            work()
        os._exit(1)
    os.close(writing)
    return child, reading


def _record(config: dict[str, Any]) -> None:
    program = Program(config)
    program.install()
    say(done="install")
    program.begin(threads=3)
    while os.getppid() == config["parent"]:  # until killed; who kills may be killed as well
        time.sleep(0.1)


def _drain(config: dict[str, Any]) -> None:
    say(done="drain")
    while os.getppid() == config["parent"]:  # until killed
        with contextlib.suppress(StoreError):
            drain(Path(config["install"]["spool"]), pt.open_store(config["install"]["store"]))
        time.sleep(0.001)


def _kill(child: tuple[int, int], lines: int, moment: float) -> bytes:
    """Kill a child that has begun, after some acknowledgements and a moment; everything that it said."""
    process, reading = child
    said = b""
    deadline = time.monotonic() + _PATIENCE
    while said.count(b"\n") <= lines and select.select([reading], [], [], max(0.0, deadline - time.monotonic()))[0]:
        more = os.read(reading, 1 << 16)
        if not more:
            break
        said += more
    time.sleep(moment)  # the moment itself: nothing could be waited for
    os.kill(process, signal.SIGKILL)
    while more := os.read(reading, 1 << 16):
        said += more
    os.close(reading)
    _, status = os.waitpid(process, 0)
    if os.waitstatus_to_exitcode(status) != -signal.SIGKILL:
        raise SystemExit(f"it ended by itself: {status}")
    return said[: said.rfind(b"\n") + 1]


def main() -> None:
    """Make and kill."""
    config = json.loads(sys.argv[1])
    rng = random.Random(config["seed"])
    config["parent"] = os.getpid()
    said = []
    for work, count, lines in ((_record, config["runs"], (0, 1, 2, 5, 20, 40)), (_drain, config["drains"], (0,))):
        before: list[tuple[int, int]] = []
        for number in range(count + 1):
            if number < count:
                before.append(_forked(lambda: work(config)))  # noqa: B023 - it is called at once
            if len(before) > 1 or number == count:
                said += [_kill(each, rng.choice(lines), rng.random() * 0.02) for each in before[:1]]
                del before[:1]
    sys.stdout.buffer.write(b"".join(said))
    sys.stdout.buffer.flush()
    say(killed=config["runs"] + config["drains"])


if __name__ == "__main__":
    main()
