"""A model host on loopback that gives back prepared replies: for each path in order, byte for byte."""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from collections.abc import Iterable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import Self


@dataclass(frozen=True)
class Reply:
    """What is sent back to one request of a path."""

    path: str
    body: bytes
    status: int = 200
    content_type: str = "application/json"


class ReplayServer:
    """Serves replies as long as its ``with`` block runs; a request for which there is none gets a 410."""

    def __init__(self, replies: Iterable[Reply]) -> None:
        self.requests: list[bytes] = []
        self._replies: dict[str, deque[Reply]] = defaultdict(deque)
        for reply in replies:
            self._replies[reply.path].append(reply)
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        owner = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            timeout = 30

            def do_POST(self) -> None:
                reply = owner.take(self.path, self.rfile.read(int(self.headers.get("Content-Length", "0"))))
                self.send_response(reply.status)
                self.send_header("Content-Type", reply.content_type)
                self.send_header("Content-Length", str(len(reply.body)))
                self.end_headers()
                self.wfile.write(reply.body)

            def log_message(self, *_args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def base_url(self) -> str:
        """Scheme, host and port."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def take(self, path: str, body: bytes) -> Reply:
        """The next reply of a path."""
        with self._lock:
            self.requests.append(body)
            waiting = self._replies[path.partition("?")[0]]
            return waiting.popleft() if waiting else Reply(path, b'{"error": {"message": "no reply"}}', 410)
