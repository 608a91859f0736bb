"""What the batch's tests are made of: events as the recorder stores them, spans of the real SDK, a reader in memory."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timezone
from pathlib import Path
from typing import Any

from opentelemetry.exporter.otlp.json.file.trace_exporter import FileSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import Span

from otel_prompt_trace.core.events import VERSION, Event, Problem, rfc3339
from otel_prompt_trace.core.prompt import Prompt
from otel_prompt_trace.core.qid import ulid
from otel_prompt_trace.core.seal import keyed_digest, prompt_digest, seal
from otel_prompt_trace.exceptions import Erased

DAY = date(2026, 11, 30)
NOON_MS = int(datetime(2026, 11, 30, 12, tzinfo=timezone.utc).timestamp() * 1000)
INSTRUMENTATION = "opentelemetry.instrumentation.openai_v2"


def qid_of(number: int, day: int = 0) -> str:
    """A ULID that carries the day of these tests, ``day`` days later."""
    return ulid(NOON_MS + day * 86_400_000 + number, number)


@dataclass(frozen=True)
class Stored:
    """What a reader gives for one qid."""

    events: Sequence[Event]
    problems: Sequence[Problem] = ()


@dataclass
class Reader:
    """A payload store in memory, with faults that a test can switch on."""

    stored: dict[str, Stored] = field(default_factory=dict)
    days: dict[str, list[date]] = field(default_factory=dict)
    erased: set[str] = field(default_factory=set)
    broken: dict[str, Exception] = field(default_factory=dict)
    unlisted: set[str] = field(default_factory=set)
    listing_fails_after: int | None = None
    listing_error: Exception = field(default_factory=RuntimeError)
    asked: list[tuple[str, date | None]] = field(default_factory=list)

    def put(self, events: Sequence[Event], problems: Sequence[Problem] = (), days: Sequence[date] = (DAY,)) -> str:
        """Store what was read of one query, listed on ``days``; its qid."""
        qid = events[0]["qid"] if events else problems[0].source
        self.stored[qid] = Stored(events, problems)
        self.days[qid] = list(days)
        return qid

    def qids(self, since: date | None = None, until: date | None = None) -> Iterator[tuple[date, str]]:
        """See :class:`PayloadReader`; fails after some pairs where a test says so."""
        pairs = [
            (day, qid) for qid, days in self.days.items() if qid not in self.erased | self.unlisted for day in days
        ]
        for number, (day, qid) in enumerate(sorted(pairs)):
            if number == self.listing_fails_after:
                raise self.listing_error
            if (since is None or day >= since) and (until is None or day <= until):
                yield day, qid
        if self.listing_fails_after is not None and self.listing_fails_after >= len(pairs):
            raise self.listing_error

    def events(self, qid: str, day: date | None = None) -> Stored:
        """See :class:`PayloadReader`; notes what was asked for."""
        self.asked.append((qid, day))
        if qid in self.erased:
            raise Erased(qid, "2026-11-30T12:00:00Z")
        if qid in self.broken:
            raise self.broken[qid]
        return self.stored.get(qid, Stored(()))


def sealed(
    qid: str,
    *calls: dict[str, Any],
    policy: str = "store",
    stages: dict[str, int] | None = None,
    pieces: Sequence[Event] = (),
) -> list[Event]:
    """The stored events of a query: what ``query``, some calls and ``end`` leave.

    A call is ``prompt`` (a :class:`Prompt`, a str or messages), and any further field of its request; ``span`` is the
    span in which it is recorded, ``response`` the fields of its response (None for none).
    """
    digest = keyed_digest(b"key")
    captured: list[Event] = [{"kind": "query", "question": "why?"}, *({"kind": "piece", **piece} for piece in pieces)]
    done: list[Event] = seal(captured, policy, digest)
    for number, given in enumerate(calls, 1):
        fields = dict(given)
        prompt, span = fields.pop("prompt"), fields.pop("span", None)
        response = fields.pop("response", {"output": "because", "finish_reason": "stop"})
        where = span_ids(span) if span is not None else {}
        call = fields.pop("call", f"call-{number}")
        request = {"kind": "request", "call": call, "evidence": "declared", "model": "no-such-model", **fields, **where}
        batch: list[Event] = []
        if isinstance(prompt, Prompt):
            batch = [
                {
                    "kind": "piece",
                    "call": call,
                    "producer": p.producer,
                    "segment": p.segment,
                    "start": p.start,
                    "end": p.end,
                    "trust": p.trust,
                    "source_id": p.source_id,
                }
                for p in prompt.pieces
            ]
            prompt = prompt.messages() if prompt.is_messages else prompt.text
        batch.append({**request, ("prompt" if isinstance(prompt, str) else "messages"): prompt})
        done += seal(batch, policy, digest)
        if response is not None:
            done += seal([{"kind": "response", "call": call, **response, **where}], policy, digest)
    done.append({"kind": "end", "ms": stages or {}})
    return [
        {"v": VERSION, "qid": qid, "writer": f"W{qid}"[:120], "seq": seq, "service": "app",
         "ts": rfc3339(NOON_MS * 1_000_000 + seq), **event}
        for seq, event in enumerate(done)
    ]  # fmt: skip


def span_ids(span: Span | ReadableSpan) -> dict[str, str]:
    """The ids of a span as events carry them."""
    context = span.get_span_context()
    assert context is not None
    return {"trace_id": f"{context.trace_id:032x}", "span_id": f"{context.span_id:016x}"}


def digest_of(events: Iterable[Event]) -> str | None:
    """What ``prompt_trace.sha256`` says on the span of the first call."""
    return prompt_digest(next(event for event in events if event["kind"] == "request"))


def exact_prompt(question: str = "Why?") -> Prompt:
    """A prompt whose every character has a producer."""
    return Prompt().add("system", "Answer from the context.", trust="policy").literal("\n\n").add("user", question)


class Tracing:
    """The real SDK, exporting to the JSON lines file ``path`` and keeping the spans for other writers."""

    def __init__(self, path: Path, service: str = "app", **limits: Any) -> None:
        self.path = path
        self._closed = False
        self.memory = InMemorySpanExporter()
        self.provider = TracerProvider(resource=Resource({"service.name": service}), shutdown_on_exit=False, **limits)
        exporters: list[SpanExporter] = [FileSpanExporter(path), self.memory]
        for exporter in exporters:
            self.provider.add_span_processor(SimpleSpanProcessor(exporter))
        self.ours = self.provider.get_tracer("otel_prompt_trace", "0")
        self.theirs = self.provider.get_tracer(INSTRUMENTATION, "2")

    @property
    def finished(self) -> tuple[ReadableSpan, ...]:
        """The spans that have ended."""
        return self.memory.get_finished_spans()

    def call(self, qid: str, chars: int = 1, **attributes: Any) -> Any:
        """The span of ``q.call()``, as a context manager."""
        own = {"prompt_trace.qid": qid, "prompt_trace.chars": chars, **attributes}
        return self.ours.start_as_current_span("call", attributes=own)

    def chat(self, **attributes: Any) -> Any:
        """The model-call span of an instrumentation, as a context manager."""
        return self.theirs.start_as_current_span("chat m", attributes={"gen_ai.operation.name": "chat", **attributes})

    def close(self) -> Path:
        """End exporting; the file, which is whole then."""
        if not self._closed:
            self._closed = True
            self.provider.shutdown()
        return self.path


def collector_lines(spans: Iterable[ReadableSpan], per_line: int = 3) -> list[bytes]:
    """The spans as the collector's file exporter writes them: one TracesData a line, a resource for each span."""
    entries = [_collector_resource(span) for span in spans]
    return [
        json.dumps({"resourceSpans": entries[start : start + per_line]}, ensure_ascii=False).encode(
            "utf-8", "surrogatepass"
        )
        + b"\n"
        for start in range(0, len(entries), per_line)
    ]


def _collector_resource(span: ReadableSpan) -> dict[str, Any]:
    context = span.get_span_context()
    assert context is not None
    scope = span.instrumentation_scope
    assert scope is not None
    return {
        "resource": {"attributes": _attributes(span.resource.attributes)},
        "scopeSpans": [
            {
                "scope": {"name": scope.name, "version": scope.version},
                "spans": [
                    {
                        "traceId": f"{context.trace_id:032x}",
                        "spanId": f"{context.span_id:016x}",
                        "parentSpanId": "" if span.parent is None else f"{span.parent.span_id:016x}",
                        "flags": 256,
                        "name": span.name,
                        "kind": span.kind.value + 1,
                        "startTimeUnixNano": str(span.start_time),
                        "endTimeUnixNano": str(span.end_time),
                        "attributes": _attributes(span.attributes or {}),
                        "droppedAttributesCount": span.dropped_attributes,
                        "events": [{"timeUnixNano": str(e.timestamp), "name": e.name} for e in span.events],
                        "status": {"code": span.status.status_code.value, "message": span.status.description or ""},
                    }
                ],
            }
        ],
        "schemaUrl": "https://opentelemetry.io/schemas/1.37.0",
    }


def _attributes(attributes: Any) -> list[dict[str, Any]]:
    return [{"key": key, "value": _any_value(value)} for key, value in attributes.items()]


def _any_value(value: Any) -> dict[str, Any]:
    match value:
        case bool():
            return {"boolValue": value}
        case int():
            return {"intValue": str(value)}
        case float():
            return {"doubleValue": value}
        case bytes():
            return {"bytesValue": base64.b64encode(value).decode()}
        case str():
            return {"stringValue": value}
        case _:
            return {"arrayValue": {"values": [_any_value(item) for item in value]}}
