"""Middleware for ASGI and WSGI: the caller gets the qid back in the header ``x-prompt-trace-qid``.

The header names the query that the application opened while it made the response; there is none where it opened no
query before the response began.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, MutableMapping
from contextvars import Context, copy_context
from typing import Any

from otel_prompt_trace.capture.context import Slot, attach, detach, with_slot

HEADER = "x-prompt-trace-qid"

_Message = MutableMapping[str, Any]
_ASGIApp = Callable[
    [_Message, Callable[[], Awaitable[_Message]], Callable[[_Message], Awaitable[None]]], Awaitable[None]
]
_WSGIApp = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


class ASGIMiddleware:
    """Wrap an ASGI application: ``app = ASGIMiddleware(app)``."""

    def __init__(self, app: _ASGIApp) -> None:
        self._app = app

    async def __call__(
        self, scope: _Message, receive: Callable[[], Awaitable[_Message]], send: Callable[[_Message], Awaitable[None]]
    ) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        slot = Slot()

        async def send_with_qid(message: _Message) -> None:
            if message["type"] == "http.response.start" and slot.qid is not None:
                headers = [*message.get("headers", ()), (HEADER.encode(), slot.qid.encode())]
                message = {**message, "headers": headers}
            await send(message)

        attached = attach(with_slot(slot))
        try:
            await self._app(scope, receive, send_with_qid)
        finally:
            detach(attached)


class WSGIMiddleware:
    """Wrap a WSGI application: ``app.wsgi_app = WSGIMiddleware(app.wsgi_app)``."""

    def __init__(self, app: _WSGIApp) -> None:
        self._app = app

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        """Answer one request."""
        slot = Slot()
        started = False

        def start_with_qid(status: str, headers: list[tuple[str, str]], *rest: Any) -> Any:
            nonlocal started
            started = True
            if slot.qid is not None:
                headers = [*headers, (HEADER, slot.qid)]
            return start_response(status, headers, *rest)

        attached = attach(with_slot(slot))
        try:
            body = self._app(environ, start_with_qid)
            # An application that is a generator has not begun yet, and begins when somebody asks for its first chunk.
            return body if started else _LateBody(body, copy_context())
        finally:
            detach(attached)


class _LateBody:
    """The body of a response that has not begun: produced in the context in which the application was called."""

    def __init__(self, body: Iterable[bytes], scope: Context) -> None:
        self._body = body
        self._scope = scope
        self._chunks: Iterator[bytes] | None = None

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        if self._chunks is None:
            self._chunks = self._scope.run(iter, self._body)
        return self._scope.run(next, self._chunks)

    def close(self) -> None:
        close = getattr(self._body, "close", None)
        if close is not None:
            self._scope.run(close)
