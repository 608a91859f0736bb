"""A receiver with gRPC's default bound of 4 MiB a message: whole batches fail on content, and pass without it."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent import futures
from pathlib import Path
from typing import Any

import grpc
import pytest
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

import otel_prompt_trace as pt

pytestmark = pytest.mark.integration

CALLS, SMALL, CHARS = 80, 50, 60_000


class _Receiver(trace_service_pb2_grpc.TraceServiceServicer):
    def __init__(self) -> None:
        self.names: list[str] = []

    def Export(self, request: Any, context: Any) -> Any:  # noqa: N802 - the name that the protocol gives it
        for resource in request.resource_spans:
            for scope in resource.scope_spans:
                self.names += [span.name for span in scope.spans]
        return trace_service_pb2.ExportTraceServiceResponse()


@pytest.fixture
def receiver() -> Iterator[tuple[_Receiver, str]]:
    """A real gRPC server on loopback with its default limits."""
    servicer = _Receiver()
    server = grpc.server(futures.ThreadPoolExecutor(2))
    trace_service_pb2_grpc.add_TraceServiceServicer_to_server(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield servicer, f"127.0.0.1:{port}"
    server.stop(None).wait()


@pytest.mark.parametrize("ours", [True, False], ids=["with us", "without us"])
def test_large_prompts_do_not_take_the_batch_with_them(
    tmp_path: Path, receiver: tuple[_Receiver, str], ours: bool
) -> None:
    """80 calls of 60 KB and 50 small spans in one batch: all arrive with us, none without."""
    servicer, endpoint = receiver
    provider = TracerProvider()
    exporter = OTLPSpanExporter(endpoint=endpoint, insecure=True, timeout=5)
    batch = BatchSpanProcessor(exporter, max_queue_size=4096, max_export_batch_size=4096, schedule_delay_millis=60_000)
    provider.add_span_processor(batch)
    if ours:
        pt.install(store=str(tmp_path / "store"), spool=str(tmp_path / "spool"), tracer_provider=provider)
    try:
        tracer = provider.get_tracer("app")
        for number in range(CALLS):
            content = {"gen_ai.operation.name": "chat", "gen_ai.input.messages": f"{number} " + "x" * CHARS}
            tracer.start_span("call", attributes=content).end()
        for _ in range(SMALL):
            tracer.start_span("small").end()
        provider.force_flush(20_000)
        assert len(servicer.names) == (CALLS + SMALL if ours else 0)
        if ours:
            assert len(list(pt.open_store(tmp_path / "store").qids())) == CALLS
    finally:
        provider.shutdown()
        pt.uninstall()
