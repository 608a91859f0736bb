"""Digest and length of what was sent stand on the spans of its call, where the answer took longer than the hashing."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx2
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import otel_prompt_trace as pt
from otel_prompt_trace.diversion.state import state_of
from tests.waiting import until

TEXT = 'Grüße, \n"Welt"'
SENT = json.dumps({"model": "m", "messages": [{"role": "user", "content": TEXT}]}).encode()
CALL = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}


@pytest.fixture
def host() -> Iterator[tuple[str, threading.Event]]:
    """A host that answers when it is told to."""
    go = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            go.wait(30)
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *_args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}/v1/chat/completions", go
    server.shutdown()
    server.server_close()


@pytest.fixture
def spans(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[tuple[TracerProvider, InMemorySpanExporter]]:
    """A provider whose spans are kept, with recording on."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    policy = getattr(request, "param", "store")
    pt.install(store=str(tmp_path / "s"), spool=str(tmp_path / "p"), tracer_provider=provider, policy=policy)
    yield provider, exporter
    pt.uninstall()


def ask(url: str, go: threading.Event, known: Callable[[], Any]) -> None:
    """One request, answered as soon as ``known`` gives something."""

    def answer() -> None:
        until(lambda: known() is not None)
        go.set()

    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(answer)
        httpx2.post(url, content=SENT, timeout=30)
        waiting.result()


def test_on_the_model_call_s_span(host: tuple[str, threading.Event], spans: tuple[TracerProvider, Any]) -> None:
    """Of the bytes as sent, and of the characters of content in them."""
    provider, exporter = spans
    tracer = provider.get_tracer("app")
    with tracer.start_as_current_span("entry"), tracer.start_as_current_span("chat m", attributes=CALL) as span:
        ask(*host, lambda: state_of(span).as_sent)  # type: ignore[union-attr]
    found = next(span for span in exporter.get_finished_spans() if span.name == "chat m").attributes
    assert found["prompt_trace.sha256"] == hashlib.sha256(SENT).hexdigest()
    assert found["prompt_trace.chars"] == len(TEXT)


def test_on_the_span_of_a_declared_call(host: tuple[str, threading.Event], spans: tuple[TracerProvider, Any]) -> None:
    """What left counts, and not what was declared."""
    _, exporter = spans
    with pt.query() as query, query.call(model="m", prompt="something else") as call:
        ask(*host, lambda: call.as_sent)
    found = next(span for span in exporter.get_finished_spans() if span.name == "call").attributes
    assert found["prompt_trace.sha256"] == hashlib.sha256(SENT).hexdigest()
    assert found["prompt_trace.chars"] == len(TEXT)


@pytest.mark.parametrize("spans", ["hash"], indirect=True)
def test_no_bare_digest_under_a_policy(host: tuple[str, threading.Event], spans: tuple[TracerProvider, Any]) -> None:
    """A short text is soon guessed from its digest."""
    provider, exporter = spans
    tracer = provider.get_tracer("app")
    host[1].set()
    with tracer.start_as_current_span("chat m", attributes=CALL):
        httpx2.post(host[0], content=SENT, timeout=30)
        assert pt.flush(20)
    assert trace.get_current_span() is trace.INVALID_SPAN
    told = [dict(span.attributes or {}) for span in exporter.get_finished_spans()]
    assert told
    assert not any("prompt_trace.sha256" in attributes for attributes in told)
