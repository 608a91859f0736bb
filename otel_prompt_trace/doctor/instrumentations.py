"""The instrumentations that are installed, and which of them are active in this process.

Only what is imported already is looked at: importing an instrumentation of a library that nobody uses here would tell
nothing, and may fail.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from otel_prompt_trace.doctor.finding import Finding

_GROUP = "opentelemetry_instrumentor"
_DISABLED = "OTEL_PYTHON_DISABLED_INSTRUMENTATIONS"


def look_at_instrumentations() -> Iterator[Finding]:
    """One row for each, the active ones first."""
    found = sorted(entry_points(group=_GROUP), key=lambda point: (not _is_active(point), point.name))
    if not found:
        yield Finding(
            "instrumentation", "ok", "none is installed: calls are known by the wire and by what the application tells"
        )
    disabled = {name.strip() for name in os.environ.get(_DISABLED, "").split(",")}
    for point in found:
        package = f"{point.dist.name} {point.dist.version}" if point.dist is not None else point.value
        if _is_active(point):
            state = "active"
        elif disabled & {point.name, "*"}:
            state = f"switched off by {_DISABLED}"
        else:
            state = "not active in this process"
        yield Finding("instrumentation", "ok", f"{point.name} ({package}): {state}")


def _is_active(point: EntryPoint) -> bool:
    """Whether its one instance (the base class keeps it) says that it has instrumented its library."""
    kind: Any = getattr(sys.modules.get(point.module), point.attr.partition(".")[0], None)
    instance = getattr(kind, "_instance", None)
    return bool(getattr(instance, "_is_instrumented_by_opentelemetry", False))
