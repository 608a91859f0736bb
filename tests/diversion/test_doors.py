"""Spans of an application that was not changed: what goes to the payload, and what is left."""

from __future__ import annotations

import contextlib
import json
import logging
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, Decision, ParentBased, Sampler, TraceIdRatioBased

import otel_prompt_trace as pt
from otel_prompt_trace.core.record import Record
from otel_prompt_trace.diversion import doors
from otel_prompt_trace.diversion.kinds import too_long
from otel_prompt_trace.diversion.sampler import DivertingSampler, sampler_by_name

PROMPT = json.dumps([{"role": "user", "parts": [{"type": "text", "content": "naïve \n question " * 400}]}])
ANSWER = json.dumps(
    [{"role": "assistant", "parts": [{"type": "text", "content": "an answer"}], "finish_reason": "stop"}]
)
CALL = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "gpt-4o"}


@dataclass
class App:
    """A provider with an exporter, and what was recorded beside it."""

    provider: TracerProvider
    exporter: InMemorySpanExporter
    store: Path

    @property
    def spans(self) -> dict[str, ReadableSpan]:
        """What was exported, by name."""
        return {span.name: span for span in self.exporter.get_finished_spans()}

    def records(self) -> list[Record]:
        """Every record, after a flush."""
        assert pt.flush(20)
        store = pt.open_store(self.store)
        return [store.get(qid) for _, qid in store.qids()]


def make(tmp_path: Path, *, first: bool = False, sampler: Sampler | None = None, **settings: Any) -> App:
    """Install on a fresh provider, before or after its exporter."""
    provider = TracerProvider(sampler=sampler, span_limits=SpanLimits(max_attribute_length=128, max_span_attributes=16))
    exporter = InMemorySpanExporter()
    steps = [lambda: provider.add_span_processor(SimpleSpanProcessor(exporter))]
    place = {"store": str(tmp_path / "store"), "spool": str(tmp_path / "spool")}
    steps.insert(0 if first else 1, lambda: pt.install(tracer_provider=provider, **place, **settings))  # type: ignore[arg-type, return-value]
    for step in steps:
        step()
    return App(provider, exporter, tmp_path / "store")


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    """Nothing is left installed."""
    yield
    pt.uninstall()


def one_call(tracer: trace.Tracer, **attributes: Any) -> None:
    """A request with one model call, content at the start, while it runs, and on an event."""
    with tracer.start_as_current_span("GET /", kind=trace.SpanKind.SERVER):
        span = tracer.start_span("chat gpt-4o", attributes={**CALL, "gen_ai.input.messages": PROMPT, **attributes})
        span.set_attribute("gen_ai.output.messages", ANSWER)
        span.set_attributes({"gen_ai.usage.input_tokens": 7, "note": "x" * 5000})
        span.add_event("gen_ai.choice", {"message": "an event's message", "index": 0})
        for number in range(30):
            span.set_attribute(f"app.{number}", number)
        span.record_exception(ValueError("e" * 9000))
        span.set_status(trace.StatusCode.ERROR, "s" * 9000)
        span.update_name("n" * 9000)
        span.update_name("chat gpt-4o")
        span.end()


@pytest.mark.parametrize("first", [True, False], ids=["ours first", "exporter first"])
def test_content_goes_to_the_payload_and_small_spans_go_out(tmp_path: Path, first: bool) -> None:
    """Under a length limit of 128 and a count limit of 16 the content is whole, and the span small, in either order."""
    app = make(tmp_path, first=first)
    one_call(app.provider.get_tracer("app"))
    span = app.spans["chat gpt-4o"]
    strings = [v for v in span.attributes.values() if isinstance(v, str)]  # type: ignore[union-attr]
    strings += [str(v) for event in span.events for v in (event.attributes or {}).values()]
    assert max(map(len, [*strings, span.name, span.status.description or ""])) <= 128
    assert not [key for key in span.attributes or {} if key.endswith("messages")]
    (record,) = app.records()
    assert span.attributes is not None
    assert span.attributes["prompt_trace.qid"] == record.qid
    assert str(span.attributes["prompt_trace.ref"]).endswith(f"/{record.qid}/")
    (content,) = record.of("content")
    assert content["values"]["gen_ai.input.messages"] == PROMPT
    assert content["values"]["note"] == "x" * 5000
    assert content["values"]["status.description"] == "s" * 9000
    told = [name for event in content["events"] for name in event]
    assert told == ["gen_ai.choice", "exception"]
    (call,) = record.calls
    assert call.prompt is not None
    assert call.prompt.segments[0].text == "naïve \n question " * 400
    assert (call.evidence, call.response and call.response["output"]) == ("attributes", "an answer")
    graded = pt.grade(record)
    assert (graded.verdict, "weak_evidence" in graded.calls[0].reasons) == ("unknown", True)


@pytest.mark.parametrize(
    "sampler", [ALWAYS_OFF, ParentBased(ALWAYS_OFF), TraceIdRatioBased(0.0)], ids=["off", "parent", "ratio"]
)
def test_sampling_drops_no_payload(tmp_path: Path, sampler: Sampler) -> None:
    """At 0 % nothing is exported and every model call's payload is kept."""
    app = make(tmp_path, sampler=sampler)
    for _ in range(20):
        one_call(app.provider.get_tracer("app"))
    assert app.exporter.get_finished_spans() == ()
    records = app.records()
    assert len(records) == 20
    assert all(record.calls[0].prompt is not None for record in records)


def test_tracers_made_before_and_uninstall(tmp_path: Path) -> None:
    """A tracer made before install() is diverted too; after uninstall() spans and sampler are as they were."""
    provider = TracerProvider()
    exporter = InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer, sampler = provider.get_tracer("early"), provider.sampler
    pt.install(store=str(tmp_path / "store"), spool=str(tmp_path / "spool"), tracer_provider=provider)
    one_call(tracer)
    pt.uninstall()
    with tracer.start_as_current_span("after", attributes={**CALL, "gen_ai.input.messages": PROMPT}):
        pass
    spans = {span.name: span for span in exporter.get_finished_spans()}
    assert "gen_ai.input.messages" not in (spans["chat gpt-4o"].attributes or {})
    assert (spans["after"].attributes or {})["gen_ai.input.messages"] == PROMPT
    assert provider.sampler is sampler


def test_copy_leaves_content_on_spans(tmp_path: Path) -> None:
    """Mode copy records, and leaves on the span what other consumers in the process read there."""
    app = make(tmp_path, spans="copy")
    with app.provider.get_tracer("app").start_as_current_span("plain", attributes={"gen_ai.input.messages": "short"}):
        pass
    assert (app.spans["plain"].attributes or {})["gen_ai.input.messages"] == "short"
    (content,) = app.records()[0].of("content")
    assert content["values"] == {"gen_ai.input.messages": "short"}


def test_spans_within_a_query_and_a_call_are_sightings(tmp_path: Path) -> None:
    """An instrumented client inside q.call() adds no call: its span is a sighting of the declared one."""
    app = make(tmp_path)
    tracer = app.provider.get_tracer("instrumentation")
    with pt.query() as q, q.call(model="gpt-4o", prompt="declared text") as call:
        with tracer.start_as_current_span("chat gpt-4o", attributes={**CALL, "gen_ai.input.messages": PROMPT}):
            pass
        call.respond("ok")
    (record,) = app.records()
    (recorded,) = record.calls
    assert (record.qid, recorded.evidence) == (q.qid, "declared")
    assert [(seen.route, seen.scope) for seen in recorded.seen] == [("attributes", "instrumentation")]


def test_a_text_withheld_in_the_query_is_withheld_on_its_spans(tmp_path: Path) -> None:
    """What a query withholds is cut out of what instrumentations handed over as well."""
    app = make(tmp_path)
    tracer = app.provider.get_tracer("instrumentation")
    with pt.query():
        pt.declare("user", "secret-0815", policy="hash")
        with tracer.start_as_current_span(
            "chat", attributes={**CALL, "gen_ai.input.messages": '[{"c": "secret-0815"}]'}
        ):
            pass
    assert pt.flush(20)
    stored = b"".join(path.read_bytes() for path in app.store.rglob("*") if path.is_file())
    import zstandard

    for path in app.store.rglob("*.zst"):
        stored += zstandard.ZstdDecompressor().stream_reader(path.read_bytes()).read()
    assert b"secret-0815" not in stored


@pytest.mark.parametrize(
    ("argument", "decision"),
    [(None, Decision.RECORD_AND_SAMPLE), ("always_off", Decision.DROP), ("traceidratio=0.0", Decision.DROP),
     ("parentbased_always_off", Decision.DROP), ("nonsense", Decision.RECORD_AND_SAMPLE)],
)  # fmt: skip
def test_a_sampler_by_name_follows_another(argument: str | None, decision: Decision, tmp_path: Path) -> None:
    """OTEL_TRACES_SAMPLER=prompt_trace decides as its argument says, and drops no model call that is recorded."""
    sampler = sampler_by_name(argument)
    assert isinstance(sampler, DivertingSampler)
    assert sampler.should_sample(None, 1, "chat gpt-4o", attributes=CALL).decision is decision
    pt.install(store=str(tmp_path / "store"), spool=str(tmp_path / "spool"))
    assert sampler.should_sample(None, 1, "GET /").decision is decision
    kept = sampler.should_sample(None, 1, "chat gpt-4o", attributes=CALL).decision
    assert kept is (Decision.RECORD_ONLY if decision is Decision.DROP else Decision.RECORD_AND_SAMPLE)


def test_a_provider_that_is_set_after_install_is_attached(tmp_path: Path) -> None:
    """Recording may begin before the application sets its provider."""
    script = f"""
import otel_prompt_trace as pt
from opentelemetry import trace
pt.install(store={str(tmp_path / "store")!r}, spool={str(tmp_path / "spool")!r})
from opentelemetry.sdk.trace import TracerProvider
trace.set_tracer_provider(TracerProvider())
with trace.get_tracer("late").start_as_current_span("chat", attributes={{
    "gen_ai.operation.name": "chat", "gen_ai.input.messages": "hello"}}) as span:
    print("gen_ai.input.messages" in span.attributes)
print(pt.flush(20).ok, [d for d, _ in pt.open_store({str(tmp_path / "store")!r}).qids()] != [])
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["False", "True", "True"], done.stderr


class _Evil(dict[str, Any]):
    """As a row of a database that is no longer open: it can be named, not looked into."""

    def items(self) -> Any:
        raise LookupError("detached")

    values = items


class _EvilText(str):
    __slots__ = ()

    def __len__(self) -> int:
        raise LookupError("detached")


class _EvilKey:
    def __hash__(self) -> int:
        raise LookupError("detached")


def _deep(depth: int = 3000) -> Any:
    found: Any = "bottom"
    for _ in range(depth):
        found = [found]
    return found


def _cyclic() -> Any:
    found: dict[str, Any] = {"role": "user"}
    found["self"] = found
    return found


_KEYS: list[Any] = ["app.note", "gen_ai.input.messages", "gen_ai.request.model", "", 7, None, ("a",), _EvilKey()]
_ODD: list[Callable[[], Any]] = [
    _Evil, lambda: _Evil(a="x" * 5000), lambda: _EvilText("abc"), _cyclic, lambda: [_cyclic()], _deep, object,
    lambda: {1}, lambda: b"x" * 5000, lambda: {7: "x" * 5000}, lambda: [None, "x" * 5000],
]  # fmt: skip
_DOORS: list[Callable[[trace.Span, Any, Any], object]] = [
    lambda span, key, value: span.set_attribute(key, value),
    lambda span, key, value: span.set_attributes({key: value}),
    lambda span, _, value: span.set_attributes(value),
    lambda span, key, value: span.add_event("e", {key: value}),
    lambda span, key, value: span.add_event("gen_ai.choice", {key: value}),
    lambda span, key, value: span.add_event(value, {key: "x"}),
    lambda span, _, value: span.add_event("gen_ai.choice", value),
    lambda span, _, value: span.set_status(trace.StatusCode.ERROR, value),
    lambda span, _, value: span.set_status(value),
    lambda span, _, value: span.update_name(value),
    lambda span, _, value: span.end(value),
]


def _raised(tracer: trace.Tracer, door: Callable[[trace.Span, Any, Any], object], key: Any, value: Any) -> set[type]:
    """What an application gets from a door, on a span and on one that has ended; and from a span that starts so."""
    raised: set[type] = set()
    for ended in (False, True):
        span = tracer.start_span("chat m")
        if ended:
            span.end()
        try:
            door(span, key, value)
        except Exception as error:  # noqa: BLE001 - whatever it is
            raised.add(type(error))
        span.end()
    with contextlib.suppress(LookupError, RecursionError, TypeError):  # of the SDK itself
        tracer.start_span("chat m", attributes={key: value}).end()
    return raised


@pytest.mark.parametrize("spans", ["divert", "copy"])
def test_no_door_raises_what_the_sdk_would_not(tmp_path: Path, spans: str) -> None:
    """Keys and values that can't be hashed, measured, walked through or copied, at every door: as without us."""
    app = make(tmp_path, spans=spans)
    limits = SpanLimits(max_attribute_length=128, max_span_attributes=16)
    bare = TracerProvider(span_limits=limits, shutdown_on_exit=False).get_tracer("app")
    ours = app.provider.get_tracer("app")
    logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
    for number, door in enumerate(_DOORS):
        for key in _KEYS:
            for odd in _ODD:
                more = _raised(ours, door, key, odd()) - _raised(bare, door, key, odd())
                assert not more, (number, type(key), odd)


_LONG = "a long text " * 1000
_FAILING: list[Callable[[Any], tuple[Any, Any]]] = [  # what is given to a span, and where it then stands
    lambda span: (span.set_attribute("gen_ai.input.messages", _LONG), span.attributes["gen_ai.input.messages"]),
    lambda span: (span.set_attributes({"input.value": _LONG}), span.attributes["input.value"]),
    lambda span: (span.add_event("e", {"input.value": _LONG}), span.events[0].attributes["input.value"]),
    lambda span: (span.add_event(_LONG), span.events[0].name),
    lambda span: (span.set_status(trace.StatusCode.ERROR, _LONG), span.status.description),
    lambda span: (span.update_name(_LONG), span.name),
]


@pytest.mark.parametrize("door", _FAILING)
def test_where_our_part_fails_the_sdk_gets_what_was_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, door: Callable[[Any], tuple[Any, Any]]
) -> None:
    """A fault of ours at a door: the span is as it would be without us, and what was not captured is counted."""

    def fails(*_: Any) -> Any:
        raise LookupError("a fault of ours")

    provider = TracerProvider(shutdown_on_exit=False)
    pt.install(tracer_provider=provider, store=str(tmp_path / "store"), spool=str(tmp_path / "spool"))
    monkeypatch.setattr(doors, "state_of", fails)
    span = provider.get_tracer("app").start_span("chat m")
    assert door(span)[1] == _LONG
    span.end()
    result = pt.flush(20)
    assert (result.lost, result.reasons) == (1, {"not_captured": 1})


def test_a_fault_as_a_span_ends_leaves_it_to_end(tmp_path: Path) -> None:
    """What is told of a span at its end may fail: the span is exported, and the loss counted."""

    def fails(*_: Any) -> None:
        raise LookupError("a fault of ours")

    app = make(tmp_path)
    span: Any = app.provider.get_tracer("app").start_span("chat m")
    span.__class__ = doors.DoorMaker(fails, keep=False)[type(span).__mro__[1]]
    span.set_attribute("gen_ai.input.messages", "a prompt")
    span.end()
    assert list(app.spans) == ["chat m"]
    assert pt.flush(20).reasons == {"not_captured": 1}


def test_long_strings_are_found_however_deep_they_lie() -> None:
    """In lists and objects that hold themselves, or one another many times over, at once; and no number is one."""
    shared: Any = "x" * 4097
    for _ in range(40):
        shared = {"a": shared, "b": [shared]}
    assert too_long(shared)
    short: Any = "x" * 4096
    for _ in range(40):
        short = (short, {"b": short})
    assert not too_long(short)
    assert not too_long(_cyclic())
    assert too_long({**_cyclic(), "z": ["y" * 5000]})
    assert not too_long(_deep())
    assert too_long([_deep(), b"z" * 5000])
    assert not too_long(list(range(10_000)))
