"""What the wire gave, read: a request's bytes into runs and sizes, an answer's bytes into a response's fields.

Captured on the application's thread are only bytes. Everything here can wait until the event is sealed.
"""

from __future__ import annotations

from otel_prompt_trace.core.bodies.apis import model_in_path
from otel_prompt_trace.core.bodies.runs import as_runs, read_body
from otel_prompt_trace.core.conventions.request_bodies import settings_of
from otel_prompt_trace.core.events import Event
from otel_prompt_trace.core.text import as_text, sha256_bytes


def received(event: Event) -> Event:
    """The event, read; one that holds no bytes of the wire as it is."""
    if event["kind"] == "request" and isinstance(event.get("body"), bytes):
        return _request(event, event["body"])
    if event["kind"] == "response" and isinstance(event.get("raw"), bytes):
        return _response(event)
    return event


def _request(event: Event, body: bytes) -> Event:
    runs = as_runs(body)
    read: Event = {**event, "body": runs, "bytes": len(body), "sha256": sha256_bytes(body)}
    text = runs[0]
    found = read_body(text) if isinstance(text, str) else None
    if found is None:
        return read
    read["parts"] = found.parts.sizes(text)
    settings = settings_of(found.value)
    model = settings.get("model") or model_in_path(as_text(event.get("path", "")))
    if model is not None:
        read["model"] = str(model)
    if settings.get("temperature") is not None:
        read["temperature"] = settings["temperature"]
    return read


def _response(event: Event) -> Event:
    from otel_prompt_trace.core.replies import ReplyReader, decode_body  # where only requests are cut, it is not needed

    read = {name: item for name, item in event.items() if name not in ("raw", "complete", "encodings")}
    body, undecoded = decode_body(event["raw"], str(event.get("encodings") or ""))
    status = event.get("status")
    reader = ReplyReader(
        str(event.get("api")), status if isinstance(status, int) else 0, str(event.get("content_type") or "")
    )
    reader.feed(body)
    # Whoever has seen a stream's own end may leave before the transfer's, by whatever means.
    found = reader.fields(complete=reader.ended or (bool(event.get("complete")) and undecoded is None))
    if undecoded is not None:
        found["unread"] = undecoded
    if reader.ended:
        read = {name: item for name, item in read.items() if name not in ("unfinished", "error")}
    unkept = event.get("unkept")
    return {**read, **found, "bytes": len(event["raw"]) + (unkept if isinstance(unkept, int) else 0)}
