"""An application whose calls only the completion hook hears of; it says after each that it is done.

Arguments: store, spool, how many calls (0: until it is ended), and whether recording begins before the application's
tracer provider (``before``) or after it (``after``). A line on standard output, written in one piece right after the
hook returned, is the acknowledgement: the qid, and what was asked.
"""

from __future__ import annotations

import itertools
import os
import sys
import time

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider

import otel_prompt_trace as pt
from otel_prompt_trace.diversion.hook import completion_hook


def main() -> None:
    """Call after call; at the end the time, from which the exit can be measured."""
    store, spool, count, order = sys.argv[1:]
    if order == "before":
        pt.install(store=store, spool=spool)
    trace.set_tracer_provider(TracerProvider())
    if order == "after":
        pt.install(store=store, spool=spool)
    tracer, hook = trace.get_tracer("app"), completion_hook()
    for number in itertools.count():
        if int(count) and number == int(count):
            break
        asked = f"question-{number}"
        message = {"role": "user", "parts": [{"type": "text", "content": asked}]}
        with tracer.start_as_current_span("chat m", attributes={"gen_ai.operation.name": "chat"}) as span:
            hook.on_completion(inputs=[message], outputs=[], system_instruction=[], span=span)
            here = span.get_span_context()
            os.write(1, f"{here.trace_id:032x}-{here.span_id:016x} {asked}\n".encode())
    os.write(1, f"end {time.time()}\n".encode())


if __name__ == "__main__":
    main()
