"""An application with Logfire: its provider is a proxy, and its instrumentation of the OpenAI SDK is its own.

``python vendor_logfire.py CONFIG.json``: the spans that it writes down are those that Logfire's exporter was handed,
pending ones among them. Where the instrumentations name ``again``, Logfire is configured a second time before the
calls, and so has another provider behind its proxy.
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
    import logfire
    from logfire._internal.exporters.test import TestExporter  # logfire.testing needs pytest
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor

    received = TestExporter()  # is handed pending spans as well

    def configure() -> None:
        processors = [SimpleSpanProcessor(received)]
        logfire.configure(send_to_logfire=False, console=False, metrics=False, additional_span_processors=processors)

    def ours() -> None:
        if config["ours"]:
            import otel_prompt_trace

            otel_prompt_trace.install()

    if config["ours_first"]:
        ours()
        configure()
        logfire.instrument_openai()
    else:
        configure()
        logfire.instrument_openai()
        ours()
    if "again" in config["instrumentations"]:
        configure()
    make_calls(config)
    logfire.force_flush()
    if config["ours"]:
        import otel_prompt_trace
        from otel_prompt_trace import installation

        print(otel_prompt_trace.flush(30))
        print("notes:", json.dumps(installation.notes()))
    exported = [span_of(span) for span in received.exported_spans]
    Path(config["out"]).write_text(json.dumps({"spans": exported, "logs": []}))


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text()))
    sys.stdout.flush()
    os._exit(0)  # what was to be written is written: no exporter's thread is waited for
