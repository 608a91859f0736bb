"""Where spans are sent by OTLP, tried with an export of no span at all, by the protocol that is configured.

The headers of the environment are sent, as the exporter would, and never shown; nor is what the server says beside its
status, since it may repeat them.
"""

from __future__ import annotations

import http.client
import logging
import os
import socket
import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from otel_prompt_trace.bounded_http import ask
from otel_prompt_trace.doctor.finding import Finding

_SECONDS = 5.0
_CONNECT_SECONDS = 3.0
_GRPC_METHOD = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
_PORTS = {"grpc": 4317, "http": 4318}
_PROTOCOLS = frozenset({"grpc", "http/protobuf", "http/json"})
_NAME = "OTLP endpoint"
_LISTENING = "start the collector, or correct OTEL_EXPORTER_OTLP_ENDPOINT"
_HEADERS = "correct OTEL_EXPORTER_OTLP_HEADERS: they were sent, and are not shown here"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where spans go. ``configured`` is False for the default that the SDK falls back to."""

    protocol: str  # grpc, http/protobuf or http/json
    url: str
    configured: bool
    secure: bool
    headers: Mapping[str, str]
    certificate: str | None

    @property
    def host(self) -> str:
        """The host's name or address."""
        return urlsplit(self.url).hostname or ""

    @property
    def port(self) -> int:
        """The port, by default that of the scheme as the exporters have it."""
        return urlsplit(self.url).port or (443 if self.secure else 80)

    @property
    def shown(self) -> str:
        """Protocol, host and port: the rest of a URL may hold a secret."""
        return f"{self.host}:{self.port} by {self.protocol}"


def look_at_endpoint(environ: Mapping[str, str] | None = None, seconds: float = _SECONDS) -> Iterator[Finding]:
    """Whether something takes spans there."""
    env = os.environ if environ is None else environ
    exporters = [name.strip() for name in env.get("OTEL_TRACES_EXPORTER", "otlp").split(",")]
    if not any(name.startswith("otlp") for name in exporters):
        yield Finding(_NAME, "ok", f"spans are not sent by OTLP: OTEL_TRACES_EXPORTER={','.join(exporters)}")
        return
    try:
        endpoint = read_endpoint(env)
        port = endpoint.port
    except ValueError:
        advice = "write http://host:port or https://host:port"
        yield Finding(_NAME, "fail", "OTEL_EXPORTER_OTLP_ENDPOINT is no address of a server", advice)
        return
    if endpoint.protocol not in _PROTOCOLS:
        detail = f"OTEL_EXPORTER_OTLP_PROTOCOL={endpoint.protocol[:40]} is no protocol of the SDK"
        yield Finding(_NAME, "fail", detail, f"one of {', '.join(sorted(_PROTOCOLS))}")
        return
    fault = _connect(endpoint.host, port, seconds)
    if fault:
        if endpoint.configured:
            yield Finding(_NAME, "fail", f"{endpoint.shown}: {fault}", _LISTENING)
        else:
            detail = f"{endpoint.shown}, the default: {fault}"
            yield Finding(_NAME, "warn", detail, "set OTEL_EXPORTER_OTLP_ENDPOINT where the application sends spans")
        return
    yield _by_grpc(endpoint, seconds) if endpoint.protocol == "grpc" else _by_http(endpoint, seconds)


def read_endpoint(env: Mapping[str, str]) -> Endpoint:
    """Where the SDK's exporter for traces would send, by its own variables and defaults.

    Raises:
        ValueError: what is configured is no address.
    """

    def read(name: str) -> str:
        return env.get(f"OTEL_EXPORTER_OTLP_TRACES_{name}") or env.get(f"OTEL_EXPORTER_OTLP_{name}") or ""

    exporter = env.get("OTEL_TRACES_EXPORTER", "")
    by_name = "http/protobuf" if "otlp_proto_http" in exporter else "grpc" if "otlp_proto_grpc" in exporter else ""
    protocol = by_name or read("PROTOCOL") or "grpc"
    kind = "http" if protocol.startswith("http") else "grpc"
    given = env.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") or ""
    if not given and kind == "http":
        base = env.get("OTEL_EXPORTER_OTLP_ENDPOINT") or f"http://localhost:{_PORTS[kind]}"
        url = f"{base.rstrip('/')}/v1/traces"
    else:
        url = given or env.get("OTEL_EXPORTER_OTLP_ENDPOINT") or f"http://localhost:{_PORTS[kind]}"
    if "://" not in url:  # gRPC takes a bare host and port, by TLS unless told otherwise
        url = f"{'http' if read('INSECURE').lower() == 'true' else 'https'}://{url}"
    parts = urlsplit(url)
    if not (parts.hostname or "").strip() or parts.scheme not in {"http", "https"}:
        raise ValueError("no address of a server")
    return Endpoint(
        protocol=protocol,
        url=url,
        configured=bool(read("ENDPOINT")),
        secure=parts.scheme == "https",
        headers=_headers(read("HEADERS")),
        certificate=read("CERTIFICATE") or None,
    )


def _headers(text: str) -> dict[str, str]:
    from opentelemetry.util import re as parsing

    logger: logging.Logger = parsing._logger  # noqa: SLF001 - it repeats what it can't read, which may be a secret
    was = logger.disabled
    logger.disabled = True
    try:
        return dict(parsing.parse_env_headers(text, liberal=True))
    finally:
        logger.disabled = was


def _connect(host: str, port: int, seconds: float) -> str:
    """Why nothing listens there; empty where something does."""
    try:
        socket.create_connection((host, port), timeout=min(seconds, _CONNECT_SECONDS)).close()
    except TimeoutError:
        return "no answer to a connection"
    except UnicodeError:  # a part of the name is empty, or longer than any name's
        return "no name of a host"
    except OSError as error:
        return error.strerror or str(error)
    return ""


def _by_http(endpoint: Endpoint, seconds: float) -> Finding:
    is_json = endpoint.protocol == "http/json"
    kind = {"Content-Type": "application/json" if is_json else "application/x-protobuf"}
    try:
        context = ssl.create_default_context(cafile=endpoint.certificate) if endpoint.secure else None
    except OSError as error:
        return _unread(endpoint, error)
    try:
        status, _ = ask(
            "POST",
            endpoint.url,
            seconds=seconds,
            most=4096,
            body=b"{}" if is_json else b"",
            headers={**endpoint.headers, **kind},
            context=context,
        )
    except ssl.SSLError as error:
        return Finding(_NAME, "fail", f"{endpoint.shown}: TLS: {error.reason}", "OTEL_EXPORTER_OTLP_CERTIFICATE")
    except (OSError, http.client.HTTPException) as error:
        fault = f"it listens, and gives no HTTP answer within {seconds:.0f} s: {type(error).__name__}"
        return Finding(_NAME, "fail", f"{endpoint.shown}: {fault}", "is this the port for gRPC (4317)?")
    except ValueError:
        return Finding(_NAME, "fail", f"{endpoint.shown}: a header can't be sent", _HEADERS)
    answered = f"{endpoint.shown}: answers an export of no span with {status}"
    if status // 100 == 2 or status == http.client.BAD_REQUEST:  # some call an empty request a bad one
        return Finding(_NAME, "ok", answered)
    if status in {http.client.UNAUTHORIZED, http.client.FORBIDDEN}:
        return Finding(_NAME, "fail", answered, _HEADERS)
    if status in {http.client.NOT_FOUND, http.client.METHOD_NOT_ALLOWED}:
        return Finding(_NAME, "fail", answered, "its path is /v1/traces after OTEL_EXPORTER_OTLP_ENDPOINT")
    return Finding(_NAME, "fail", answered, "see the log of the collector")


def _by_grpc(endpoint: Endpoint, seconds: float) -> Finding:
    import grpc  # type: ignore[import-untyped]

    target = f"{f'[{endpoint.host}]' if ':' in endpoint.host else endpoint.host}:{endpoint.port}"
    try:
        if endpoint.secure:
            roots = None if endpoint.certificate is None else _read(endpoint.certificate)
            channel = grpc.secure_channel(target, grpc.ssl_channel_credentials(root_certificates=roots))
        else:
            channel = grpc.insecure_channel(target)
        with channel:
            export = channel.unary_unary(_GRPC_METHOD)
            metadata = [(name.lower(), value) for name, value in endpoint.headers.items()]
            export(b"", timeout=seconds, metadata=metadata)
    except grpc.RpcError as error:
        return _refused(endpoint, error.code().name)
    except OSError as error:
        return _unread(endpoint, error)
    except (ValueError, TypeError):
        return Finding(_NAME, "fail", f"{endpoint.shown}: a header can't be sent", _HEADERS)
    return Finding(_NAME, "ok", f"{endpoint.shown}: takes an export of no span")


def _refused(endpoint: Endpoint, code: str) -> Finding:
    answered = f"{endpoint.shown}: answers an export of no span with {code}"
    match code:
        case "INVALID_ARGUMENT":  # some call an empty request a bad one
            return Finding(_NAME, "ok", answered)
        case "UNAUTHENTICATED" | "PERMISSION_DENIED":
            return Finding(_NAME, "fail", answered, _HEADERS)
        case "UNAVAILABLE" | "DEADLINE_EXCEEDED" | "INTERNAL" | "UNKNOWN":
            advice = "is this the port for HTTP (4318)? OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf. Or is TLS wanted?"
            return Finding(_NAME, "fail", f"{endpoint.shown}: it listens, and speaks no gRPC with us ({code})", advice)
        case _:
            return Finding(_NAME, "fail", answered, "see the log of the collector")


def _unread(endpoint: Endpoint, error: OSError) -> Finding:
    reason = error.reason if isinstance(error, ssl.SSLError) else error.strerror
    detail = f"{endpoint.shown}: the certificate can't be read: {reason}"
    return Finding(_NAME, "fail", detail, "correct OTEL_EXPORTER_OTLP_CERTIFICATE")


def _read(path: str) -> bytes:
    with open(path, "rb") as file:  # noqa: PTH123 - as the exporter opens it
        return file.read()
