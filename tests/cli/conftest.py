"""A store with a few recorded queries, and a way to run commands in this process."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider

import otel_prompt_trace as pt
from otel_prompt_trace.cli.running import run as run_group


@dataclass(frozen=True)
class Outcome:
    """What a command printed and how it ended."""

    code: int
    out: bytes
    err: str

    @property
    def text(self) -> str:
        """Standard output as text."""
        return self.out.decode()

    @property
    def json(self) -> Any:
        """Standard output as JSON."""
        return json.loads(self.out)


Run = Callable[..., Outcome]


@pytest.fixture
def run(capfdbinary: pytest.CaptureFixture[bytes]) -> Run:
    """Run ``prompt-trace`` with arguments."""

    def run_command(*arguments: object) -> Outcome:
        capfdbinary.readouterr()
        with pytest.raises(SystemExit) as ended:
            run_group([str(argument) for argument in arguments])
        captured = capfdbinary.readouterr()
        return Outcome(int(ended.value.code or 0), captured.out, captured.err.decode())

    return run_command


@pytest.fixture
def places(tmp_path: Path) -> list[str]:
    """The options that name a fresh store and spool."""
    return ["--store", str(tmp_path / "store"), "--spool", str(tmp_path / "spool")]


@pytest.fixture
def installed(tmp_path: Path) -> Iterator[None]:
    """Recording into those places."""
    pt.install(store=str(tmp_path / "store"), spool=str(tmp_path / "spool"), tracer_provider=TracerProvider())
    yield
    pt.uninstall()


def record_rag(question: str = "why?", *, rider: str = "", qid: str | None = None) -> str:
    """One query with retrieval and one call; ``rider`` is text that nobody declares."""
    with pt.query(question=question, qid=qid) as q:
        with q.stage("search"):
            q.retrieved([("a", 2.0), ("b", 1.0)], top_k=2, index_version="v7", embed_model="bm25")
        q.dropped(["b"], rule="break")
        prompt = pt.Prompt().add("system", "Be brief.", trust="policy").literal("\n\n")
        prompt.add("rag", "chunk a", source_id="a", trust="retrieved").literal("\n").add("user", question, trust="user")
        pieces = [pt.declare(p.producer, p.text or "", source_id=p.source_id) for p in prompt.pieces] if rider else []
        text = "".join(pieces) + rider
        with q.call(model="gpt-4o", prompt=text if rider else prompt, temperature=0.5) as call:
            call.respond("because", finish_reason="stop", usage={"prompt_tokens": 20, "completion_tokens": 3})
    return q.qid
