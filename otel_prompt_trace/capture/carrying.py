"""``carry()``: a function that runs in the query and call that are open here, in whatever thread it is called.

A thread starts with an empty context, and so do the workers of an executor. What is called there without its context
belongs to no query: it is recorded by itself, never under another's id.

A generator runs in whatever context each of its steps is asked for in, and what it opens stays open there while it
waits. Carried, it has a context of its own: its steps find what the ones before them opened, whichever thread or task
asks for them, and nothing of it is left with whoever asks.
"""

from __future__ import annotations

import contextvars
import functools
import inspect
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from types import AsyncGeneratorType, CoroutineType, GeneratorType
from typing import Any, ParamSpec, TypeVar

from opentelemetry import context

from otel_prompt_trace.capture.context import attach, current_call, current_query, detach, with_call

P = ParamSpec("P")
R = TypeVar("R")


def carry(function: Callable[P, R]) -> Callable[P, R]:
    """Bind a function to the context of here: its span, query and call.

    Use it where work is handed to a thread: ``executor.submit(pt.carry(work), item)``. What the function returns is
    bound as well where it runs only later: a coroutine, or a generator of either kind, as in
    ``StreamingResponse(pt.carry(stream)())``.
    """
    scope = _here()

    @functools.wraps(function)
    def carried(*args: P.args, **kwargs: P.kwargs) -> Any:
        attached = attach(scope)
        try:
            return _bound(function(*args, **kwargs), scope)
        finally:
            detach(attached)

    if not inspect.iscoroutinefunction(function):
        return carried

    @functools.wraps(function)
    async def carried_async(*args: P.args, **kwargs: P.kwargs) -> Any:  # frameworks ask whether it is one
        return await carried(*args, **kwargs)

    return carried_async  # type: ignore[return-value]


def _here() -> context.Context:
    """The context of here, with what stands beside it where the current one keeps nothing of ours."""
    scope, query, call = context.get_current(), current_query(), current_call()
    return scope if query is None else with_call(query, call, scope)


def _bound(result: Any, scope: context.Context) -> Any:
    """What runs only when it is asked for its steps, so that it runs in ``scope``; anything else as it is."""
    if isinstance(result, CoroutineType):
        return _awaited(result, scope)
    if isinstance(result, GeneratorType):
        return _stepped(result, _context(scope))
    if isinstance(result, AsyncGeneratorType):
        return _streamed(result, _context(scope))
    return result


def _context(scope: context.Context) -> contextvars.Context:
    own = contextvars.copy_context()
    own.run(attach, scope)
    return own


async def _awaited(coroutine: Coroutine[Any, Any, Any], scope: context.Context) -> Any:
    attached = attach(scope)
    try:
        return await coroutine
    finally:
        detach(attached)


def _stepped(generator: Any, own: contextvars.Context) -> Generator[Any, Any, Any]:
    """Each step of a generator in a context of its own."""
    step, given = generator.send, None
    while True:
        try:
            item = own.run(step, given)
        except StopIteration as end:
            return end.value
        try:
            step, given = generator.send, (yield item)
        except GeneratorExit:
            own.run(generator.close)
            raise
        except BaseException as error:  # noqa: BLE001 - the generator's to handle
            step, given = generator.throw, error


async def _streamed(stream: Any, own: contextvars.Context) -> AsyncGenerator[Any, Any]:
    """The same of an asynchronous generator, each of whose steps has steps of its own."""
    step = stream.asend(None)
    while True:
        try:
            item = await _Steps(step, own)
        except StopAsyncIteration:
            return
        try:
            step = stream.asend((yield item))
        except GeneratorExit:
            await _Steps(stream.aclose(), own)
            raise
        except BaseException as error:  # noqa: BLE001 - the generator's to handle
            step = stream.athrow(error)


class _Steps:
    """An awaitable, run in a context of its own."""

    def __init__(self, awaitable: Any, own: contextvars.Context) -> None:
        self._awaitable, self._own = awaitable, own

    def __await__(self) -> Generator[Any, Any, Any]:
        return _stepped(self._awaitable.__await__(), self._own)
