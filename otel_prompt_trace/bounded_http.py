"""One request to a server that is not trusted: bounded in time and in size, and no redirect is followed."""

from __future__ import annotations

import contextlib
import http.client
import socket
import ssl
import threading
from collections.abc import Iterator, Mapping
from urllib.parse import urlsplit

_CONNECT_SECONDS = 3.0


def ask(
    method: str,
    url: str,
    *,
    seconds: float,
    most: int,
    body: bytes | None = None,
    headers: Mapping[str, str] | None = None,
    context: ssl.SSLContext | None = None,
) -> tuple[int, bytes]:
    """Status and body of the answer.

    Args:
        method: ``GET`` or ``POST``.
        url: http or https, with a host.
        seconds: for all of it: a server that sends a byte a second is given up as well.
        most: bytes of the answer that are read; one more tells that there are more.
        body: what is posted.
        headers: sent as they are.
        context: for https; the system's by default.

    Raises:
        OSError, http.client.HTTPException: no answer, none in time, or one that is no HTTP.
        ValueError: a header that can't be sent; its text holds the header.
    """
    parts = urlsplit(url)
    connect = min(seconds, _CONNECT_SECONDS)
    connection: http.client.HTTPConnection
    if parts.scheme == "https":
        connection = http.client.HTTPSConnection(parts.hostname or "", parts.port, timeout=connect, context=context)
    else:
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=connect)
    with contextlib.closing(connection):
        connection.connect()
        connection.sock.settimeout(seconds)
        with _closed_after(connection.sock, seconds):
            connection.request(method, parts.path or "/", body=body, headers=dict(headers or {}))
            answer = connection.getresponse()
            return answer.status, answer.read(most + 1)


@contextlib.contextmanager
def _closed_after(sock: socket.socket, seconds: float) -> Iterator[None]:
    def close() -> None:
        with contextlib.suppress(OSError):
            sock.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(seconds, close)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
