"""An application for servers of both kinds. Each request is one query, whose qid and process go back to the caller."""

from __future__ import annotations

import os
from typing import Any

import otel_prompt_trace as pt
from otel_prompt_trace.pipeline import shipper

if os.environ.get("ADOPT_SOON"):
    shipper._FIRST_ADOPT_SECONDS, shipper.ADOPT_SECONDS = 0.1, 0.1

pt.install(wire="off")
if os.environ.get("RECORD_AT_IMPORT"):  # so that the shipper's thread runs already where a server forks after it
    with pt.query(qid=f"import-{os.getpid()}") as _query:
        _query.tool_call("t")


def _ask(path: str) -> list[tuple[str, str]]:
    with pt.query(question=path) as query:
        query.tool_call("t")
    return [("x-qid", query.qid), ("x-pid", str(os.getpid()))]


def wsgi(environ: dict[str, Any], start_response: Any) -> list[bytes]:
    """For gunicorn."""
    start_response("200 OK", [*_ask(environ["PATH_INFO"]), ("content-length", "2")])
    return [b"ok"]


async def asgi(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """For uvicorn."""
    if scope["type"] == "lifespan":
        while True:
            kind = (await receive())["type"]
            await send({"type": f"{kind}.complete"})
            if kind == "lifespan.shutdown":
                return
    headers = [(name.encode(), value.encode()) for name, value in _ask(scope["path"])]
    await send({"type": "http.response.start", "status": 200, "headers": [*headers, (b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})
