"""httpx2 and httpx: ``send`` of the clients, where the current span is still the model call's.

Below it, at the transports, an instrumentation's own span would be the current one, and clients with a transport of
their own would pass us by. A body that is streamed, in either direction, is teed by a subclass of the library's own
stream class: anything else they refuse.
"""

from __future__ import annotations

import weakref
from collections.abc import AsyncIterator, Callable, Iterator
from importlib import import_module
from typing import Any

from otel_prompt_trace.capture.guard import never_raises
from otel_prompt_trace.wire.exchange import Exchange, Hop, begin
from otel_prompt_trace.wire.outermost import layer
from otel_prompt_trace.wire.patching import Patch


class _Told:
    """What a tee has of the stream that it stands before."""

    def __init__(
        self, inner: Any, each: Callable[[bytes], None], over: Callable[..., None], left: Callable[[], None]
    ) -> None:
        self._inner, self._each, self._over = inner, each, over
        self._left = left  # the garbage collector, too, ends a generator that waits

    def __getattr__(self, name: str) -> Any:
        """What is asked of the stream beside reading it; a copy in the making has none yet."""
        inner = vars(self).get("_inner")
        if inner is None or name.startswith("__"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(inner, name)


def _tee_of(base: Any) -> Any:
    """A subclass of a library's stream class that is told of as it is read."""

    class Tee(_Told, base):  # type: ignore[misc]
        def __iter__(self) -> Iterator[bytes]:
            try:
                for chunk in self._inner:
                    self._each(chunk)
                    yield chunk
            except GeneratorExit:
                self._left()
                raise
            except BaseException as error:
                self._over(complete=False, error=error)
                raise
            self._over(complete=True)

        def close(self) -> None:
            try:
                self._inner.close()
            finally:
                self._over(complete=False)

    return Tee


def _async_tee_of(base: Any) -> Any:
    """The same for an event loop."""

    class AsyncTee(_Told, base):  # type: ignore[misc]
        async def __aiter__(self) -> AsyncIterator[bytes]:
            try:
                async for chunk in self._inner:
                    self._each(chunk)
                    yield chunk
            except GeneratorExit:
                self._left()
                raise
            except BaseException as error:
                self._over(complete=False, error=error)
                raise
            self._over(complete=True)

        async def aclose(self) -> None:
            try:
                await self._inner.aclose()
            finally:
                self._over(complete=False)

    return AsyncTee


class _Streams:
    """The two tees of one library, made when it is imported."""

    def __init__(self, module: str) -> None:
        library = import_module(module)
        self.tee, self.async_tee = _tee_of(library.SyncByteStream), _async_tee_of(library.AsyncByteStream)

    def response(self, stream: Any, exchange: Exchange, *, sync: bool) -> Any:
        """A response's stream, teed; whoever drops it unread leaves a record all the same."""
        made = self.tee if sync else self.async_tee  # a stream may be of both kinds: the client's counts
        teed = made(stream, exchange.seen, exchange.over, exchange.abandoned)
        weakref.finalize(teed, exchange.abandoned)
        return teed

    def request(self, stream: Any, exchange: Exchange, *, sync: bool) -> Any:
        """A request's stream, teed: it is recorded when it has gone out."""

        def over(*, complete: bool, **_error: BaseException | None) -> None:
            if complete:
                exchange.sent()

        made = self.tee if sync else self.async_tee  # a stream may be of both kinds: the client's counts
        return made(stream, exchange.sending, over, lambda: None)


def _target(url: Any) -> tuple[str, str]:
    host = url.host if url.port is None else f"{url.host}:{url.port}"
    return host, url.raw_path.partition(b"?")[0].decode("ascii", "replace")


def _body(request: Any) -> Any:
    return getattr(request, "_content", None)  # `content` would raise for a stream


@never_raises
def _went_out(response: Any, exchange: Exchange) -> None:
    """What hooks made of the request, and the further ones that auth flows and redirects led to."""
    answers = [*response.history, response]
    exchange.went_out([Hop(*_target(a.request.url), _body(a.request), a.status_code) for a in answers])


@never_raises
def _begin(request: Any, streams: _Streams, *, sync: bool) -> Exchange | None:
    body = _body(request)
    exchange = begin(request.method, *_target(request.url), body)
    if exchange is None:
        return None
    if isinstance(body, bytes):
        exchange.sent(body)
    else:
        request.stream = streams.request(request.stream, exchange, sync=sync)
    return exchange


@never_raises
def _answered(response: Any, exchange: Exchange, streams: _Streams, *, read: bool, sync: bool) -> None:
    _went_out(response, exchange)
    encodings = response.headers.get("content-encoding")
    kept = isinstance(getattr(response, "_content", None), bytes)  # `content` would raise for one that was not read
    if read or kept:  # by the client, a hook or an auth flow; decoded already
        exchange.answered(response.status_code, response.headers.get("content-type"), None)
        exchange.seen(response.content)
        exchange.over(complete=True)
    elif response.is_stream_consumed:  # read by a hook that kept it for itself: nobody reads it a second time
        exchange.answered(response.status_code, response.headers.get("content-type"), encodings)
        exchange.abandoned()
    else:
        exchange.answered(response.status_code, response.headers.get("content-type"), encodings)
        response.stream = streams.response(response.stream, exchange, sync=sync)


def _wrappers(module: str) -> tuple[Any, Any]:
    made: list[_Streams] = []

    def streams() -> _Streams:
        if not made:
            made.append(_Streams(module))
        return made[0]

    def send(wrapped: Any, _client: Any, args: Any, kwargs: Any) -> Any:
        request = args[0] if args else kwargs.get("request")
        exchange = _begin(request, streams(), sync=True)
        if exchange is None:
            return wrapped(*args, **kwargs)
        with layer(exchange):
            response = wrapped(*args, **kwargs)
        _answered(response, exchange, streams(), read=not kwargs.get("stream", False), sync=True)
        return response

    async def send_async(wrapped: Any, _client: Any, args: Any, kwargs: Any) -> Any:
        request = args[0] if args else kwargs.get("request")
        exchange = _begin(request, streams(), sync=False)
        if exchange is None:
            return await wrapped(*args, **kwargs)
        with layer(exchange):
            response = await wrapped(*args, **kwargs)
        _answered(response, exchange, streams(), read=not kwargs.get("stream", False), sync=False)
        return response

    return send, send_async


def _patches(module: str) -> list[Patch]:
    send, send_async = _wrappers(module)
    takes = ("request", "stream")
    return [Patch(module, "Client.send", send, takes), Patch(module, "AsyncClient.send", send_async, takes)]


PATCHES = [*_patches("httpx2"), *_patches("httpx")]
