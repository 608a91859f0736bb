"""Servers on loopback in processes of their own, whose time is not the caller's: each ends with its standard input."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

_ROOT = Path(__file__).parent.parent


class Handler(BaseHTTPRequestHandler):
    """Keeps its connections, and says nothing of its requests."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_args: object) -> None:
        """Say nothing."""


@contextmanager
def running(module: str, *arguments: str) -> Iterator[str]:
    """The address of the server that a module serves."""
    command = [sys.executable, "-m", module, *arguments]
    with subprocess.Popen(  # noqa: S603 - ours
        command, cwd=_ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            port = process.stdout.readline() if process.stdout is not None else ""
            yield f"http://127.0.0.1:{int(port)}"
        finally:
            process.communicate(timeout=10)


def serve(handler: type[Handler]) -> None:
    """Print the port, and serve until standard input ends."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdout.write(f"{server.server_address[1]}\n")
    sys.stdout.flush()
    sys.stdin.read()
