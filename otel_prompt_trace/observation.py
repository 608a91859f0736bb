"""What the pipeline says of itself, through OpenTelemetry's metrics API: named as the SDK names its own metrics.

======================================  ==================  ========================================================
``prompt_trace.event.recorded``         counter, {event}    handed to the pipeline by this process
``prompt_trace.event.processed``        counter, {event}    that left it: stored, or lost: then with ``error.type``,
                                                            the reason, 0 for each of them from the start
``prompt_trace.event.adopted``          counter, {event}    left by processes that are gone, and stored by this one
``prompt_trace.queue.size``             up-down, {event}    that wait
``prompt_trace.queue.age``              gauge, s            how long the oldest of them has waited
``prompt_trace.spool.usage``            up-down, By         what the spool takes: its folder, whoever's the files are
``prompt_trace.spool.limit``            up-down, By         its bound
``prompt_trace.ship.duration``          histogram, s        one write of a query to the store; with ``error.type``
                                                            where it failed
======================================  ==================  ========================================================

``recorded`` is at any moment ``processed`` and ``queue.size`` together. Nothing is counted for it on the application's
threads beyond what the books count anyway: the instruments look when a reader asks. They are made once in a process
and observe nothing while nothing is installed.
"""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable, Iterable
from typing import Any

from opentelemetry import metrics
from opentelemetry.metrics import CallbackOptions, Observation

from otel_prompt_trace._version import __version__
from otel_prompt_trace.current import current
from otel_prompt_trace.pipeline.accounting import REASONS

METER = "otel_prompt_trace"
Timing = Callable[[float, "str | None"], None]

_log = logging.getLogger("otel_prompt_trace")
_BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_made: weakref.WeakKeyDictionary[Any, Timing] = weakref.WeakKeyDictionary()


def observe() -> Timing:
    """Make the instruments of the global provider, once, also where it is set later.

    Returns:
        What tells the histogram how long a write took, in seconds, and the name of its error.
    """
    try:
        provider = metrics.get_meter_provider()
        found = _made.get(provider)
        if found is None:
            found = _made[provider] = _instruments(metrics.get_meter(METER, __version__))
    except Exception as error:  # noqa: BLE001 - a provider that is not the SDK's: records go on without metrics
        _log.warning("The pipeline has no metrics here: %s", type(error).__name__)
        return lambda _seconds, _error: None
    return found


def _instruments(meter: metrics.Meter) -> Timing:
    meter.create_observable_counter("prompt_trace.event.recorded", [_recorded], "{event}", "Events recorded.")
    meter.create_observable_counter(
        "prompt_trace.event.processed", [_processed], "{event}", "Events stored, or lost for a reason."
    )
    meter.create_observable_counter(
        "prompt_trace.event.adopted", [_adopted], "{event}", "Events of processes that are gone, stored by this one."
    )
    meter.create_observable_up_down_counter("prompt_trace.queue.size", [_waiting], "{event}", "Events that wait.")
    meter.create_observable_gauge("prompt_trace.queue.age", [_age], "s", "How long the oldest event has waited.")
    meter.create_observable_up_down_counter("prompt_trace.spool.usage", [_usage], "By", "Bytes that the spool takes.")
    meter.create_observable_up_down_counter("prompt_trace.spool.limit", [_limit], "By", "The bound of the spool.")
    try:
        duration = meter.create_histogram(
            "prompt_trace.ship.duration",
            "s",
            "One write of a query to the store.",
            explicit_bucket_boundaries_advisory=_BOUNDS,
        )
    except TypeError:  # an older API has no advice
        duration = meter.create_histogram("prompt_trace.ship.duration", "s", "One write of a query to the store.")

    def timing(seconds: float, error: str | None) -> None:
        duration.record(seconds, {"error.type": error} if error else {})

    return timing


def _recorded(_: CallbackOptions) -> Iterable[Observation]:
    runtime = current()
    return [] if runtime is None else [Observation(runtime.accounts.recorded)]


def _processed(_: CallbackOptions) -> Iterable[Observation]:
    runtime = current()
    if runtime is None:
        return []
    result = runtime.accounts.result()
    # Each reason from the start: a series that begins with its first loss shows no increase.
    counts: dict[str, int] = {**{str(reason): 0 for reason in REASONS}, **result.reasons}
    lost = [Observation(count, {"error.type": reason}) for reason, count in sorted(counts.items())]
    return [Observation(result.stored), *lost]


def _adopted(_: CallbackOptions) -> Iterable[Observation]:
    runtime = current()
    return [] if runtime is None else [Observation(runtime.accounts.adopted)]


def _waiting(_: CallbackOptions) -> Iterable[Observation]:
    runtime = current()
    return [] if runtime is None else [Observation(runtime.accounts.result().spooled)]


def _age(_: CallbackOptions) -> Iterable[Observation]:
    runtime = current()
    return [] if runtime is None else [Observation(runtime.oldest_seconds)]


def _usage(_: CallbackOptions) -> Iterable[Observation]:
    runtime = current()
    return [] if runtime is None else [Observation(runtime.spool_bytes)]


def _limit(_: CallbackOptions) -> Iterable[Observation]:
    runtime = current()
    return [] if runtime is None else [Observation(runtime.spool_limit)]
