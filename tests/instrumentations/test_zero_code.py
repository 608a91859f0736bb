"""``opentelemetry-instrument`` alone: unchanged applications, started as processes of their own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from otel_prompt_trace.demo.model_server import ModelServer
from tests.instrumentations.conftest import Environments
from tests.instrumentations.running import CAPTURE
from tests.instrumentations.serving import get_record, served
from tests.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.timeout(180)]

QUESTION = "Wie weit ist es nach 京都? " * 200


@pytest.mark.parametrize("framework", ["fastapi", "flask"])
def test_an_unchanged_application(
    framework: str, environments: Environments, model: ModelServer, tmp_path: Path
) -> None:
    """Its responses name the qid, ``prompt-trace get`` finds the record under it, and no prompt is exported."""
    python = environments("current")
    store = {"PROMPT_TRACE_STORE": str(tmp_path / "store"), "PROMPT_TRACE_SPOOL": str(tmp_path / "spool")}
    with served(python, framework, model, tmp_path, **store, **CAPTURE) as application:
        first, second = (application.get("/ask", question=f"{number}. {QUESTION}") for number in "12")
        assert first.qid is not None
        assert second.qid is not None
        assert first.qid != second.qid
        until(lambda: f'"prompt_trace.qid": "{second.qid}"' in application.output.read_text())  # it is exported
        running = get_record(python, first.qid, tmp_path, store)  # while the application runs
    stopped = get_record(python, second.qid, tmp_path, store)
    for number, answer, record in (("1", first, running), ("2", second, stopped)):
        assert [part["text"] for part in record["prompt"]] == ["Answer briefly.", f"{number}. {QUESTION}"]
        assert record["output"] == json.loads(answer.text)["answer"]
        assert record["qid"] == answer.qid
    exported = application.output.read_text()
    assert QUESTION[:20] not in exported
    assert json.dumps(QUESTION[:20])[1:-1] not in exported


@pytest.mark.parametrize("framework", ["fastapi", "flask"])
def test_nothing_is_done_without_a_store(
    framework: str, environments: Environments, model: ModelServer, tmp_path: Path
) -> None:
    """Where PROMPT_TRACE_STORE is not set, no header is returned and no file or folder is written."""
    (tmp_path / "home").mkdir()
    with served(
        environments("current"), framework, model, tmp_path, HOME=str(tmp_path / "home"), **CAPTURE
    ) as application:
        answer = application.get("/ask", question=QUESTION)
    assert answer.qid is None
    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")) == ["home", "output"]
