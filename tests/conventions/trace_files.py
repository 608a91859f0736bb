"""The corpus's trace files, read into what an application would have handed over: named carriers of attributes.

The files come in every shape in which spans are kept: OTLP/JSON lines and OTLP protobuf, Tempo, Jaeger, exports of
Langfuse, lists of flattened spans. What differs is only how attributes are written down; here each span, span event
and log record becomes one :class:`Carrier`.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

CORPUS = Path(__file__).parents[3] / "shared" / "corpus"
TRACES = CORPUS / "traces"

Kind = Literal["resource", "span", "event", "log"]


@dataclass(frozen=True)
class Carrier:
    """One span, span event or log record: its attributes, and its body where it has one."""

    file: str
    kind: Kind
    name: str
    attributes: dict[str, Any]
    body: Any = None
    span_id: str = ""
    parent_id: str = ""
    scope: str = ""
    started: int = 0
    events: list[Carrier] = field(default_factory=list)


def files() -> list[Path]:
    """Every trace file of the corpus. Spans that are there as JSON lines are not read as protobuf a second time."""
    found = [path for path in sorted(TRACES.rglob("*")) if path.name.endswith((".json", ".jsonl.gz", ".logs.pb.gz"))]
    return [path for path in found if path.is_file()]


def carriers(path: Path) -> Iterator[Carrier]:
    """Every carrier of a file, events after the span that they belong to."""
    for span in top_level(path):
        yield span
        yield from span.events


def top_level(path: Path) -> Iterator[Carrier]:
    """Spans (with their events), log records and resources."""
    name = f"{path.parent.name}/{path.name}"
    if path.name.endswith(".logs.pb.gz"):
        yield from _protobuf_logs(path, name)
        return
    raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    for document in [json.loads(line) for line in raw.splitlines()] if path.suffix == ".gz" else [json.loads(raw)]:
        yield from _document(document, name)


def _document(document: Any, file: str) -> Iterator[Carrier]:
    if isinstance(document, list):
        for span in document:
            yield _flat(span, file)
    elif "resourceSpans" in document or "batches" in document:
        yield from _otlp(document.get("resourceSpans") or document["batches"], file)
    elif "data" in document:
        for trace in document["data"]:
            for span in trace["spans"]:
                yield _jaeger(span, file)
    elif "observations" in document:
        for observation in [document["trace"], *document["observations"]]:
            yield from _langfuse(observation, file)
    elif "spans" in document:
        for span in document["spans"]:
            yield _flat(span, file)
    else:
        yield _flat(document, file)


def _otlp(resources: list[dict[str, Any]], file: str) -> Iterator[Carrier]:
    for resource in resources:
        yield Carrier(file, "resource", "resource", _pairs(resource.get("resource", {}).get("attributes", [])))
        for scoped in resource.get("scopeSpans") or resource.get("instrumentationLibrarySpans") or []:
            scope = (scoped.get("scope") or scoped.get("instrumentationLibrary") or {}).get("name", "")
            for span in scoped["spans"]:
                events = [
                    Carrier(file, "event", event.get("name", ""), _pairs(event.get("attributes", [])))
                    for event in span.get("events", [])
                ]
                yield Carrier(
                    file,
                    "span",
                    span.get("name", ""),
                    _pairs(span.get("attributes", [])),
                    span_id=span.get("spanId", ""),
                    parent_id=span.get("parentSpanId", ""),
                    scope=scope,
                    started=int(span.get("startTimeUnixNano", 0)),
                    events=events,
                )


def _jaeger(span: dict[str, Any], file: str) -> Carrier:
    events = []
    for log in span.get("logs") or []:
        fields = {entry["key"]: entry["value"] for entry in log["fields"]}
        events.append(Carrier(file, "event", str(fields.get("event", "")), fields))
    attributes = {tag["key"]: tag["value"] for tag in span["tags"]}
    return Carrier(file, "span", span["operationName"], attributes, span_id=span["spanID"], events=events)


def _flat(span: dict[str, Any], file: str) -> Carrier:
    events = [
        Carrier(
            file,
            "event",
            event.get("event_name") or event.get("name") or "",
            dict(event.get("attributes") or {}),
            body=event.get("body"),
        )
        for event in span.get("span_events") or span.get("events") or []
    ]
    span_id = str(span.get("span_id") or span.get("spanId") or (span.get("context") or {}).get("span_id"))
    return Carrier(file, "span", span.get("name", ""), dict(span["attributes"]), span_id=span_id, events=events)


def _langfuse(observation: dict[str, Any], file: str) -> Iterator[Carrier]:
    metadata = observation.get("metadata")
    metadata = json.loads(metadata) if isinstance(metadata, str) else metadata or {}
    yield Carrier(file, "span", observation.get("name") or "", dict(metadata.get("attributes") or {}))


def _pairs(attributes: list[dict[str, Any]]) -> dict[str, Any]:
    return {pair["key"]: _value(pair.get("value", {})) for pair in attributes}


def _value(value: Mapping[str, Any]) -> Any:
    for kind, inner in value.items():
        if kind == "intValue":
            return int(inner)
        if kind == "arrayValue":
            return [_value(item) for item in inner.get("values", [])]
        if kind == "kvlistValue":
            return {pair["key"]: _value(pair.get("value", {})) for pair in inner.get("values", [])}
        return inner
    return None


def _protobuf_logs(path: Path, file: str) -> Iterator[Carrier]:
    from opentelemetry.proto.logs.v1.logs_pb2 import LogsData

    for resource in LogsData.FromString(gzip.decompress(path.read_bytes())).resource_logs:
        for scoped in resource.scope_logs:
            for record in scoped.log_records:
                attributes = {pair.key: _any_value(pair.value) for pair in record.attributes}
                name = record.event_name or str(attributes.get("event.name", ""))
                yield Carrier(
                    file,
                    "log",
                    name,
                    attributes,
                    body=_any_value(record.body),
                    span_id=record.span_id.hex(),
                    scope=scoped.scope.name,
                    started=record.time_unix_nano,
                )


def _any_value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind is None:
        return None
    inner = getattr(value, kind)
    if kind == "array_value":
        return [_any_value(item) for item in inner.values]
    if kind == "kvlist_value":
        return {pair.key: _any_value(pair.value) for pair in inner.values}
    return inner
