"""Requests of an unchanged application: each call under its own entry span, and without a span each by itself."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON, ParentBased, Sampler
from opentelemetry.trace import NonRecordingSpan, SpanContext, SpanKind, TraceFlags

import otel_prompt_trace as pt
from tests.wire.asking import URL, Recorded, async_client, body, client

CHAT = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}
TRACE = 0x0AF7651916CD43DD8448EB211C80319C


class Application:
    """A service that was instrumented, and nothing else."""

    def __init__(self, folder: Path, sampler: Sampler) -> None:
        self.provider = TracerProvider(sampler, shutdown_on_exit=False)
        self.tracer = self.provider.get_tracer("web")
        assert pt.install(store=str(folder / "store"), spool=str(folder / "spool"), tracer_provider=self.provider)
        self.recorded = Recorded(folder)

    def request(self, kind: SpanKind = SpanKind.SERVER, caller: trace.Span | None = None) -> Any:
        """What the instrumentation of a web framework does around a request."""
        above = None if caller is None else trace.set_span_in_context(caller)
        return self.tracer.start_as_current_span("GET /", above, kind=kind)


@pytest.fixture
def application(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Sampler], Application]]:
    """Made by the test, with the sampler that it is about."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    made: list[Application] = []

    def make(sampler: Sampler) -> Application:
        made.append(Application(tmp_path, sampler))
        return made[-1]

    yield make
    pt.uninstall()
    for each in made:
        each.provider.shutdown()


def caller(number: int, *, sampled: bool) -> trace.Span:
    """A span of another service."""
    flags = TraceFlags(TraceFlags.SAMPLED if sampled else TraceFlags.DEFAULT)
    return NonRecordingSpan(SpanContext(TRACE + number, 7, is_remote=True, trace_flags=flags))


async def handle(app: Application, name: str) -> None:
    """Calls within a task, within a model-call span, in a thread that is given the context, and after all of it."""
    async with async_client() as model:
        await asyncio.create_task(_post(model, f"{name} in a task"))
        with app.tracer.start_as_current_span("step"), app.tracer.start_as_current_span("chat m", attributes=CHAT):
            await model.post(URL, json=body(f"{name} in a span"))
        await asyncio.to_thread(_post_blocking, f"{name} in a thread")
        await asyncio.get_running_loop().run_in_executor(None, pt.carry(_post_blocking), f"{name} carried")
        await model.post(URL, json=body(f"{name} at last"))


async def _post(model: Any, text: str) -> None:
    await asyncio.sleep(0)
    await model.post(URL, json=body(text))


def _post_blocking(text: str) -> None:
    with client() as model:
        model.post(URL, json=body(text))


@pytest.mark.parametrize("kind", [SpanKind.SERVER, SpanKind.CONSUMER], ids=lambda kind: kind.name.lower())
def test_requests_of_one_trace_are_kept_apart(application: Callable[[Sampler], Application], kind: SpanKind) -> None:
    """One nightly job asks for all of them at once: each entry span is a query of its own."""
    app, qids = application(ALWAYS_ON), dict[str, str]()

    async def request(name: str) -> None:
        with app.request(kind, caller(0, sampled=True)) as span:
            qids[name] = f"{TRACE:032x}-{span.get_span_context().span_id:016x}"
            await handle(app, name)

    async def all_of_them() -> None:
        await asyncio.gather(*(request(f"r{number}") for number in range(20)))

    asyncio.run(all_of_them())
    owners = app.recorded.owners()
    assert len(owners) == 100
    assert owners == {text: (qids[text.split()[0]], "entry") for text in owners}


@pytest.mark.parametrize("sampled", [True, False], ids=["sampled", "dropped"])
def test_requests_of_different_traces_are_kept_apart(
    application: Callable[[Sampler], Application], *, sampled: bool
) -> None:
    """Whether their spans are kept or dropped: the record is in the trace's own query."""
    app = application(ParentBased(ALWAYS_ON))

    async def request(number: int) -> None:
        with app.request(caller=caller(number, sampled=sampled)):
            await handle(app, f"r{number}")

    async def all_of_them() -> None:
        await asyncio.gather(*(request(number) for number in range(20)))

    asyncio.run(all_of_them())
    owners = app.recorded.owners()
    assert len(owners) == 100
    for text, (qid, origin) in owners.items():
        assert origin == "entry"
        assert qid.startswith(f"{TRACE + int(text.split()[0][1:]):032x}-")
    # What is above a dropped span is not known: below each there is a query of its own.
    assert len({qid for qid, _ in owners.values()}) == (20 if sampled else 40)


def test_dropped_requests_of_one_trace_are_kept_apart(application: Callable[[Sampler], Application]) -> None:
    """The trace's id comes from the caller, who may be that of many requests, or of a stranger's: it merges nothing."""
    app = application(ParentBased(ALWAYS_ON))

    async def request(name: str) -> None:
        with app.request(caller=caller(0, sampled=False)):
            await handle(app, name)

    async def all_of_them() -> None:
        await asyncio.gather(*(request(f"r{number}") for number in range(20)))

    asyncio.run(all_of_them())
    owners = app.recorded.owners()
    assert len(owners) == 100
    told: dict[str, set[str]] = {}
    for text, (qid, _) in owners.items():
        told.setdefault(qid, set()).add(text.split()[0])
    assert {len(requests) for requests in told.values()} == {1}


@pytest.mark.parametrize("sampler", [ALWAYS_ON, ALWAYS_OFF], ids=["sampled", "dropped"])
def test_threads_without_their_context_belong_to_nobody(
    application: Callable[[Sampler], Application], sampler: Sampler
) -> None:
    """Within a request and even within a query, what a bare thread sends is recorded by itself."""
    app = application(sampler)

    def send(text: str) -> None:
        thread = threading.Thread(target=_post_blocking, args=(text,))
        thread.start()
        thread.join()

    with app.request():
        send("in a request")
        with pt.query() as q, q.call(prompt="p"):
            send("in a call")
    owners = app.recorded.owners()
    assert {origin for text, (_, origin) in owners.items() if text.startswith("in a")} == {"minted"}
    assert len({owners["in a request"][0], owners["in a call"][0], q.qid}) == 3


def test_without_any_span_each_call_stands_by_itself(application: Callable[[Sampler], Application]) -> None:
    """No span, no query: twenty tasks at once, each call of which has a record of its own, which is ended."""
    app = application(ALWAYS_ON)

    async def ask(name: str) -> None:
        async with async_client() as model:
            for turn in range(2):
                await _post(model, f"{name}.{turn}")

    async def all_of_them() -> None:
        await asyncio.gather(*(ask(f"r{number}") for number in range(20)))

    asyncio.run(all_of_them())
    owners = app.recorded.owners()
    assert len(owners) == len({qid for qid, _ in owners.values()}) == 40
    assert {origin for _, origin in owners.values()} == {"minted"}
    assert all(len(record.ends) == 1 for record in app.recorded.records())


def test_entries_and_queries_side_by_side(application: Callable[[Sampler], Application]) -> None:
    """Of two requests at once only one opens a query: the other's calls do not go into it."""
    app, qids = application(ALWAYS_ON), dict[str, str]()

    async def plain(name: str) -> None:
        with app.request() as span:
            context = span.get_span_context()
            qids[name] = f"{context.trace_id:032x}-{context.span_id:016x}"
            await handle(app, name)

    async def asking(name: str) -> None:
        with app.request(), pt.query() as q:
            qids[name] = q.qid
            await handle(app, name)

    async def all_of_them() -> None:
        await asyncio.gather(*(way(f"{way.__name__}{n}") for n in range(10) for way in (plain, asking)))

    asyncio.run(all_of_them())
    owners = app.recorded.owners()
    assert {text: qid for text, (qid, _) in owners.items()} == {text: qids[text.split()[0]] for text in owners}
    assert len(owners) == 100


def test_a_query_inside_a_model_span_does_not_take_its_name(application: Callable[[Sampler], Application]) -> None:
    """A tool asks an agent while the outer model's span is open: the span tells of the outer call alone."""
    app = application(ALWAYS_ON)
    model = client()
    with model, pt.query() as outer, app.tracer.start_as_current_span("chat m", attributes=CHAT) as span:
        with pt.query() as inner:
            model.post(URL, json=body("of the agent"))
        model.post(URL, json=body("of the model"))
    name = f"{span.get_span_context().span_id:016x}"
    (own,) = app.recorded.record(outer.qid).calls
    (other,) = app.recorded.record(inner.qid).calls
    assert own.id == name
    assert other.id != name
    assert {sighting.span_id for sighting in own.seen} == {name}
    assert other.seen == ()
