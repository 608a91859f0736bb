"""urllib3: ``urlopen`` of its connection pools, where no captured client stands above it.

A pool tries again, and follows redirects, by calling itself from within: then the attempt under way is over, with what
its history says of it, and the next one begins.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

from otel_prompt_trace.capture.guard import never_raises
from otel_prompt_trace.wire.exchange import Exchange, begin
from otel_prompt_trace.wire.layers import urllib3_requests as sending
from otel_prompt_trace.wire.layers import urllib3_responses as answers
from otel_prompt_trace.wire.outermost import exchange_above, layer
from otel_prompt_trace.wire.patching import Patch

_TAKES = ("method", "url", "body", "headers", "retries")


class _Attempt:
    """One run of ``urlopen``."""

    __slots__ = ("exchange", "pool", "tries")

    def __init__(self, pool: Any, exchange: Exchange, tries: int) -> None:
        self.pool = pool
        self.exchange = exchange
        self.tries = tries  # how many went before it


_under_way: ContextVar[_Attempt | None] = ContextVar("prompt_trace-urllib3", default=None)


@never_raises
def _begin(pool: Any, given: dict[str, Any]) -> _Attempt | None:
    above, retry = _under_way.get(), False
    history: tuple[Any, ...] = getattr(given.get("retries"), "history", ())
    if above is not None and above.pool is pool and len(history) > above.tries:
        last = history[-1]
        if last.status is not None:
            above.exchange.answered(last.status, None, None)
        above.exchange.over(complete=False, error=last.error)
        retry = True
    url, body = given["url"], given.get("body")
    if body is None:
        return None
    here = (sending.host(pool.scheme, pool.host, pool.port), sending.path(url))
    target = here if url.startswith("/") else sending.address(url)
    covering = exchange_above()
    if not retry and covering is not None and covering.covers(*target, body):
        _tell(covering, history)
        return None
    exchange = begin(given["method"].upper(), *target, body, retry=retry)
    if exchange is None:
        return None
    given["body"] = sending.send(body, exchange)
    return _Attempt(pool, exchange, len(history))


def _tell(exchange: Exchange | None, history: tuple[Any, ...]) -> None:
    """The client above has a pool try again for it: each try is an attempt of its exchange."""
    if exchange is not None and len(history) > exchange.tried:
        exchange.tried = len(history)
        exchange.again(history[-1].status, history[-1].error)


@never_raises
def _answered(response: Any, exchange: Exchange) -> None:
    body = getattr(response, "_body", None)
    if body is None:
        answers.tee(response, exchange)
    else:
        decoded = response.decode_content and getattr(response, "_decoder", None) is not None
        answers.whole(response, exchange, body, decoded=decoded)


def _urlopen(wrapped: Any, pool: Any, args: Any, kwargs: Any) -> Any:
    given = {**dict(zip(_TAKES, args, strict=False)), **kwargs}
    attempt = _begin(pool, given)
    if attempt is None:
        return wrapped(*args, **kwargs)
    args = [*(given.pop(name) for name in _TAKES[: len(args)]), *args[len(_TAKES) :]]
    token = _under_way.set(attempt)
    try:
        with layer(attempt.exchange):
            response = wrapped(*args, **given)
    finally:
        _under_way.reset(token)
    _answered(response, attempt.exchange)  # of an attempt that was followed by another, nothing more is told
    return response


PATCHES = [Patch("urllib3.connectionpool", "HTTPConnectionPool.urlopen", _urlopen, _TAKES)]
