"""The viewer over a store with recorded queries, asked without a socket; and stand-ins for Jaeger."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from html.parser import HTMLParser
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from opentelemetry.sdk.trace import TracerProvider
from starlette.testclient import TestClient

import otel_prompt_trace as pt
from otel_prompt_trace.records import Records
from otel_prompt_trace.store import open_store
from otel_prompt_trace.viewer.application import application
from otel_prompt_trace.viewer.jaeger import Jaeger


@dataclass(frozen=True)
class Places:
    """A store and a spool of one test."""

    store: Path
    spool: Path

    @property
    def records(self) -> Records:
        """What can be read there."""
        return Records(open_store(str(self.store)), self.spool)

    def client(self, jaeger: str | None = None, *, seconds: float = 2.0) -> TestClient:
        """The viewer, asked by a loopback name; an exception in it fails the test."""
        app = application(self.records, None if jaeger is None else Jaeger(jaeger, seconds))
        return TestClient(app, base_url="http://127.0.0.1:8765", follow_redirects=False)


@pytest.fixture
def places(tmp_path: Path) -> Places:
    """A fresh store and spool."""
    return Places(tmp_path / "store", tmp_path / "spool")


@pytest.fixture
def installed(places: Places) -> Iterator[None]:
    """Recording into those places."""
    pt.install(store=str(places.store), spool=str(places.spool), tracer_provider=TracerProvider())
    yield
    pt.uninstall()


class Page(HTMLParser):
    """What a browser would make of a page: its elements, the attributes that matter, and its text."""

    def __init__(self, markup: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.links: list[str] = []
        self.text = ""
        self.feed(markup)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """One element: its name, and where it leads."""
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.links += [value or "" for name, value in attrs if name in {"href", "src"}]

    def handle_data(self, data: str) -> None:
        """A run of text."""
        self.text += data


Answer = Callable[[BaseHTTPRequestHandler], None]


@contextmanager
def answering(answer: Answer) -> Iterator[str]:
    """A server on loopback whose every GET is answered by ``answer``; its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer(self)

        do_POST = do_GET  # noqa: N815 - the server looks for this name

        def log_message(self, *_: object) -> None:
            """Nothing on the tests' output."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def body(data: bytes, status: int = 200, **headers: str) -> Answer:
    """An answer of these bytes."""

    def send(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        for name, value in {"content-length": str(len(data)), **headers}.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(data)

    return send
