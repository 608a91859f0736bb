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
from otel_prompt_trace.wire.exchange import Exchange, begin
from otel_prompt_trace.wire.outermost import is_outermost, layer
from otel_prompt_trace.wire.patching import Patch


class _Streams:
    """The two tees of one library, made when it is imported."""

    def __init__(self, module: str) -> None:
        library = import_module(module)
        sync_base: Any = library.SyncByteStream
        async_base: Any = library.AsyncByteStream

        class Tee(sync_base):  # type: ignore[misc]
            """A stream, told of as it is read."""

            def __init__(
                self, inner: Any, each: Callable[[bytes], None], over: Callable[..., None], left: Callable[[], None]
            ) -> None:
                self._inner, self._each, self._over = inner, each, over
                self._left = left  # the garbage collector, too, ends a generator that waits

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

        class AsyncTee(async_base):  # type: ignore[misc]
            """The same for an event loop."""

            def __init__(
                self, inner: Any, each: Callable[[bytes], None], over: Callable[..., None], left: Callable[[], None]
            ) -> None:
                self._inner, self._each, self._over = inner, each, over
                self._left = left  # the garbage collector, too, ends a generator that waits

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

        self.tee, self.async_tee = Tee, AsyncTee
        self.sync_base, self.async_base = sync_base, async_base

    def response(self, stream: Any, exchange: Exchange) -> Any:
        """A response's stream, teed; whoever drops it unread leaves a record all the same."""
        teed = (self.async_tee if isinstance(stream, self.async_base) else self.tee)(
            stream, exchange.seen, exchange.over, exchange.abandoned
        )
        weakref.finalize(teed, exchange.abandoned)
        return teed

    def request(self, stream: Any, exchange: Exchange) -> Any:
        """A request's stream, teed: it is recorded when it has gone out."""

        def over(*, complete: bool, **_error: BaseException | None) -> None:
            if complete:
                exchange.sent()

        made = self.async_tee if isinstance(stream, self.async_base) else self.tee
        return made(stream, exchange.sending, over, lambda: None)


@never_raises
def _begin(request: Any, streams: _Streams) -> Exchange | None:
    if not is_outermost():
        return None
    url = request.url
    host = url.host if url.port is None else f"{url.host}:{url.port}"
    exchange = begin(request.method, host, url.raw_path.partition(b"?")[0].decode("ascii", "replace"))
    if exchange is None:
        return None
    body = getattr(request, "_content", None)  # `content` would raise for a stream
    if isinstance(body, bytes):
        exchange.sent(body)
    else:
        request.stream = streams.request(request.stream, exchange)
    return exchange


@never_raises
def _answered(response: Any, exchange: Exchange, streams: _Streams, *, read: bool) -> None:
    encodings = response.headers.get("content-encoding")
    if read:  # decoded already
        exchange.answered(response.status_code, response.headers.get("content-type"), None)
        exchange.seen(response.content)
        exchange.over(complete=True)
    else:
        exchange.answered(response.status_code, response.headers.get("content-type"), encodings)
        response.stream = streams.response(response.stream, exchange)


def _wrappers(module: str) -> tuple[Any, Any]:
    made: list[_Streams] = []

    def streams() -> _Streams:
        if not made:
            made.append(_Streams(module))
        return made[0]

    def send(wrapped: Any, _client: Any, args: Any, kwargs: Any) -> Any:
        request = args[0] if args else kwargs.get("request")
        exchange = _begin(request, streams())
        if exchange is None:
            return wrapped(*args, **kwargs)
        try:
            with layer():
                response = wrapped(*args, **kwargs)
        except BaseException as error:
            exchange.over(complete=False, error=error)
            raise
        _answered(response, exchange, streams(), read=not kwargs.get("stream", False))
        return response

    async def send_async(wrapped: Any, _client: Any, args: Any, kwargs: Any) -> Any:
        request = args[0] if args else kwargs.get("request")
        exchange = _begin(request, streams())
        if exchange is None:
            return await wrapped(*args, **kwargs)
        try:
            with layer():
                response = await wrapped(*args, **kwargs)
        except BaseException as error:
            exchange.over(complete=False, error=error)
            raise
        _answered(response, exchange, streams(), read=not kwargs.get("stream", False))
        return response

    return send, send_async


def _patches(module: str) -> list[Patch]:
    send, send_async = _wrappers(module)
    takes = ("request", "stream")
    return [Patch(module, "Client.send", send, takes), Patch(module, "AsyncClient.send", send_async, takes)]


PATCHES = [*_patches("httpx2"), *_patches("httpx")]
