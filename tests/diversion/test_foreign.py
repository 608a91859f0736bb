"""Tracer providers and contexts that are not the SDK's: what is done with them, and what is said of them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import NoOpTracerProvider, ProxyTracerProvider

import otel_prompt_trace as pt
from otel_prompt_trace import installation
from otel_prompt_trace.capture.context import Slot, attach, current_slot, detach, keeps_values, with_slot
from otel_prompt_trace.diversion.awaiting import unfit
from otel_prompt_trace.diversion.provider import emptied
from otel_prompt_trace.records import Records

CONTENT = {"gen_ai.operation.name": "chat", "gen_ai.input.messages": "hello"}


class ForeignProvider(trace.TracerProvider):
    """A provider that is not the SDK's and takes no processors."""

    def get_tracer(self, *_: Any, **__: Any) -> trace.Tracer:
        """Of spans that are none."""
        return trace.NoOpTracer()


class Proxy(trace.TracerProvider):
    """A provider that hands everything on to another, which may be replaced."""

    def __init__(self, provider: TracerProvider) -> None:
        self.provider = provider

    def set_provider(self, provider: TracerProvider) -> None:
        """Put another provider in the place of the one of before."""
        self.provider = provider

    def add_span_processor(self, processor: SpanProcessor) -> None:
        """Hand it on."""
        self.provider.add_span_processor(processor)

    def get_tracer(self, *arguments: Any, **options: Any) -> trace.Tracer:
        """Of the provider of now."""
        return self.provider.get_tracer(*arguments, **options)


class SpansAlone:
    """A context that keeps nothing but the current span, as a vendor's may."""

    def __init__(self) -> None:
        self.spans: list[trace.Span] = []

    def attach(self, scope: otel_context.Context) -> object:
        """Keep the span, and nothing else."""
        self.spans.append(trace.get_current_span(scope))
        return object()

    def get_current(self) -> otel_context.Context:
        """The span that was kept last and has not ended."""
        while self.spans and not self.spans[-1].is_recording():
            self.spans.pop()
        empty = otel_context.Context()
        return trace.set_span_in_context(self.spans[-1], empty) if self.spans else empty

    def detach(self, token: object) -> None:
        """It goes back by itself, once the span has ended."""


@pytest.fixture
def place(tmp_path: Path) -> Iterator[dict[str, str]]:
    """Where this test records."""
    yield {"store": str(tmp_path / "store"), "spool": str(tmp_path / "spool")}
    pt.uninstall()


def test_a_foreign_provider_is_named_and_the_apis_own_are_not() -> None:
    """Nothing is said of a provider that takes processors, and of those that stand for none."""
    assert unfit(TracerProvider()) == unfit(NoOpTracerProvider()) == unfit(ProxyTracerProvider()) == []
    first, *_ = unfit(ForeignProvider())
    assert first.startswith(f"{__name__}.ForeignProvider takes no span processors")


def test_behind_a_proxy_each_provider_is_diverted_and_let_go_of_again(place: dict[str, str]) -> None:
    """Start attributes too, which only a sampler sees uncut; after ``uninstall()`` everything is as it was."""
    providers = [TracerProvider(), TracerProvider()]
    samplers = [provider.sampler for provider in providers]
    proxy = Proxy(providers[0])
    early = proxy.get_tracer("early")
    pt.install(tracer_provider=proxy, **place)
    assert installation.notes() == []
    for tracer in (early, proxy.get_tracer("late")):
        assert not _carries(tracer)
    proxy.set_provider(providers[1])
    assert not _carries(proxy.get_tracer("after"))
    assert pt.flush(20).ok
    pt.uninstall()
    assert [provider.sampler for provider in providers] == samplers
    assert "set_provider" not in vars(proxy)
    assert _carries(early)
    assert _carries(proxy.get_tracer("after"))


def test_a_proxy_that_can_not_be_followed_is_named(place: dict[str, str]) -> None:
    """Without a way to see the next provider, a note says that it is not diverted."""

    class Slotted(Proxy):
        __slots__ = ("provider",)
        set_provider = None  # type: ignore[assignment]

    pt.install(tracer_provider=Slotted(TracerProvider()), **place)
    assert installation.notes() == ["a provider that this proxy is given later is not diverted"]


def test_a_vendor_that_gets_no_content_is_named_whenever_it_comes(
    place: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    """By the package of its processor: in the notes at once, and in one warning when the first content is taken."""
    vendor = type("Processor", (SpanProcessor,), {"__module__": "langfuse._client.span_processor"})
    provider = TracerProvider()
    pt.install(tracer_provider=provider, **place)
    assert installation.notes() == emptied(provider) == []
    provider.add_span_processor(vendor())
    assert installation.notes() == emptied(provider)
    with provider.get_tracer("application").start_as_current_span("nothing to take"):
        pass
    assert not caplog.messages
    for _ in range(2):
        assert not _carries(provider.get_tracer("application"))
    assert caplog.messages == emptied(provider)
    assert len(caplog.messages) == 1
    assert caplog.messages[0].startswith("Langfuse ")


def test_a_setter_that_was_imported_by_name_before_is_seen_too(tmp_path: Path) -> None:
    """The provider is attached; and one that takes no processors is named in one warning."""
    script = f"""
import sys
from opentelemetry.trace import get_tracer, set_tracer_provider
import otel_prompt_trace as pt
from otel_prompt_trace import installation
pt.install(store={str(tmp_path / "store")!r}, spool={str(tmp_path / "spool")!r})
if sys.argv[1] == "sdk":
    from opentelemetry.sdk.trace import TracerProvider
    set_tracer_provider(TracerProvider())
    with get_tracer("late").start_as_current_span("chat", attributes={CONTENT!r}) as span:
        print("gen_ai.input.messages" in span.attributes)
else:
    from tests.diversion.test_foreign import ForeignProvider
    set_tracer_provider(ForeignProvider())
print(len(installation.notes()), pt.flush(20).ok)
"""

    def printed(kind: str) -> tuple[list[str], str]:
        done = subprocess.run([sys.executable, "-c", script, kind], capture_output=True, text=True, check=True)
        return done.stdout.split(), done.stderr

    assert printed("sdk") == (["False", "0", "True"], "")
    out, error = printed("foreign")
    assert out == ["3", "True"]
    assert error.count("takes no span processors") == len(error.splitlines()) == 1


def test_a_provider_that_comes_later_says_what_service_this_is(tmp_path: Path) -> None:
    """Until then a rule that denies a service denies; from then on events carry its name, and the rule applies."""
    script = f"""
import sys
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import set_tracer_provider
import otel_prompt_trace as pt
from otel_prompt_trace.current import current
store = {str(tmp_path / "store")!r}
pt.install(store=store, spool={str(tmp_path / "spool")!r}, wire_deny="service:billing")
rules = current().wire
def captured():
    return rules.api("POST", "api.openai.com", "/v1/chat/completions", lambda: "") is not None
print(captured())
set_tracer_provider(TracerProvider(resource=Resource.create({{"service.name": sys.argv[1]}})))
print(captured())
with pt.query(question="x") as q:
    pass
pt.flush(20)
print(set(event.get("service") for event in pt.open_store(store).events(q.qid).events))
"""

    def printed(service: str) -> list[str]:
        done = subprocess.run([sys.executable, "-c", script, service], capture_output=True, text=True, check=True)
        return done.stdout.splitlines()

    assert printed("billing") == ["False", "False", "{'billing'}"]
    assert printed("shop") == ["False", "True", "{'shop'}"]


def test_a_context_that_keeps_spans_alone_loses_nothing_of_ours(
    place: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pieces, calls and nested queries find each other beside it, and what was left is not found again."""
    assert keeps_values()
    monkeypatch.setattr(otel_context, "_RUNTIME_CONTEXT", SpansAlone())
    assert not keeps_values()
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    pt.install(tracer_provider=provider, **place)
    slot = Slot()
    attached = attach(with_slot(slot))
    with pt.query() as outer:
        pt.declare("outer", "one")
        with outer.call(prompt="one two") as call:
            with pt.query() as inner:
                assert current_slot() is slot
                pt.declare("inner", "three")
            pt.declare("outer", "two")
        pt.declare("outer", "four")
    pt.declare("nobody", "five")
    detach(attached)
    assert current_slot() is None
    assert slot.qid == outer.qid
    assert pt.flush(20).ok
    records = Records(pt.open_store(place["store"]), Path(place["spool"]))
    pieces = {qid: [(e["text"], e.get("call")) for e in records.get(qid).of("piece")] for qid in (outer.qid, inner.qid)}
    assert pieces == {outer.qid: [("one", None), ("two", call.id), ("four", None)], inner.qid: [("three", None)]}
    assert records.get(inner.qid).of("query")[0]["parent"] == {"qid": outer.qid, "call": call.id}


def _carries(tracer: Any) -> bool:
    """Whether a span keeps the content that it is started with."""
    with tracer.start_as_current_span("chat", attributes=CONTENT) as span:
        return "gen_ai.input.messages" in span.attributes
