"""An application under ddtrace: the tracer provider is Datadog's own, and takes no span processors.

``python vendor_ddtrace.py CONFIG.json``: the spans that it writes down are the tags of an application's own span, and
of ours, as Datadog holds them. Where the configuration says so, recording begins before ddtrace sets its provider.
"""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.instrumentations.application import make_calls


def main(config: dict[str, Any]) -> None:
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s %(message)s")
    if not config["ours_first"]:
        import ddtrace.auto

    import otel_prompt_trace as pt

    print("installed:", pt.install())
    if config["ours_first"]:
        import ddtrace.auto  # noqa: F401
    from openinference.instrumentation.openai import OpenAIInstrumentor
    from opentelemetry import trace

    from otel_prompt_trace import installation

    OpenAIInstrumentor().instrument()
    seen = []
    with pt.query(question="Wohin?") as query:
        place = pt.declare("place", "Nach 京都.", source_id="places/1", trust="retrieved")
        with query.call(model="gpt-4o", prompt=f"Context: {place}") as call:
            make_calls(config)
            with trace.get_tracer("application").start_as_current_span("own") as span:
                span.set_attribute("gen_ai.input.messages", "what an instrumentation would put there")
                seen.append(_tags("own", span))
            call.respond(output="Ja.", finish_reason="stop")
        seen.append(_tags("query", trace.get_current_span()))
    print("provider:", type(trace.get_tracer_provider()).__module__)
    print("notes:", json.dumps(installation.notes()))
    print("qid:", query.qid)
    Path(config["out"]).write_text(json.dumps({"spans": seen, "logs": []}))


def _tags(name: str, span: Any) -> dict[str, Any]:
    held = span._ddspan  # Datadog's own span
    keys = ("gen_ai.input.messages", "prompt_trace.qid")
    return {"name": name, "attributes": {key: held.get_tag(key) for key in keys if held.get_tag(key) is not None}}


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text()))
