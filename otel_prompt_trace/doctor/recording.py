"""The switches, and the tracer provider of this process."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from opentelemetry import trace

from otel_prompt_trace.doctor.finding import Finding
from otel_prompt_trace.installation import notes
from otel_prompt_trace.settings import Settings


def look_at_switches(settings: Settings) -> Iterator[Finding]:
    """What the settings switch off or weaken."""
    if not settings.enabled:
        yield Finding("enabled", "warn", "recording is switched off", "unset PROMPT_TRACE_ENABLED or OTEL_SDK_DISABLED")
    if settings.durability == "memory":
        yield Finding("durability", "warn", "memory: nothing survives the process", "PROMPT_TRACE_DURABILITY=written")
    else:
        yield Finding("durability", "ok", settings.durability)
    yield Finding("policy", "ok", settings.policy)


def look_at_provider(settings: Settings) -> Iterator[Finding]:
    """The provider, and what of it does not fit."""
    yield _provider()
    yield from (Finding("diversion", "warn", note) for note in _notes(settings))
    if settings.spans == "copy":
        yield Finding("spans", "warn", "copy: content stays on spans as well", "PROMPT_TRACE_SPANS=divert keeps it off")


def _notes(settings: Settings) -> list[str]:
    """What ``install()`` found here, and what it would find where it has not been called: each thing once."""
    from otel_prompt_trace.diversion.awaiting import unfit  # with the SDK, which no other command needs
    from otel_prompt_trace.diversion.provider import emptied

    provider = trace.get_tracer_provider()
    would_be = [*unfit(provider), *(emptied(provider) if settings.spans == "divert" else ())]
    return list(dict.fromkeys([*notes(), *would_be]))


def _provider() -> Finding:
    provider: Any = trace.get_tracer_provider()
    name = f"{type(provider).__module__}.{type(provider).__qualname__}"
    if hasattr(provider, "add_span_processor"):
        return Finding("tracer provider", "ok", f"{name}: its flush and shutdown reach the payloads after install()")
    if name.startswith("opentelemetry.trace."):
        return Finding(
            "tracer provider",
            "warn",
            f"{name}: no SDK provider in this process",
            "run this as 'opentelemetry-instrument prompt-trace doctor', or with --app MODULE",
        )
    return Finding("tracer provider", "warn", f"{name} is not the SDK's", "the rows 'diversion' say what that means")
