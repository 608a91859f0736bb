"""Runs in the clients' environment: an HTTP/2 host that answers as it is told, by ``python h2_host.py CONFIG.json``.

It prints its port, and when its standard input ends, the requests that it received, as JSON.
"""

from __future__ import annotations

import asyncio
import base64
import json
import socket
import sys
from pathlib import Path
from typing import Any

from hypercorn.asyncio import serve
from hypercorn.config import Config


async def main(answers: list[dict[str, Any]]) -> None:
    received: list[dict[str, Any]] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        number = len(received)
        request: dict[str, Any] = {"path": scope["path"], "version": scope["http_version"]}
        received.append(request)
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        request["body"] = base64.b64encode(body).decode()
        answer = answers[number]
        head = [(b"content-type", answer["content_type"].encode())]
        await send({"type": "http.response.start", "status": answer["status"], "headers": head})
        for chunk in answer["chunks"]:
            await send({"type": "http.response.body", "body": base64.b64decode(chunk), "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    listening = socket.create_server(("127.0.0.1", 0))
    config = Config()
    config.bind = [f"fd://{listening.fileno()}"]
    config.accesslog = config.errorlog = None
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.run_in_executor(None, lambda: (sys.stdin.read(), loop.call_soon_threadsafe(ended.set)))
    print(listening.getsockname()[1], flush=True)
    await serve(app, config, shutdown_trigger=ended.wait)
    print(json.dumps(received), flush=True)


if __name__ == "__main__":
    asyncio.run(main(json.loads(Path(sys.argv[1]).read_text())))
