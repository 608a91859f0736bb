"""What a span costs with diversion, against the same span without.

Two tracer providers stand in one process: a bare one, and one that ``install()`` was given. Both are set up alike:
without a span processor, with a batch processor whose exporter does nothing, or with a sampler that drops every span.
Spans of model calls are delivered after each timing; what they cost here is the calling thread's share. A bare one
keeps its prompt as an attribute, and what it costs to export that is not in its time.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON, ParentBased
from opentelemetry.trace import SpanKind, Tracer

import otel_prompt_trace as pt
from benchmarks.measuring import Comparison, compare

SETUPS: Final = ("none", "batch", "dropped")

_TEN: Final[dict[str, Any]] = {
    "http.request.method": "GET", "url.scheme": "https", "server.address": "shop.example", "server.port": 443,
    "url.path": "/cart/17", "user_agent.original": "a browser of some kind or other", "http.route": "/cart/{id}",
    "http.response.status_code": 200, "network.protocol.version": "1.1", "app.cached": False,
}  # fmt: skip
_CALL: Final[dict[str, Any]] = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "a-model"}
_KEY: Final = "gen_ai.input.messages"
_PROMPT: Final = json.dumps(
    [{"role": "user", "parts": [{"type": "text", "content": "ten thousand characters " * 417}]}]
)
_FLAT: Final[dict[str, Any]] = {"openinference.span.kind": "LLM", "llm.model_name": "a-model"} | {
    f"llm.input_messages.{number}.message.{field}": text
    for number in range(20)
    for field, text in (("role", "user"), ("content", "five hundred characters " * 21))
}

Variant = Callable[[Tracer, int], None]


@dataclass(frozen=True, slots=True)
class Row(Comparison):
    """One line of the table; times in microseconds a span."""

    variant: str
    model: bool
    setup: str


def measure(*, rounds: int = 60, spans: int = 200, setups: Iterable[str] = SETUPS, clock: str = "cpu") -> Iterator[Row]:
    """Measure every variant, one row after the other.

    Args:
        rounds, spans: as ``rounds`` and ``count`` of :func:`benchmarks.measuring.compare`; of spans of model calls,
            which are stored after each round, a third of the rounds.
        setups: of :data:`SETUPS`.
        clock: one of :data:`benchmarks.measuring.CLOCKS`.
    """
    for setup in setups:
        with _tracers(setup) as (bare, ours):
            for name, variant in ORDINARY.items():
                found = compare(
                    _repeated(variant, bare), _repeated(variant, ours), rounds=rounds, count=spans, clock=clock
                )
                yield Row(variant=name, model=False, setup=setup, **found.as_json())
            for name, variant in MODEL.items() if setup != "dropped" else ():
                found = compare(
                    _repeated(variant, bare),
                    _repeated(variant, ours),
                    rounds=max(2, rounds // 3),
                    count=spans,
                    clock=clock,
                    settle=_deliver,
                )
                yield Row(variant=name, model=True, setup=setup, **found.as_json())


def _repeated(variant: Variant, tracer: Tracer) -> Callable[[int], None]:
    return lambda count: variant(tracer, count)


def _deliver() -> None:
    if not pt.flush(60).ok:
        raise RuntimeError("a payload was not delivered: what was measured is not what is meant")


class _Nowhere(SpanExporter):
    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:  # noqa: ARG002 - the interface's
        return SpanExportResult.SUCCESS


@contextmanager
def _tracers(setup: str) -> Iterator[tuple[Tracer, Tracer]]:
    """A bare tracer, and one of a provider that recording was installed on."""
    sampler = ParentBased(ALWAYS_OFF if setup == "dropped" else ALWAYS_ON)
    bare, ours = TracerProvider(sampler, shutdown_on_exit=False), TracerProvider(sampler, shutdown_on_exit=False)
    if setup == "batch":
        for provider in (bare, ours):
            provider.add_span_processor(BatchSpanProcessor(_Nowhere()))
    with tempfile.TemporaryDirectory() as folder:
        pt.install(store=f"{folder}/store", spool=f"{folder}/spool", tracer_provider=ours)
        try:
            yield bare.get_tracer("benchmark"), ours.get_tracer("benchmark")
        finally:
            bare.shutdown()
            ours.shutdown()
            pt.uninstall()


def _empty(tracer: Tracer, count: int) -> None:
    for _ in range(count):
        tracer.start_span("work").end()


def _start(tracer: Tracer, count: int, attributes: Mapping[str, Any] = _TEN) -> None:
    for _ in range(count):
        tracer.start_span("work", attributes=attributes).end()


def _set_each(tracer: Tracer, count: int) -> None:
    for _ in range(count):
        span = tracer.start_span("work")
        for key, value in _TEN.items():
            span.set_attribute(key, value)
        span.end()


def _set_all(tracer: Tracer, count: int) -> None:
    for _ in range(count):
        span = tracer.start_span("work")
        span.set_attributes(_TEN)
        span.end()


def _within(variant: Variant) -> Variant:
    """The same as children of one entry span."""

    def children(tracer: Tracer, count: int) -> None:
        with tracer.start_as_current_span("GET /cart/{id}", kind=SpanKind.SERVER):
            variant(tracer, count)

    return children


def _prompt_set(tracer: Tracer, count: int) -> None:
    for _ in range(count):
        span = tracer.start_span("chat a-model", attributes=_CALL)
        span.set_attribute(_KEY, _PROMPT)
        span.end()


def _prompt_at_start(tracer: Tracer, count: int) -> None:
    _start(tracer, count, {**_CALL, _KEY: _PROMPT})


def _flat_at_start(tracer: Tracer, count: int) -> None:
    _start(tracer, count, _FLAT)


def _flat_twice(tracer: Tracer, count: int) -> None:
    for _ in range(count):
        span = tracer.start_span("ChatCompletion", attributes=_FLAT)
        span.set_attributes(_FLAT)  # as OpenInference does
        span.end()


ORDINARY: Final[dict[str, Variant]] = {
    "no attributes": _empty,
    "10 start attributes": _start,
    "10 calls of set_attribute": _set_each,
    "set_attributes of 10": _set_all,
    "child, no attributes": _within(_empty),
    "child, 10 start attributes": _within(_start),
}
MODEL: Final[dict[str, Variant]] = {
    "child, 10 KB prompt, set_attribute": _within(_prompt_set),
    "child, 10 KB prompt, start attributes": _within(_prompt_at_start),
    "child, 20 flat messages, start attributes": _within(_flat_at_start),
    "child, 20 flat messages, at the start and again": _within(_flat_twice),
    "10 KB prompt, a request of its own": _prompt_at_start,
}
