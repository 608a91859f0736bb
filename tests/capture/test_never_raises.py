"""Whatever breaks on our side, the application runs on and the loss is counted by its reason."""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor

import otel_prompt_trace as pt
from otel_prompt_trace.capture.context import current_call, current_query
from otel_prompt_trace.pipeline import frames
from otel_prompt_trace.pipeline.fallback import FallbackSpool
from otel_prompt_trace.pipeline.recorder import Recorder
from otel_prompt_trace.pipeline.spool import Spool
from otel_prompt_trace.runtime import Runtime
from tests.capture.recording import Recording
from tests.waiting import until


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    """Warnings are expected here; they are looked at where they matter."""
    caplog.set_level(logging.WARNING, "otel_prompt_trace")


def _application() -> pt.Query:
    """Touches everything; fails if anything of ours shows."""
    with pt.query(question="q") as q:
        with q.stage("search"):
            q.retrieved([("c", 1.0)])
        q.tool_call("t", arguments={"a": 1}, result="r")
        text = pt.declare("a", "alpha")
        assert text == "alpha"
        with q.call(prompt=text) as call:
            assert pt.declare("b", "beta") == "beta"
            call.respond("o", usage={"input_tokens": 1})
    pt.feedback(q.qid, score=1)
    assert current_query() is None
    assert current_call() is None
    return q


_EVENTS = 9  # query, retrieval, tool_call, piece, request, piece, response, end, feedback


def _raising(error: BaseException) -> Callable[..., Any]:
    def fails(*_: Any, **__: Any) -> Any:
        raise error

    return fails


@pytest.mark.parametrize(
    ("owner", "name", "error", "reason"),
    [
        (FallbackSpool, "append", OSError(errno.ENOSPC, "No space left on device"), "spool_unwritable"),
        (FallbackSpool, "append", RuntimeError("odd"), "not_encodable"),
        (frames, "build", ValueError("odd"), "not_encodable"),
        (frames, "pack_events", MemoryError(), "not_encodable"),
        (Recorder, "append", RuntimeError("odd"), "not_captured"),
        (Runtime, "append", RuntimeError("odd"), "not_captured"),
    ],
)
def test_a_pipeline_that_fails_costs_the_events_and_nothing_else(
    recording: Recording, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, error: Exception, reason: str
) -> None:
    """Every event is counted as lost under the reason, the receipt says so, the spans are whole."""
    monkeypatch.setattr(owner, name, _raising(error))
    q = _application()
    monkeypatch.undo()
    result = pt.flush(20)
    assert (result.stored, result.spooled, result.lost) == (0, 0, _EVENTS)
    assert result.reasons == {reason: _EVENTS}
    assert not result.ok
    assert q.receipt.state == "lost"
    assert {span.name for span in recording.exporter.get_finished_spans()} == {"query", "search", "call"}
    assert "prompt_trace.ref" not in recording.attributes("call")


@pytest.mark.parametrize("name", ["set_attributes", "set_status", "end", "get_span_context", "is_recording"])
def test_a_span_that_fails_costs_nothing_of_the_record(
    recording: Recording, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Somebody's span class raises: the record is whole, the context is as before, nothing counts as lost."""
    with monkeypatch.context() as patch:
        patch.setattr(Span, name, _raising(RuntimeError("odd")))
        q = _application()
    kinds = [event["kind"] for event in recording.events(q.qid)]
    assert kinds == [
        "query", "retrieval", "tool_call", "piece", "request", "piece", "response", "end", "feedback",
    ]  # fmt: skip
    assert pt.flush(20).lost == 0


class _Refusing(SpanProcessor):
    def on_start(self, span: Span, parent_context: Any = None) -> None:
        raise RuntimeError("on_start")

    def on_end(self, span: ReadableSpan) -> None:
        raise RuntimeError("on_end")


def test_a_span_processor_that_fails_costs_nothing_of_the_record(recording: Recording) -> None:
    """Somebody's processor raises on every span: no span, the whole record."""
    recording.provider.add_span_processor(_Refusing())
    q = _application()
    assert len(recording.events(q.qid)) == _EVENTS
    assert pt.flush(20).lost == 0
    request = recording.of(q.qid, "request")[0]
    assert "span_id" not in request


class _BrokenHits(dict[str, Any]):
    def items(self) -> Any:
        raise LookupError("the index went away")


class _NoRepr:
    def __repr__(self) -> str:
        raise RuntimeError("odd")


def test_an_event_that_can_t_be_made_is_counted(recording: Recording, caplog: pytest.LogCaptureFixture) -> None:
    """What a recording method can't take is one lost event, said without any text of it; the rest is recorded."""
    with pt.query() as q:
        q.retrieved(_BrokenHits(c1=0.5))
        q.retrieved(17)  # type: ignore[arg-type]
        q.dropped(None)  # type: ignore[arg-type]
        q.tool_call("t", arguments=_NoRepr())
        q.retrieved(["c2"])
    assert [event["kind"] for event in recording.events(q.qid)] == ["query", "retrieval", "end"]
    result = pt.flush(20)
    assert result.reasons == {"not_captured": 4}
    assert (result.stored, result.spooled) == (3, 0)
    (warning,) = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert "Query.retrieved failed: LookupError." in warning.getMessage()
    assert "went away" not in caplog.text


def test_a_watcher_that_fails_costs_only_the_provisional_verdict(
    recording: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Taking stock raises on the shipper's thread: everything is delivered all the same."""
    looked: list[object] = []

    def fails(*_: object) -> None:
        looked.append(None)
        raise RuntimeError("odd")

    monkeypatch.setattr("otel_prompt_trace.capture.provisional.take_stock", fails)
    with pt.query() as q:
        for number in (1, 2):
            with q.call(prompt="p") as call:
                until(lambda n=number: len(looked) == n)
                call.respond("o")
    assert len(recording.events(q.qid)) == 6
    assert "prompt_trace.verdict" not in dict(recording.exporter.get_finished_spans()[0].attributes or {})


def test_a_store_that_can_t_be_opened_leaves_everything_in_the_spool(
    install: Callable[..., Recording], tmp_path: Path
) -> None:
    """A file stands where the store's folder should be: the events wait, and are delivered once it is gone."""
    (tmp_path / "store").write_text("in the way")
    recording = install()
    q = _application()
    result = pt.flush(0.2)
    assert (result.stored, result.spooled, result.lost, result.ok) == (0, _EVENTS, 0, False)
    (tmp_path / "store").unlink()
    assert pt.flush(20).ok
    assert len(recording.events(q.qid)) == _EVENTS


def test_a_disk_that_takes_nothing_costs_no_event(recording: Recording, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it refuses waits in memory, and is delivered."""
    monkeypatch.setattr(Spool, "append", _raising(OSError(errno.ENOSPC, "No space left on device")))
    q = _application()
    assert pt.flush(20).ok
    assert len(recording.events(q.qid)) == _EVENTS


def test_no_warning_shows_any_text(
    recording: Recording, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Reasons, counts and names of types; never what was asked or answered."""
    caplog.set_level(logging.DEBUG, "otel_prompt_trace")
    monkeypatch.setattr(Spool, "append", _raising(OSError(errno.EIO, "Input/output error")))
    with pt.query(question="a secret question") as q, q.call(prompt="a secret prompt") as call:
        call.respond("a secret answer")
    assert "PROMPT_TRACE_SPOOL" in caplog.text
    assert "secret" not in caplog.text
    assert len([record for record in caplog.records if record.levelno == logging.WARNING]) == 1


def test_nobody_takes_stock_of_a_call_that_is_over(recording: Recording, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its span has ended without a verdict: the shipper reads its frame for delivery alone."""
    looked: list[object] = []
    monkeypatch.setattr("otel_prompt_trace.capture.provisional.take_stock", lambda *_: looked.append(None))
    with pt.query() as q:
        with q.call(prompt="p") as open_call:
            until(lambda: looked == [None])
            open_call.respond("o")
        calls = [q.call(prompt="p") for _ in range(50)]
        for call in calls:
            with call:
                call.respond("o")
    assert pt.flush(30).ok
    assert len(looked) < 51
