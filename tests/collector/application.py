"""An application that uses this project: ``python -m tests.collector.application ENDPOINT NUMBER``.

It answers NUMBER queries of two stages and one call each, sends its spans to ENDPOINT (OTLP over gRPC), keeps its
payloads where ``PROMPT_TRACE_STORE`` says, and prints the qids and the trace ids as JSON. Every prompt is longer than
any limit of a span.
"""

from __future__ import annotations

import json
import sys

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

import otel_prompt_trace as pt

WORDS = "words that no span may carry. "


def main(endpoint: str, number: int) -> None:
    """Answer the queries, deliver everything, and tell."""
    provider = TracerProvider(resource=Resource({"service.name": "shop"}))
    # It answers faster than any real one: the SDK's queue must hold what comes between two exports, or it drops spans.
    exporter = OTLPSpanExporter(endpoint=endpoint, insecure=True, timeout=60)
    provider.add_span_processor(BatchSpanProcessor(exporter, max_queue_size=5 * number + 2048))
    trace.set_tracer_provider(provider)
    pt.install()
    told = [_answer(each) for each in range(number)]
    delivered = pt.flush(300)
    assert provider.force_flush(60_000)
    provider.shutdown()
    print(json.dumps({"told": told, "delivered": bool(delivered)}))


def _answer(number: int) -> tuple[str, str]:
    with pt.query(question=f"question {number}") as query:
        with query.stage("search"):
            hits = [{"id": f"c{each}", "score": 1.0 - each / 10, "text": WORDS * 200} for each in range(3)]
        query.retrieved(hits, top_k=3, index_version="i", embed_model="e")
        prompt = pt.Prompt()
        prompt.add("system", "Answer from what was found.", trust="policy")
        for hit in hits:
            prompt.add("rag", str(hit["text"]), source_id=str(hit["id"]), trust="retrieved")
        prompt.add("user", f"question {number}", trust="user")
        with query.stage("generate"), query.call(model="m", prompt=prompt) as call:
            call.respond("an answer", finish_reason="stop")
        context = trace.get_current_span().get_span_context()
        return query.qid, f"{context.trace_id:032x}"


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
