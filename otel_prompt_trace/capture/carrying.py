"""``carry()``: a function that runs in the query and call that are open here, in whatever thread it is called.

A thread starts with an empty context, and so do the workers of an executor. What is called there without its context
belongs to no query: it is recorded by itself, never under another's id.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from opentelemetry import context

from otel_prompt_trace.capture.context import attach, current_call, current_query, detach, with_call, with_query

P = ParamSpec("P")
R = TypeVar("R")


def carry(function: Callable[P, R]) -> Callable[P, R]:
    """Bind a function, or a coroutine function, to the context of here: its span, query and call.

    Use it where work is handed to a thread: ``executor.submit(pt.carry(work), item)``.
    """
    scope = _here()
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def carried_async(*args: P.args, **kwargs: P.kwargs) -> Any:
            attached = attach(scope)
            try:
                return await function(*args, **kwargs)
            finally:
                detach(attached)

        return carried_async  # type: ignore[return-value]

    @functools.wraps(function)
    def carried(*args: P.args, **kwargs: P.kwargs) -> R:
        attached = attach(scope)
        try:
            return function(*args, **kwargs)
        finally:
            detach(attached)

    return carried


def _here() -> context.Context:
    """The context of here, with what stands beside it where the current one keeps nothing of ours."""
    scope, query, call = context.get_current(), current_query(), current_call()
    if query is None:
        return scope
    return with_query(query, scope) if call is None else with_call(query, call, scope)
