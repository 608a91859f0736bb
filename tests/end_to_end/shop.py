"""A shop's assistant that is on OpenTelemetry: SDK, OTLP exporter, an instrumentation of the OpenAI client.

It runs in an environment of its own and does what it is told on standard input, one command a line, and answers each
with a line of JSON:

- ``ask``: one request under an entry span, as an application that declares nothing makes it;
- ``query``: the same in a ``query()`` with stages, retrieval and declared pieces;
- ``many N``: N requests as by ``ask``, from four threads;
- ``flush``: every span and every payload is delivered; what was counted on the way.

Everything that it knows of this project is ``install()``, and in ``query`` the scopes.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import openai
from opentelemetry import metrics, trace
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.instrumentation.genai.openai import OpenAIInstrumentor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import SpanKind

import otel_prompt_trace as pt

POLICY = "You are the assistant of a shop. Answer in one sentence, by the returns policy alone.\n"
CHUNKS = [f"{n}. Goods of category {n} may be returned within {n * 7} days. " * 12 for n in range(1, 6)]


class Counting(SpanProcessor):
    """How many spans have ended."""

    def __init__(self) -> None:
        self.ended = 0
        self._lock = threading.Lock()

    def on_end(self, span: ReadableSpan) -> None:
        """One more."""
        with self._lock:
            self.ended += 1


class Shop:
    """The application."""

    def __init__(self) -> None:
        self.counting = Counting()
        self.provider = TracerProvider()
        self.provider.add_span_processor(self.counting)
        self.provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        trace.set_tracer_provider(self.provider)
        self.reader = InMemoryMetricReader()
        metrics.set_meter_provider(MeterProvider(metric_readers=[self.reader]))
        OpenAIInstrumentor().instrument(tracer_provider=self.provider)
        pt.install()
        self.tracer = trace.get_tracer("shop")
        self.model = openai.OpenAI(base_url=os.environ["MODEL_URL"], api_key="none", max_retries=0)

    def ask(self, question: str) -> dict[str, Any]:
        """Four spans and one call."""
        with self.tracer.start_as_current_span("POST /ask", kind=SpanKind.SERVER) as entry:
            with self.tracer.start_as_current_span("search"):
                chunks = CHUNKS[:4]
            with self.tracer.start_as_current_span("render"):
                system = POLICY + "\n".join(chunks)
            self._call([{"role": "system", "content": system}, {"role": "user", "content": question}])
            returned = time.time()
        context = entry.get_span_context()
        trace_id = f"{context.trace_id:032x}"
        return {"qid": f"{trace_id}-{context.span_id:016x}", "trace_id": trace_id, "returned": returned}

    def query(self, question: str) -> dict[str, Any]:
        """Five spans and one call, every part of its prompt declared."""
        with pt.query(question=question, user="u1") as q:
            with q.stage("search"):
                q.retrieved([(str(n), 1.0 / n) for n in range(1, 6)], top_k=5, index_version="v1", embed_model="bm25")
                time.sleep(0.02)
            with q.stage("render"):
                system = pt.Prompt().add("policy", POLICY, trust="policy")
                for number, chunk in enumerate(CHUNKS[:4], 1):
                    system.add("rag", chunk, source_id=str(number), trust="retrieved")
                q.dropped(["5"], rule="break")
                time.sleep(0.01)
            pieces = [pt.declare(p.producer, p.text or "", source_id=p.source_id) for p in system.pieces]
            messages = [
                {"role": "system", "content": "".join(pieces)},
                {"role": "user", "content": pt.declare("user", question, trust="user")},
            ]
            self._call(messages)
            returned = time.time()
            trace_id = f"{trace.get_current_span().get_span_context().trace_id:032x}"
        return {"qid": q.qid, "trace_id": trace_id, "returned": returned}

    def many(self, count: int) -> dict[str, Any]:
        """So many requests, each with a question of its own."""
        began = time.monotonic()
        with ThreadPoolExecutor(4) as pool:
            asked = list(pool.map(self.ask, (f"call-{n:05}: may I return this? " * 20 for n in range(count))))
        return {"qids": [each["qid"] for each in asked], "seconds": time.monotonic() - began}

    def flush(self) -> dict[str, Any]:
        """Everything is delivered, and what was counted."""
        before = self._measured()
        exported = self.provider.force_flush(120_000)
        result = pt.flush(300)
        found = {"stored": result.stored, "waiting": result.spooled, "lost": result.lost, "ok": result.ok}
        return {
            **found,
            "exported": exported,
            "spans": self.counting.ended,
            "before": before,
            "after": self._measured(),
        }

    def _call(self, messages: list[Any]) -> None:
        self.model.chat.completions.create(model="gpt-4o", messages=messages)

    def _measured(self) -> dict[str, int]:
        data = self.reader.get_metrics_data()
        scopes = [scope for resource in (data.resource_metrics if data else ()) for scope in resource.scope_metrics]
        wanted = {"prompt_trace.event.recorded", "prompt_trace.event.processed", "prompt_trace.queue.size"}
        found: dict[str, int] = {}
        for metric in (metric for scope in scopes for metric in scope.metrics if metric.name in wanted):
            points: Any = metric.data.data_points
            found[metric.name] = sum(int(point.value) for point in points)
        return found


def main() -> None:
    """Until standard input ends."""
    shop = Shop()
    print(json.dumps("ready"), flush=True)
    for line in sys.stdin:
        name, _, argument = line.strip().partition(" ")
        commands = {"ask": shop.ask, "query": shop.query, "many": lambda text: shop.many(int(text))}
        answer = commands[name](argument) if argument else shop.flush()
        print(json.dumps(answer), flush=True)


main()
