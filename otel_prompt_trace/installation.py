"""``install()`` and ``uninstall()``: nothing is recorded until asked, and everything is undone again."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

from opentelemetry import trace

from otel_prompt_trace.current import current, set_current
from otel_prompt_trace.pipeline.accounting import FlushResult
from otel_prompt_trace.settings import Settings, load

if TYPE_CHECKING:
    from otel_prompt_trace.pipeline.delivery.together import Store
    from otel_prompt_trace.sources import Sources
    from otel_prompt_trace.wire.rules import Rules


class _Removable(Protocol):
    def remove(self) -> None:
        """Undo it."""


# What threads of the application come to need: a child that is forked while one of them imports it could never do so.
_RECORDING = (
    "hashlib",
    *(
        f"otel_prompt_trace.capture.{name}"
        for name in ("carrying", "declaring", "feedback", "opening", "packing", "placement")
    ),
)
_log = logging.getLogger("otel_prompt_trace")
_lock = threading.Lock()
_installed: list[_Removable] = []


def install(
    *,
    store: str | None = None,
    spool: str | None = None,
    durability: str | None = None,
    policy: str | None = None,
    tracer_provider: Any = None,
    sources: Sources | None = None,
    **settings: Any,
) -> bool:
    """Begin to record. Calling it again with other settings replaces them; with the same it does nothing.

    Args:
        store, spool, durability, policy, settings: as the variables of :mod:`otel_prompt_trace.settings`.
        tracer_provider: makes our spans, and its flush and shutdown reach us; by default the global one.
        sources: clock, ids and jitter, for tests.

    Returns:
        Whether anything is recorded: False where ``PROMPT_TRACE_ENABLED=false`` or ``OTEL_SDK_DISABLED=true``.

    Raises:
        ConfigurationError: a setting that can't be used; nothing was changed.
        TypeError: there is no such setting.
    """
    loaded = load(store=store, spool=spool, durability=durability, policy=policy, **settings)
    if not loaded.enabled:
        uninstall()
        return False
    from otel_prompt_trace.runtime import Runtime
    from otel_prompt_trace.store.opening import check_url

    check_url(loaded.store)
    for name in _RECORDING:
        import_module(name)
    with _lock:
        running = current()
        if running is None or running.settings != loaded:
            provider = tracer_provider or trace.get_tracer_provider()
            rules = _wire_rules(loaded)
            runtime = Runtime(loaded, _open_payloads, sources=sources, tracer_provider=tracer_provider)
            runtime.wire = rules
            runtime.describe(_resource(provider))
            before = set_current(runtime)
            if before is not None:
                _detach()
                before.close()
            _log.info(
                "prompt-trace records: store=%s spool=%s durability=%s wire=%s policy=%s",
                shown(loaded),
                loaded.spool,
                runtime.durability,
                loaded.wire,
                loaded.policy,
            )
        if loaded.wire == "on":
            _capture_wire()
        if not attach(tracer_provider) and tracer_provider is None:
            _await_provider()
    return True


def pre_instrument() -> None:
    """Entry point of ``opentelemetry-instrument``: install if ``PROMPT_TRACE_STORE`` is set. Never raises.

    An exception here would abort every instrumentation of the application.
    """
    if not os.environ.get("PROMPT_TRACE_STORE"):
        return
    try:
        install()
    except Exception as error:  # noqa: BLE001 - see above
        _log.warning("prompt-trace does not record: %s", error)


def uninstall() -> None:
    """Stop recording, deliver once what waits, and let go of the tracer provider."""
    with _lock:
        _detach()
        runtime = set_current(None)
    if runtime is not None:
        runtime.close()


def flush(timeout: float = 30.0) -> FlushResult:
    """Deliver everything recorded so far, waiting up to ``timeout`` seconds; in async code, use :func:`aflush`."""
    runtime = current()
    return FlushResult(0, 0, 0) if runtime is None else runtime.flush(timeout)


async def aflush(timeout: float = 30.0) -> FlushResult:
    """As :func:`flush`, on an asyncio event loop, which goes on meanwhile."""
    runtime = current()
    return FlushResult(0, 0, 0) if runtime is None else await runtime.aflush(timeout)


def attach(tracer_provider: Any = None) -> bool:
    """Divert the content of a provider's spans, and let its flush and shutdown reach us.

    False where it takes no span processors: then what :func:`query` and :func:`declare` are given is still recorded.
    """
    runtime = current()
    provider = tracer_provider or trace.get_tracer_provider()
    if runtime is None or not hasattr(provider, "add_span_processor"):
        return False
    from otel_prompt_trace.diversion.logs import LogDoor
    from otel_prompt_trace.diversion.propagator import compose_propagator
    from otel_prompt_trace.diversion.provider import Diversion

    if not any(getattr(found, "provider", None) is provider for found in _installed):
        if not runtime.diverting:  # installed before the provider was there to say what service this is
            runtime.describe(_resource(provider))
        _installed.append(Diversion(runtime, provider, keep=runtime.settings.spans == "copy"))
    if not any(isinstance(found, LogDoor) for found in _installed):  # there is one of each in a process
        _installed.append(LogDoor())
        propagator = compose_propagator()
        if propagator is not None:
            _installed.append(propagator)
    runtime.diverting = True
    return True


def notes() -> list[str]:
    """What of the diversion does not fit this process, for ``doctor``."""
    return [note for found in _installed for note in getattr(found, "notes", ())]


def patched() -> list[str] | None:
    """The functions of HTTP clients that are wrapped now, as ``module.name``; None where the wire is not captured."""
    from otel_prompt_trace.wire.patching import Patches

    return next((list(found.active) for found in _installed if isinstance(found, Patches)), None)


def _wire_rules(settings: Settings) -> Rules | None:
    if settings.wire == "off":
        return None
    from otel_prompt_trace.wire.rules import Rules

    return Rules(settings.wire_allow, settings.wire_deny, settings.wire_apis)


def _capture_wire() -> None:
    """Wrap the HTTP clients that are imported, and the others when they are."""
    from otel_prompt_trace.wire.layers import patches
    from otel_prompt_trace.wire.patching import Patches

    if not any(isinstance(found, Patches) for found in _installed):
        _installed.append(Patches(patches()))


def _await_provider() -> None:
    from otel_prompt_trace.diversion.awaiting import ProviderWatch

    if not any(isinstance(found, ProviderWatch) for found in _installed):
        _installed.append(ProviderWatch(attach))


def _detach() -> None:
    while _installed:
        _installed.pop().remove()


def shown(settings: Settings) -> str:
    """The store's address without its query, where nothing secret belongs but something might stand."""
    return settings.store.partition("?")[0]


def _open_payloads(url: str) -> Store:
    from otel_prompt_trace.store import open_store

    return open_store(url)


def _resource(provider: Any) -> dict[str, str]:
    """Service, version and environment, from the provider's resource or else the environment."""
    found: Mapping[str, Any] = getattr(getattr(provider, "resource", None), "attributes", None) or {}
    declared = dict(
        pair.split("=", 1) for pair in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "").split(",") if "=" in pair
    )
    names = {
        "service": found.get("service.name") or os.environ.get("OTEL_SERVICE_NAME") or declared.get("service.name"),
        "service_version": found.get("service.version") or declared.get("service.version"),
        "environment": found.get("deployment.environment.name")
        or found.get("deployment.environment")
        or declared.get("deployment.environment.name"),
    }
    return {name: str(value) for name, value in names.items() if value}
