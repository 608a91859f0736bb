"""A model host on loopback that gives back prepared replies: for each path in order, byte for byte.

It can hold its replies back until several requests have arrived, and then answers the last of them first: so each of
these requests is open while those after it come and go.
"""

from __future__ import annotations

import json
import threading
import time
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import Self

_PATIENCE = 20.0  # seconds
INCOMPLETE = "the other requests of the group did not arrive"


@dataclass(frozen=True)
class Reply:
    """What is sent back to one request of a path; with ``to``, to one whose body holds that text."""

    path: str
    body: bytes
    status: int = 200
    content_type: str = "application/json"
    to: str = ""


class _Server(ThreadingHTTPServer):
    request_queue_size = 128  # of connections that are opened at one time


class ReplayServer:
    """Serves replies as long as its ``with`` block runs; a request for which there is none gets a 410.

    Args:
        together: the sizes of successive groups of requests; a group is answered once all of it has arrived, the last
            request first. A group that stays incomplete is answered with 503.

    ``thinks`` may be set at any time: how many seconds a reply takes, as a model's does.
    """

    def __init__(self, replies: Iterable[Reply], together: Iterable[int] = ()) -> None:
        self.requests: list[bytes] = []
        self.thinks = 0.0
        self._replies: dict[str, deque[Reply]] = defaultdict(deque)
        for reply in replies:
            self._replies[reply.path].append(reply)
        self._lock = threading.Lock()
        self._arrived = threading.Condition(self._lock)
        self._answered = 0
        self._groups: list[tuple[int, int]] = []  # number of its first request, and of the first after it
        for size in together:
            begin = self._groups[-1][1] if self._groups else 0
            self._groups.append((begin, begin + size))

    def __enter__(self) -> Self:
        owner = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            timeout = 30

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
                number, reply = owner.take(self.path, body)
                time.sleep(owner.thinks)
                with owner.turn(number) as complete:
                    if not complete:
                        reply = Reply(self.path, json.dumps({"error": {"message": INCOMPLETE}}).encode(), 503)
                    self.send_response(reply.status)
                    self.send_header("Content-Type", reply.content_type)
                    self.send_header("Content-Length", str(len(reply.body)))
                    self.end_headers()
                    self.wfile.write(reply.body)

            def log_message(self, *_args: object) -> None:
                pass

        self._server = _Server(("127.0.0.1", 0), Handler)
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

    def take(self, path: str, body: bytes) -> tuple[int, Reply]:
        """The number of a request, from 0 in the order of arrival, and the next reply of its path to it."""
        path = path.partition("?")[0]
        with self._arrived:
            self.requests.append(body)
            self._arrived.notify_all()
            waiting = self._replies[path]
            reply = next((found for found in waiting if found.to.encode() in body), None)
            if reply is None:
                reply = Reply(path, b'{"error": {"message": "no reply"}}', 410)
            else:
                waiting.remove(reply)
            return len(self.requests) - 1, reply

    @contextmanager
    def turn(self, number: int) -> Iterator[bool]:
        """Wait until a request is to be answered; False where the rest of its group never came."""
        group = next((found for found in self._groups if found[0] <= number < found[1]), None)
        if group is None:
            yield True
            return
        begin, end = group
        turn = begin + end - 1 - number  # how many were answered before
        with self._arrived:
            complete = self._arrived.wait_for(
                lambda: len(self.requests) >= end and self._answered >= turn, timeout=_PATIENCE
            )
        try:
            yield complete
        finally:
            with self._arrived:
                self._answered += 1
                self._arrived.notify_all()
