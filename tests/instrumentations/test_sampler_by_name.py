"""The sampler chosen by name, under ``opentelemetry-instrument``: by environment variables and by a declarative file.

What is not sampled is not exported, and the payloads of model calls are kept all the same.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from otel_prompt_trace.core.record import Record
from otel_prompt_trace.demo.model_server import ModelServer
from tests.instrumentations.conftest import Environments
from tests.instrumentations.running import CAPTURE, records
from tests.instrumentations.serving import Served, served
from tests.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.timeout(180)]

QUESTION = "Wie weit ist es nach 京都? " * 200
_SPAN = re.compile(r'^\{\n    "name": "([^"]*)",\n    "context"', re.MULTILINE)  # as the console exporter prints them
_SHORT = {"OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT": "64"}
_TRACEPARENT = "00-{:032x}-00f067aa0ba902b7-{}"
_FILE = """
file_format: "1.0"
propagator:
  composite: [{{tracecontext: {{}}}}]
tracer_provider:
  processors: [{{simple: {{exporter: {{console: {{}}}}}}}}]
  limits: {{attribute_value_length_limit: 64}}
  sampler: {sampler}
"""


@pytest.mark.parametrize(
    ("argument", "exported"),
    [
        ("parentbased_traceidratio=0.0", False),
        ("traceidratio=0.0", False),
        ("always_off", False),
        ("parentbased_always_on", True),
        ("", True),
    ],
)
def test_by_environment(
    argument: str, exported: bool, environments: Environments, model: ModelServer, tmp_path: Path
) -> None:
    """OTEL_TRACES_SAMPLER=prompt_trace decides as OTEL_TRACES_SAMPLER_ARG says; under a length limit all is whole."""
    sampler = {"OTEL_TRACES_SAMPLER": "prompt_trace", **({"OTEL_TRACES_SAMPLER_ARG": argument} if argument else {})}
    with _recording(environments, model, tmp_path, **sampler, **_SHORT) as application:
        application.get("/ask", question=f"1. {QUESTION}")
        application.get("/ask", question=f"2. {QUESTION}")
        application.get("/health")
        found = _records(tmp_path, 2)
    assert [_asked(record) for record in found] == [["Answer briefly.", f"{n}. {QUESTION}"] for n in (1, 2)]
    assert bool(_exported(application)) is exported
    _assert_small(application)


@pytest.mark.parametrize(
    "sampler",
    [
        "{prompt_trace: {}}",
        "{parent_based: {root: {prompt_trace: {}}}}",
        "{parent_based: {root: {always_on: {}}}}",
    ],
)
def test_by_a_declarative_file(sampler: str, environments: Environments, model: ModelServer, tmp_path: Path) -> None:
    """OTEL_CONFIG_FILE takes the sampler by its name, alone or in another one, or one that is wrapped when we install.

    The file has no argument for a sampler of somebody else, so it is the caller who decides what is sampled.
    """
    (tmp_path / "otel.yaml").write_text(_FILE.format(sampler=sampler))
    with _recording(environments, model, tmp_path, OTEL_CONFIG_FILE=str(tmp_path / "otel.yaml")) as application:
        application.get("/ask", {"traceparent": _TRACEPARENT.format(1, "00")}, question=f"1. {QUESTION}")
        application.get("/ask", {"traceparent": _TRACEPARENT.format(2, "01")}, question=f"2. {QUESTION}")
        found = _records(tmp_path, 2)
    assert [_asked(record) for record in found] == [["Answer briefly.", f"{n}. {QUESTION}"] for n in (1, 2)]
    assert [record.qid.partition("-")[0] for record in found] == [f"{n:032x}" for n in (1, 2)]
    shown = application.output.read_text()
    assert _exported(application)
    assert f"0x{1:032x}" not in shown
    assert f"0x{2:032x}" in shown
    _assert_small(application)


def test_a_declarative_file_that_samples_nothing(
    environments: Environments, model: ModelServer, tmp_path: Path
) -> None:
    """The SDK's own ``always_off`` in the file: no span is exported, the payload is kept."""
    (tmp_path / "otel.yaml").write_text(_FILE.format(sampler="{always_off: {}}"))
    with _recording(environments, model, tmp_path, OTEL_CONFIG_FILE=str(tmp_path / "otel.yaml")) as application:
        application.get("/ask", question=QUESTION)
        (record,) = _records(tmp_path, 1)
    assert _asked(record) == ["Answer briefly.", QUESTION]
    assert _exported(application) == []


def test_by_name_and_not_installed(environments: Environments, model: ModelServer, tmp_path: Path) -> None:
    """Without PROMPT_TRACE_STORE nothing is recorded, so nothing is taken out of spans or kept from being dropped."""
    (tmp_path / "home").mkdir()
    home = {"HOME": str(tmp_path / "home"), "OTEL_TRACES_SAMPLER": "prompt_trace"}
    with served(environments("current"), "fastapi", model, tmp_path, **CAPTURE, **home) as application:
        application.get("/ask", question=QUESTION)
        until(lambda: "GET /ask" in _exported(application))
    shown = application.output.read_text()
    assert '"input.value": ' in shown
    assert "prompt_trace." not in shown
    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")) == ["home", "output"]


def _recording(environments, model, folder, **variables):
    store = {"PROMPT_TRACE_STORE": str(folder / "store"), "PROMPT_TRACE_SPOOL": str(folder / "spool")}
    return served(environments("current"), "fastapi", model, folder, **store, **CAPTURE, **variables)


def _records(folder: Path, count: int) -> list[Record]:
    """The records, in the order in which they were begun, once there are as many and each has its answer."""

    def found() -> list[Record]:
        kept = records(folder / "store", folder / "spool").values()
        return sorted(kept, key=lambda record: str(record.events[0]["ts"]))

    until(lambda: len(whole := found()) >= count and all(record.calls and record.calls[0].response for record in whole))
    return found()


def _asked(record: Record) -> list[str]:
    (call,) = record.calls
    assert call.prompt is not None
    return [segment.text for segment in call.prompt.segments]


def _exported(application: Served) -> list[str]:
    return _SPAN.findall(application.output.read_text())


def _assert_small(application: Served) -> None:
    shown = application.output.read_text()
    assert QUESTION[:20] not in shown
    assert "\\u4eac\\u90fd" not in shown
