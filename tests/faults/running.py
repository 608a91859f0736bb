"""Recording programs as processes of their own, and what has to be true of the store afterwards."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

import otel_prompt_trace as pt
from otel_prompt_trace.core.record import project
from otel_prompt_trace.store import PayloadStore
from tests.lifecycle.serving import environ, stored_lines
from tests.wire.model_host import Answer, ModelHost

if TYPE_CHECKING:
    from typing_extensions import Self

_ROOT = Path(__file__).parents[2]
_REPLY = {
    "id": "r", "object": "chat.completion", "model": "m",
    "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "yes"}}],
    "usage": {"prompt_tokens": 5, "completion_tokens": 1, "total_tokens": 6},
}  # fmt: skip
_KINDS = {"declare": {"query", "retrieval", "piece", "request", "response", "end"}}
_KINDS |= {"wire": {"query", "request", "response", "end"}, "span": {"content"}}


@dataclass(frozen=True)
class Told:
    """A query that a program has acknowledged. ``receipt`` are its events: stored or spooled, and lost."""

    qid: str
    via: str
    sha256: str
    marker: str
    receipt: list[int] | None


def model_host(answers: int = 5_000) -> ModelHost:
    """A host that gives one good answer after the other."""
    return ModelHost([Answer((json.dumps(_REPLY).encode(),))] * answers)


class Program:
    """A running program, told by methods what to do. ``told`` is everything that it, or a child, acknowledged."""

    def __init__(self, folder: Path, store: str, spool: Path, *, host: int | None = None, **config: Any) -> None:
        options = {"store": store, "spool": str(spool), **config.pop("install", {})}
        environment = environ(folder, {"PYTHONPATH": str(_ROOT), **config.pop("environment", {})})
        given = json.dumps({"install": options, "host": host, **config})
        self.told: list[Told] = []
        self.books: dict[str, dict[str, Any]] = {}  # the last that each writer said
        self._log = (folder / f"log-{os.urandom(4).hex()}").open("w+b")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.recording", given],
            cwd=_ROOT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log,
        )  # fmt: skip
        self._await("install")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(20)
        for pipe in (self.process.stdin, self.process.stdout, self._log):
            assert pipe is not None
            with contextlib.suppress(BrokenPipeError):
                pipe.close()

    def do(self, name: str, **arguments: Any) -> Any:
        """Have a command carried out; what it gave back."""
        self.ask(name, **arguments)
        return self._await(name)

    def ask(self, name: str, **arguments: Any) -> None:
        """Send a command, and do not wait for it."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"do": name, **arguments}).encode() + b"\n")
        self.process.stdin.flush()

    def read(self, count: int = 1) -> None:
        """Read acknowledgements until there are so many more."""
        wanted = len(self.told) + count
        while len(self.told) < wanted:
            self._line()

    def ends(self, status: int = 0) -> None:
        """Read to the end, and wait for it."""
        while self._line(end=True) is not None:
            pass
        assert self.process.wait(40) == status, self.log

    def exit(self, how: str = "exit") -> dict[str, Any]:
        """Have it end; its last books."""
        self.ask("end", how=how)
        self.ends(1 if how == "raise" else 0)
        return self.last

    def kill(self, number: int = signal.SIGKILL) -> None:
        """Send it a signal that it dies of."""
        self.process.send_signal(number)
        self.ends(-number)

    @property
    def last(self) -> dict[str, Any]:
        """The books that were said last."""
        return list(self.books.values())[-1]

    @property
    def log(self) -> str:
        """What it wrote on standard error."""
        self._log.seek(0)
        return self._log.read().decode(errors="replace")

    def _await(self, name: str) -> Any:
        while True:
            line = self._line()
            if line is not None and line.get("done") == name:
                return line.get("told")

    def _line(self, *, end: bool = False) -> dict[str, Any] | None:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line.endswith(b"\n"):  # the pieces of a line that a kill cut off acknowledge nothing
            assert end, f"it ended without a word: {self.log}"
            return None
        said: dict[str, Any] = orjson.loads(line)
        if "qid" in said:
            self.told.append(Told(**said))
        if "books" in said:
            self.books.pop(said["books"]["writer"], None)
            self.books[said["books"]["writer"]] = said["books"]
        return said


def check_stored(store: PayloadStore, told: list[Told], *, grade: int = 20) -> list[dict[str, Any]]:
    """Nothing acknowledged is missing, and nothing is there twice; every event that is there.

    The first ``grade`` declared queries are also read as anybody reads them, and graded.
    """
    lines = stored_lines(store)
    seen = set[tuple[str, int]]()
    for line in lines:
        assert (line["writer"], line["seq"]) not in seen, f"twice: {line}"
        seen.add((line["writer"], line["seq"]))
    by_qid: dict[str, list[dict[str, Any]]] = {}
    for line in lines:
        by_qid.setdefault(line["qid"], []).append(line)
    assert len({each.qid for each in told}) == len(told)
    missing = [each.qid for each in told if each.qid not in by_qid]
    assert missing == [], f"{len(missing)} of {len(told)} are missing"
    for each in told:
        _check_whole(each, by_qid[each.qid])
    for each in [each for each in told if each.via == "declare"][:grade]:
        found = store.events(each.qid)
        assert found.problems == []
        assert pt.grade(project(each.qid, found.events)).verdict == "exact"
    return lines


def _check_whole(told: Told, events: list[dict[str, Any]]) -> None:
    kinds = Counter(event["kind"] for event in events)
    assert kinds.keys() >= _KINDS[told.via], (told, kinds)
    assert told.receipt in (None, [len(events), 0]), (told, kinds)
    if told.via == "span":
        assert any(told.marker in json.dumps(event) for event in events), told
        return
    assert (kinds["query"], kinds["request"], kinds["response"], kinds["end"]) == (1, 1, 1, 1), (told, kinds)
    (request,) = [event for event in events if event["kind"] == "request"]
    assert request["sha256"] == told.sha256, told


def check_books(lines: list[dict[str, Any]], *books: dict[str, Any]) -> None:
    """After everything was delivered: of each writer the store holds what was recorded, less what it said is lost."""
    by_writer = Counter(line["writer"] for line in lines)
    for each in books:
        assert each["recorded"] == each["stored"] + each["spooled"] + each["lost"], each
        assert each["lost"] == sum(each["reasons"].values()), each
        assert by_writer[each["writer"]] == each["recorded"] - each["lost"], each
