"""Spans keep timings and small attributes, whatever the prompt's size."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest
from opentelemetry import context, trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import SpanKind

import otel_prompt_trace as pt
from otel_prompt_trace.pipeline.accounting import Accounts
from tests.capture.recording import Recording, fixed_sources
from tests.waiting import until

_SMALL = 200


def _one_call(prompt: object, *, wait: bool) -> tuple[pt.Query, str]:
    with pt.query(question="q") as q, q.stage("search"), q.call(model="m", prompt=prompt) as call:
        call.respond("o")
        if wait:
            until(lambda: call._provisional is not None)
    return q, call.id


def test_names_kinds_and_parents(recording: Recording) -> None:
    """Query, stage and call, nested, all INTERNAL, and none that a dashboard would take for a model call."""
    q, _ = _one_call("p", wait=False)
    query, stage, call = recording.span("query"), recording.span("search"), recording.span("call")
    assert call.parent is not None
    assert stage.parent is not None
    assert (call.parent.span_id, stage.parent.span_id) == (stage.context.span_id, query.context.span_id)
    assert query.parent is None
    for span in (query, stage, call):
        assert span.kind is SpanKind.INTERNAL
        assert span.attributes is not None
        assert span.attributes["prompt_trace.qid"] == q.qid
        assert not any(name.startswith("gen_ai.") for name in span.attributes)
        assert span.instrumentation_scope is not None
        assert span.instrumentation_scope.name == "otel_prompt_trace"
        assert span.instrumentation_scope.version == pt.__version__


@pytest.mark.parametrize("characters", [0, 10, 500, 501, 60_000, 1_000_000])
@pytest.mark.parametrize("as_messages", [False, True])
def test_attributes_are_small(recording: Recording, characters: int, as_messages: bool) -> None:
    """No attribute, event, name or status grows with the prompt."""
    text = "é" * characters
    _one_call([{"role": "user", "content": text}] if as_messages else text, wait=True)
    for span in recording.exporter.get_finished_spans():
        assert len(span.to_json()) < 4_000
        assert span.attributes is not None
        assert all(len(str(value)) < _SMALL for value in span.attributes.values())


def test_a_long_stage_name_is_cut(recording: Recording) -> None:
    """A text that ends up as a name would be an index key in every backend."""
    with pt.query() as q, q.stage("x" * 10_000):
        pass
    assert all(len(span.name) < _SMALL for span in recording.exporter.get_finished_spans())


def test_digest_and_verdict_stand_on_a_call_that_lasted(recording: Recording) -> None:
    """The shipper took stock while the model was answering: digest, length, what is unaccounted, verdict."""
    prompt = pt.Prompt().add("a", "x" * 600).literal("\n").add("b", "yy")
    _one_call(prompt, wait=True)
    attributes = recording.attributes("call")
    digest = hashlib.sha256(prompt.text.encode()).hexdigest()
    assert attributes == attributes | {"prompt_trace.sha256": digest, "prompt_trace.chars": 603}
    assert attributes == attributes | {"prompt_trace.pieces": 3}
    assert attributes == attributes | {"prompt_trace.unaccounted": 0, "prompt_trace.verdict": "exact"}


def test_offers_count_in_the_provisional_verdict(recording: Recording) -> None:
    """A piece offered to the query accounts for its characters on the span as well."""
    with pt.query() as q:
        text = pt.declare("a", "alpha ")
        with q.call(prompt=text + "beta") as call:
            call.respond("o")
            until(lambda: call._provisional is not None)
    attributes = recording.attributes("call")
    assert attributes == attributes | {"prompt_trace.unaccounted": 4, "prompt_trace.verdict": "mismatch"}
    assert attributes["prompt_trace.pieces"] == 1


def test_a_piece_that_came_later_leaves_the_verdict_to_the_batch(recording: Recording) -> None:
    """Declared after the shipper looked: a verdict without it would be wrong, so there is none on the span."""
    with pt.query() as q, q.call(prompt="alpha") as call:
        until(lambda: call._provisional is not None)
        pt.declare("a", "alpha")
        call.respond("o")
    attributes = recording.attributes("call")
    assert "prompt_trace.verdict" not in attributes
    assert "prompt_trace.unaccounted" not in attributes
    assert attributes["prompt_trace.pieces"] == 1


def test_a_short_prompt_has_its_digest_at_once(
    install: Callable[..., Recording], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the call was over before the shipper looked."""
    monkeypatch.setattr("otel_prompt_trace.capture.call.Call._take_stock", lambda *_: None)
    recording = install()
    _one_call("short", wait=False)
    attributes = recording.attributes("call")
    assert attributes["prompt_trace.sha256"] == hashlib.sha256(b"short").hexdigest()
    assert attributes["prompt_trace.chars"] == 5
    assert "prompt_trace.verdict" not in attributes


def test_a_length_that_nobody_counted_is_not_given(
    install: Callable[..., Recording], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The length of a list of messages is counted off the thread; until then there is none, rather than 0."""
    monkeypatch.setattr("otel_prompt_trace.capture.call.Call._take_stock", lambda *_: None)
    recording = install()
    _one_call([{"role": "user", "content": "hello"}], wait=False)
    attributes = recording.attributes("call")
    assert "prompt_trace.chars" not in attributes


def test_the_reference_is_the_payload_s_folder(recording: Recording) -> None:
    """What stands on the span finds the object."""
    q, _ = _one_call("p", wait=False)
    recording.events(q.qid)
    attributes = recording.attributes("call")
    reference = attributes["prompt_trace.ref"]
    assert reference == f"payloads/dt=2026-11-30/{q.qid}/"
    assert list((recording.store / str(reference)).glob("*.jsonl.zst"))


def test_there_is_no_reference_to_what_was_lost(
    install: Callable[..., Recording], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A span never points at a payload that is neither stored nor spooled."""
    monkeypatch.setattr(Accounts, "warn", lambda *_: None)
    recording = install(spool_max_bytes=65_536, spool_file_bytes=65_536)
    _one_call("x" * 100_000, wait=False)
    attributes = recording.attributes("call")
    assert "prompt_trace.ref" not in attributes
    assert pt.flush(20).reasons == {"spool_full": 2}


def test_events_carry_the_ids_of_their_own_span(recording: Recording) -> None:
    """Query and offers the query's span, request, response and pieces of the call the call's: joins go by them."""
    with pt.query() as q:
        pt.declare("offered", "alpha")
        with q.call(prompt="alpha") as call:
            pt.declare("inside", "beta")
            call.respond("o")
    query, call_span = recording.span("query").context, recording.span("call").context
    ids = {event.get("producer", event["kind"]): event["span_id"] for event in recording.events(q.qid)}
    assert ids == {
        **dict.fromkeys(("query", "offered", "end"), f"{query.span_id:016x}"),
        **dict.fromkeys(("request", "inside", "response"), f"{call_span.span_id:016x}"),
    }
    assert {event["trace_id"] for event in recording.events(q.qid)} == {f"{query.trace_id:032x}"}


def test_an_unsampled_trace_has_its_payload(install: Callable[..., Recording], tmp_path: Path) -> None:
    """Payloads are kept whether or not their span is; their events carry the ids all the same."""
    provider = TracerProvider(sampler=ALWAYS_OFF, shutdown_on_exit=False)
    recording = install()
    pt.install(
        store=str(tmp_path / "other"), spool=str(tmp_path / "s2"), tracer_provider=provider, sources=fixed_sources()
    )
    q, _ = _one_call("kept", wait=False)
    assert recording.exporter.get_finished_spans() == ()
    assert pt.flush(20)
    events = pt.open_store(tmp_path / "other").events(q.qid).events
    assert [event["kind"] for event in events] == ["query", "request", "response", "end"]
    assert all(len(event["span_id"]) == 16 for event in events)


def test_without_a_tracer_provider_the_record_is_whole(install: Callable[..., Recording], tmp_path: Path) -> None:
    """OpenTelemetry's own no-op spans: no ids, everything else."""
    install()
    pt.install(
        store=str(tmp_path / "other"),
        spool=str(tmp_path / "s2"),
        tracer_provider=trace.NoOpTracerProvider(),
        sources=fixed_sources(),
    )
    q, _ = _one_call("kept", wait=False)
    assert pt.flush(20)
    events = pt.open_store(tmp_path / "other").events(q.qid).events
    assert [event["kind"] for event in events] == ["query", "request", "response", "end"]
    assert not any("span_id" in event for event in events)


def test_the_context_is_as_before(recording: Recording) -> None:
    """A query leaves nothing in the context that it found."""
    before = context.get_current()
    _one_call("p", wait=False)
    assert context.get_current() == before
