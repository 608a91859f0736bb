"""Running the viewer on a loopback address until it is told to stop."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

import uvicorn

from otel_prompt_trace.exceptions import ConfigurationError
from otel_prompt_trace.pipeline.watching import Stop
from otel_prompt_trace.viewer.guard import Guard, is_loopback

_STOP_SECONDS = 3
_AT_ONCE = 64


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens on a loopback address; port 0 takes a free one.

    Raises:
        ConfigurationError: another address, or one that is taken.
    """
    if not is_loopback(host):
        raise ConfigurationError(
            f"{host}: only a loopback address is served, since whoever reaches a page reads prompts. From another "
            "machine: ssh -L 8765:127.0.0.1:8765 <this machine>"
        )
    address = "127.0.0.1" if host.lower() == "localhost" else host
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        return socket.create_server((address, port), family=family)
    except (OSError, OverflowError) as error:
        raise ConfigurationError(
            f"{address}:{port} can't be listened on: {error}. Name another with --port; 0 takes a free one"
        ) from error


def address_of(listening: socket.socket) -> str:
    """The URL of a listening socket."""
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"


def serve(app: Guard, listening: socket.socket, ready: Callable[[], None]) -> None:
    """Answer until SIGTERM or SIGINT, then end what is under way within three seconds.

    Args:
        app: the application.
        listening: as :func:`listen` made it; closed at the end.
        ready: called once requests are answered.
    """
    config = uvicorn.Config(
        app,
        http="h11",
        ws="none",
        lifespan="off",
        log_config=None,  # what goes wrong in a page reaches the process's logging, and no request is logged
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=_AT_ONCE,
        timeout_graceful_shutdown=_STOP_SECONDS,
    )
    with Stop() as stop, listening:
        _Server(config, ready, stop).run(sockets=[listening])


class _Server(uvicorn.Server):
    """Says when it answers, and ends also if it was told so before it did.

    uvicorn raises the signal that ended it once more when it has ended: :class:`Stop` takes that, and the process
    ends well.
    """

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None], stop: Stop) -> None:
        super().__init__(config)
        self._ready = ready
        self._stop = stop

    async def startup(self, sockets: list[Any] | None = None) -> None:
        await super().startup(sockets)
        self._ready()
        self.should_exit = self.should_exit or self._stop.asked
