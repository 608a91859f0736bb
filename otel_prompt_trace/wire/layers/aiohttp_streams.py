"""The body of an aiohttp response, told of as the application reads it.

A response's ``content`` is replaced by a stream of the library's own class, which stands for the one that the
connection feeds: every attribute, public or not, is that one's, and so is every wait, so that chunks, order, pressure
on the connection and errors stay what they are. Only what a read has returned is told; nothing is read ahead.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Awaitable, Callable
from typing import Any

from otel_prompt_trace.capture.guard import never_raises
from otel_prompt_trace.wire.exchange import Exchange


class Reading:
    """What the application has read of one response. Its end is held back until the request's own is ``settled``.

    It outlives the stream, to tell of one that was dropped, and so must not know it: it is handed over in each call.
    Nor does it keep an exception, whose traceback knows the stream, but only of what kind it was.
    """

    __slots__ = ("_ended", "_error", "_exchange", "_finish", "_settled", "_skip")

    def __init__(self, exchange: Exchange, finish: Callable[..., None]) -> None:
        self._exchange: Exchange | None = exchange
        self._finish: Callable[..., None] | None = finish
        self._ended: bool | None = None  # whether it was read to its end; None while it may be read on
        self._error: type[BaseException] | None = None
        self._settled = False
        self._skip = 0  # bytes that the application has put back

    @property
    def complete(self) -> bool:
        """Whether the application has read it to its end."""
        return self._ended is True

    def told(self, stream: Any, data: bytes) -> None:
        """A read has returned these bytes."""
        self._error = None
        if self._exchange is None:
            return
        if self._skip:
            again = min(self._skip, len(data))
            self._skip -= again
            data = data[again:]
        self._exchange.seen(data)
        self.at_rest(stream)

    def failed(self, stream: Any, error: BaseException) -> None:
        """A read has raised. One that was cancelled or ran into a limit may be tried again."""
        partial = getattr(error, "partial", None)
        if isinstance(partial, bytes):  # the stream ended before as many bytes as were asked for
            self.told(stream, partial)
        elif stream.exception() is not None:
            self._end(False, type(error))
        else:
            self._error = type(error)

    def put_back(self, data: bytes) -> None:
        """The application has put bytes back, and will read them once more."""
        self._skip += len(data)

    def closed(self, stream: Any) -> None:
        """The response was closed or released, by whomever."""
        self._end(stream.at_eof(), self._error)

    def at_rest(self, stream: Any) -> None:
        """End here if there is nothing left to read."""
        if stream.at_eof():
            self._end(True, None)

    def settle(self) -> None:
        """The application has been given the response."""
        self._settled = True
        if self._ended is not None:
            self._end(self._ended, self._error)

    def replaced(self) -> None:
        """Another response takes this one's place: it was a redirect."""
        self._exchange = self._finish = None

    def abandoned(self) -> None:
        """The stream is gone. Called by its finalizer: nothing is recorded here."""
        if self._exchange is not None:
            self._exchange.abandoned()

    def _end(self, complete: bool, error: type[BaseException] | None) -> None:
        if self._ended is None:
            self._ended, self._error = complete, error
        if self._settled and self._finish is not None:
            finish, self._finish, self._exchange = self._finish, None, None
            kind = None if self._ended else self._error
            finish(complete=self._ended, error=None if kind is None else kind.__new__(kind))


_told = never_raises(Reading.told)
_failed = never_raises(Reading.failed)
_closed = never_raises(Reading.closed)
_put_back = never_raises(Reading.put_back)


class _Telling:
    """Stands for a stream of the library's, and tells what is read of it; what is not defined here is the stream's."""

    _told_inner: Any
    _told_reading: Reading

    def __init__(self, inner: Any, reading: Reading) -> None:
        object.__setattr__(self, "_told_inner", inner)
        object.__setattr__(self, "_told_reading", reading)

    def __getattribute__(self, name: str) -> Any:
        if name in _OWN:
            return object.__getattribute__(self, name)
        return getattr(object.__getattribute__(self, "_told_inner"), name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._told_inner, name, value)

    def __repr__(self) -> str:
        return repr(self._told_inner)

    async def _tell(self, wait: Awaitable[bytes]) -> bytes:
        try:
            data = await wait
        except BaseException as error:
            _failed(self._told_reading, self._told_inner, error)
            raise
        _told(self._told_reading, self._told_inner, data)
        return data

    async def read(self, n: int = -1) -> bytes:
        if n >= 0:
            return await self._tell(self._told_inner.read(n))
        # By parts, as the library does it: if the connection breaks, what had come by then has been seen.
        inner = self._told_inner
        await inner.read(0)
        if hasattr(inner, "set_read_chunk_size"):
            inner.set_read_chunk_size(sys.maxsize)
        parts = []
        while part := await self.readany():
            parts.append(part)
        return b"".join(parts)

    async def readany(self) -> bytes:
        return await self._tell(self._told_inner.readany())

    async def readexactly(self, n: int) -> bytes:
        return await self._tell(self._told_inner.readexactly(n))

    async def readline(self, *args: Any, **kwargs: Any) -> bytes:
        return await self._tell(self._told_inner.readline(*args, **kwargs))

    async def readuntil(self, *args: Any, **kwargs: Any) -> bytes:
        return await self._tell(self._told_inner.readuntil(*args, **kwargs))

    async def readchunk(self) -> tuple[bytes, bool]:
        try:
            data, whole = await self._told_inner.readchunk()
        except BaseException as error:
            _failed(self._told_reading, self._told_inner, error)
            raise
        _told(self._told_reading, self._told_inner, data)
        return data, whole

    def read_nowait(self, n: int = -1) -> bytes:
        data: bytes = self._told_inner.read_nowait(n)
        _told(self._told_reading, self._told_inner, data)
        return data

    def unread_data(self, data: bytes) -> None:
        self._told_inner.unread_data(data)
        _put_back(self._told_reading, data)

    def set_exception(self, *args: Any, **kwargs: Any) -> None:
        # The connection tells its own stream of errors; this one is told by the response alone, on its end.
        _closed(self._told_reading, self._told_inner)
        self._told_inner.set_exception(*args, **kwargs)


# The iterators are the library's own, over the methods above.
_OWN = {"iter_any", "iter_chunked", "iter_chunks", "__class__", "_tell", "_told_inner", "_told_reading"}
_OWN |= {name for name in vars(_Telling) if not name.startswith("_")}


@functools.cache
def content_class() -> Any:
    """The class of the streams that tell, a subclass of the library's own; made once, when aiohttp is there."""
    from aiohttp import StreamReader

    return type("StreamReader", (_Telling, StreamReader), {"__doc__": _Telling.__doc__})
