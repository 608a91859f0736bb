"""Which call a model-call span tells of, with several instrumentations on one real tracer provider.

``inner`` and ``outer`` are two instrumentations: of an SDK, say, and of a framework above it. Each makes one span of a
call. What is looked at is what was recorded: the call that each span's content stands under.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import Span

import otel_prompt_trace as pt
from otel_prompt_trace.core.record import Record

PROMPT = '[{"role": "user", "parts": [{"type": "text", "content": "hello"}]}]'
CHAT = {"gen_ai.operation.name": "chat", "gen_ai.input.messages": PROMPT}


@dataclass
class Instrumented:
    """An application with two instrumentations, in one request."""

    provider: TracerProvider
    store: Path
    request: Span

    def start(self, scope: str, name: str, parent: Span | None = None, **facts: Any) -> Span:
        """A model-call span of an instrumentation, below the request or another span."""
        context = trace.set_span_in_context(parent or self.request)
        named = {f"gen_ai.{fact.replace('_', '.', 1)}": value for fact, value in facts.items()}
        return self.provider.get_tracer(scope).start_span(name, context, attributes={**CHAT, **named})

    def record(self) -> Record:
        """The record of the request, which ends."""
        self.request.end()
        assert pt.flush(20).ok
        store = pt.open_store(self.store)
        ((_, qid),) = store.qids()
        return store.get(qid)

    def calls(self) -> dict[str, tuple[str, ...]]:
        """By the span whose id names a call: every span that tells of it, in the order of their ends."""
        contents = self.record().of("content")
        names = {event["span_id"]: event["name"] for event in contents}
        told: dict[str, tuple[str, ...]] = {}
        for event in contents:
            call = names[event["call"]]
            assert bool(event["sighting"]) is (call in told)  # the first to tell of a call makes it
            told[call] = (*told.get(call, ()), event["name"])
        return told


@pytest.fixture
def app(tmp_path: Path) -> Iterator[Instrumented]:
    """Recording, and a request that is open."""
    provider = TracerProvider(shutdown_on_exit=False)
    pt.install(store=str(tmp_path / "store"), spool=str(tmp_path / "spool"), tracer_provider=provider)
    request = provider.get_tracer("web").start_span("GET /", kind=trace.SpanKind.SERVER)
    yield Instrumented(provider, tmp_path / "store", request)
    pt.uninstall()


def elsewhere(act: Any) -> None:
    """Do something in another thread, and wait for it."""
    thread = threading.Thread(target=act)
    thread.start()
    thread.join()


def test_a_span_around_another_tells_of_its_call(app: Instrumented) -> None:
    """The innermost span makes the call; those around it, two levels up, are sightings, whatever their scope."""
    top = app.start("outer", "top")
    middle = app.start("middle", "middle", top)
    inner = app.start("outer", "inner", middle)
    for span in (inner, middle, top):
        span.end()
    record = app.record()
    (call,) = record.calls
    assert [(seen.scope, seen.route) for seen in call.seen] == [
        ("outer", "attributes"), ("middle", "attributes"), ("outer", "attributes"),
    ]  # fmt: skip
    assert [event["call"] for event in record.of("content")] == [call.id] * 3
    assert [event["sighting"] for event in record.of("content")] == [False, True, True]


def test_an_agent_between_is_no_call(app: Instrumented) -> None:
    """Two calls inside an agent's span are two: its own span tells of neither."""
    agent = app.start("outer", "agent")
    agent.set_attribute("gen_ai.operation.name", "invoke_agent")
    for name in ("one", "two"):
        app.start("inner", name, agent).end()
    agent.end()
    contents = {event["name"]: event.get("call") for event in app.record().of("content")}
    assert contents["agent"] is None
    assert len({contents["one"], contents["two"]}) == 2


def test_siblings_of_one_call(app: Instrumented) -> None:
    """An instrumentation that does not make its span the current one: the span further in is its sibling."""
    outer = app.start("outer", "outer")
    app.start("inner", "inner").end()
    outer.end()
    assert app.calls() == {"inner": ("inner", "outer")}


@pytest.mark.parametrize(
    ("inner", "outer"),
    [
        ({"response_id": "r1"}, {"response_id": "r2"}),
        ({"request_model": "m1"}, {"request_model": "m2"}),
        ({"request_model": "m", "response_id": "r1"}, {"request_model": "m", "response_id": "r2"}),
    ],
)
def test_siblings_that_contradict_each_other(app: Instrumented, inner: Any, outer: Any) -> None:
    """Another answer, or another model asked for: another call."""
    around = app.start("outer", "outer", **outer)
    app.start("inner", "inner", **inner).end()
    around.end()
    assert app.calls() == {"inner": ("inner",), "outer": ("outer",)}


def test_siblings_of_which_one_knows_more(app: Instrumented) -> None:
    """A fact that only one of them has contradicts nothing."""
    around = app.start("outer", "outer", request_model="m")
    app.start("inner", "inner", request_model="m", response_id="r1").end()
    around.end()
    assert app.calls() == {"inner": ("inner", "outer")}


def test_siblings_of_one_instrumentation(app: Instrumented) -> None:
    """Each makes one span of a call: two of its spans are two calls, though one lies within the other in time."""
    around = app.start("inner", "long")
    app.start("inner", "short").end()
    around.end()
    assert app.calls() == {"short": ("short",), "long": ("long",)}


def test_siblings_with_other_parents(app: Instrumented) -> None:
    """Under another step of the request: another call."""
    step = app.provider.get_tracer("web").start_span("step", trace.set_span_in_context(app.request))
    around = app.start("outer", "outer")
    app.start("inner", "inner", step).end()
    around.end()
    step.end()
    assert app.calls() == {"inner": ("inner",), "outer": ("outer",)}


def test_siblings_in_other_threads(app: Instrumented) -> None:
    """What ends in another thread goes on beside it, and not within it."""
    around = app.start("outer", "outer")
    elsewhere(lambda: app.start("inner", "inner").end())
    around.end()
    assert app.calls() == {"inner": ("inner",), "outer": ("outer",)}


def test_siblings_in_other_tasks(app: Instrumented) -> None:
    """Of two tasks of one thread neither is within the other; in one and the same task they are one call."""

    async def ask(name: str) -> None:
        app.start("inner", name).end()

    async def both() -> None:
        around = app.start("outer", "other task")
        await asyncio.create_task(ask("task"))
        around.end()
        around = app.start("outer", "same task")
        await ask("here")
        around.end()

    asyncio.run(both())
    assert app.calls() == {"task": ("task",), "other task": ("other task",), "here": ("here", "same task")}


def test_siblings_that_overlap_in_time(app: Instrumented) -> None:
    """A span that began before the outer one is not within it, whether it ends inside or before."""
    before = app.start("inner", "before")
    before.end()
    overlapping = app.start("inner", "overlapping")
    around = app.start("outer", "outer")
    overlapping.end()
    around.end()
    assert app.calls() == {"before": ("before",), "overlapping": ("overlapping",), "outer": ("outer",)}


def test_a_stream_whose_outer_span_ends_first(app: Instrumented) -> None:
    """At the last event, not at the end of the stream: the outer one names the call, and the inner one tells of it."""
    outer = app.start("outer", "outer")
    inner = app.start("inner", "inner", outer)
    outer.end()
    inner.end()
    assert app.calls() == {"outer": ("outer", "inner")}


def test_what_follows_within_an_ended_span(app: Instrumented) -> None:
    """A second span of the inner instrumentation is a second call: the first has told of the outer's already."""
    outer = app.start("outer", "outer")
    first, second = app.start("inner", "first", outer), app.start("inner", "second", outer)
    outer.end()
    first.end()
    second.end()
    assert app.calls() == {"outer": ("outer", "first"), "second": ("second",)}


def test_two_calls_in_sequence(app: Instrumented) -> None:
    """One after the other, under one parent, by one instrumentation or by two, current or not: always two."""
    for name in ("one", "two"):
        app.start("inner", name).end()
    for name in ("three", "four"):
        around = app.start("outer", f"around {name}")
        app.start("inner", name, around).end()
        around.end()
    for name in ("five", "six"):
        around = app.start("outer", f"beside {name}")
        app.start("inner", name).end()
        around.end()
    assert app.calls() == {
        "one": ("one",),
        "two": ("two",),
        "three": ("three", "around three"),
        "four": ("four", "around four"),
        "five": ("five", "beside five"),
        "six": ("six", "beside six"),
    }


def test_two_calls_in_parallel(app: Instrumented) -> None:
    """Of one instrumentation, under one parent: interleaved in one thread, in two, and in tasks."""
    one, two = app.start("inner", "one"), app.start("inner", "two")
    one.end()
    two.end()
    held = app.start("inner", "held")
    elsewhere(lambda: app.start("inner", "in a thread").end())
    held.end()

    async def ask(name: str, go: asyncio.Event, done: asyncio.Event) -> None:
        span = app.start("inner", name)
        go.set()
        await done.wait()
        span.end()

    async def gather() -> None:
        a, b = asyncio.Event(), asyncio.Event()
        await asyncio.gather(ask("task a", a, b), ask("task b", b, a))

    asyncio.run(gather())
    names = ["one", "two", "in a thread", "held", "task a", "task b"]
    told = app.calls()
    assert told == {name: (name,) for name in names}


def test_parallel_calls_of_two_instrumentations(app: Instrumented) -> None:
    """Each task has its own pair, and no pair takes the other's span."""

    async def ask(name: str, go: asyncio.Event, done: asyncio.Event) -> None:
        around = app.start("outer", f"outer {name}")
        inner = app.start("inner", name)
        go.set()
        await done.wait()
        inner.end()
        await asyncio.sleep(0)
        around.end()

    async def gather() -> None:
        a, b = asyncio.Event(), asyncio.Event()
        await asyncio.gather(ask("a", a, b), ask("b", b, a))

    asyncio.run(gather())
    assert app.calls() == {"a": ("a", "outer a"), "b": ("b", "outer b")}


def test_only_what_may_still_be_open_is_remembered(app: Instrumented) -> None:
    """However many calls a request makes, a sibling around the last of them still finds it, and what is kept is few."""
    for number in range(100):
        around = app.start("outer", f"outer {number}")
        app.start("inner", f"inner {number}").end()
        around.end()
    assert app.calls() == {f"inner {n}": (f"inner {n}", f"outer {n}") for n in range(100)}
