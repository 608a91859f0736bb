"""The OTLP endpoint: servers that take spans, refuse, hang, or speak something else, by both protocols."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import grpc
import pytest

from otel_prompt_trace.doctor.exporting import Endpoint, look_at_endpoint, read_endpoint
from otel_prompt_trace.doctor.finding import Finding
from tests.viewer.conftest import answering, body

_SECRET = "a-secret-of-the-tests"
_METHOD = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"


def _look(seconds: float = 5.0, **variables: str) -> Finding:
    (finding,) = look_at_endpoint(variables, seconds)
    assert _SECRET not in f"{finding}"
    return finding


@contextlib.contextmanager
def _grpc(code: grpc.StatusCode | None, seen: list[dict[str, str]] | None = None) -> Iterator[str]:
    """A gRPC server that answers exports with this status; its host and port."""

    class Handler(grpc.GenericRpcHandler):
        def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler | None:
            def export(_request: bytes, context: grpc.ServicerContext) -> bytes:
                if seen is not None:
                    seen.append(dict(context.invocation_metadata()))
                if code is not None:
                    context.abort(code, f"no: {_SECRET}")
                return b""

            return grpc.unary_unary_rpc_method_handler(export) if details.method == _METHOD else None

    server = grpc.server(ThreadPoolExecutor(2), handlers=[Handler()])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        server.stop(None).wait(10)


@contextlib.contextmanager
def _hanging() -> Iterator[str]:
    """A server that takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        held: list[socket.socket] = []
        over = threading.Event()

        def accept() -> None:
            listening.settimeout(0.05)
            while not over.is_set():
                with contextlib.suppress(TimeoutError):
                    held.append(listening.accept()[0])

        thread = threading.Thread(target=accept)
        thread.start()
        try:
            yield f"127.0.0.1:{listening.getsockname()[1]}"
        finally:
            over.set()
            thread.join()
            for each in held:
                each.close()


def _nobody() -> str:
    with socket.create_server(("127.0.0.1", 0)) as held:
        return f"127.0.0.1:{held.getsockname()[1]}"


def test_one_that_takes_spans_by_grpc_is_ok() -> None:
    """The configured headers are sent and not shown."""
    seen: list[dict[str, str]] = []
    with _grpc(None, seen) as address:
        finding = _look(
            OTEL_EXPORTER_OTLP_ENDPOINT=f"http://{address}", OTEL_EXPORTER_OTLP_HEADERS=f"Api-Key={_SECRET}"
        )
    assert (finding.status, finding.detail) == ("ok", f"{address} by grpc: takes an export of no span")
    assert seen[0]["api-key"] == _SECRET


def test_one_that_takes_spans_by_http_is_ok() -> None:
    """An empty request is posted to /v1/traces, with the headers, as the exporter would."""
    seen: list[tuple[str, str, str | None, str | None]] = []

    def answer(handler: BaseHTTPRequestHandler) -> None:
        headers = handler.headers
        seen.append((handler.command, handler.path, headers["content-type"], headers["api-key"]))
        body(b"")(handler)

    variables = {"OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf", "OTEL_EXPORTER_OTLP_HEADERS": f"api-key={_SECRET}"}
    with answering(answer) as url:
        assert _look(OTEL_EXPORTER_OTLP_ENDPOINT=f"{url}/", **variables).status == "ok"
        assert _look(OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=f"{url}/own", **variables).status == "ok"
    posted = ("application/x-protobuf", _SECRET)
    assert seen == [("POST", "/v1/traces", *posted), ("POST", "/own", *posted)]


@pytest.mark.parametrize("protocol", ["grpc", "http/protobuf"])
def test_one_that_refuses_fails(protocol: str) -> None:
    """Where it was configured; the default that nobody listens at is a warning."""
    address = _nobody()
    finding = _look(OTEL_EXPORTER_OTLP_ENDPOINT=f"http://{address}", OTEL_EXPORTER_OTLP_PROTOCOL=protocol)
    assert finding.status == "fail"
    assert finding.detail == f"{address} by {protocol}: Connection refused"
    assert "start the collector" in finding.advice


@pytest.mark.parametrize("protocol", ["grpc", "http/protobuf"])
def test_one_that_hangs_fails_in_time(protocol: str) -> None:
    """It listens, and says nothing: the look ends, and says that."""
    with _hanging() as address:
        finding = _look(0.5, OTEL_EXPORTER_OTLP_ENDPOINT=f"http://{address}", OTEL_EXPORTER_OTLP_PROTOCOL=protocol)
    assert finding.status == "fail"
    assert "it listens, and" in finding.detail


def test_the_wrong_protocol_is_named() -> None:
    """One speaks gRPC at a port for HTTP, another HTTP at a port for gRPC: what nearly everybody has had."""
    with answering(body(b"", 404)) as url:
        finding = _look(OTEL_EXPORTER_OTLP_ENDPOINT=url)
    assert finding.status == "fail"
    assert "4318" in finding.advice
    with _grpc(None) as address:
        finding = _look(OTEL_EXPORTER_OTLP_ENDPOINT=f"http://{address}", OTEL_EXPORTER_OTLP_PROTOCOL="http/protobuf")
    assert finding.status == "fail"
    assert "4317" in finding.advice


@pytest.mark.parametrize(
    ("status", "outcome", "advice"),
    [(200, "ok", ""), (202, "ok", ""), (400, "ok", ""), (401, "fail", "HEADERS"), (403, "fail", "HEADERS"),
     (404, "fail", "/v1/traces"), (503, "fail", "log"), (302, "fail", "log")],
)  # fmt: skip
def test_every_status_is_judged(status: int, outcome: str, advice: str) -> None:
    """What the server says beside its status is not shown: it may repeat the headers."""
    with answering(body(_SECRET.encode(), status, location="http://127.0.0.1:9/")) as url:
        finding = _look(OTEL_EXPORTER_OTLP_ENDPOINT=url, OTEL_EXPORTER_OTLP_PROTOCOL="http/protobuf")
    assert finding.status == outcome
    assert str(status) in finding.detail
    assert advice in finding.advice


@pytest.mark.parametrize(
    ("code", "outcome", "advice"),
    [(grpc.StatusCode.UNAUTHENTICATED, "fail", "HEADERS"), (grpc.StatusCode.INVALID_ARGUMENT, "ok", ""),
     (grpc.StatusCode.RESOURCE_EXHAUSTED, "fail", "log")],
)  # fmt: skip
def test_every_code_is_judged(code: grpc.StatusCode, outcome: str, advice: str) -> None:
    """Nor are the details of a gRPC error shown."""
    with _grpc(code) as address:
        finding = _look(OTEL_EXPORTER_OTLP_ENDPOINT=f"http://{address}")
    assert (finding.status, code.name in finding.detail) == (outcome, True)
    assert advice in finding.advice


@pytest.mark.parametrize("protocol", ["grpc", "http/protobuf"])
def test_tls_where_none_is_spoken_fails(protocol: str) -> None:
    """An https address of a plain server is a failure with advice, and ends."""
    with answering(body(b"")) as url:
        secure = url.replace("http://", "https://")
        finding = _look(OTEL_EXPORTER_OTLP_ENDPOINT=secure, OTEL_EXPORTER_OTLP_PROTOCOL=protocol)
    assert finding.status == "fail"
    assert finding.advice


@pytest.mark.parametrize("protocol", ["grpc", "http/protobuf"])
def test_a_header_that_can_not_be_sent_is_not_shown(protocol: str) -> None:
    """A newline in a value: libraries put the value into their errors."""
    with answering(body(b"")) as url:
        finding = _look(
            OTEL_EXPORTER_OTLP_ENDPOINT=url,
            OTEL_EXPORTER_OTLP_PROTOCOL=protocol,
            OTEL_EXPORTER_OTLP_HEADERS=f"api-key={_SECRET}%0Ax",
        )
    assert finding.status == "fail"


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, ("grpc", "http://localhost:4317", False, False)),
        ({"PROTOCOL": "http/protobuf"}, ("http/protobuf", "http://localhost:4318/v1/traces", False, False)),
        ({"ENDPOINT": "https://c.example"}, ("grpc", "https://c.example", True, True)),
        ({"ENDPOINT": "c:4317"}, ("grpc", "https://c:4317", True, True)),
        ({"ENDPOINT": "c:4317", "INSECURE": "true"}, ("grpc", "http://c:4317", True, False)),
        ({"ENDPOINT": "http://a", "TRACES_ENDPOINT": "http://b/x", "TRACES_PROTOCOL": "http/protobuf"},
         ("http/protobuf", "http://b/x", True, False)),
        ({"ENDPOINT": "http://a/base/", "PROTOCOL": "http/protobuf"},
         ("http/protobuf", "http://a/base/v1/traces", True, False)),
    ],
)  # fmt: skip
def test_the_variables_are_read_as_the_exporter_reads_them(
    variables: dict[str, str], expected: tuple[str, str, bool, bool]
) -> None:
    """Those for traces before those for all signals, and the defaults of the specification."""
    found = read_endpoint({f"OTEL_EXPORTER_OTLP_{name}": value for name, value in variables.items()})
    assert (found.protocol, found.url, found.configured, found.secure) == expected


def test_the_same_as_the_sdks_exporters(monkeypatch: pytest.MonkeyPatch) -> None:
    """Asked themselves, the exporters of the SDK have the same address."""
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    for variables in (
        {},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://a:1/b/"},
        {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c:2/d"},
    ):
        with monkeypatch.context() as patch:
            for name, value in variables.items():
                patch.setenv(name, value)
            exporter = OTLPSpanExporter()
        assert read_endpoint({**variables, "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}).url == exporter._endpoint


def test_no_otlp_is_no_fault() -> None:
    """Where spans go to the console, or nowhere, nothing is tried."""
    assert _look(OTEL_TRACES_EXPORTER="console", OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:9").status == "ok"


@pytest.mark.parametrize("url", ["ftp://x", "http://", "http://x:port", "http://[::1", "   ", "http://x:99999"])
def test_what_is_no_address_is_said(url: str) -> None:
    """And only the variable is named."""
    finding = _look(OTEL_EXPORTER_OTLP_ENDPOINT=url)
    assert finding.status == "fail"
    assert "OTEL_EXPORTER_OTLP_ENDPOINT" in finding.detail


def test_a_password_in_the_address_is_not_shown() -> None:
    """Of the address only host and port are."""
    shown = read_endpoint({"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://u:{_SECRET}@h:1/{_SECRET}"})
    assert isinstance(shown, Endpoint)
    assert shown.shown == "h:1 by grpc"


@pytest.mark.parametrize("host", ["a..b", "a" * 64, "a" * 300, ".", "\u00fc" * 64])
@pytest.mark.parametrize("protocol", ["grpc", "http/protobuf"])
def test_what_is_no_name_of_a_host_is_said(host: str, protocol: str) -> None:
    """Python refuses to ask for it by an error of another kind."""
    finding = _look(1, OTEL_EXPORTER_OTLP_ENDPOINT=f"http://{host}:4317", OTEL_EXPORTER_OTLP_PROTOCOL=protocol)
    assert finding.status == "fail"
    assert "OTEL_EXPORTER_OTLP_ENDPOINT" in finding.advice


@pytest.mark.parametrize("protocol", ["nonsense", "HTTP/protobuf", "http", "http/xml"])
def test_what_is_no_protocol_is_said(protocol: str) -> None:
    """The SDK does not start with it: nothing is tried by a protocol that it would not speak."""
    finding = _look(OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:9", OTEL_EXPORTER_OTLP_PROTOCOL=protocol)
    assert (finding.status, finding.advice) == ("fail", "one of grpc, http/json, http/protobuf")
    assert protocol in finding.detail


@pytest.mark.parametrize("protocol", ["grpc", "http/protobuf"])
@pytest.mark.parametrize("content", [None, b"", b"no certificate"])
def test_a_certificate_that_can_not_be_read_is_said(tmp_path: Path, protocol: str, content: bytes | None) -> None:
    """It is not the server's fault, whatever the server does."""
    path = tmp_path / "ca.pem"
    if content is not None:
        path.write_bytes(content)
    with _hanging() as address:
        finding = _look(
            0.5,
            OTEL_EXPORTER_OTLP_ENDPOINT=f"https://{address}",
            OTEL_EXPORTER_OTLP_PROTOCOL=protocol,
            OTEL_EXPORTER_OTLP_CERTIFICATE=str(path),
        )
    assert finding.status == "fail"
    if content is None or protocol != "grpc":
        assert "the certificate can't be read" in finding.detail


@pytest.mark.parametrize("headers", [f"x y={_SECRET}", _SECRET, f"={_SECRET}", f"a=b,{_SECRET}", f"key-bin={_SECRET}"])
def test_headers_that_can_not_be_read_are_not_shown(headers: str, caplog: pytest.LogCaptureFixture) -> None:
    """Nor by the SDK, which would log them as it reads them."""
    with _grpc(None) as address:
        _look(OTEL_EXPORTER_OTLP_ENDPOINT=f"http://{address}", OTEL_EXPORTER_OTLP_HEADERS=headers)
    assert _SECRET not in caplog.text
