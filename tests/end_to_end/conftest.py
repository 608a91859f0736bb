"""A whole chain for each test of this folder."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.collector.conftest import StartCollector, jaeger, start_collector
from tests.collector.running import Jaeger
from tests.end_to_end.chain import Chain, Shop, clean_environment, measured_config, service_name
from tests.instrumentations.conftest import Environments, environments
from tests.instrumentations.replay_server import ReplayServer, Reply
from tests.seaweed import Seaweed

__all__ = ["environments", "jaeger", "start_collector"]

_ANSWER = (
    b'{"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "gpt-4o-2024-08-06", "choices": '
    b'[{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Within 14 days."}}], '
    b'"usage": {"prompt_tokens": 900, "completion_tokens": 4, "total_tokens": 904}}'
)


@pytest.fixture
def model() -> Iterator[ReplayServer]:
    """A stand-in for a model host that gives the same answer six thousand times."""
    with ReplayServer([Reply("/v1/chat/completions", _ANSWER)] * 6000) as server:
        yield server


@pytest.fixture
def chain(
    start_collector: StartCollector,
    jaeger: Jaeger,
    environments: Environments,
    seaweed: Seaweed,
    model: ReplayServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Chain]:
    """Application, collector with ``local.yaml``, Jaeger, and a part of a bucket for the payloads."""
    python = environments("current")
    collector = start_collector(str(measured_config(tmp_path)), JAEGER_OTLP_ENDPOINT=jaeger.otlp)
    service, store = service_name(), seaweed.url(prefix=f"e2e-{uuid.uuid4().hex[:10]}")
    environment = clean_environment(**seaweed.environment, XDG_STATE_HOME=str(tmp_path / "state"))
    for name, value in seaweed.environment.items():
        monkeypatch.setenv(name, value)
    shop = Shop(
        python,
        tmp_path,
        {
            **environment,
            "OTEL_SERVICE_NAME": service,
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://{collector.grpc}",
            "OTEL_SEMCONV_STABILITY_OPT_IN": "gen_ai_latest_experimental",
            "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "SPAN_ONLY",
            "OTEL_BSP_MAX_QUEUE_SIZE": "32768",  # the SDK drops spans beyond 2,048 where the exporter can't keep up
            "PROMPT_TRACE_STORE": store,
            "PROMPT_TRACE_SPOOL": str(tmp_path / "spool"),
            "MODEL_URL": f"{model.base_url}/v1",
        },
    )
    yield Chain(tmp_path, service, shop, collector, jaeger, store, environment)
    shop.stop()
