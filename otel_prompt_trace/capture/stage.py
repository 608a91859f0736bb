"""``stage()``: a step of a query, timed."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Any

from opentelemetry import context, trace

from otel_prompt_trace.capture import attributes
from otel_prompt_trace.capture.guard import never_raises

if TYPE_CHECKING:
    from typing_extensions import Self

    from otel_prompt_trace.capture.query import Query

_LONGEST_NAME = 120  # a span's name is an index key in every backend: never a text


class Stage:
    """An open stage: a span of its name, and its milliseconds in the query's record."""

    def __init__(self, query: Query, name: str) -> None:
        self._query = query
        self.name = str(name)[:_LONGEST_NAME]
        self._span: trace.Span = trace.INVALID_SPAN
        self._token: Any = None
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
        self._span = runtime.tracer.start_span(self.name, attributes={attributes.QID: self._query.qid})
        self._token = context.attach(trace.set_span_in_context(self._span))
        self._began = runtime.sources.perf_ns()

    @never_raises
    def _exit(self, error: BaseException | None) -> None:
        runtime = self._query.runtime
        if runtime is None:
            return
        self._query.add_ms(self.name, round((runtime.sources.perf_ns() - self._began) / 1e6))
        if error is not None:
            self._span.set_status(trace.StatusCode.ERROR, type(error).__name__)
        self._span.end()
        if self._token is not None:
            context.detach(self._token)
