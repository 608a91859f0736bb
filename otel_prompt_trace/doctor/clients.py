"""The HTTP clients that are installed: whether requests through them are captured, and whether they are here, now."""

from __future__ import annotations

from collections.abc import Iterator

from otel_prompt_trace.doctor.finding import Finding
from otel_prompt_trace.installation import patched
from otel_prompt_trace.settings import Settings


def look_at_clients(settings: Settings) -> Iterator[Finding]:
    """One row for each client; a patch that does not fit what is installed has disabled itself, and that is said."""
    from otel_prompt_trace.wire.layers import patches
    from otel_prompt_trace.wire.patching import misfits

    if settings.wire == "off":
        yield Finding("wire", "warn", "off: no request is captured as it was sent", "PROMPT_TRACE_WIRE=on")
        return
    wrapped = patched()  # before misfits() imports them all
    for library, faults in misfits(patches()).items():
        seen = f"{library.name} {library.version}" + (", imported" if library.imported else "")
        if faults:
            yield Finding("wire", "warn", f"{seen}: not captured: {'; '.join(faults)}", "report this version, please")
        else:
            yield Finding("wire", "ok", f"{seen}: captured{_here(library.name, wrapped)}")
    yield Finding("wire", "ok", "never captured: gRPC, WebSockets, models that run in the process")


def _here(library: str, wrapped: list[str] | None) -> str:
    if wrapped is None:
        return " once install() is called"
    count = sum(name.partition(".")[0] == library for name in wrapped)
    return f", {count} function(s) are patched here" if count else " once it is imported"
