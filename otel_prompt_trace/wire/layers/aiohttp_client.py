"""aiohttp: a request of a ``ClientSession``, through all its redirects, in the context that it is awaited in.

    ClientSession._request     where a request begins, and where the application is given its response
    on_request_chunk_sent      the session's own trace hook: the body's bytes, before they are written
    ClientRequest.write_bytes  the span of time in which a body goes out
    ClientResponse.start       a response's head has come: its stream is teed before anybody can read it

A body that is at hand as a whole is recorded before its bytes are written, any other when it has gone out. A redirect
that sends the body again is the same request still: the record names the host that it was meant for.
"""

from __future__ import annotations

import functools
import weakref
from contextlib import AbstractContextManager, nullcontext, suppress
from contextvars import ContextVar
from typing import Any

from otel_prompt_trace.capture.guard import never_raises
from otel_prompt_trace.wire.exchange import Exchange, begin
from otel_prompt_trace.wire.layers.aiohttp_streams import Reading, content_class
from otel_prompt_trace.wire.outermost import layer
from otel_prompt_trace.wire.patching import Patch

_DECODED = {"gzip", "deflate", "br", "zstd"}  # by the library, before its streams are fed


class _Passage:
    """A request on its way. Connections keep the context that they were made in: it must not keep bodies alive."""

    __slots__ = ("_awaited", "_decodes", "_exchange", "_parts", "_reading", "_unsent")

    def __init__(self, exchange: Exchange, *, decodes: bool) -> None:
        self._exchange: Exchange | None = exchange  # until the application is given the response
        self._unsent: Exchange | None = exchange  # until the request is recorded
        self._decodes = decodes
        self._parts: list[bytes] = []
        self._awaited: int | None = None  # bytes of the body that are still to come, where that is known
        self._reading: Reading | None = None

    @never_raises
    def writing(self, body: Any) -> None:
        """A body begins to go out, whose size in bytes is known if it is at hand as a whole."""
        from aiohttp import BytesPayload

        if self._unsent is not None:
            self._parts = []
            self._awaited = body.size if isinstance(body, BytesPayload) else None

    @never_raises
    def chunk(self, data: Any) -> None:
        """The body's next bytes, about to be written."""
        if self._unsent is None:
            return
        self._parts.append(bytes(data))
        if self._awaited is not None:
            self._awaited -= len(self._parts[-1])
            if self._awaited <= 0:
                self.written()

    @never_raises
    def written(self) -> None:
        """All of the body has gone out, or no more of it will."""
        exchange, parts = self._unsent, self._parts
        if exchange is not None and parts:
            self._unsent, self._parts = None, []
            exchange.sent(parts[0] if len(parts) == 1 else b"".join(parts))

    @never_raises
    def answered(self, response: Any) -> None:
        """A response's head has come; that of a redirect is followed by another."""
        exchange = self._exchange
        if exchange is None or isinstance(response.content, content_class()):
            return
        if self._reading is not None:
            self._reading.replaced()
        encodings = response.headers.get("Content-Encoding")
        if self._decodes and encodings is not None and encodings.lower() in _DECODED:
            encodings = None
        exchange.answered(response.status, response.headers.get("Content-Type"), encodings)

        def finish(*, complete: bool, error: BaseException | None) -> None:
            self.written()
            exchange.over(complete=complete, error=error)

        inner = response.content
        reading = Reading(exchange, finish)
        reading.at_rest(inner)
        response.content = content_class()(inner, reading)
        weakref.finalize(response.content, reading.abandoned)
        self._reading = reading

    @never_raises
    def returned(self, response: Any) -> None:
        """The application is given the response."""
        self.answered(response)  # of a class of the application's own, which starts in a way of its own
        reading, self._reading, self._exchange = self._reading, None, None
        if reading is not None:
            reading.settle()

    def layer(self) -> AbstractContextManager[None]:
        """What is sent within is told by this passage."""
        return nullcontext() if self._exchange is None else layer(self._exchange, ends=False)  # :meth:`failed` does

    @never_raises
    def failed(self, error: BaseException, session: Any, options: dict[str, Any]) -> None:
        """The application is given an exception; it may have read a response before, in a hook."""
        if self._unsent is not None and not self._parts and _is_of_the_network(error):
            self.chunk(_at_hand(session, **options) or b"")
        reading, self._reading = self._reading, None
        exchange, self._exchange = self._exchange, None
        self.written()
        self._unsent = None
        if reading is not None:
            reading.replaced()
        if exchange is not None:
            complete = reading is not None and reading.complete
            exchange.over(complete=complete, error=None if complete or isinstance(error, GeneratorExit) else error)


def _at_hand(session: Any, *, data: Any = None, json: Any = None, **_others: Any) -> bytes | None:
    """The body of a request that never came to be written, where the application gave it as a whole."""
    if isinstance(data, bytes | bytearray | memoryview):
        return bytes(data)
    if isinstance(data, str):
        return data.encode()
    if json is None or getattr(session, "_json_serialize_bytes", None) is not None:
        return None
    text: str = session.json_serialize(json)
    return text.encode()


def _is_of_the_network(error: BaseException) -> bool:
    """Whether a request was good, and its host could not be reached, or not within the time that it was given."""
    import asyncio

    from aiohttp import ClientConnectionError

    return isinstance(error, ClientConnectionError | OSError | asyncio.TimeoutError | asyncio.CancelledError)


_passing: ContextVar[_Passage | None] = ContextVar("prompt_trace-aiohttp", default=None)


@functools.cache
def _tracing() -> Any:
    """A trace configuration for sessions; it does nothing outside a request that is captured."""
    from aiohttp import TraceConfig

    async def sent(_session: Any, _context: Any, params: Any) -> None:
        passage = _passing.get()
        if passage is not None:
            passage.chunk(params.chunk)

    tracing = TraceConfig()
    tracing.on_request_chunk_sent.append(sent)
    tracing.freeze()
    return tracing


@never_raises
def _begin(session: Any, method: str, url: Any, options: dict[str, Any]) -> _Passage | None:
    try:
        url = session._build_url(url)  # noqa: SLF001 - with the session's base
    except (ValueError, TypeError):
        return None  # the session says so too
    port = url.explicit_port
    host = url.host or ""
    if port is not None and not url.is_default_port():
        host = f"{host}:{port}"
    exchange = begin(method.upper(), host, url.raw_path)
    if exchange is None:
        return None
    tracing, known = _tracing(), session.trace_configs
    if tracing not in known:
        session._trace_configs = [*known, tracing]  # noqa: SLF001 - the list itself may be the application's
    decodes = options.get("auto_decompress")
    return _Passage(exchange, decodes=session.auto_decompress if decodes is None else decodes)


def _request(wrapped: Any, session: Any, args: Any, kwargs: Any) -> Any:
    method = args[0] if args else kwargs.get("method")
    if _passing.get() is None and not (isinstance(method, str) and method.upper() == "POST"):
        return wrapped(*args, **kwargs)
    return _pass(wrapped, session, args, kwargs)


async def _pass(wrapped: Any, session: Any, args: Any, kwargs: Any) -> Any:
    method = args[0] if args else kwargs.get("method")
    url = args[1] if len(args) > 1 else kwargs.get("str_or_url")
    passage = _begin(session, method, url, kwargs)
    token = _passing.set(passage)
    try:
        if passage is None:
            return await wrapped(*args, **kwargs)
        with passage.layer():
            response = await wrapped(*args, **kwargs)
    except BaseException as error:
        if passage is not None:
            passage.failed(error, session, kwargs)
        raise
    finally:
        with suppress(ValueError):  # closed by the garbage collector, in another context
            _passing.reset(token)
    passage.returned(response)
    return response


_pass.__qualname__ = "ClientSession._request"  # what Python names if nobody awaits it


async def _write_bytes(wrapped: Any, request: Any, args: Any, kwargs: Any) -> Any:
    passage = _passing.get()
    if passage is None:
        return await wrapped(*args, **kwargs)
    passage.writing(request.body)
    result = await wrapped(*args, **kwargs)
    passage.written()
    return result


async def _start(wrapped: Any, _response: Any, args: Any, kwargs: Any) -> Any:
    response = await wrapped(*args, **kwargs)
    passage = _passing.get()
    if passage is not None:
        passage.answered(response)
    return response


PATCHES = [
    Patch("aiohttp", "ClientSession._request", _request, ("method", "str_or_url")),
    Patch("aiohttp", "ClientRequest.write_bytes", _write_bytes, ("writer", "conn")),
    Patch("aiohttp", "ClientResponse.start", _start, ("connection",)),
]
