"""Of several captured layers only the outermost one records: the others below it would tell of the same request.

What a layer below alone can know, that it tries again by itself, it tells the exchange of the one above.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from otel_prompt_trace.wire.exchange import Exchange


class _Above:
    """Holds an exchange while its layer is at work. A copy of its context may live on: in a connection, in a task."""

    __slots__ = ("exchange",)

    def __init__(self, exchange: Exchange) -> None:
        self.exchange: Exchange | None = exchange


_above: ContextVar[_Above | None] = ContextVar("prompt_trace-wire", default=None)


def exchange_above() -> Exchange | None:
    """The exchange of the layer at work above here, None for the outermost layer.

    OpenTelemetry's own mark for suppressing instrumentation is not asked: instrumentations of model clients set it, so
    that no HTTP span is made beside theirs, around the very requests that matter here. What the SDK's exporters and our
    own shipper send goes to no model's path.
    """
    above = _above.get()
    return None if above is None else above.exchange


@contextmanager
def layer(exchange: Exchange, *, ends: bool = True) -> Iterator[None]:
    """What is sent within is told by the layer that entered here; ``ends`` where the exchange is over if that fails."""
    above = _Above(exchange)
    token = _above.set(above)
    try:
        yield
    except BaseException as error:
        if ends:
            exchange.over(complete=False, error=error)
        raise
    finally:
        above.exchange = None
        with suppress(ValueError):  # a coroutine that is closed in another context than it ran in
            _above.reset(token)
