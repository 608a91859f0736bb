"""Of several captured layers only the outermost one records: the others below it would tell of the same request."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar

_inside: ContextVar[bool] = ContextVar("prompt_trace-wire", default=False)


def is_outermost() -> bool:
    """Whether no layer above is at work here.

    OpenTelemetry's own mark for suppressing instrumentation is not asked: instrumentations of model clients set it, so
    that no HTTP span is made beside theirs, around the very requests that matter here. What the SDK's exporters and our
    own shipper send goes to no model's path.
    """
    return not _inside.get()


@contextmanager
def layer() -> Iterator[None]:
    """What is sent within is told by the layer that entered here."""
    token = _inside.set(True)
    try:
        yield
    finally:
        with suppress(ValueError):  # a coroutine that is closed in another context than it ran in
            _inside.reset(token)
