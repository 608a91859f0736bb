"""Headers, query parameters and keys of a model request reach no record, by whichever door they come."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import zstandard
from opentelemetry._logs import LogRecord
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import Tracer

import otel_prompt_trace as pt
from otel_prompt_trace.core.record import Record
from otel_prompt_trace.core.text import Cut, CutText
from otel_prompt_trace.diversion.hook import completion_hook
from otel_prompt_trace.runtime import Runtime

KEY, NUMBER = "sk-0815-4711-secret", "1"
MESSAGES = [{"role": "user", "content": f"question {NUMBER}, in full"}]
BODY: dict[str, Any] = {
    "model": "m",
    "messages": MESSAGES,
    "temperature": 0.5,
    "extra_headers": {"Authorization": f"Bearer {KEY}", "X-Try": NUMBER},
    "extra_query": {"key": KEY},
    "tools": [{"type": "mcp", "server_label": "docs", "authorization": KEY}],
}
TEXT = json.dumps(BODY)
SETTINGS = {name: value for name, value in BODY.items() if name != "messages"}
LLM = {"openinference.span.kind": "LLM"}
CHAT = {"gen_ai.operation.name": "chat"}
OTEL = [{"role": "user", "parts": [{"type": "text", "content": MESSAGES[0]["content"]}]}]


def at_start(tracer: Tracer) -> None:
    """Before the span is there."""
    given = {**LLM, "input.value": TEXT, "llm.invocation_parameters": json.dumps(SETTINGS)}
    tracer.start_span("call", attributes=given).end()


def while_it_runs(tracer: Tracer) -> None:
    """One by one and several at once, as text and as an object."""
    span = tracer.start_span("call", attributes=LLM)
    span.set_attribute("input.value", TEXT)
    span.set_attributes({"llm.invocation_parameters": json.dumps(SETTINGS), "llm.headers": str(BODY["extra_headers"])})
    span.set_attribute("llm.headers", str(BODY["extra_headers"]))
    span.end()


def on_an_event(tracer: Tracer) -> None:
    """Under a key of content, on a span's event."""
    span = tracer.start_span("call", attributes={**LLM, "input.value": json.dumps({"messages": MESSAGES})})
    span.add_event("retry", {"llm.invocation_parameters": json.dumps(SETTINGS)})
    span.end()


def in_a_log_record(tracer: Tracer) -> None:
    """In the body, within the span, and without one: there it is a record by itself."""
    logger = LoggerProvider(shutdown_on_exit=False).get_logger("app")
    with tracer.start_as_current_span("call", attributes={**CHAT, "gen_ai.input.messages": json.dumps(OTEL)}):
        logger.emit(LogRecord(event_name="gen_ai.client.inference.operation.details", body=SETTINGS))
    with pt.query():
        logger.emit(LogRecord(event_name="gen_ai.client.inference.operation.details", body=TEXT, attributes={}))


def by_the_hook(tracer: Tracer) -> None:
    """Among what the completion hook is handed."""
    with tracer.start_as_current_span("call", attributes=CHAT) as span:
        completion_hook().on_completion(
            inputs=OTEL, outputs=[], system_instruction=[], tool_definitions=SETTINGS["tools"], span=span
        )


def as_a_long_value(tracer: Tracer) -> None:
    """Under a key of the application's own, where only the length takes it off the span."""
    span = tracer.start_span("call", attributes={**LLM, "input.value": json.dumps({"messages": MESSAGES})})
    span.set_attribute("app.request", json.dumps({**SETTINGS, "filling": "x" * 5000}))
    span.set_attribute("app.request.headers", f"Authorization: {KEY}; filling={'x' * 5000}")
    span.end()


DOORS = [at_start, while_it_runs, on_an_event, in_a_log_record, by_the_hook, as_a_long_value]


@pytest.fixture(params=["store", "hash"])
def tracer(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Tracer]:
    """Recording on a provider of its own, under either policy."""
    provider = TracerProvider(shutdown_on_exit=False)
    place: dict[str, Any] = {"store": str(tmp_path / "store"), "spool": str(tmp_path / "spool")}
    pt.install(tracer_provider=provider, policy=request.param, **place)
    yield provider.get_tracer("app")
    pt.uninstall()


def written(folder: Path) -> bytes:
    """Every byte of the store and of the spool."""
    objects = b"".join(
        zstandard.ZstdDecompressor().stream_reader(path.read_bytes()).read()
        for path in (folder / "store").rglob("*.zst")
    )
    return objects + b"".join(path.read_bytes() for path in (folder / "spool").rglob("*.spool"))


def records(folder: Path) -> list[Record]:
    """Every record, after a flush."""
    store = pt.open_store(folder / "store")
    return [store.get(qid) for _, qid in store.qids()]


@pytest.mark.parametrize("door", DOORS, ids=lambda door: door.__name__)
def test_no_credential_is_written(tracer: Tracer, tmp_path: Path, door: Callable[[Tracer], None]) -> None:
    """Neither to the spool nor to the store; the rest of the call is there, a number of the prompt's own as well."""
    door(tracer)
    in_spool = written(tmp_path)
    assert pt.flush(20).ok
    in_store = written(tmp_path)
    assert KEY.encode() not in in_spool + in_store
    assert b"qid" in in_store
    if b'"policy":"hash"' in in_store:
        return
    assert b"docs" in in_store
    prompts = [call.prompt for record in records(tmp_path) for call in record.calls]
    assert MESSAGES[0]["content"] in [s.text for prompt in prompts if prompt is not None for s in prompt.segments]


@pytest.mark.parametrize("tracer", ["store"], indirect=True)
def test_the_label_says_what_was_cut(tracer: Tracer, tmp_path: Path) -> None:
    """Place and length stand where the secret stood, and the rest of the value is what was handed over."""
    at_start(tracer)
    assert pt.flush(20).ok
    (record,) = records(tmp_path)
    (content,) = record.of("content")
    cut = content["values"]["input.value"]
    assert isinstance(cut, CutText)
    assert len(cut) == len(TEXT)
    labels = [run for run in cut.runs if isinstance(run, Cut)]
    assert [(label.policy, label.chars) for label in labels] == [
        ("credential", len(f"Bearer {KEY}")), ("credential", 1), ("credential", len(KEY)), ("credential", len(KEY)),
    ]  # fmt: skip
    assert labels[2].hmac_sha256 == labels[3].hmac_sha256  # one key, wherever it stands
    kept, at = "", 0
    for start, end, _ in cut.cuts():
        assert TEXT[start:end] in (f"Bearer {KEY}", NUMBER, KEY)
        kept += TEXT[at:start]
        at = end
    assert "".join(run for run in cut.runs if isinstance(run, str)) == kept + TEXT[at:]
    (call,) = record.calls
    assert call.request is not None
    assert call.request["temperature"] == 0.5
    assert "extra_headers" not in call.request.get("parameters", {})


@pytest.mark.parametrize("tracer", ["store"], indirect=True)
def test_where_the_looking_fails_nothing_is_kept(
    tracer: Tracer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It fails closed, and the application goes on."""

    def broken(self: Runtime) -> Any:
        raise OSError("no key")

    monkeypatch.setattr(Runtime, "digest", broken)
    with caplog.at_level(logging.ERROR):
        at_start(tracer)
        while_it_runs(tracer)
    pt.flush(20)
    assert KEY.encode() not in written(tmp_path)
    assert not caplog.records


@pytest.mark.parametrize("tracer", ["store"], indirect=True)
def test_the_span_itself_shows_none_of_it(tracer: Tracer) -> None:
    """What is diverted is off the span with its credentials."""
    span: Any = tracer.start_span("call", attributes={**LLM, "input.value": TEXT})
    span.set_attribute("llm.invocation_parameters", json.dumps(SETTINGS))
    assert KEY not in str(dict(span.attributes))
    span.end()
