"""A stand-in model host on loopback, scripted request by request and byte by byte.

It keeps every request as it arrived, and says of each how it ended: answered, left by the client, or cut. It speaks
HTTP/1.1 over plain sockets, since a server library would neither cut a connection in the middle of a request nor keep
the sizes in which a body was sent. Chunks that are ``gated`` go out one at a time, each when the client asks for it by
a byte on a second connection: so what a client reads does not depend on how fast anybody is.
"""

from __future__ import annotations

import contextlib
import select
import socket
import struct
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from typing_extensions import Self

_PATIENCE = 20.0  # seconds
_PHRASES = {200: "OK", 307: "Temporary Redirect", 400: "Bad Request", 429: "Too Many Requests", 500: "Oh no"}


@dataclass(frozen=True)
class Answer:
    """What is done with one request.

    ``framing`` is ``length``, ``chunked`` or ``close`` (no length: the end of the connection ends the body).
    ``then`` is what follows the last chunk: ``end``; ``cut``, the connection is closed in the middle of the body; or
    ``hang``, nothing until the client leaves. ``cut_request_after`` closes the connection after that many bytes of the
    request's body were read.
    """

    chunks: tuple[bytes, ...] = ()
    status: int = 200
    content_type: str = "application/json"
    headers: tuple[tuple[str, str], ...] = ()
    framing: str = "length"
    gated: bool = False
    then: str = "end"
    cut_request_after: int | None = None
    silent: bool = False  # not even the head is sent: the client waits for nothing


@dataclass
class Received:
    """A request as it arrived, and what became of it.

    ``body`` is without its chunked framing; ``sizes`` are those of its chunks, or one length. ``ended`` is
    ``answered``, ``left`` by the client, or ``cut`` by the host.
    """

    method: str
    path: str
    headers: list[tuple[str, str]]
    body: bytes = b""
    sizes: list[int] = field(default_factory=list)
    status: int = 0
    sent: int = 0
    ended: str = ""

    def header(self, name: str) -> str:
        """A header's value, or an empty text."""
        return next((value for key, value in self.headers if key.lower() == name), "")


class ModelHost:
    """Serves one answer after the other as long as its ``with`` block runs; then 410 for every further request.

    Requests go to ``port``; each byte that is sent to ``gate`` lets one gated chunk go.
    """

    def __init__(self, answers: Iterable[Answer]) -> None:
        self.received: list[Received] = []
        self._answers = list(answers)
        self._lock = threading.Lock()
        self._gate = threading.Semaphore(0)
        self._closing = False
        self._open: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Self:
        self._model, self._asking = _listen(), _listen()
        self.port: int = self._model.getsockname()[1]
        self.gate: int = self._asking.getsockname()[1]
        for listening, serve in ((self._model, self._serve), (self._asking, self._ask)):
            self._start(self._accept, listening, serve)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing = True
        with self._lock:
            opened = list(self._open)
        for found in (self._model, self._asking, *opened):
            with contextlib.suppress(OSError):
                found.shutdown(socket.SHUT_RDWR)
            found.close()
        for thread in list(self._threads):
            thread.join(5)

    def _start(self, target: object, *args: object) -> None:
        thread = threading.Thread(target=target, args=args, daemon=True)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _accept(self, listening: socket.socket, serve: object) -> None:
        while not self._closing:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._lock:
                self._open.add(connection)
            self._start(serve, connection)

    def _ask(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while asked := connection.recv(64):
                for _ in asked:
                    self._gate.release()

    def _serve(self, connection: socket.socket) -> None:
        try:
            with contextlib.suppress(OSError), connection, connection.makefile("rb") as reading:
                while (request := _head(reading)) is not None:
                    if not self._converse(connection, reading, request):
                        break
        finally:
            with self._lock:
                self._open.discard(connection)

    def _converse(self, connection: socket.socket, reading: BinaryIO, request: Received) -> bool:
        """Read a request's body and answer it; False where the connection ends with it."""
        with self._lock:
            number = len(self.received)
            self.received.append(request)
        answer = self._answers[number] if number < len(self._answers) else Answer((b"{}",), 410)
        request.status = answer.status
        if request.header("expect"):
            connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        if answer.cut_request_after is not None:
            request.body = reading.read(answer.cut_request_after)
            request.ended, request.status = "cut", 0
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            return False
        try:
            for part in _body(reading, request):
                request.body += part
                request.sizes.append(len(part))
            request.ended = self._answer(connection, request, answer)
        except OSError:
            request.ended = "left"
        return request.ended == "answered" and answer.framing != "close"

    def _answer(self, connection: socket.socket, request: Received, answer: Answer) -> str:
        if answer.silent:
            request.status = 0
            return self._wait_for_client(connection)
        connection.sendall(_response_head(answer))
        for chunk in answer.chunks:
            if answer.gated and not self._let_go(connection):
                return "left"
            connection.sendall(b"%x\r\n%s\r\n" % (len(chunk), chunk) if answer.framing == "chunked" else chunk)
            request.sent += 1
        if answer.gated and not self._let_go(connection):
            return "left"
        if answer.then == "hang":
            return self._wait_for_client(connection)
        if answer.then == "cut":
            return "cut"
        if answer.framing == "chunked":
            connection.sendall(b"0\r\n\r\n")
        return "answered"

    def _let_go(self, connection: socket.socket) -> bool:
        """Wait until the next chunk is asked for; False where the client left instead."""
        deadline = time.monotonic() + _PATIENCE
        while not self._gate.acquire(timeout=0.005):
            if _gone(connection) or self._closing or time.monotonic() > deadline:
                return False
        return True

    def _wait_for_client(self, connection: socket.socket) -> str:
        deadline = time.monotonic() + _PATIENCE
        while not self._closing and time.monotonic() < deadline:
            if _gone(connection):
                return "left"
            time.sleep(0.005)
        return "waited in vain"


def _listen() -> socket.socket:
    return socket.create_server(("127.0.0.1", 0), backlog=64)


def _head(reading: BinaryIO) -> Received | None:
    line = reading.readline().decode("latin-1").split()
    if len(line) != 3:
        return None
    headers: list[tuple[str, str]] = []
    while text := reading.readline().decode("latin-1").strip():
        name, _, value = text.partition(":")
        headers.append((name, value.strip()))
    return Received(line[0], line[1], headers)


def _body(reading: BinaryIO, request: Received) -> Iterator[bytes]:
    if request.header("transfer-encoding").lower() == "chunked":
        while size := _chunk_size(reading):
            yield _whole(reading, size)
            reading.readline()
        reading.readline()
    elif length := int(request.header("content-length") or "0"):
        yield _whole(reading, length)


def _chunk_size(reading: BinaryIO) -> int:
    line = reading.readline()
    if not line:
        raise ConnectionResetError("the client left between the chunks of its request")
    return int(line.partition(b";")[0], 16)


def _whole(reading: BinaryIO, size: int) -> bytes:
    found = reading.read(size)
    if len(found) < size:
        raise ConnectionResetError("the client left in the middle of its request")
    return found


def _response_head(answer: Answer) -> bytes:
    lines = [f"HTTP/1.1 {answer.status} {_PHRASES.get(answer.status, 'Other')}"]
    lines.append(f"Content-Type: {answer.content_type}")
    if answer.framing == "length":
        more = 1000 if answer.then != "end" else 0  # what was promised and never comes
        lines.append(f"Content-Length: {sum(map(len, answer.chunks)) + more}")
    lines += ["Transfer-Encoding: chunked"] if answer.framing == "chunked" else []
    lines += ["Connection: close"] if answer.framing == "close" else []
    lines += [f"{name}: {value}" for name, value in answer.headers]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def _gone(connection: socket.socket) -> bool:
    readable, _, _ = select.select([connection], [], [], 0)
    try:
        return bool(readable) and connection.recv(1, socket.MSG_PEEK) == b""
    except OSError:
        return True
