"""Beside another vendor in one process: what it still gets, what goes to the store, and how a user learns the rest.

The vendors' own packages, each in an application of its own that calls the OpenAI SDK against prepared replies.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from otel_prompt_trace.core.conventions import content_key
from tests.instrumentations.by_hand import LONG_TEXT, openai_calls
from tests.instrumentations.conftest import Environments
from tests.instrumentations.holding import assert_nothing_left, assert_stored_whole
from tests.instrumentations.running import Run, environ, run

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

_HERE = Path(__file__).parent
_CUT = {"OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT": "128"}
_DATADOG = {
    "DD_TRACE_OTEL_ENABLED": "true",
    "DD_TRACE_AGENT_URL": "http://127.0.0.1:9",  # nobody listens there
    "DD_INSTRUMENTATION_TELEMETRY_ENABLED": "false",
    "DD_REMOTE_CONFIGURATION_ENABLED": "false",
}
_LANGFUSE = "Langfuse reads spans of this process as they end and finds no prompts and answers on them"
_LOGFIRE = "Logfire reads spans of this process as they end and finds no prompts and answers on them"
ORDERS = pytest.mark.parametrize("ours_first", [False, True], ids=["vendor-first", "ours-first"])


@ORDERS
def test_langfuse_has_its_content_in_copy_mode_and_so_has_the_store(
    ours_first: bool, environments: Environments, tmp_path: Path
) -> None:
    """Langfuse's exporter is handed the very attributes that it is handed without us; the same values are stored."""
    bare = _langfuse(environments, tmp_path / "bare", ours=False)
    found = _langfuse(environments, tmp_path / "ours", ours_first=ours_first, PROMPT_TRACE_SPANS="copy")
    assert len(found.spans) == len(bare.spans) == 8  # seven calls, one of which failed, and what is around them
    stored = _values(found)
    compared = 0
    for was, now in zip(_in_order(bare), _in_order(found), strict=True):
        assert _without_times(now) == _without_times(was), was["name"]
        content = {key: value for key, value in now["attributes"].items() if content_key(key) is not None}
        assert "langfuse.observation.input" in content
        assert {key: stored[now["span_id"]][key] for key in content} == content
        compared += len(content)
    assert compared >= 15
    assert any(LONG_TEXT in json.loads(values["langfuse.observation.input"])[0]["content"] for values in _lists(found))
    assert "lost=0" in found.printed
    assert _notes(found) == []
    assert _LANGFUSE not in found.printed


@ORDERS
def test_langfuse_gets_no_content_in_divert_mode_and_that_is_said(
    ours_first: bool, environments: Environments, tmp_path: Path
) -> None:
    """What it exports holds none; the store has all of it; one warning and the notes say so, and name the way out."""
    bare = _langfuse(environments, tmp_path / "bare", ours=False)
    found = _langfuse(environments, tmp_path / "ours", ours_first=ours_first)
    assert_nothing_left(found)
    assert assert_stored_whole(found, bare) >= 15
    assert "lost=0" in found.printed
    (note,) = _notes(found)
    assert note == f"{_LANGFUSE}: PROMPT_TRACE_SPANS=copy leaves them there"
    assert [line for line in found.printed.splitlines() if line.startswith(_LANGFUSE)] == [note]


@pytest.mark.parametrize("again", [(), ("again",)], ids=["configured-once", "configured-again"])
@pytest.mark.parametrize("limits", [{}, _CUT], ids=["unlimited", "cut"])
@ORDERS
def test_logfire_is_diverted_through_its_proxy(
    ours_first: bool, limits: dict[str, str], again: tuple[str, ...], environments: Environments, tmp_path: Path
) -> None:
    """No content and no long string on any exported span, pending ones among them; what is stored is whole.

    So too under a length limit, which cuts start attributes where a sampler behind the proxy is not wrapped, and where
    Logfire is configured again, and puts another provider behind its proxy.
    """
    bare = _logfire(environments, tmp_path / "bare", again, ours=False)
    found = _logfire(environments, tmp_path / "ours", again, ours_first=ours_first, **limits)
    assert len(found.spans) == len(bare.spans)
    assert any(_is_pending(span) for span in found.spans)
    assert_nothing_left(found)
    assert assert_stored_whole(_without_pending(found), _without_pending(bare)) >= 20
    assert "lost=0" in found.printed
    assert _notes(found) == [f"{_LOGFIRE}: PROMPT_TRACE_SPANS=copy leaves them there"]


@ORDERS
def test_beside_datadogs_provider_what_is_handed_over_is_recorded_and_the_rest_is_named(
    ours_first: bool, environments: Environments, tmp_path: Path
) -> None:
    """``install()`` raises nothing; query, declared piece, call and answer are stored as the process exits.

    One warning names what does not work, and so do the notes.
    """
    found = run(
        environments("datadog"),
        tmp_path / "ours",
        "openai",
        (),
        openai_calls()[:1],
        application=_HERE / "vendor_ddtrace.py",
        ours_first=ours_first,
        **_DATADOG,  # type: ignore[arg-type]
    )
    assert "installed: True" in found.printed
    assert "provider: ddtrace.internal.opentelemetry.trace" in found.printed
    (record,) = found.records.values()
    assert f"qid: {record.qid}" in found.printed
    assert [event["kind"] for event in record.events] == ["query", "piece", "request", "response", "end"]
    assert [event["text"] for event in record.of("piece")] == ["Nach 京都."]
    (call,) = record.calls
    assert call.prompt is not None
    assert record.of("request")[0]["prompt"] == "Context: Nach 京都."
    notes = _notes(found)
    assert notes[0].startswith("ddtrace.internal.opentelemetry.trace.TracerProvider takes no span processors")
    assert "none is recorded from there" in notes[0]
    assert any("otel_prompt_trace.flush()" in note for note in notes)
    # where OpenTelemetry was loaded before ddtrace, it keeps its own context
    assert any("contextvars.copy_context()" in note for note in notes) is not ours_first
    warned = [line for line in found.printed.splitlines() if line.startswith("WARNING otel_prompt_trace")]
    assert len(warned) == 1
    assert all(note in warned[0] for note in notes)
    # and it is as the notes say: content stays on Datadog's spans. Our own span has the qid.
    own, query = found.spans
    assert own["attributes"]["gen_ai.input.messages"]
    assert query["attributes"]["prompt_trace.qid"] == record.qid


@pytest.mark.parametrize(
    ("environment", "application"),
    [
        ("vendors", "vendor_langfuse.py"),
        ("vendors", "vendor_logfire.py"),
        ("datadog", "vendor_ddtrace.py"),
    ],
    ids=["langfuse", "logfire", "ddtrace"],
)
def test_what_is_sent_is_seen_on_the_wire_beside_every_vendor(
    environment: str, application: str, environments: Environments, tmp_path: Path
) -> None:
    """Each request of the OpenAI SDK is recorded once, with the sha256 of the bytes that reached the model host."""
    found = run(
        environments(environment),
        tmp_path / "ours",
        "openai",
        (),
        openai_calls(),
        application=_HERE / application,
        PROMPT_TRACE_WIRE="",  # as it is where nobody says anything
        **(_DATADOG if environment == "datadog" else {}),  # type: ignore[arg-type]
    )
    sent = [event["sha256"] for event in found.events if event["kind"] == "request" and event["evidence"] == "wire"]
    assert len(found.requests) == 7
    assert sorted(sent) == sorted(hashlib.sha256(body).hexdigest() for body in found.requests)


@pytest.mark.parametrize(
    ("environment", "vendor", "said"),
    [
        ("vendors", "from langfuse import Langfuse\nLangfuse(public_key='pk', secret_key='sk')\n", _LANGFUSE),
        ("vendors", "import logfire\nlogfire.configure(send_to_logfire=False, console=False)\n", _LOGFIRE),
        ("datadog", "import ddtrace.auto\n", "ddtrace.internal.opentelemetry.trace.TracerProvider takes no span"),
    ],
    ids=["langfuse", "logfire", "ddtrace"],
)
def test_doctor_says_so_too(
    environment: str, vendor: str, said: str, environments: Environments, tmp_path: Path
) -> None:
    """``prompt-trace doctor --app MODULE`` sees the application's provider, though that module installs nothing."""
    (tmp_path / "someapp.py").write_text(vendor)
    command = [str(environments(environment)), "-m", "otel_prompt_trace.cli", "doctor", "--app", "someapp", "--json"]
    env = environ(tmp_path, PROMPT_TRACE_STORE=str(tmp_path / "store"), LANGFUSE_BASE_URL="http://127.0.0.1:9")
    if environment == "datadog":
        env |= _DATADOG
    for mode in ("divert", "copy"):
        done = subprocess.run(
            command, env={**env, "PROMPT_TRACE_SPANS": mode}, cwd=tmp_path, capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, done.stderr[-2000:]
        rows = json.loads(done.stdout)
        told = [row for row in rows if row["name"] == "diversion" and said in row["detail"]]
        assert len(told) == (0 if mode == "copy" and environment == "vendors" else 1)
        assert all(row["status"] == "warn" for row in told)
        assert (("spans", "warn") in [(row["name"], row["status"]) for row in rows]) is (mode == "copy")


def _langfuse(environments: Environments, folder: Path, **options: Any) -> Run:
    application = _HERE / "vendor_langfuse.py"
    return run(environments("vendors"), folder, "openai", (), openai_calls(), application=application, **options)


def _logfire(environments: Environments, folder: Path, again: tuple[str, ...], **options: Any) -> Run:
    application = _HERE / "vendor_logfire.py"
    return run(environments("vendors"), folder, "openai", again, openai_calls(), application=application, **options)


def _notes(found: Run) -> list[str]:
    (line,) = [line for line in found.printed.splitlines() if line.startswith("notes: ")]
    notes: list[str] = json.loads(line.removeprefix("notes: "))
    return notes


def _in_order(found: Run) -> list[dict[str, Any]]:
    return sorted(found.spans, key=lambda span: int(span["start"]))


def _without_times(span: dict[str, Any]) -> dict[str, Any]:
    left = {
        key: value
        for key, value in span["attributes"].items()
        if not key.startswith("prompt_trace.") and key != "langfuse.observation.completion_start_time"
    }
    return {"name": span["name"], "attributes": left, "status": span["status"]}


def _values(found: Run) -> dict[str, dict[str, Any]]:
    stored: dict[str, dict[str, Any]] = {}
    for event in found.events:
        if event["kind"] == "content":
            stored.setdefault(event["span_id"], {}).update(event["values"])
    return stored


def _lists(found: Run) -> list[dict[str, Any]]:
    return [values for values in _values(found).values() if values["langfuse.observation.input"].startswith("[")]


def _is_pending(span: dict[str, Any]) -> bool:
    return bool(span["attributes"].get("logfire.span_type") == "pending_span")


def _without_pending(found: Run) -> Run:
    return dataclasses.replace(found, spans=[span for span in found.spans if not _is_pending(span)])
