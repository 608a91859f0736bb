"""An application with Langfuse's SDK, its processor on the global provider, and its drop-in for the OpenAI SDK.

``python vendor_langfuse.py CONFIG.json``: the spans that it writes down are those that Langfuse's exporter was handed.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.instrumentations.application import make_calls, span_of


def main(config: dict[str, Any]) -> None:
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    received = InMemorySpanExporter()

    def langfuse() -> Any:
        from langfuse import Langfuse

        client = Langfuse(public_key="pk", secret_key="sk", base_url="http://127.0.0.1:9", span_exporter=received)
        import langfuse.openai  # noqa: F401 - it wraps the OpenAI SDK

        return client

    def ours() -> None:
        if config["ours"]:
            import otel_prompt_trace

            otel_prompt_trace.install()

    if config["ours_first"]:
        ours()
        client = langfuse()
    else:
        client = langfuse()
        ours()
    with client.start_as_current_observation(name="answer", input="Wohin?") as observation:
        make_calls(config)
        observation.update(output="Nach 京都.")
    client.flush()
    if config["ours"]:
        import otel_prompt_trace
        from otel_prompt_trace import installation

        print(otel_prompt_trace.flush(30))
        print("notes:", json.dumps(installation.notes()))
    exported = [span_of(span) for span in received.get_finished_spans()]
    Path(config["out"]).write_text(json.dumps({"spans": exported, "logs": []}))


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text()))
    sys.stdout.flush()
    os._exit(0)  # what was to be written is written: no exporter's thread is waited for
