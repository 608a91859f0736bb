"""``production.yaml`` with the real collector and a real S3 server: what the guard lets through, and where it goes."""

from __future__ import annotations

import json
import re
import uuid
from datetime import datetime, timezone
from typing import Any

import pytest
from opentelemetry.trace import Span, Status, StatusCode

from otel_prompt_trace.batch.archive import SpanArchive
from otel_prompt_trace.batch.spans import Span as ArchivedSpan
from otel_prompt_trace.core.conventions import content_key
from tests.collector.bucket import Archived, Bucket
from tests.collector.conftest import StartCollector
from tests.collector.running import Jaeger, tags
from tests.collector.sending import application, send_spans
from tests.collector.test_guard import KEPT, SECRETS, keys
from tests.waiting import until

pytestmark = pytest.mark.integration

LIMIT = 4095  # SPAN_STRING_LIMIT as it stands in the file
PLANTED = "planted-words-of-a-person"
ORDINARY = {
    "prompt_trace.qid": "Q-1", "prompt_trace.ref": "s3://b/x", "prompt_trace.sha256": "ab" * 9, "prompt_trace.chars": 1,
    "gen_ai.input.messages_ref": "s3://payloads/y", "gen_ai.usage.input_tokens": 4, "gen_ai.request.model": "m",
    "gen_ai.response.finish_reasons": ["stop"], "gen_ai.prompt.name": "greeting", "http.response.status_code": 200,
    "ratio": 0.5, "on": True, "server.address": "127.0.0.1",
}  # fmt: skip


@pytest.fixture
def planted(start_collector: StartCollector, spans_bucket: Bucket, jaeger: Jaeger) -> Any:
    """Send spans that ``plant`` fills, and give them as the archive has them, by their names."""

    def send(*plants: Any, **resource: str) -> dict[str, Archived]:
        collector = start_collector("production.yaml", JAEGER_OTLP_ENDPOINT=jaeger.otlp, **spans_bucket.variables)
        with application(collector.grpc, "careless", **resource) as tracer:
            for plant in plants:
                with tracer.start_as_current_span(plant.__name__) as span:
                    plant(span)
        until(lambda: len(spans_bucket.span_ids()) == len(plants))
        said = collector.program.said()
        assert not re.search(r"failed to execute|\tpanic", said), said[-4000:]
        return {span.raw["name"]: span for span in spans_bucket.archived()}

    return send


def test_every_known_key_is_removed_whatever_its_value(planted: Any) -> None:
    """As text, array, map and bytes, on spans, events, scope and resource; everything else stays as it was sent."""
    message = {"role": "user", "n": 1, "content": PLANTED}
    values = (PLANTED, [PLANTED, "x"], {"parts": [message]}, [message], PLANTED.encode())

    def spans_with(number: int) -> Any:
        def plant(span: Span) -> None:
            listed = keys()
            for index, key in enumerate(listed[number * 60 : number * 60 + 60]):
                span.set_attribute(key, values[index % len(values)])
                span.add_event("anything", {key: values[(index + 1) % len(values)], "kept": 1})
            span.set_attributes(ORDINARY)

        plant.__name__ = f"span {number}"
        return plant

    parts = len(keys()) // 60 + 1
    found = planted(*map(spans_with, range(parts)), **{"gen_ai.prompt": PLANTED, "host.name": "h"})
    assert len(found) == parts > 4
    for span in found.values():
        assert PLANTED not in json.dumps([span.raw, span.scope, span.resource])
        assert span.attributes == ORDINARY
        assert span.events
        assert all(event == ("anything", {"kept": 1}) for event in span.events)
        assert (span.scope, span.resource["host.name"]) == ({}, "h")
        assert not [key for key in (*span.scope, *span.resource) if content_key(key)]


def test_keys_that_are_no_content_stay(planted: Any) -> None:
    """All those that the project itself leaves on spans, with their values as they were."""
    wanted = {key: key for key in KEPT if key}

    def first(span: Span) -> None:
        span.set_attributes(dict(list(wanted.items())[:60]))

    def second(span: Span) -> None:
        span.set_attributes(dict(list(wanted.items())[60:]))

    found = planted(first, second)
    assert {**found["first"].attributes, **found["second"].attributes} == wanted


def test_content_below_other_keys_is_removed(planted: Any) -> None:
    """In maps and arrays under names that nobody knows; what else was nested there becomes attributes."""

    def nested(span: Span) -> None:
        message = {"gen_ai.input.messages": [{"role": "user", "content": PLANTED}], "gen_ai.prompt": PLANTED, "n": 1}
        span.set_attributes({"deep": {"er": [{"x": message}]}, "mixed": [1, {"llm.prompts.0": PLANTED}], "qty": 3})
        span.set_attributes(
            {"gen_ai": {"input": {"messages": PLANTED}, "prompt": {"name": "n"}}, "llm": {"prompts": [PLANTED]}}
        )
        span.add_event("anything", {"deep": {"input.value": {"text": PLANTED}, "m": 2}})

    span = planted(nested)["nested"]
    assert PLANTED not in json.dumps(span.raw)
    assert span.attributes == {"deep.er.0.x.n": 1, "mixed.0": 1, "qty": 3, "gen_ai.prompt.name": "n"}
    assert span.events == [("anything", {"deep.m": 2})]


def test_messages_that_come_as_events_are_emptied(planted: Any) -> None:
    """Bare names are content in an event that is a message, and an application's own anywhere else."""

    def talking(span: Span) -> None:
        said = {"content": PLANTED, "role": "user", "tool_calls": [PLANTED], "gen_ai.system": "openai"}
        for name in ("gen_ai.user.message", "gen_ai.choice", "data.input", "openinference.instrumentation.openai"):
            span.add_event(name, said)
        span.add_event("cache", {"content": "kept", "role": "kept"})

    *messages, last = planted(talking)["talking"].events
    assert [attributes for _, attributes in messages] == [{"gen_ai.system": "openai"}] * 4
    assert last == ("cache", {"content": "kept", "role": "kept"})


def test_secrets_are_masked_wherever_they_stand(planted: Any) -> None:
    """In values of any type, under keys that say it, in events, status and resource; also where the limit cuts."""

    def leaking(span: Span) -> None:
        for number, secret in enumerate(SECRETS):
            span.set_attribute(f"text.{number}", f"before {secret} after")
            span.set_attribute(f"array.{number}", ["first", secret])
            span.set_attribute(f"map.{number}", {"inner": {"deep": secret}})
            span.set_attribute(f"edge.{number}", "x" * (LIMIT - 12) + f" {secret}")
            span.add_event("failed", {"exception.message": f"401 for {secret}"})
            span.add_event(f"failed with {secret}")
        span.update_name("leaking " + " ".join(list(SECRETS)[:3]))
        span.set_attributes({"http.request.header.authorization": ["Basic dTpw"], "db.password": "hunter2"})
        span.set_attributes({"prompt_trace.qid": "Q-1", "gen_ai.usage.input_tokens": 12})
        span.set_status(Status(StatusCode.ERROR, "; ".join(f"no {secret}" for secret in list(SECRETS)[:6])))

    (span,) = planted(leaking, **{"deployment.api_key": "k-1"}).values()
    text = json.dumps([span.raw, span.resource])
    for secret in SECRETS:
        assert secret.removeprefix("Bearer ")[:20] not in text
    for said in ("dTpw", "hunter2", "k-1"):
        assert said not in text
    assert span.attributes["text.0"] == "before **** after"
    assert span.attributes["prompt_trace.qid"] == "Q-1"
    assert span.attributes["gen_ai.usage.input_tokens"] == 12
    assert span.raw["status"]["message"] == "; ".join(["no ****"] * 6)


def test_what_is_left_is_cut(planted: Any) -> None:
    """Strings at the top and inside arrays and maps, names and status; never in the middle of a character."""

    def long(span: Span) -> None:
        span.set_attributes({"a": "x" * 9000, "b": "é" * 9000, "c": ["y" * 9000, "z"], "d": {"e": ["w" * 9000]}})
        span.set_attribute("exact", "x" * LIMIT)
        span.set_attributes({f"many.{number}": number for number in range(100)})
        span.set_attribute("numbers", list(range(1000)))
        span.set_attribute("prompt_trace.qid", "Q-1")
        span.update_name("n" * 5000)
        span.set_status(Status(StatusCode.ERROR, "é" * 5000))
        span.add_event("e" * 300, {"stack": "s" * 9000})

    (span,) = planted(long).values()
    sizes = {key: len(value.encode()) for key, value in span.attributes.items() if isinstance(value, str)}
    assert max(sizes.values()) <= LIMIT
    assert len(span.attributes) <= 128
    assert span.attributes["prompt_trace.qid"] == "Q-1"
    assert span.raw["name"] == "n" * 256
    assert span.raw["status"]["message"] == "é" * 512
    assert span.events == [("e" * 256, {"stack": "s" * LIMIT})]


def test_arrays_are_cut_whatever_their_texts_hold(planted: Any) -> None:
    """Brackets, quotes and commas inside a text are no end of its array; short arrays stay as they are."""
    ordinary = {"some": ["a]", 'b"],', "c"], "numbers": [1, 2]}

    def listing(span: Span) -> None:
        span.set_attribute("long", [f"{number}]" * 400 for number in range(100)])

    def many(span: Span) -> None:
        span.set_attribute("many", ["]x"] * 20_000)

    def few(span: Span) -> None:
        span.set_attributes(ordinary)

    found = planted(listing, many, few)
    assert found.pop("few").attributes == ordinary
    for span in found.values():
        assert 100 <= len(span.attributes) <= 128
        assert all(isinstance(value, str) and len(value) <= LIMIT for value in span.attributes.values())


def test_limit_can_be_set(start_collector: StartCollector, spans_bucket: Bucket) -> None:
    """To what the backend takes: 2,048 for Tempo."""
    collector = start_collector("production.yaml", SPAN_STRING_LIMIT="2048", **spans_bucket.variables)
    with (
        application(collector.grpc, "small") as tracer,
        tracer.start_as_current_span("a", attributes={"long": "x" * 5000, "short": "y" * 2048}),
    ):
        pass
    until(lambda: len(spans_bucket.span_ids()) == 1)
    (span,) = spans_bucket.archived()
    assert span.attributes == {"long": "x" * 2048, "short": "y" * 2048}


def test_all_spans_are_archived_and_the_ones_that_matter_go_to_jaeger(
    start_collector: StartCollector, spans_bucket: Bucket, jaeger: Jaeger
) -> None:
    """Errors and prompts that do not add up always; of the rest a share, here none."""
    collector = start_collector(
        "production.yaml", JAEGER_OTLP_ENDPOINT=jaeger.otlp, JAEGER_SAMPLING_PERCENTAGE="0", **spans_bucket.variables
    )
    service = f"sampled-{uuid.uuid4().hex[:8]}"
    with application(collector.grpc, service) as tracer:
        for number in range(40):
            with tracer.start_as_current_span(f"fine {number}", attributes={"prompt_trace.verdict": "exact"}):
                pass
        with tracer.start_as_current_span("failed") as failed:
            failed.set_status(Status(StatusCode.ERROR))
        with tracer.start_as_current_span("odd", attributes={"prompt_trace.verdict": "mismatch"}) as odd:
            odd.set_attribute("gen_ai.input.messages", PLANTED)
    until(lambda: len(spans_bucket.span_ids()) == 42)
    kept = [f"{span.get_span_context().trace_id:032x}" for span in (failed, odd)]
    until(lambda: all(map(jaeger.trace, kept)))
    assert tags(jaeger.trace(kept[1])[0]).items() >= {"prompt_trace.verdict": "mismatch"}.items()
    assert {span["operationName"] for span in jaeger.find(service)} == {"failed", "odd"}
    assert PLANTED not in json.dumps(jaeger.trace(kept[1]))


def test_archive_is_partitioned_by_utc_and_read_by_the_batch(
    start_collector: StartCollector, spans_bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the collector's zone; and the batch reads it in place."""
    before = datetime.now(timezone.utc)
    collector = start_collector("production.yaml", TZ="Pacific/Kiritimati", **spans_bucket.variables)
    sent = send_spans(collector.grpc, 300)
    until(lambda: len(spans_bucket.span_ids()) == 300)
    hours = {f"{moment:dt=%Y-%m-%d/hour=%H}" for moment in (before, datetime.now(timezone.utc))}
    for key in spans_bucket.objects():
        assert re.fullmatch(rf"v1/spans/({'|'.join(hours)})/traces_[0-9a-f-]{{36}}\.json\.gz", key)
    for name, value in spans_bucket.server.environment.items():
        monkeypatch.setenv(name, value)
    spans = [item for item in SpanArchive([spans_bucket.url]) if isinstance(item, ArchivedSpan)]
    assert sorted(span.span_id for span in spans) == sorted(sent)
    assert {span.service for span in spans} == {"load"}
    assert {span.attributes["text"] for span in spans} == {"x" * 200}
