"""Where the demo runs: a model server on loopback, a tracer provider that archives spans, a store in a folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import otel_prompt_trace as pt
from otel_prompt_trace.demo.assistant import Host
from otel_prompt_trace.demo.model_server import ModelServer
from otel_prompt_trace.demo.stand_in_model import ENCODING, MODEL
from otel_prompt_trace.exceptions import ConfigurationError, MissingDependency

SERVICE = "handbook-assistant"


@dataclass(frozen=True, slots=True)
class Stage:
    """What the stories need. ``spans`` is the archive; it is complete once the stage is left."""

    host: Host
    server: ModelServer
    store: str
    spool: Path
    spans: Path


@contextmanager
def stage(folder: Path) -> Iterator[Stage]:
    """Set the stage in ``folder`` and clear it again; spans also go to an OTLP endpoint if one is configured.

    Raises:
        MissingDependency: the extra ``demo`` is not installed.
        ConfigurationError: nothing can be kept in ``folder``.
    """
    try:
        from openai import DefaultHttpxClient, OpenAI
        from opentelemetry.exporter.otlp.json.file.trace_exporter import FileSpanExporter
    except ModuleNotFoundError as error:
        raise MissingDependency("the demo", "demo") from error
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    store, spool, spans = folder / "store", folder / "spool", folder / "spans.jsonl"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(
            f"the demo can't keep its records in {folder}: {error.strerror}; name another folder with --out"
        ) from error
    provider = TracerProvider(resource=Resource.create({"service.name": SERVICE}))
    provider.add_span_processor(BatchSpanProcessor(FileSpanExporter(str(spans))))
    if os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT"):
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    with ModelServer() as server:
        pt.install(store=str(store), spool=str(spool), tracer_provider=provider)
        try:
            direct = DefaultHttpxClient(trust_env=False)  # a proxy has no business between here and loopback
            client = OpenAI(base_url=server.base_url, api_key="not-needed", max_retries=0, http_client=direct)
            yield Stage(Host(client, MODEL, ENCODING), server, str(store), spool, spans)
        finally:
            provider.shutdown()
            pt.uninstall()
