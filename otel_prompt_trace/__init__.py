r"""Proof of what a language model was told.

Spans keep timings and small attributes; the exact prompt and its declared pieces go to a durable store under the
query's id, the qid.

    import otel_prompt_trace as pt

    pt.install(store="s3://bucket/prompts")
    with pt.query(question="…") as q:
        prompt = pt.Prompt()
        prompt.add("system", "…", trust="policy").literal("\n\n").add("user", "…", trust="user")
        with q.call(model="…", prompt=prompt) as call:
            call.respond(output="…", finish_reason="stop", usage={"input_tokens": 12, "output_tokens": 3})

Names load when they are first used, so that importing the package costs an application next to nothing.

PYTEST_DONT_REWRITE: pytest would warn of a package with a plugin that is imported before it, as under
``opentelemetry-instrument pytest``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from otel_prompt_trace._version import __version__

if TYPE_CHECKING:
    from otel_prompt_trace.capture.carrying import carry
    from otel_prompt_trace.capture.declaring import declare
    from otel_prompt_trace.capture.feedback import feedback
    from otel_prompt_trace.capture.middleware import ASGIMiddleware, WSGIMiddleware
    from otel_prompt_trace.capture.opening import query
    from otel_prompt_trace.capture.packing import pack
    from otel_prompt_trace.capture.placement import place, placement, placements
    from otel_prompt_trace.capture.query import Query
    from otel_prompt_trace.core.census import Census, Gap, census
    from otel_prompt_trace.core.derive import derive
    from otel_prompt_trace.core.grade import Grade, grade
    from otel_prompt_trace.core.packing import Packing
    from otel_prompt_trace.core.pieces import Piece
    from otel_prompt_trace.core.placement import Placement, Rendered
    from otel_prompt_trace.core.prompt import Prompt
    from otel_prompt_trace.core.record import Record
    from otel_prompt_trace.exceptions import PromptTraceError
    from otel_prompt_trace.installation import aflush, flush, install, uninstall
    from otel_prompt_trace.pipeline.accounting import FlushResult, Receipt
    from otel_prompt_trace.store import PayloadStore, open_store

_HOME = {
    "ASGIMiddleware": "capture.middleware",
    "Census": "core.census",
    "FlushResult": "pipeline.accounting",
    "Gap": "core.census",
    "Grade": "core.grade",
    "PayloadStore": "store",
    "Packing": "core.packing",
    "Piece": "core.pieces",
    "Placement": "core.placement",
    "Prompt": "core.prompt",
    "PromptTraceError": "exceptions",
    "Query": "capture.query",
    "Receipt": "pipeline.accounting",
    "Record": "core.record",
    "Rendered": "core.placement",
    "WSGIMiddleware": "capture.middleware",
    "aflush": "installation",
    "census": "core.census",
    "carry": "capture.carrying",
    "declare": "capture.declaring",
    "derive": "core.derive",
    "feedback": "capture.feedback",
    "flush": "installation",
    "grade": "core.grade",
    "install": "installation",
    "open_store": "store",
    "pack": "capture.packing",
    "place": "capture.placement",
    "placement": "capture.placement",
    "placements": "capture.placement",
    "query": "capture.opening",
    "uninstall": "installation",
}

__all__ = [
    "ASGIMiddleware",
    "Census",
    "FlushResult",
    "Gap",
    "Grade",
    "Packing",
    "PayloadStore",
    "Piece",
    "Placement",
    "Prompt",
    "PromptTraceError",
    "Query",
    "Receipt",
    "Record",
    "Rendered",
    "WSGIMiddleware",
    "__version__",
    "aflush",
    "carry",
    "census",
    "declare",
    "derive",
    "feedback",
    "flush",
    "grade",
    "install",
    "open_store",
    "pack",
    "place",
    "placement",
    "placements",
    "query",
    "uninstall",
]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
