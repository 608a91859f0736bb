"""OTLP/JSON to spans, by the protobuf JSON mapping with the exceptions that OTLP makes of it.

Ids are hex in OTLP/JSON and base64 in plain protobuf JSON: their lengths differ (32 and 16 against 24 and 12), so
both are read. 64-bit integers stand as strings or numbers, enums as numbers or names. The first of several
attributes of one name counts. Source: https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding

A span that can't be read is one :class:`Problem`; the others of its line are read all the same.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from typing import Any

from otel_prompt_trace.batch.spans import Span
from otel_prompt_trace.core.events import Problem

_KINDS = ("UNSPECIFIED", "INTERNAL", "SERVER", "CLIENT", "PRODUCER", "CONSUMER")
_STATUS = ("UNSET", "OK", "ERROR")
_OTHER_SIGNALS = ("resourceLogs", "resourceMetrics", "resourceProfiles")  # one file may hold several signals
_INT64 = range(2**63)


class _MalformedError(ValueError):
    """A span, or a part around spans, that is not of the shape which OTLP gives it."""


def spans_of(value: object, source: str, line: int) -> Iterator[Span | Problem]:
    """The spans of one ``TracesData`` object, or of a list of such, and a problem for whatever is none.

    Args:
        value: decoded JSON.
        source: the name of the file, for reports.
        line: the line at which the value begins.
    """
    if isinstance(value, list):
        for item in value:
            yield from spans_of(item, source, line)
    elif not isinstance(value, dict):
        yield Problem(source, line, f"not a JSON object but {type(value).__name__}")
    elif "resourceSpans" in value:
        yield from _each_resource(value["resourceSpans"], source, line)
    elif value and not any(name in value for name in _OTHER_SIGNALS):
        yield Problem(source, line, "a JSON object without resourceSpans: not OTLP")


def _each_resource(resources: Any, source: str, line: int) -> Iterator[Span | Problem]:
    for resource_spans in _items(resources, "resourceSpans", source, line):
        if isinstance(resource_spans, Problem):
            yield resource_spans
            continue
        try:
            service = _attributes(_object(resource_spans.get("resource"), "resource")).get("service.name")
        except _MalformedError as error:
            service = None
            yield Problem(source, line, str(error))
        for scope_spans in _items(resource_spans.get("scopeSpans"), "scopeSpans", source, line):
            if isinstance(scope_spans, Problem):
                yield scope_spans
                continue
            scope = scope_spans.get("scope")
            scope_name = scope.get("name") if isinstance(scope, dict) else None
            for span in _items(scope_spans.get("spans"), "spans", source, line):
                yield span if isinstance(span, Problem) else _read(span, scope_name, service, source, line)


def _items(value: Any, name: str, source: str, line: int) -> Iterator[dict[str, Any] | Problem]:
    """The objects of a list; a problem for a list that is none, and for each item that is no object."""
    if value is None:
        return
    if not isinstance(value, list):
        yield Problem(source, line, f"{name} is not a list but {type(value).__name__}")
        return
    for number, item in enumerate(value):
        yield item if isinstance(item, dict) else Problem(source, line, f"{name}[{number}] is not an object")


def _read(span: dict[str, Any], scope: object, service: object, source: str, line: int) -> Span | Problem:
    try:
        status = _object(span.get("status"), "status")
        return Span(
            trace_id=_id(span.get("traceId"), 16, "traceId"),
            span_id=_id(span.get("spanId"), 8, "spanId"),
            parent_span_id=_parent(span.get("parentSpanId")),
            name=_text(span.get("name")),
            kind=_enum(span.get("kind"), _KINDS, "SPAN_KIND_"),
            start_ns=_integer(span.get("startTimeUnixNano"), "startTimeUnixNano"),
            end_ns=_integer(span.get("endTimeUnixNano"), "endTimeUnixNano"),
            status_code=_enum(status.get("code"), _STATUS, "STATUS_CODE_"),
            status_message=_text(status.get("message")),
            scope=_text(scope),
            service=_text(service),
            attributes=_attributes(span),
            events=len(_list(span.get("events"), "events")),
            dropped_attributes=_integer(span.get("droppedAttributesCount"), "droppedAttributesCount"),
            source=source,
            line=line,
        )
    except _MalformedError as error:
        return Problem(source, line, f"span {str(span.get('spanId'))[:40]!r}: {error}")


def _id(value: object, size: int, name: str) -> str:
    """Hex of an id of ``size`` bytes."""
    raw: bytes | None = None
    if isinstance(value, str):
        try:
            if len(value) == 2 * size:
                raw = binascii.unhexlify(value)
            elif len(value) == -(-size // 3) * 4:
                raw = base64.b64decode(value, validate=True)
        except ValueError:  # not hex, not base64, or not ASCII
            raw = None
    if raw is None or len(raw) != size:
        raise _MalformedError(f"{name} {str(value)[:40]!r} is not an id of {size} bytes")
    if not any(raw):
        raise _MalformedError(f"{name} is all zeros")
    return raw.hex()


def _parent(value: object) -> str | None:
    if not value:
        return None
    return None if isinstance(value, str) and not value.strip("0") else _id(value, 8, "parentSpanId")


def _enum(value: object, names: tuple[str, ...], prefix: str) -> str:
    if isinstance(value, str):
        return value.removeprefix(prefix)
    if isinstance(value, int) and 0 <= value < len(names):
        return names[value]
    return names[0] if value is None else str(value)


def _integer(value: object, name: str) -> int:
    if value is None:
        return 0
    try:
        number = int(value) if isinstance(value, str | int) and not isinstance(value, bool) else None
    except ValueError:
        number = None
    if number is None or number not in _INT64:
        raise _MalformedError(f"{name} {str(value)[:40]!r} is not a number below 2**63")
    return number


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _object(value: object, name: str) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise _MalformedError(f"{name} is not an object but {type(value).__name__}")
    return value


def _list(value: object, name: str) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise _MalformedError(f"{name} is not a list but {type(value).__name__}")
    return value


def _attributes(owner: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for pair in _list(owner.get("attributes"), "attributes"):
        key = pair.get("key") if isinstance(pair, dict) else None
        if not isinstance(key, str):
            raise _MalformedError("an attribute is not a pair of key and value")
        if key not in found:
            found[key] = _any_value(pair.get("value"))
    return found


def _any_value(value: Any) -> Any:
    """The Python value of an ``AnyValue``; what has no form that OTLP knows is kept as it stands."""
    if not isinstance(value, dict) or len(value) != 1:
        return None if value == {} else value
    ((kind, inner),) = value.items()
    try:
        match kind:
            case "intValue":
                return int(inner)
            case "doubleValue":
                return float(inner)
            case "bytesValue":
                return base64.b64decode(inner, validate=True)
            case "arrayValue":
                return [_any_value(item) for item in inner.get("values") or ()]
            case "kvlistValue":
                return {str(pair.get("key")): _any_value(pair.get("value")) for pair in inner.get("values") or ()}
            case "stringValue" | "boolValue":
                return inner
    except (ValueError, TypeError, AttributeError):
        return value
    return value
