"""urllib3's responses, told of as the application reads them, whichever client handed them out.

The response stays the object that it is: only its class becomes a subclass of its own class, which overrides what
gives bytes to a caller. One of these calls another, so only the outermost call tells, and no byte is told twice. The
end is where urllib3 itself sees it: the connection's file is closed, and nothing that was decoded is left.

Bytes are told as they were given: decoded where urllib3 decoded them, else with the names of their encodings. An
object that the garbage collector takes closes itself; then it is only noted, as :mod:`..exchange` asks for it.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterator
from typing import Any

from otel_prompt_trace.capture.guard import never_raises
from otel_prompt_trace.wire.exchange import Exchange

_TEE = "_prompt_trace_tee"


class _Tee:
    """What one response tells, kept on the response itself."""

    __slots__ = ("busy", "exchange", "raw")

    def __init__(self, exchange: Exchange) -> None:
        self.exchange = exchange
        self.busy = False  # one of ours is at work: what it calls tells nothing
        self.raw = True  # until something was decoded

    @never_raises
    def told(self, response: Any, data: Any, *, decoded: bool, last: bool) -> None:
        """The caller is given ``data``; ``last`` where nothing can follow."""
        if data:
            if self.raw and decoded and getattr(response, "_decoder", None) is not None:
                self.raw = False
                head(response, self.exchange, decoded=True)
            self.exchange.seen(data)
        if last or _is_at_its_end(response):
            self.exchange.over(complete=not getattr(response, "length_remaining", None))


def head(response: Any, exchange: Exchange, *, decoded: bool) -> None:
    """The head of a response has come; ``decoded`` where its body will be told without its content encodings."""
    encodings = None if decoded else response.headers.get("content-encoding")
    exchange.answered(response.status, response.headers.get("content-type"), encodings)


def tee(response: Any, exchange: Exchange) -> None:
    """Have a response told of as it is read; one that is no response of urllib3's is over right away, unfinished."""
    head(response, exchange, decoded=False)
    if not hasattr(type(response), "read_chunked") or _TEE in vars(response):
        exchange.over(complete=False)
        return
    setattr(response, _TEE, _Tee(exchange))
    kind: Any = type(response)
    response.__class__ = _teed(kind)
    weakref.finalize(response, exchange.abandoned)
    if response.length_remaining == 0 and response.tell() == 0:  # there is no body to read
        exchange.over(complete=True)


def whole(response: Any, exchange: Exchange, body: bytes, *, decoded: bool) -> None:
    """A response whose body was read already, all of it."""
    head(response, exchange, decoded=decoded)
    exchange.seen(body)
    exchange.over(complete=not getattr(response, "length_remaining", None))


def _is_at_its_end(response: Any) -> bool:
    """Whether all was read and given out: the condition under which urllib3's own ``stream`` ends."""
    inside = vars(response)
    if inside.get("_decoded_buffer") or getattr(inside.get("_decoder"), "has_unconsumed_tail", False):
        return False
    return inside.get("_fp") is None or bool(response.isclosed())


@functools.cache
def _teed(base: Any) -> Any:
    """The subclass of a response's class that tells."""
    own: dict[str, Any] = {
        name: _reading(getattr(base, name))
        for name in ("read", "read1")  # the others call these; what a class lacks stays lacking
        if hasattr(base, name)
    }
    own["read_chunked"] = _reading_chunks(base.read_chunked)
    own["drain_conn"] = _silent(base.drain_conn)
    own["close"] = _closing(base.close)
    own |= {"__module__": base.__module__, "__qualname__": base.__qualname__, "__doc__": base.__doc__}
    return type(base.__name__, (base,), own)


def _reading(read: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(read)
    def teed(self: Any, *args: Any, **kwargs: Any) -> Any:
        told: _Tee = getattr(self, _TEE)
        if told.busy:
            return read(self, *args, **kwargs)
        told.busy = True
        try:
            data = read(self, *args, **kwargs)
        except BaseException as error:
            told.exchange.over(complete=False, error=error)
            raise
        finally:
            told.busy = False
        amount = args[0] if args else kwargs.get("amt")
        decode = args[1] if len(args) > 1 else kwargs.get("decode_content")
        everything = read.__name__ == "read" and (amount is None or amount < 0)
        told.told(self, data, decoded=bool(self.decode_content if decode is None else decode), last=everything)
        return data

    return teed


def _reading_chunks(read_chunked: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
    @functools.wraps(read_chunked)
    def teed(self: Any, *args: Any, **kwargs: Any) -> Iterator[Any]:
        told: _Tee = getattr(self, _TEE)
        amount = args[0] if args else kwargs.get("amt")
        decode = args[1] if len(args) > 1 else kwargs.get("decode_content")
        chunks = read_chunked(self, *args, **kwargs)
        try:
            while True:
                told.busy = True
                try:
                    chunk = next(chunks, _NO_MORE)
                finally:
                    told.busy = False
                if chunk is _NO_MORE:
                    break
                told.told(self, chunk, decoded=bool(decode), last=False)
                yield chunk
        except GeneratorExit:  # by whom it was left, or by the garbage collector: nobody can tell
            chunks.close()  # type: ignore[attr-defined]
            told.exchange.abandoned()
            raise
        except BaseException as error:
            told.exchange.over(complete=False, error=error)
            raise
        if amount != 0:
            told.told(self, None, decoded=False, last=True)

    return teed


_NO_MORE = object()


def _silent(drain: Callable[..., Any]) -> Callable[..., Any]:
    """The connection is emptied for its next user: the caller is given nothing of it."""

    @functools.wraps(drain)
    def teed(self: Any, *args: Any, **kwargs: Any) -> Any:
        told: _Tee = getattr(self, _TEE)
        told.exchange.over(complete=False)
        before, told.busy = told.busy, True
        try:
            return drain(self, *args, **kwargs)
        finally:
            told.busy = before

    return teed


def _closing(close: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(close)
    def teed(self: Any, *args: Any, **kwargs: Any) -> Any:
        told: _Tee = getattr(self, _TEE)
        try:
            return close(self, *args, **kwargs)
        finally:
            if getattr(self, "_finalizing", False):  # set by the finalizer of every stream of the io module
                told.exchange.abandoned()
            elif not told.busy:
                told.exchange.over(complete=False)

    return teed
