"""The state of a span is made when it is asked for: ordinary spans have none, and nothing is lost by it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, Decision
from opentelemetry.trace import SpanKind, Tracer

import otel_prompt_trace as pt
from otel_prompt_trace.diversion.sampler import LOT, DivertingSampler
from otel_prompt_trace.diversion.state import STATE, state_of

CALL = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "a-model"}


@pytest.fixture
def tracer(tmp_path: Path) -> Iterator[Tracer]:
    """A tracer whose spans are diverted."""
    provider = TracerProvider(shutdown_on_exit=False)
    pt.install(store=str(tmp_path / "store"), spool=str(tmp_path / "spool"), tracer_provider=provider)
    yield provider.get_tracer("app")
    pt.uninstall()


def test_an_ordinary_span_gets_no_state(tracer: Tracer) -> None:
    """Neither its attributes, an event, a status nor its end make one; a child makes its parent's, and none itself."""
    with tracer.start_as_current_span("GET /", kind=SpanKind.SERVER, attributes={"a": 1}) as outer:
        outer.set_attribute("b", "two")
        outer.set_attributes({"c": 3.0, "d": ["x", "y"]})
        outer.add_event("seen", {"e": 5})
        outer.set_status(outer.status)  # type: ignore[attr-defined]
        outer.update_name("GET /cart")
        assert STATE not in vars(outer)
        with tracer.start_as_current_span("inner") as inner:
            assert STATE in vars(outer)
        assert STATE not in vars(inner)
    made = state_of(inner)
    assert made is not None
    assert made.parent is state_of(outer)
    assert made.entry is made.parent.entry  # type: ignore[union-attr]


def test_threads_that_ask_at_once_get_one_state(tracer: Tracer) -> None:
    """Children that begin on several threads at once share one parent's state, and with it one entry."""
    for _ in range(50):
        span = tracer.start_span("GET /")
        barrier, found = threading.Barrier(4), list[Any]()

        def ask(span: Any = span, barrier: threading.Barrier = barrier, found: list[Any] = found) -> None:
            barrier.wait()
            found.append(state_of(span))

        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(found) == 4
        assert len(set(map(id, found))) == 1
        span.end()


def test_a_span_of_a_server_within_another_is_an_entry_of_its_own(tracer: Tracer) -> None:
    """Asked late, it still stands within the span around it, and begins an entry."""
    with (
        tracer.start_as_current_span("outer", kind=SpanKind.SERVER) as outer,
        tracer.start_as_current_span("GET /", kind=SpanKind.SERVER) as inner,
    ):
        pass
    around, within = state_of(outer), state_of(inner)
    assert around is not None
    assert within is not None
    assert within.parent is around
    assert within.entry is not around.entry


def test_a_state_is_found_through_a_wrapper(tracer: Tracer) -> None:
    """A vendor's wrapper that hands attributes through gets the span's own state, not one of its own."""

    class Wrapper:
        def __init__(self, span: Any) -> None:
            self.span = span

        def __getattr__(self, name: str) -> Any:
            return getattr(self.span, name)

    span = tracer.start_span("GET /")
    assert state_of(Wrapper(span)) is state_of(span)
    span.end()


@pytest.mark.parametrize("key", [["a", "list"], {}, None, 7], ids=repr)
def test_a_key_that_is_no_string_is_left_to_the_sdk(key: Any, tmp_path: Path) -> None:
    """What the SDK does with it happens with diversion as without: nothing of ours is raised."""
    told: list[object] = []
    for diverted in (False, True):
        provider, exporter = TracerProvider(shutdown_on_exit=False), InMemorySpanExporter()
        provider.add_span_processor(SimpleSpanProcessor(exporter))
        if diverted:
            pt.install(store=str(tmp_path / "store"), spool=str(tmp_path / "spool"), tracer_provider=provider)
        span = provider.get_tracer("app").start_span("work")
        try:
            span.set_attribute(key, "a value")
            told.append(None)
        except TypeError as error:
            told.append(type(error))
        span.end()
        told.append(dict(exporter.get_finished_spans()[0].attributes or {}))
    pt.uninstall()
    assert told[:2] == told[2:]


@pytest.mark.parametrize(
    ("name", "attributes", "kept"),
    [("work", None, False), ("work", {"a.new.key": 1, "http.route": "/"}, False), ("work", CALL, True),
     ("chat a-model", {"a.new.key": 1}, True), ("chat a-model", None, True),
     ("invoke", {"gen_ai.operation.name": "invoke_agent"}, False), ("work", {**CALL, "server.port": 443}, True)],
)  # fmt: skip
def test_what_is_kept_of_what_is_dropped(
    name: str, attributes: dict[str, Any] | None, kept: bool, tmp_path: Path
) -> None:
    """Asked twice, since the first time teaches it the keys: a model call is recorded, and nothing else is."""
    pt.install(store=str(tmp_path / "store"), spool=str(tmp_path / "spool"))
    sampler = DivertingSampler(ALWAYS_OFF, LOT, keep=False)
    for _ in range(2):
        result = sampler.should_sample(None, 1, name, attributes=attributes)
        assert result.decision is (Decision.RECORD_ONLY if kept else Decision.DROP)
        assert dict(result.attributes or {}).items() >= ((attributes or {}).items() if kept and attributes else set())
    pt.uninstall()
