"""Where nothing records, an application runs the same."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import otel_prompt_trace as pt
from otel_prompt_trace.core.qid import is_qid
from otel_prompt_trace.current import current
from otel_prompt_trace.exceptions import ConfigurationError, InvalidQid
from tests.capture.recording import Recording


def _application() -> tuple[str, pt.Query]:
    with pt.query(question="q", policy="hash") as q:
        with q.stage("search"):
            q.retrieved([("c", 1.0)])
        q.dropped(["c"])
        q.tool_call("t", arguments=object())
        text = pt.declare("a", "alpha")
        with q.call(prompt=text) as call:
            call.respond("o", usage={"input_tokens": 1})
    pt.feedback(q.qid, score=1)
    return text, q


def _everything_below(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def _off(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, how: str) -> None:
    if how == "PROMPT_TRACE_ENABLED":
        monkeypatch.setenv(how, "false")
    elif how == "OTEL_SDK_DISABLED":
        monkeypatch.setenv(how, "true")
    if how != "not installed":
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(InMemorySpanExporter()))
        enabled = False if how == "argument" else None
        assert pt.install(store=str(tmp_path / "store"), tracer_provider=provider, enabled=enabled) is False


@pytest.mark.parametrize("how", ["not installed", "PROMPT_TRACE_ENABLED", "OTEL_SDK_DISABLED", "argument"])
def test_off_means_off(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, how: str) -> None:
    """No file, no span, no thread; the texts come back, the qid is legal, the receipt says ``off``."""
    _off(monkeypatch, tmp_path, how)
    text, q = _application()
    assert text == "alpha"
    assert is_qid(q.qid)
    assert q.receipt == pt.Receipt(q.qid, "off", 0, 0, 0)
    assert not q._scope.span.get_span_context().is_valid
    assert pt.flush(1) == pt.FlushResult(0, 0, 0)
    assert current() is None
    assert _everything_below(tmp_path) == []


@pytest.mark.parametrize("how", ["not installed", "PROMPT_TRACE_ENABLED"])
def test_misuse_is_misuse_also_where_nothing_records(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, how: str) -> None:
    """A mistake is found on the developer's machine, not in production; exceptions pass as everywhere."""
    _off(monkeypatch, tmp_path, how)
    with pytest.raises(InvalidQid):
        pt.query(qid="a b")
    with pytest.raises(ConfigurationError):
        pt.query(policy="shred")
    with pytest.raises(ConfigurationError):
        pt.declare("p", "t", trust="holy")
    error = ValueError("mine")
    with pytest.raises(ValueError, match="mine") as caught, pt.query() as q, q.call(prompt="p"):
        raise error
    assert caught.value is error


def test_switched_off_it_asks_nothing_of_its_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that can't be used is no reason to fail where nothing would be stored."""
    monkeypatch.setenv("PROMPT_TRACE_ENABLED", "false")
    monkeypatch.setenv("PROMPT_TRACE_STORE", "ftp://nowhere")
    assert pt.install() is False


def test_installing_switched_off_ends_what_records(recording: Recording) -> None:
    """Other settings replace the ones in force, also these."""
    with pt.query() as before:
        pass
    assert pt.install(enabled=False) is False
    with pt.query() as after:
        pass
    assert current() is None
    assert recording.stored_qids() == {before.qid}
    assert after.receipt.state == "off"


def test_a_setting_that_can_t_be_used_changes_nothing(recording: Recording) -> None:
    """After the error the installation of before records on."""
    running = current()
    for settings in ({"durability": "eternal"}, {"store": "ftp://nowhere"}, {"spool_file_bytes": 1}):
        with pytest.raises(ConfigurationError):
            pt.install(**settings)
    with pytest.raises(TypeError, match="durabilty"):
        pt.install(durabilty="fsync")
    assert current() is running
    with pt.query() as q:
        pass
    assert len(recording.events(q.qid)) == 2


def test_installing_again_with_the_same_settings_does_nothing(
    install: Callable[..., Recording], caplog: pytest.LogCaptureFixture
) -> None:
    """One runtime, one line in the log, which names store, spool, durability, wire and policy."""
    caplog.set_level(logging.INFO, "otel_prompt_trace")
    recording = install()
    running = current()
    for _ in range(3):
        assert pt.install(store=str(recording.store), spool=str(recording.spool), tracer_provider=recording.provider)
    assert current() is running
    (line,) = [record.getMessage() for record in caplog.records]
    for word in (f"store={recording.store}", f"spool={recording.spool}", "durability=written", "wire=", "policy=store"):
        assert word in line


def test_installing_again_with_other_settings_delivers_and_replaces(
    install: Callable[..., Recording], tmp_path: Path
) -> None:
    """What waited goes to the old store, what comes goes to the new one; flushes reach the new one alone."""
    first = install()
    with pt.query() as old:
        pass
    second = install(store=str(tmp_path / "second"))
    with pt.query() as new:
        pass
    assert second.provider.force_flush()
    assert first.stored_qids() == {old.qid}
    assert second.stored_qids() == {new.qid}
    assert first.provider.force_flush()


def test_the_log_never_shows_the_query_of_a_store_s_address(
    install: Callable[..., Recording], caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing secret belongs there, but something might stand there."""
    caplog.set_level(logging.INFO, "otel_prompt_trace")
    install(store="s3://bucket/p?endpoint_url=http://127.0.0.1:1")
    assert "127.0.0.1" not in caplog.text
    assert "s3://bucket/p" in caplog.text


def test_uninstall_delivers_and_undoes(recording: Recording) -> None:
    """What waits is stored, the spool is empty, nothing more is recorded, the provider's flush is its own again."""
    with pt.query() as q:
        pass
    pt.uninstall()
    assert recording.stored_qids() == {q.qid}
    assert list(recording.spool.glob("*.spool")) == []
    assert recording.provider.force_flush()
    with pt.query() as after:
        pass
    assert after.receipt.state == "off"
    pt.uninstall()


def test_a_query_that_outlives_the_installation_is_not_lost(recording: Recording) -> None:
    """Its late events wait in the spool for whoever drains it, and its receipt says so."""
    with pt.query(question="still running") as q:
        pt.uninstall()
    assert q.receipt.state == "spooled"
    assert b"still running" in recording.spooled_bytes()


def test_in_memory_such_a_query_is_counted_as_lost(install: Callable[..., Recording]) -> None:
    """Nobody would ever deliver it, and its receipt says so."""
    recording = install(durability="memory")
    accounts = recording.runtime.accounts
    with pt.query() as q:
        pt.uninstall()
    assert q.receipt.state == "lost"
    assert accounts.result().reasons == {"closed": 2}
