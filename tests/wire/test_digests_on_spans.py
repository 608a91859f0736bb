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


def ask(url: str, go: threading.Event, known: Callable[[], Any], sent: bytes = SENT) -> None:
    """One request, answered as soon as ``known`` gives something."""

    def answer() -> None:
        until(lambda: known() is not None)
        go.set()

    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(answer)
        httpx2.post(url, content=sent, timeout=30)
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
        ask(*host, lambda: is_of_what_left(call))
    found = on_the_call(exporter)
    assert found["prompt_trace.sha256"] == hashlib.sha256(SENT).hexdigest()
    assert found["prompt_trace.chars"] == len(TEXT)


def is_of_what_left(call: Any) -> bool | None:
    """True once stock was taken of the call's request as it was sent."""
    return True if call._provisional is not None and call._provisional.as_sent else None


def on_the_call(exporter: InMemorySpanExporter) -> dict[str, Any]:
    """The attributes of the span of a declared call."""
    return dict(next(span for span in exporter.get_finished_spans() if span.name == "call").attributes or {})


@pytest.mark.parametrize(
    ("spans", "added", "unaccounted", "verdict"),
    [("store", "", 0, "exact"), ("store", "Be brief.", 9, "mismatch"), ("hash", "", 0, "exact"),
     ("hash", "Be brief.", 9, "unknown")],
    indirect=["spans"],
)  # fmt: skip
def test_the_verdict_on_the_span_is_of_what_left(
    host: tuple[str, threading.Event], spans: tuple[TracerProvider, Any], added: str, unaccounted: int, verdict: str
) -> None:
    """A client library that adds to the prompt is found out on the span already, and as the record says it."""
    _, exporter = spans
    url, go = host
    prompt = pt.Prompt().add("user", TEXT[:7]).add("rag", TEXT[7:])
    body = {"model": "m", "messages": [{"role": "system", "content": added}] * bool(added)}
    body["messages"] = [*body["messages"], {"role": "user", "content": TEXT}]
    with pt.query() as query, query.call(model="m", prompt=prompt) as call:
        ask(url, go, lambda: is_of_what_left(call), json.dumps(body).encode())
    found = on_the_call(exporter)
    told = {name: found[f"prompt_trace.{name}"] for name in ("chars", "unaccounted", "verdict")}
    assert told == {"chars": len(TEXT + added), "unaccounted": unaccounted, "verdict": verdict}
    assert pt.flush(20).ok
    graded = pt.grade(pt.open_store(query.runtime.settings.store).get(query.qid)).calls[0]
    assert (graded.verdict, graded.census.unaccounted) == (verdict, unaccounted)


def test_no_verdict_of_a_request_that_nobody_has_looked_at_yet(
    host: tuple[str, threading.Event], spans: tuple[TracerProvider, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer was faster than the shipper: what is known of the declared prompt says nothing of what left."""
    monkeypatch.setattr("otel_prompt_trace.wire.place.Place.take_stock", lambda *_, **_named: None)
    _, exporter = spans
    with pt.query() as query, query.call(model="m", prompt=pt.Prompt().add("a", TEXT[:7]).add("b", TEXT[7:])) as call:
        ask(*host, lambda: call._provisional)
    found = on_the_call(exporter)
    assert "prompt_trace.verdict" not in found
    assert "prompt_trace.unaccounted" not in found


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
