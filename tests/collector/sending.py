"""An application on OpenTelemetry that does not use this project: it sends what it likes, with the real SDK."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import Tracer


@contextmanager
def application(endpoint: str, service: str, **resource: str) -> Iterator[Tracer]:
    """A tracer whose spans are all sent to ``endpoint`` (gRPC) by the end."""
    provider = TracerProvider(resource=Resource({"service.name": service, **resource}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=endpoint, insecure=True)))
    try:
        yield provider.get_tracer("an.instrumentation", attributes={"input.value": "planted in the scope"})
        assert provider.force_flush(20_000)
    finally:
        provider.shutdown()


class Load:
    """Spans that are sent as fast as they are taken, by several threads, until told to stop.

    Attributes:
        acknowledged: ids (hex) of the spans that the receiver said it has.
        refused: how many batches it did not take.
    """

    def __init__(self, endpoint: str, *, threads: int = 4, batch: int = 50, chars: int = 200) -> None:
        self.acknowledged: list[str] = []
        self.refused = 0
        self._batch, self._chars = batch, chars
        self._lock = threading.Lock()
        self._halt = threading.Event()
        self._exporters = [OTLPSpanExporter(endpoint=endpoint, insecure=True, timeout=2) for _ in range(threads)]
        self._threads = [threading.Thread(target=self._send, args=(each,)) for each in self._exporters]

    def __enter__(self) -> Load:  # noqa: PYI034 - Self needs a newer Python
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._halt.set()
        for exporter in self._exporters:
            exporter.shutdown()
        for thread in self._threads:
            thread.join()

    def _send(self, exporter: OTLPSpanExporter) -> None:
        make = _maker(self._chars)
        while not self._halt.is_set():
            spans = make(self._batch)
            try:
                taken = exporter.export(spans) is SpanExportResult.SUCCESS
            except ValueError:  # its channel was closed as it began: nothing was sent
                assert self._halt.is_set()
                return
            with self._lock:
                if taken:
                    self.acknowledged += [f"{span.context.span_id:016x}" for span in spans if span.context]
                else:
                    self.refused += 1


def send_spans(endpoint: str, count: int) -> list[str]:
    """Send ``count`` spans; the ids of those that were acknowledged: all of them."""
    exporter = OTLPSpanExporter(endpoint=endpoint, insecure=True, timeout=20)
    try:
        spans = _maker()(count)
        assert exporter.export(spans) is SpanExportResult.SUCCESS
        return [f"{span.context.span_id:016x}" for span in spans if span.context]
    finally:
        exporter.shutdown()


def _maker(chars: int = 200) -> Callable[[int], list[ReadableSpan]]:
    memory = InMemorySpanExporter()
    provider = TracerProvider(resource=Resource({"service.name": "load"}), shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(memory))
    tracer = provider.get_tracer("load")

    def make(count: int) -> list[ReadableSpan]:
        memory.clear()
        for number in range(count):
            tracer.start_span("work", attributes={"number": number, "text": "x" * chars}).end()
        return list(memory.get_finished_spans())

    return make
