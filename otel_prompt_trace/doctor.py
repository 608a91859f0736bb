"""``doctor``: whether everything that a record needs works from here.

Each finding is ``ok``, ``warn`` or ``fail``, says what was seen, and what to do where it is not ok.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, Literal

from opentelemetry import trace

from otel_prompt_trace.exceptions import PromptTraceError
from otel_prompt_trace.installation import notes
from otel_prompt_trace.pipeline.reading import POISON, WaitingFile, survey
from otel_prompt_trace.pipeline.spool import SUFFIX, prepare_folder
from otel_prompt_trace.settings import Settings
from otel_prompt_trace.sources import Sources
from otel_prompt_trace.store import open_store

Status = Literal["ok", "warn", "fail"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at."""

    name: str
    status: Status
    detail: str
    advice: str = ""


def examine(settings: Settings, sources: Sources | None = None) -> Iterator[Finding]:
    """Everything that can be seen from this process, one finding after another."""
    yield from _switches(settings)
    yield from _store(settings)
    yield from _spool(settings, sources or Sources())
    yield from _wire(settings)
    yield _provider()
    yield from (Finding("diversion", "warn", note) for note in _notes(settings))
    if settings.spans == "copy":
        yield Finding("spans", "warn", "copy: content stays on spans as well", "PROMPT_TRACE_SPANS=divert keeps it off")


def _switches(settings: Settings) -> Iterator[Finding]:
    if not settings.enabled:
        yield Finding("enabled", "warn", "recording is switched off", "unset PROMPT_TRACE_ENABLED or OTEL_SDK_DISABLED")
    if settings.durability == "memory":
        yield Finding("durability", "warn", "memory: nothing survives the process", "PROMPT_TRACE_DURABILITY=written")
    else:
        yield Finding("durability", "ok", settings.durability)
    yield Finding("policy", "ok", settings.policy)


def _store(settings: Settings) -> Iterator[Finding]:
    try:
        store = open_store(settings.store)
    except PromptTraceError as error:
        yield Finding("store", "fail", str(error), "set PROMPT_TRACE_STORE")
        return
    steps = store.probe()
    for step in steps:
        yield Finding(f"store {step.name.replace('_', '-')}", "ok" if step.ok else "fail", step.detail)
    if all(step.ok for step in steps):
        yield Finding("store", "ok", f"{store.url} is writable and append-only")
    else:
        yield Finding("store", "fail", store.url, "records wait in the spool until this is mended; none is lost")


def _spool(settings: Settings, sources: Sources) -> Iterator[Finding]:
    try:
        prepare_folder(settings.spool)
    except (OSError, PromptTraceError) as error:
        yield Finding("spool", "fail", str(error), "set PROMPT_TRACE_SPOOL to a folder of your own")
        return
    yield Finding("spool", "ok", str(settings.spool))
    waiting = list(survey(settings.spool))
    for file in waiting:
        yield _waiting(file, sources)
    for problem in (problem for file in waiting for problem in file.problems):
        yield Finding(
            "spool damage", "warn", str(problem), "prompt-trace ship delivers what is whole and keeps the rest"
        )
    poison = list((settings.spool / POISON).glob(f"*{SUFFIX}"))
    if poison:
        yield Finding("spool poison", "warn", f"{len(poison)} file(s) set aside in {settings.spool / POISON}")


def _waiting(file: WaitingFile, sources: Sources) -> Finding:
    since = datetime.fromtimestamp(file.created_ns / 1e9, timezone.utc)
    minutes = max(0, (sources.now() - since).total_seconds() / 60)
    what = f"{file.path.name}: {file.events} event(s) of {len(file.qids)} query(ies), {minutes:.0f} min old"
    if file.alive:
        return Finding("spool file", "ok", f"{what}; its process is running and delivers it")
    if not file.events:
        return Finding("spool file", "ok", f"{what}; empty, its process is gone", "prompt-trace ship removes it")
    return Finding("spool file", "warn", f"{what}; its process is gone", "prompt-trace ship delivers it")


def _wire(settings: Settings) -> Iterator[Finding]:
    """Which HTTP clients are here, whether requests through them are captured, and what never is."""
    from otel_prompt_trace.wire.layers import patches
    from otel_prompt_trace.wire.patching import misfits

    if settings.wire == "off":
        yield Finding("wire", "warn", "off: no request is captured as it was sent", "PROMPT_TRACE_WIRE=on")
        return
    for library, faults in misfits(patches()).items():
        seen = f"{library.name} {library.version}" + (", imported" if library.imported else "")
        if faults:
            yield Finding("wire", "warn", f"{seen}: not captured: {'; '.join(faults)}", "report this version, please")
        else:
            yield Finding("wire", "ok", f"{seen}: captured")
    yield Finding("wire", "ok", "never captured: gRPC, WebSockets, models that run in the process")


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
