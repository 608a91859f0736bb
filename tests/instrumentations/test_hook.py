"""The GenAI completion hook: full objects of a call, also where no content is put on spans."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.instrumentations.by_hand import ASK, LONG_TEXT, anthropic_calls, openai_calls
from tests.instrumentations.conftest import Environments
from tests.instrumentations.holding import assert_nothing_left
from tests.instrumentations.running import CAPTURE, Run, run

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

_HOOK = {"OTEL_INSTRUMENTATION_GENAI_COMPLETION_HOOK": "prompt_trace"}
_KEPT = ("OTEL_SEMCONV_STABILITY_OPT_IN", "PROMPT_TRACE_WIRE")
_DEFAULTS = {name: value if name in _KEPT else "" for name, value in CAPTURE.items()}


@pytest.mark.parametrize("sampler", ["always_on", "always_off"])
def test_with_no_content_on_spans(sampler: str, environments: Environments, tmp_path: Path) -> None:
    """In the default mode the hook alone hands over the prompts, also of spans that are dropped."""
    entries = openai_calls()
    found = run(
        environments("current"),
        tmp_path / "run",
        "openai",
        ("genai",),
        entries,
        **_DEFAULTS,
        **_HOOK,
        OTEL_TRACES_SAMPLER=sampler,
    )
    assert sorted(len(record.calls) for record in found.records.values()) == [1, 3, 3]
    calls = [call for record in found.records.values() for call in record.calls]
    assert {call.evidence for call in calls} == {"hook"}
    texts = {segment.text for call in calls if call.prompt for segment in call.prompt.segments}
    assert {LONG_TEXT, ASK[0]["content"], ASK[1]["content"]} <= texts
    if sampler == "always_on":
        assert_nothing_left(found)
        stamped = [span for span in found.spans if "gen_ai.input.messages_ref" in span["attributes"]]
        assert len(stamped) == len(calls)
    else:
        assert found.spans == []


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_beside_three_instrumentations(provider: str, environments: Environments, tmp_path: Path) -> None:
    """What the hook tells of is the same call that the spans tell of."""
    entries = {"openai": openai_calls, "anthropic": anthropic_calls}[provider]()
    three = ("openllmetry", "genai", "openinference")
    found: Run = run(environments("current"), tmp_path / "run", provider, three, entries, **_HOOK)
    assert_nothing_left(found)
    assert sorted(len(record.calls) for record in found.records.values()) == sorted(map(len, entries))
    routes = [{told.route for told in call.seen} for record in found.records.values() for call in record.calls]
    assert all(found == {"hook", "attributes"} for found in routes)
