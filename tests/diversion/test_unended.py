"""Spans that never end: what they carried is recorded all the same, as unfinished, and memory stays bounded."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider

import otel_prompt_trace as pt
from otel_prompt_trace.core.record import Record
from otel_prompt_trace.diversion import unended
from otel_prompt_trace.diversion.unended import UNENDED, Unended, size_of
from tests.waiting import until

CHAT = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}
PROMPT = "gen_ai.prompt.0.content"
ANSWER = "gen_ai.completion.0.content"

Install = Callable[..., Any]


@pytest.fixture
def install(tmp_path: Path) -> Iterator[Install]:
    """Install over a provider of the test's own; its tracer."""
    provider = TracerProvider(shutdown_on_exit=False)

    def begin(**settings: Any) -> Any:
        pt.install(
            tracer_provider=provider,
            store=str(tmp_path / "store"),
            spool=str(tmp_path / "spool"),
            wire="off",
            **settings,
        )
        return provider.get_tracer("app")

    yield begin
    pt.uninstall()
    assert not len(UNENDED)


def _record(tmp_path: Path) -> Record | None:
    store = pt.open_store(tmp_path / "store")
    return next((store.get(qid) for _, qid in store.qids()), None)


def _begin(tracer: Any, text: str) -> Any:
    span = tracer.start_span("chat m", attributes={**CHAT, "gen_ai.prompt.0.role": "user"})
    span.set_attribute(PROMPT, text)
    return span


def _only_call(record: Record | None, text: str) -> Any:
    assert record is not None
    (call,) = record.calls
    assert call.prompt is not None
    assert [segment.text for segment in call.prompt.segments] == [text]
    return call


def test_a_span_that_is_forgotten_is_recorded(install: Install, tmp_path: Path) -> None:
    """Its object is gone, and nobody ended it: prompt and partial answer are there, the call is unfinished."""
    span = _begin(install(), "hello")
    span.set_attribute(ANSWER, "half an ans")
    del span
    gc.collect()
    assert pt.flush(20).ok
    call = _only_call(_record(tmp_path), "hello")
    assert call.unfinished
    assert call.response["output"] == "half an ans"


@pytest.mark.parametrize("how", ["uninstall", "exit", "exit with the store down"])
def test_a_span_that_is_still_open_when_recording_stops(tmp_path: Path, how: str) -> None:
    """Recorded before the last delivery; with the store down it waits in the spool."""
    if how == "exit with the store down":
        (tmp_path / "store").write_text("no folder")
    script = f"""
import sys
from opentelemetry.sdk.trace import TracerProvider
import otel_prompt_trace as pt
from tests.diversion.test_unended import _begin
provider = TracerProvider()
pt.install(tracer_provider=provider, store={str(tmp_path / "store")!r}, spool={str(tmp_path / "spool")!r}, wire="off")
span = _begin(provider.get_tracer("app"), "still open")
if {how == "uninstall"}:
    pt.uninstall()
"""
    subprocess.run([sys.executable, "-c", script], check=True, cwd=Path(__file__).parents[2])
    if how == "exit with the store down":
        (tmp_path / "store").unlink()
        from otel_prompt_trace.pipeline.drain import drain

        assert drain(tmp_path / "spool", pt.open_store(tmp_path / "store")).events == 2
    assert _only_call(_record(tmp_path), "still open").unfinished


def test_a_span_that_ends_is_recorded_once_and_finished(install: Install, tmp_path: Path) -> None:
    """Nothing of it is held after its end, and nothing is told again when its object goes."""
    span = _begin(install(), "hello")
    span.set_attribute(ANSWER, "answer")
    assert len(UNENDED) == 1
    span.end()
    assert not len(UNENDED)
    del span
    gc.collect()
    assert pt.flush(20).ok
    record = _record(tmp_path)
    assert not _only_call(record, "hello").unfinished
    assert record is not None
    assert len(record.of("content")) == 1


@pytest.mark.parametrize("bound", ["bytes", "spans"])
def test_what_waits_is_bounded(install: Install, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bound: str) -> None:
    """Beyond the bound the oldest are recorded and let go of, each once; the newest still wait for their end."""
    if bound == "spans":
        monkeypatch.setattr(unended, "MOST_SPANS", 20)
    tracer = install(**({"memory_max_bytes": 1 << 20} if bound == "bytes" else {}))
    size = 1 << 16 if bound == "bytes" else 10
    spans = [_begin(tracer, f"{number:03}" + "x" * size) for number in range(100)]
    assert 5 <= len(UNENDED) <= 20
    for span in spans:
        span.set_attribute(ANSWER, "done")
        span.end()
    assert not len(UNENDED)
    assert pt.flush(20).ok
    store = pt.open_store(tmp_path / "store")
    records = [store.get(qid) for _, qid in store.qids()]
    assert len(records) == 100
    texts = set()
    for record in records:
        (call,) = record.calls
        assert call.response is not None
        assert (call.response["output"], call.unfinished) == ("done", False)
        assert call.prompt is not None
        (segment,) = call.prompt.segments
        texts.add(segment.text[:3])
        assert len(segment.text) == size + 3
    assert texts == {f"{number:03}" for number in range(100)}


@pytest.mark.parametrize("bound", ["bytes", "spans"])
def test_nobody_pays_for_all_of_it(monkeypatch: pytest.MonkeyPatch, bound: str) -> None:
    """Room is made by a few at a time, or by as much as came; and what is held stays within the bound."""
    monkeypatch.setattr(unended, "MOST_SPANS", 100 if bound == "spans" else 10_000)
    recorded: list[State] = []
    held, runtime = Unended(), FakeRuntime(10_000 if bound == "bytes" else 1 << 30)
    held.begin(runtime, recorded.append)  # type: ignore[arg-type]
    states = []
    for number in range(3000):
        states.append(State())
        before, came = len(recorded), 900 if number % 100 == 0 else 100
        held.grown(states[-1], came)
        freed = recorded[before:]
        assert len(freed) <= 4 or came > 100
        assert len(freed) <= 10
        assert len(held) <= 100
        assert sum(state.size for state in states) <= (11_000 if bound == "bytes" else 1 << 30)
    assert recorded == states[: len(recorded)], "the oldest first"
    held.stop()
    assert recorded == states, "each once"


def test_a_span_that_is_gone_is_not_taken_for_another() -> None:
    """What was to be done about it comes when its state is gone as well, and another has its address."""
    recorded: list[State] = []
    held, runtime = Unended(), FakeRuntime(1 << 20)
    held.begin(runtime, recorded.append)  # type: ignore[arg-type]
    state = State()
    held.grown(state, 1)
    key = id(state)
    state.holder = None  # its span is gone
    assert len(runtime.asked) == 1
    held.ended(state)  # and somebody has recorded it meanwhile
    del state
    kept = []
    while not kept or id(kept[-1]) != key:
        kept.append(State())
        assert len(kept) < 10_000
    held.grown(kept[-1], 1)
    runtime.asked.pop()()
    assert recorded == []
    assert len(held) == 1


class FakeRuntime:
    """What is asked for later is kept."""

    def __init__(self, most: int) -> None:
        self.settings = SimpleNamespace(memory_max_bytes=most)
        self.asked: list[Callable[[], None]] = []

    def later(self, what: Callable[[], None]) -> None:
        """Keep it."""
        self.asked.append(what)

    def wake(self) -> None:
        """Nobody sleeps."""


class Span:
    """Something that a weak reference can be of."""


class State:
    """The state of a span that is held by nobody else."""

    def __init__(self) -> None:
        self.holder: Span | None = Span()
        self.span: weakref.ref[Any] | None = weakref.ref(self.holder)
        self.size = 0


def test_a_forked_child_leaves_its_parents_open_spans_alone(install: Install, tmp_path: Path) -> None:
    """The parent records them, once."""
    span = _begin(install(), "parent's")
    child = os.fork()
    if child == 0:
        try:
            pt.uninstall()
        finally:
            os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    span.end()
    assert pt.flush(20).ok
    record = _record(tmp_path)
    assert record is not None
    assert len(record.of("content")) == 1


def test_a_finalizer_that_ends_or_fills_spans_blocks_nothing(install: Install, tmp_path: Path) -> None:
    """Spans that go in cycles while others are filled: each is recorded."""
    tracer = install()
    for number in range(200):
        span = _begin(tracer, f"in a cycle {number}")
        span.itself = span
        del span
    gc.collect()
    until(lambda: not len(UNENDED))
    assert pt.flush(20).ok
    assert sum(1 for _ in pt.open_store(tmp_path / "store").qids()) == 200


def test_sizes() -> None:
    """A byte a character, at any depth, and something for whatever else there is."""
    assert size_of("x" * 1000) == 1000
    assert 1000 < size_of([{"content": ["x" * 1000, 1]}]) < 1500
    assert size_of(object()) > 0
