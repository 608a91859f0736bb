"""Ports for the servers that tests start."""

from __future__ import annotations

import contextlib
import random
import socket


def free_ports(count: int, apart: int = 0) -> list[int]:
    """Ports that are free now, and free as well with ``apart`` added.

    They lie below those that the kernel gives to connections by itself: no client takes one before its server does.
    """
    ports: list[int] = []
    while len(ports) < count:
        port = random.randrange(12_000, 32_000 - apart)
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            if not apart or _is_free(port + apart):
                ports += [] if {port, port + apart, port - apart} & set(ports) else [port]
    return ports


def _is_free(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
        return True
    return False
