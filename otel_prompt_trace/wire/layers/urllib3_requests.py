"""What urllib3 is given to send, by whatever client stands above it: the host, the path, and the body.

A body that is bytes or text is read. A file or an iterable is teed by a proxy that is the very same to everybody who
asks: it is read once, by the client, and told of when the last of it has gone out. Where a client goes back to its
start, so do we.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import quote, urlsplit

import wrapt

from otel_prompt_trace.capture.guard import never_raises
from otel_prompt_trace.wire.exchange import Exchange, begin

_Proxy: Any = wrapt.ObjectProxy
_SENT_AS_IT_IS = "/%:@!$&'()*+,;=~"
_PORTS = {"http": 80, "https": 443}


def address(url: str) -> tuple[str, str]:
    """The host (``name`` or, where the port is not the scheme's own, ``name:port``) and the path of a URL, as sent."""
    parts = urlsplit(url)
    return host(parts.scheme, parts.hostname or "", parts.port), path(parts.path or "/")


def host(scheme: str | None, name: str, port: int | None) -> str:
    """A host's name with its port, where that is not the scheme's own."""
    if ":" in name and not name.startswith("["):
        name = f"[{name}]"
    return name if port is None or port == _PORTS.get(scheme or "") else f"{name}:{port}"


def path(target: str) -> str:
    """The path of a request's target, without its query."""
    return quote(target.partition("#")[0].partition("?")[0], safe=_SENT_AS_IT_IS)


@never_raises
def begin_prepared(request: Any) -> Exchange | None:
    """An exchange for a request that a client above urllib3 has prepared, told of its body."""
    body = getattr(request, "body", None)
    if body is None:
        return None
    exchange = begin(request.method, *address(request.url), body)
    if exchange is not None and (teed := send(body, exchange)) is not body:
        request.body = teed
    return exchange


@never_raises
def give_back(requests: Iterable[Any]) -> None:
    """Nobody finds a proxy of ours where the application put its own body."""
    for request in requests:
        if is_teed(getattr(request, "body", None)):
            request.body = as_given(request.body)


def send(body: Any, exchange: Exchange) -> Any:
    """Tell of a body; what is to be sent in its place is the body itself, or a proxy of it where it is streamed."""
    body = as_given(body)  # at a retry: it was teed for the attempt before this one
    if isinstance(body, str):
        with contextlib.suppress(UnicodeEncodeError):  # the client will find out by itself
            exchange.sent(_encoded(body))
    elif hasattr(body, "read"):
        return _File(body, exchange)
    elif (data := _bytes(body)) is not None:
        exchange.sent(data)
    elif hasattr(body, "__iter__"):
        return _Body(body, exchange)
    return body


def is_teed(body: Any) -> bool:
    """Whether a body is a proxy of ours."""
    return issubclass(type(body), _Body)  # a proxy's ``__class__`` is that of what it stands for


def as_given(body: Any) -> Any:
    """The body that the application gave, be it teed or not."""
    return body.__wrapped__ if is_teed(body) else body


def _bytes(data: Any) -> bytes | None:
    """A copy of bytes in whatever form; None for anything else."""
    try:
        return data if isinstance(data, bytes) else bytes(memoryview(data))
    except TypeError:
        return None


def _encoded(text: str) -> bytes:
    """A text as it goes out: urllib3 2 sends UTF-8; before, that was left to the standard library."""
    from urllib3._version import __version__ as version  # the one place that all versions have in common

    return text.encode("latin-1" if str(version).startswith("1.") else "utf-8")


class _Reading:
    """What was read of a body, until all of it was."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._read: list[bytes] | None = []

    def again(self) -> None:
        """It is read from its start, or from elsewhere than where it was left."""
        if self._read is not None:
            self._read.clear()

    def told(self, part: Any) -> None:
        if self._read is not None:
            with contextlib.suppress(UnicodeEncodeError):
                self._read.append((_encoded(part) if isinstance(part, str) else _bytes(part)) or b"")

    def ended(self) -> None:
        if self._read is not None:
            read, self._read = self._read, None
            self._exchange.sent(b"".join(read))


class _Body(_Proxy):  # type: ignore[misc]
    """An iterable, or another body that can be read only once."""

    def __init__(self, body: Any, exchange: Exchange) -> None:
        super().__init__(body)
        self._self_reading = _Reading(exchange)

    def __iter__(self) -> Iterator[Any]:
        iterator = iter(self.__wrapped__)
        if iterator is not self.__wrapped__:
            self._self_reading.again()
        return _Iterator(iterator, self._self_reading)

    def __next__(self) -> Any:
        return next(_Iterator(self.__wrapped__, self._self_reading))


class _File(_Body):
    """A file, or whatever reads like one."""

    def read(self, *args: Any, **kwargs: Any) -> Any:
        data = self.__wrapped__.read(*args, **kwargs)
        if data:
            self._self_reading.told(data)
        elif not args or args[0] != 0:
            self._self_reading.ended()
        return data

    def seek(self, *args: Any, **kwargs: Any) -> Any:
        self._self_reading.again()
        return self.__wrapped__.seek(*args, **kwargs)


class _Iterator:
    """Passes on what it is given, and tells of it."""

    def __init__(self, inner: Iterator[Any], reading: _Reading) -> None:
        self._inner, self._reading = inner, reading

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        try:
            part = next(self._inner)
        except StopIteration:
            self._reading.ended()
            raise
        self._reading.told(part)
        return part
