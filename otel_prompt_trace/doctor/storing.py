"""The store, tried out with one object; and its clock, by the time at which it says the object was stored."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from otel_prompt_trace.doctor.finding import Finding
from otel_prompt_trace.exceptions import PromptTraceError
from otel_prompt_trace.settings import Settings
from otel_prompt_trace.sources import Sources
from otel_prompt_trace.store import open_store

_SKEW = 2.0  # seconds
_UNDELETABLE = (
    "as it should be, where a lock or a policy keeps records for their time; 'prompt-trace erase' can delete nothing "
    "from here, and names what is left"
)
_RESOLUTION = 1.0  # seconds: S3 leaves out what is less


def look_at_store(settings: Settings, sources: Sources) -> Iterator[Finding]:
    """Every step of the probe, what they say together, and the clock."""
    try:
        store = open_store(settings.store, patient=False)
    except PromptTraceError as error:
        yield Finding("store", "fail", str(error), "set PROMPT_TRACE_STORE")
        return
    before = sources.now()
    steps = store.probe()
    after = sources.now()
    for step in steps:
        if step.name == "delete" and not step.ok:
            yield Finding("store delete", "warn", step.detail, _UNDELETABLE)
        else:
            yield Finding(f"store {step.name.replace('_', '-')}", "ok" if step.ok else "fail", step.detail)
    if all(step.ok for step in steps if step.name != "delete"):
        yield Finding("store", "ok", f"{store.url} is writable and append-only")
    else:
        yield Finding("store", "fail", store.url, "records wait in the spool until this is mended; none is lost")
    yield clock(next((step.stored_at for step in steps if step.stored_at is not None), None), before, after)


def clock(stored_at: datetime | None, before: datetime, after: datetime) -> Finding:
    """Whether the store's clock and this machine's agree, as far as can be told.

    Args:
        stored_at: when the store says the object was stored.
        before, after: this machine's time around that.
    """
    if stored_at is None:
        return Finding("clock", "unknown", "the store did not say when it stored something", "mend the store first")
    ahead = (stored_at - after).total_seconds()
    behind = (before - stored_at).total_seconds() - _RESOLUTION
    if max(ahead, behind) <= _SKEW:
        return Finding("clock", "ok", f"this machine's and the store's agree within {_SKEW:.0f} s")
    apart = f"{ahead:.1f} s behind" if ahead > behind else f"{behind:.1f} s ahead of"
    return Finding(
        "clock",
        "warn",
        f"this machine's clock is {apart} the store's",
        "synchronise it (timedatectl, chronyc tracking): days, orders and durations across machines are off by as much",
    )
