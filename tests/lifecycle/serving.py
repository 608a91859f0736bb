"""Servers as processes of their own, with all that belongs to them in one folder."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import urllib.request
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

import otel_prompt_trace as pt
from otel_prompt_trace.exceptions import NotFound
from otel_prompt_trace.pipeline.drain import DrainReport, drain
from otel_prompt_trace.store import PayloadStore
from otel_prompt_trace.store.frames import unpack
from tests.waiting import until

PROGRAMS = Path(__file__).parent / "programs"
EVENTS = 3  # of one query
_ADDRESS = re.compile(r"(?:Listening at:|running on) (http://127\.0\.0\.1:\d+)")


@dataclass(frozen=True)
class Asked:
    """A request that was answered."""

    qid: str
    pid: int


class Server:
    """A running server; ``url`` is where it listens."""

    def __init__(self, process: subprocess.Popen[bytes], output: Path) -> None:
        self.process = process
        self.output = output
        self.url = ""

    def await_url(self) -> None:
        """Wait until it listens."""
        until(lambda: _ADDRESS.search(self.output.read_text()) or self.process.poll() is not None, 60)
        found = _ADDRESS.search(self.output.read_text())
        assert found is not None, self.output.read_text()[-3000:]
        self.url = found[1]

    def ask(self, count: int = 1) -> list[Asked]:
        """Send requests, four at a time."""

        def one(number: int) -> Asked:
            with urllib.request.urlopen(f"{self.url}/{number}", timeout=30) as answer:
                return Asked(answer.headers["x-qid"], int(answer.headers["x-pid"]))

        with ThreadPoolExecutor(4) as pool:
            return list(pool.map(one, range(count)))

    def ask_until(self, pids: int) -> list[Asked]:
        """Send requests until so many processes have answered."""
        asked: list[Asked] = []

        def enough() -> bool:
            asked.extend(self.ask(10))
            return len({each.pid for each in asked}) >= pids

        until(enough, 30)
        return asked

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Tell it to end, and wait for it; its status."""
        self.process.send_signal(number)
        return self.process.wait(40)


@contextlib.contextmanager
def running(python: Path, folder: Path, *command: str, **variables: str) -> Iterator[Server]:
    """Run ``python -m command`` among the programs; its store and spool lie in ``folder``."""
    output = folder / "output"
    with output.open("wb") as file:
        process = subprocess.Popen(
            [str(python), "-m", *command],
            cwd=PROGRAMS, env=environ(folder, variables), stdout=file, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
    server = Server(process, output)
    try:
        yield server
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # the session that was begun for it
        process.wait(20)


def environ(folder: Path, variables: Mapping[str, str]) -> dict[str, str]:
    """The environment of a process, without any setting of this one."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    places = {"PROMPT_TRACE_STORE": str(folder / "store"), "PROMPT_TRACE_SPOOL": str(folder / "spool")}
    return {**kept, **places, "PYTHONUNBUFFERED": "1", "PYTHONDONTWRITEBYTECODE": "1", **variables}


def stored(folder: Path) -> Counter[str]:
    """Lines by qid, as often as they lie in the store."""
    return Counter(line["qid"] for line in _lines(folder))


def writers(folder: Path) -> set[str]:
    """Who wrote what is stored: one for each process."""
    return {line["writer"] for line in _lines(folder)}


def told(process: subprocess.Popen[str]) -> list[Any]:
    """The next line that a script has said, as JSON."""
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, "it ended without a word"
    found: list[Any] = orjson.loads(line)
    return found


def spooled(folder: Path) -> list[Path]:
    """The spool's files."""
    return sorted((folder / "spool").glob("*.spool"))


def ship(folder: Path) -> DrainReport:
    """Deliver what is left, as ``prompt-trace ship`` does."""
    return drain(folder / "spool", pt.open_store(folder / "store"))


def stored_lines(store: PayloadStore) -> list[dict[str, Any]]:
    """Every line of every object, as often as it lies there."""
    found: list[dict[str, Any]] = []
    for info in store.objects.list("payloads/"):
        if info.key.endswith(".zst"):
            with contextlib.suppress(NotFound):  # deleted since it was listed
                found += [orjson.loads(line) for line in unpack(store.objects.get(info.key))[0].splitlines()]
    return found


def _lines(folder: Path) -> list[dict[str, Any]]:
    return stored_lines(pt.open_store(folder / "store"))
