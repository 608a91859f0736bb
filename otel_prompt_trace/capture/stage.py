"""``stage()``: a step of a query, timed."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING

from otel_prompt_trace.capture.guard import never_raises
from otel_prompt_trace.capture.spans import SpanScope
from otel_prompt_trace.core import attributes

if TYPE_CHECKING:
    from typing_extensions import Self

    from otel_prompt_trace.capture.context import OpenQuery

_LONGEST_NAME = 120  # a span's name is an index key in every backend: never a text


class Stage:
    """An open stage: a span of its name, and its milliseconds in the query's record."""

    def __init__(self, query: OpenQuery, name: str) -> None:
        self._query = query
        self.name = str(name)[:_LONGEST_NAME]
        self._scope = SpanScope()
        self._began = 0

    def __enter__(self) -> Self:
        self._enter()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._exit(error)

    @never_raises
    def _enter(self) -> None:
        runtime = self._query.runtime
        if runtime is None:
            return
        self._scope.open(runtime, self.name, {attributes.QID: self._query.qid})
        self._scope.enter({})
        self._began = runtime.sources.perf_ns()

    @never_raises
    def _exit(self, error: BaseException | None) -> None:
        runtime = self._query.runtime
        if runtime is None:
            return
        try:
            self._query.add_ms(self.name, round((runtime.sources.perf_ns() - self._began) / 1e6))
        finally:
            self._scope.leave(error)
