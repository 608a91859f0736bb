"""``carry()``: whatever kind of function it is given, all of it runs where it was carried from, and nothing stays."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import gc
import inspect
import threading
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from typing import Any

import pytest
from opentelemetry import trace

import otel_prompt_trace as pt
from otel_prompt_trace.capture.context import current_call, current_query
from tests.capture.recording import Recording


def here() -> tuple[str | None, str, int]:
    """The query, the call and the span that are open here."""
    query, call = current_query(), current_call()
    return (
        None if query is None else query.qid,
        "" if call is None else call.id,
        trace.get_current_span().get_span_context().span_id,
    )


NOWHERE = (None, "", 0)


def elsewhere(function: Callable[[], Any]) -> Any:
    """What a function gives in a thread that has no context of ours, before and after it."""
    given: list[Any] = []

    def run() -> None:
        given.append(here())
        given.append(function())
        given.append(here())

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    before, result, after = given
    assert before == after == NOWHERE
    return result


class Service:
    """Its methods and the object itself are carried."""

    def ask(self, *parts: str, end: str = "") -> tuple[object, str]:
        """Where it runs, and what it was given."""
        return here(), "".join(parts) + end

    def __call__(self) -> tuple[object, str]:
        """The same."""
        return here(), ""

    async def later(self) -> tuple[object, str]:
        """The same, after others had their turn."""
        await asyncio.sleep(0)
        return here(), ""


def _later() -> Any:
    return Service().later()


def _generator() -> Iterator[tuple[object, str]]:
    yield here(), ""


async def _stream() -> AsyncIterator[tuple[object, str]]:
    await asyncio.sleep(0)
    yield here(), ""


async def _first(stream: Any) -> Any:
    async for item in stream:
        return item
    raise AssertionError("it gave nothing")


_KINDS: dict[str, Callable[[], Callable[[], Any]]] = {
    "function": lambda: pt.carry(lambda: (here(), "")),
    "arguments": lambda: functools.partial(pt.carry(Service().ask), "", "", end=""),
    "method": lambda: pt.carry(Service().ask),
    "partial": lambda: pt.carry(functools.partial(Service().ask, "")),
    "object": lambda: pt.carry(Service()),
    "coroutine function": lambda: functools.partial(_run, pt.carry(Service().later)),
    "partial of one": lambda: functools.partial(_run, pt.carry(functools.partial(Service.later, Service()))),
    "function that gives a coroutine": lambda: functools.partial(_run, pt.carry(_later)),
    "generator function": lambda: functools.partial(_next, pt.carry(_generator)),
    "stream": lambda: functools.partial(_anext, pt.carry(_stream)),
    "carried twice": lambda: pt.carry(pt.carry(Service())),
}


def _run(function: Callable[[], Any]) -> Any:
    return asyncio.run(function())


def _next(function: Callable[[], Any]) -> Any:
    return next(function())


def _anext(function: Callable[[], Any]) -> Any:
    async def read() -> Any:
        stream = function()
        try:
            return await _first(stream)
        finally:
            await stream.aclose()

    return asyncio.run(read())


@pytest.mark.parametrize("kind", _KINDS)
def test_every_kind_of_function_runs_where_it_was_carried_from(recording: Recording, kind: str) -> None:
    """In another thread it finds query, call and span of the place that it was carried from, also after their end."""
    with pt.query(), pt.query() as q, q.call(prompt="p") as call:
        carried, place = _KINDS[kind](), here()
        assert place[:2] == (q.qid, call.id)
        assert elsewhere(carried) == (place, "")
        with pt.query():
            assert elsewhere(carried) == (place, "")
    assert elsewhere(carried) == (place, "")
    assert here() == NOWHERE


def test_where_nothing_is_open_nothing_is_carried(recording: Recording) -> None:
    """The function runs as outside any query, even where it is called within one."""
    carried = pt.carry(here)
    with pt.query():
        assert carried() == NOWHERE


def test_it_is_the_function_that_it_was() -> None:
    """Its name, its errors, and that it is a coroutine function, which frameworks ask."""

    async def asynchronous() -> None:
        """Says so."""

    def failing() -> None:
        raise ZeroDivisionError

    assert inspect.iscoroutinefunction(pt.carry(asynchronous))
    assert not inspect.iscoroutinefunction(pt.carry(failing))
    assert (pt.carry(asynchronous).__name__, pt.carry(asynchronous).__doc__) == ("asynchronous", "Says so.")
    with pytest.raises(ZeroDivisionError):
        pt.carry(failing)()
    assert pt.carry(iter)([1]).__class__ is iter([1]).__class__


def _conversation(seen: list[Any]) -> Generator[Any, Any, str]:
    with pt.query() as q, q.call(prompt="p"):
        try:
            while True:
                try:
                    seen.append((yield here()))
                except ValueError as error:
                    seen.append(repr(error))
                else:
                    if seen[-1] == "enough":
                        return "bye"
        finally:
            seen.append(here())


def test_a_generator_keeps_its_context_between_its_steps(
    recording: Recording, caplog: pytest.LogCaptureFixture
) -> None:
    """What it opens stays open for it, in whatever thread it goes on; values, errors and its result pass through."""
    seen: list[Any] = []
    with pt.query() as outer:
        steps = pt.carry(_conversation)(seen)
    place = elsewhere(lambda: next(steps))
    assert place[0] not in (None, outer.qid)
    assert place[1]
    assert elsewhere(lambda: steps.send("one")) == place
    with pt.query():
        assert steps.throw(ValueError("two")) == place
    with pytest.raises(StopIteration) as ended:
        steps.send("enough")
    assert ended.value.value == "bye"
    assert seen == ["one", "ValueError('two')", "enough", place]
    assert recording.of(place[0], "query")[0]["parent"] == {"qid": outer.qid}
    assert [event["kind"] for event in recording.events(place[0])] == ["query", "request", "response", "end"]
    assert here() == NOWHERE
    assert "Failed to detach" not in caplog.text


@pytest.mark.parametrize("how", ["close", "collected", "thrown"])
def test_a_generator_that_is_left_ends_what_it_opened(
    recording: Recording, caplog: pytest.LogCaptureFixture, how: str
) -> None:
    """Closed, forgotten or failed in another thread: its query ends, and its own clean-up finds it still open."""
    seen: list[Any] = []
    held = [pt.carry(_conversation)(seen)]
    place = next(held[0])
    if how == "close":
        elsewhere(held[0].close)
    elif how == "thrown":
        with pytest.raises(KeyError):
            held[0].throw(KeyError("lost"))
    held.clear()
    gc.collect()
    assert seen == [place]
    (end,) = recording.of(place[0], "end")
    assert end.get("error") == ("KeyError" if how == "thrown" else "GeneratorExit")
    assert here() == NOWHERE
    assert "Failed to detach" not in caplog.text


def test_a_stream_keeps_its_context_between_its_steps(recording: Recording, caplog: pytest.LogCaptureFixture) -> None:
    """The same of an asynchronous generator whose steps are asked for by different tasks, and cancelled in one."""
    seen: list[Any] = []
    cleaned = contextvars.ContextVar("cleaned", default="")

    async def stream() -> Any:
        with pt.query() as q, q.call(prompt="p"):
            cleaned.set("not yet")
            try:
                while True:
                    await asyncio.sleep(0)
                    try:
                        seen.append((yield here()))
                    except ValueError as error:
                        seen.append(repr(error))
                    if seen[-1] == "wait":
                        await asyncio.sleep(60)
            finally:
                await asyncio.sleep(0)
                seen.append((here(), cleaned.get()))

    async def step(function: Callable[..., Any], *args: Any) -> Any:
        return await contextvars.Context().run(asyncio.ensure_future, _awaited(function, *args))

    async def listen() -> None:
        steps: Any = pt.carry(stream)()
        place = await step(steps.__anext__)
        assert await step(steps.asend, "one") == place
        assert here() == NOWHERE
        with pt.query():
            assert await steps.athrow(ValueError("two")) == place
        waiting = asyncio.ensure_future(_awaited(steps.asend, "wait"))
        while seen[-1] != "wait":
            await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert seen == ["one", "ValueError('two')", "wait", (place, "not yet")]
        with pytest.raises(StopAsyncIteration):
            await steps.__anext__()
        assert cleaned.get() == ""
        (end,) = recording.of(place[0], "end")
        assert end["error"] == "CancelledError"
        other = pt.carry(stream)()
        left = await step(other.__anext__)
        await step(other.aclose)
        assert seen[-1] == (left, "not yet")

    asyncio.run(listen())
    assert "Failed to detach" not in caplog.text


async def _awaited(function: Callable[..., Any], *args: Any) -> Any:
    return await function(*args)


def test_pieces_go_to_the_call_that_was_carried(recording: Recording) -> None:
    """Two calls of one query, each of which hands a part of its work to a thread."""
    with pt.query() as q:
        for name in ("one", "two"):
            with q.call(prompt=f"{name} more") as call:
                elsewhere(pt.carry(functools.partial(pt.declare, name, f"{name} ")))
                elsewhere(pt.carry(lambda: pt.declare("rest", "more")))
                call.respond("o")
    record = recording.record(q.qid)
    assert [[piece.producer for piece in call.pieces] for call in record.calls] == [["one", "rest"], ["two", "rest"]]
    assert pt.grade(record).verdict == "exact"
