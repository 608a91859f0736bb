"""Spans that prove to be a model call's only when they end, around a request that was captured before, or beside it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider

import otel_prompt_trace as pt
from otel_prompt_trace.core.call import Call
from otel_prompt_trace.wire.exchange import begin

CHAT = {"gen_ai.operation.name": "chat", "gen_ai.input.messages": "hello", "gen_ai.request.model": "m"}
REPLY = {
    "model": "m",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hi."}, "finish_reason": "stop"}],
}


@dataclass
class Application:
    """An application that records, and sends requests to a model."""

    provider: TracerProvider
    store: Path

    def span(self, name: str, scope: str = "late", **options: Any) -> Any:
        """A span as the current one, of which nothing is said yet."""
        return self.provider.get_tracer(scope).start_as_current_span(name, **options)

    def send(self, text: str, status: int = 200) -> None:
        """A request that is captured, and the reply to it."""
        exchange = begin("POST", "host", "/v1/chat/completions")
        assert exchange is not None
        exchange.sent(json.dumps({"model": "m", "messages": [{"role": "user", "content": text}]}).encode())
        exchange.answered(status, "application/json", None)
        exchange.seen(json.dumps(REPLY if status == 200 else {"error": {"message": "Busy."}}).encode())
        exchange.over(complete=True)

    def calls(self) -> tuple[Call, ...]:
        """Those of the one request that the application served."""
        assert pt.flush(20).ok
        store = pt.open_store(self.store)
        ((_, qid),) = store.qids()
        return store.get(qid).calls


@pytest.fixture
def app(tmp_path: Path) -> Iterator[Application]:
    """Recording."""
    provider = TracerProvider(shutdown_on_exit=False)
    pt.install(store=str(tmp_path / "store"), spool=str(tmp_path / "spool"), tracer_provider=provider)
    yield Application(provider, tmp_path / "store")
    pt.uninstall()


def test_around_the_request(app: Application) -> None:
    """Its attributes are set when the answer is there: it tells of the call that was sent inside it."""
    with app.span("entry"):
        for text in ("one", "two"):
            with app.span(f"chat {text}") as span:
                app.send(text)
                span.set_attributes(CHAT)
    calls = app.calls()
    assert [call.evidence for call in calls] == ["wire", "wire"]
    assert [[told.scope for told in call.seen] for call in calls] == [["late"], ["late"]]
    assert [call.prompt and call.prompt.segments[0].text for call in calls] == ["one", "two"]


def test_beside_the_request(app: Application) -> None:
    """It is made once the answer is there, and begun in the past."""
    with app.span("entry") as entry:
        for text in ("one", "two"):
            began = time.time_ns()
            app.send(text)
            beside = app.provider.get_tracer("late").start_span(
                f"chat {text}", trace.set_span_in_context(entry), attributes=CHAT, start_time=began
            )
            beside.end()
    calls = app.calls()
    assert [[told.scope for told in call.seen] for call in calls] == [["late"], ["late"]]
    assert len({told.span_id for call in calls for told in call.seen}) == 2


def test_one_that_was_begun_later_tells_of_another_call(app: Application) -> None:
    """A span that began after the request had gone out is of a call that was not captured."""
    with app.span("entry") as entry:
        app.send("one")
        later = app.provider.get_tracer("late").start_span("chat", trace.set_span_in_context(entry), attributes=CHAT)
        later.end()
    first, second = app.calls()
    assert (first.evidence, first.seen) == ("wire", ())
    assert (second.evidence, len(second.seen)) == ("attributes", 1)


def test_an_agents_span_tells_of_no_call(app: Application) -> None:
    """Whatever it is found to be at its end, requests inside it are calls of their own."""
    with app.span("agent") as span:
        app.send("one")
        app.send("two")
        span.set_attributes({"gen_ai.operation.name": "invoke_agent", "gen_ai.input.messages": "hello"})
    assert [call.seen for call in app.calls()] == [(), ()]


def test_the_same_again_in_another_span_is_another_call(app: Application) -> None:
    """A client tries again inside the span in which it failed; in the next span the application asks anew."""
    with app.span("entry"):
        with app.span("first"):
            app.send("one", status=429)
            app.send("one", status=500)
        with app.span("second"):
            app.send("one")
    calls = app.calls()
    assert [[attempt.status for attempt in call.attempts] for call in calls] == [[429, 500], [200]]
    assert calls[1].prompt is not None
