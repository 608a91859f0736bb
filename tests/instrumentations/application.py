"""An application that calls models, as it runs in an environment of its own: ``python application.py CONFIG.json``.

It is instrumented as its configuration says, makes its calls under entry spans, and writes down what its exporters
were handed. Everything that it knows of this project is one call of ``install()``, and that only where it is asked.
"""

from __future__ import annotations

import asyncio
import base64
import contextvars
import importlib
import inspect
import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

INSTRUMENTORS = {
    ("openai", "genai"): "opentelemetry.instrumentation.genai.openai:OpenAIInstrumentor",
    ("openai", "openinference"): "openinference.instrumentation.openai:OpenAIInstrumentor",
    ("openai", "openllmetry"): "opentelemetry.instrumentation.openai:OpenAIInstrumentor",
    ("openai", "openllmetry-events"): "opentelemetry.instrumentation.openai:OpenAIInstrumentor",
    ("openai", "openai-v2"): "opentelemetry.instrumentation.openai_v2:OpenAIInstrumentor",
    ("anthropic", "genai"): "opentelemetry.instrumentation.genai.anthropic:AnthropicInstrumentor",
    ("anthropic", "openinference"): "openinference.instrumentation.anthropic:AnthropicInstrumentor",
    ("anthropic", "openllmetry"): "opentelemetry.instrumentation.anthropic:AnthropicInstrumentor",
    ("anthropic", "openllmetry-events"): "opentelemetry.instrumentation.anthropic:AnthropicInstrumentor",
}


def main(config: dict[str, Any]) -> None:
    from opentelemetry import _logs, trace
    from opentelemetry.sdk._logs import LoggerProvider
    from opentelemetry.sdk._logs.export import BatchLogRecordProcessor, InMemoryLogRecordExporter
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    spans, logs = InMemorySpanExporter(), InMemoryLogRecordExporter()
    provider, log_provider = TracerProvider(), LoggerProvider()

    def export() -> None:
        provider.add_span_processor(BatchSpanProcessor(spans))
        log_provider.add_log_record_processor(BatchLogRecordProcessor(logs))

    def ours() -> None:
        if config["ours"]:
            import otel_prompt_trace

            otel_prompt_trace.install()

    trace.set_tracer_provider(provider)
    _logs.set_logger_provider(log_provider)
    if config["ours_first"]:
        ours()
        export()
        instrument(config)
        warm_up(trace.get_tracer("application"))
    else:  # as late as it can be: tracers, loggers and their processors exist
        export()
        instrument(config)
        warm_up(trace.get_tracer("application"))
        ours()
    make_calls(config)
    provider.force_flush()
    log_provider.force_flush()
    if config["ours"]:
        import otel_prompt_trace

        print(otel_prompt_trace.flush(30))
    exported = {"spans": [span_of(span) for span in spans.get_finished_spans()]}
    exported["logs"] = [log_of(item) for item in logs.get_finished_logs()]
    Path(config["out"]).write_text(json.dumps(exported))


def warm_up(tracer: Any) -> None:
    tracer.start_span("warm-up").end()


def instrument(config: dict[str, Any]) -> None:
    for name in config["instrumentations"]:
        if name == "sdk":
            continue  # the SDK makes spans by itself
        module, _, attribute = INSTRUMENTORS[config["provider"], name].partition(":")
        options = {"use_legacy_attributes": not name.endswith("events")} if name.startswith("openllmetry") else {}
        getattr(importlib.import_module(module), attribute)(**options).instrument()


def make_calls(config: dict[str, Any]) -> None:
    from opentelemetry import trace

    tracer = trace.get_tracer("application")
    client = make_client(config)
    make = MODES[config["mode"]]
    for number, calls in enumerate(config["entries"], 1):
        scope = None
        if config["remote"]:
            parent = trace.SpanContext(number << 64, number, is_remote=True, trace_flags=trace.TraceFlags(number % 2))
            scope = trace.set_span_in_context(trace.NonRecordingSpan(parent))
        with tracer.start_as_current_span("entry", scope, kind=trace.SpanKind.SERVER):
            make(client, calls)


def make_client(config: dict[str, Any]) -> Any:
    prefix = "Async" if config["mode"] in ASYNC else ""
    if config["provider"] == "openai":
        import openai

        made = getattr(openai, f"{prefix}OpenAI")
        return made(base_url=f"{config['base_url']}/v1", api_key="none", max_retries=0)
    import anthropic

    return getattr(anthropic, f"{prefix}Anthropic")(base_url=config["base_url"], api_key="none", max_retries=0)


def one_by_one(client: Any, calls: list[dict[str, str]]) -> None:
    for call in calls:
        make_call(client, call)


def one_by_one_in_a_loop(client: Any, calls: list[dict[str, str]]) -> None:
    async def all_of_them() -> None:
        for call in calls:
            await make_async_call(client, call)

    LOOP.run_until_complete(all_of_them())


def gathered(client: Any, calls: list[dict[str, str]]) -> None:
    async def all_of_them() -> None:
        await asyncio.gather(*(make_async_call(client, call) for call in calls))

    LOOP.run_until_complete(all_of_them())


def in_instrumented_threads(client: Any, calls: list[dict[str, str]]) -> None:
    from opentelemetry.instrumentation.threading import ThreadingInstrumentor

    instrumentor = ThreadingInstrumentor()
    if not instrumentor.is_instrumented_by_opentelemetry:
        instrumentor.instrument()
    with ThreadPoolExecutor(len(calls)) as pool:
        list(pool.map(lambda call: make_call(client, call), calls))


def in_threads_with_a_copy(client: Any, calls: list[dict[str, str]]) -> None:
    """The context is carried over by hand."""
    with ThreadPoolExecutor(len(calls)) as pool:
        waiting = [pool.submit(contextvars.copy_context().run, make_call, client, call) for call in calls]
        for answer in waiting:
            answer.result()


def interleaved(client: Any, calls: list[dict[str, str]]) -> None:
    """Streams that are all opened first, and then read in turns, in one thread."""
    streams = [iter(begin_call(client, call)) for call in calls]
    while streams:
        for stream in list(streams):
            if next(stream, None) is None:
                streams.remove(stream)


def interleaved_in_a_loop(client: Any, calls: list[dict[str, str]]) -> None:
    """Streams that are all opened first, and then read in turns, in one task."""

    async def all_of_them() -> None:
        streams = [aiter(await begin_call(client, call)) for call in calls]
        while streams:
            for stream in list(streams):
                if await anext(stream, None) is None:
                    streams.remove(stream)

    LOOP.run_until_complete(all_of_them())


MODES = {
    "one by one": one_by_one,
    "async": one_by_one_in_a_loop,
    "gathered": gathered,
    "instrumented threads": in_instrumented_threads,
    "copied context": in_threads_with_a_copy,
    "interleaved": interleaved,
    "interleaved async": interleaved_in_a_loop,
}
ASYNC = ("async", "gathered", "interleaved async")
LOOP = asyncio.new_event_loop()


def make_call(client: Any, call: dict[str, str]) -> None:
    try:
        answer = begin_call(client, call)
        if json.loads(call["body"]).get("stream"):
            for _ in answer:
                pass
    except Exception as error:  # noqa: BLE001 - a recorded error is one of the cases
        print("call failed:", type(error).__name__, str(error)[:200])


async def make_async_call(client: Any, call: dict[str, str]) -> None:
    try:
        answer = await begin_call(client, call)
        if json.loads(call["body"]).get("stream"):
            async for _ in answer:
                pass
    except Exception as error:  # noqa: BLE001 - as above
        print("call failed:", type(error).__name__, str(error)[:200])


def begin_call(client: Any, call: dict[str, str]) -> Any:
    """What the SDK's method returns: an answer, a stream, or something to await."""
    body = json.loads(call["body"])
    method = {
        "/v1/chat/completions": lambda: client.chat.completions.create,
        "/v1/responses": lambda: client.responses.create,
        "/v1/messages": lambda: client.messages.create,
    }[call["path"]]()
    known = inspect.signature(inspect.unwrap(method)).parameters
    extra = {key: body.pop(key) for key in list(body) if key not in known}
    return method(**body, **({"extra_body": extra} if extra else {}))


def span_of(span: Any) -> dict[str, Any]:
    return {
        "name": span.name,
        "scope": span.instrumentation_scope.name,
        "trace_id": f"{span.context.trace_id:032x}",
        "span_id": f"{span.context.span_id:016x}",
        "parent": f"{span.parent.span_id:016x}" if span.parent else None,
        "start": span.start_time,
        "end": span.end_time,
        "attributes": plain(dict(span.attributes)),
        "events": [{"name": event.name, "attributes": plain(dict(event.attributes))} for event in span.events],
        "status": span.status.description,
        "dropped": span.dropped_attributes,
    }


def log_of(item: Any) -> dict[str, Any]:
    record = item.log_record
    return {
        "name": record.event_name or (record.attributes or {}).get("event.name") or "",
        "scope": item.instrumentation_scope.name,
        "span_id": f"{record.span_id or 0:016x}",
        "attributes": plain(dict(record.attributes or {})),
        "body": plain(record.body),
    }


def plain(value: Any) -> Any:
    if hasattr(value, "items"):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, bytes):
        return {"base64": base64.b64encode(value).decode(), "encoding": "bytes"}
    return value


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text()))
    sys.stdout.flush()
    os._exit(0)  # what was to be written is written: no exporter's thread is waited for
