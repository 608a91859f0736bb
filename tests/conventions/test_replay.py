"""Real calls through real instrumentations: the prompt that is read is the prompt that was sent.

For each trace file: how many of the calls whose request is known give exactly the request's texts in the request's
order (``in_order``), and how many give the same texts once the arguments of tools are compared as the values that they
are (``same``). What is missing from ``same`` the instrumentation itself did not hand over: images and the text beside
them, most items of the Responses API, fields of the vendor's.
"""

from __future__ import annotations

import pytest

from otel_prompt_trace.core.conventions import content_event
from otel_prompt_trace.core.conventions.message_events import Carried
from otel_prompt_trace.core.conventions.projection import project
from tests.conventions.replay import Seen, leaves, seen, sent, texts_read, texts_sent
from tests.conventions.trace_files import TRACES, top_level

pytestmark = [pytest.mark.corpus, pytest.mark.skipif(not TRACES.is_dir(), reason="the corpus is not here")]

# file: (calls, calls whose request is known, of these in_order, of these same)
AGREEMENT = {
    "replayed/anthropic-sdk-native.content": (15, 14, 13, 14),
    "replayed/genai-anthropic.SPAN_ONLY": (15, 14, 14, 14),
    "replayed/genai-anthropic.SPAN_AND_EVENT": (15, 14, 14, 14),
    "replayed/genai-openai.SPAN_ONLY": (25, 24, 17, 23),
    "replayed/genai-openai.SPAN_AND_EVENT": (25, 24, 17, 23),
    "replayed/openai-v2.SPAN_ONLY_exp": (22, 21, 13, 17),
    "replayed/openai-v2.true": (22, 21, 16, 21),
    "replayed/openinference-anthropic.default": (15, 14, 14, 14),
    "replayed/openinference-openai.default": (26, 25, 25, 25),
    "replayed/traceloop-anthropic.attributes": (15, 14, 13, 14),
    "replayed/traceloop-openai.attributes": (26, 25, 17, 22),
    "replayed/traceloop-openai.events": (26, 25, 24, 25),
    "replayed_older/openai-v2.true": (22, 21, 16, 21),
    "replayed_older/openinference-anthropic.default": (14, 13, 13, 13),
    "replayed_older/openinference-openai.default": (26, 25, 25, 25),
    "replayed_older/traceloop-anthropic.attributes": (14, 13, 12, 13),
    "replayed_older/traceloop-openai.attributes": (26, 25, 18, 22),
    "replayed_older/traceloop-openai.events": (26, 25, 24, 24),
}
# Answers that an instrumentation does not hand over.
_UNTOLD = {
    "replayed/anthropic-sdk-native.content": 4,  # those that were streamed
    "replayed/traceloop-openai.events": 2,  # streamed: their log records carry no span id
    "replayed_older/traceloop-openai.events": 2,
}
WITHOUT_CONTENT = ["anthropic-sdk-native.metadata_only", "genai-anthropic.UPLOAD_HOOK", "genai-openai.UPLOAD_HOOK"]


@pytest.mark.parametrize("name", AGREEMENT)
def test_the_prompt_read_is_the_prompt_sent(name: str) -> None:
    """At least as many calls agree as when it was measured; none ends in a problem."""
    calls, known, in_order, same = AGREEMENT[name]
    found = _calls(name)
    with_request = [call for call in found if call.sent.body is not None]
    exact = [call for call in with_request if texts_sent(call.sent.body or {}) == texts_read(call.projection)]
    equal = [
        call for call in with_request if leaves(texts_sent(call.sent.body or {})) == leaves(texts_read(call.projection))
    ]
    recorded = sum(call.sent.recorded for call in with_request)
    print(f"{name}: {len(exact)} in order, {len(equal)} the same, of {len(with_request)} ({recorded} as recorded)")
    assert [call.projection.problem for call in found if call.projection.problem] == []
    assert len(found) == calls
    assert len(with_request) == known
    assert len(exact) >= in_order
    assert len(equal) >= same


@pytest.mark.parametrize("name", AGREEMENT)
def test_nothing_is_read_that_was_not_sent(name: str) -> None:
    """No text is made up or counted twice: what is read is always contained in what was sent."""
    for call in _calls(name):
        if call.sent.body is not None:
            assert leaves(texts_read(call.projection)) <= leaves(texts_sent(call.sent.body)), call.sent.answer


@pytest.mark.parametrize("name", AGREEMENT)
def test_the_answer_is_read(name: str) -> None:
    """Every call that was answered has an output; tokens are whole numbers."""
    answered = [call for call in _calls(name) if call.sent.answer is not None]
    outputs = [call for call in answered if (call.projection.response or {}).get("output") is not None]
    usages = [usage for call in answered if (usage := (call.projection.response or {}).get("usage"))]
    print(f"{name}: {len(outputs)} outputs, {len(usages)} usages of {len(answered)}")
    assert len(outputs) >= len(answered) - _UNTOLD.get(name, 0)
    assert all(isinstance(usage["input_tokens"], int) for usage in usages if "input_tokens" in usage)


@pytest.mark.parametrize("name", WITHOUT_CONTENT)
def test_without_content_there_is_no_request(name: str) -> None:
    """Where content capture was off, no request is made up, and the small facts are read all the same."""
    found = _calls(f"replayed/{name}")
    assert all(call.projection.request is None for call in found)
    assert sum("usage" in (call.projection.response or {}) for call in found) >= len(found) - 1


@pytest.mark.parametrize(
    ("name", "prefix"),
    [
        ("replayed/openinference-openai.default", "llm.input_messages.0-"),
        ("replayed/openinference-anthropic.default", "llm.input_messages.0-"),
        ("replayed_older/openinference-openai.default", "llm.input_messages.0-"),
        ("replayed_older/traceloop-openai.attributes", "gen_ai.prompt.0-"),
    ],
)
def test_what_the_attribute_limit_took_is_named(name: str, prefix: str) -> None:
    """The conversation of a hundred messages lost its first ones to the limit, and the body too: the hole is named."""
    last = _calls(name)[-1]
    assert len(last.span.attributes) == 128
    assert last.projection.request is not None
    missing = last.projection.request["missing"]
    assert missing[0].startswith(prefix)


@pytest.mark.parametrize(("release", "agree"), [("replayed", 13), ("replayed_older", 13)])
def test_log_records_without_a_span_id(release: str, agree: int) -> None:
    """OpenLLMetry's Anthropic events carry no span id; taken by their order they give the prompts all the same."""
    runs: list[list[Carried]] = [[]]
    for record in top_level(TRACES / release / "traceloop-anthropic.events.logs.pb.gz"):
        assert record.span_id == ""
        event = content_event(record.name)
        assert event is not None
        answered = bool(runs[-1]) and content_event(runs[-1][-1].name) == content_event("gen_ai.choice")
        if event.direction == "in" and answered:
            runs.append([])
        runs[-1].append(Carried(record.name, {}, record.body))
    prompts = [leaves(texts_read(project({}, {}, run))) for run in runs]
    bodies = [leaves(texts_sent(call.body)) for call in sent("anthropic") if call.body is not None]
    equal = sum(body in prompts for body in bodies)
    print(f"{release}: {equal} of {len(bodies)}")
    assert equal >= agree


def _calls(name: str) -> list[Seen]:
    path = TRACES / f"{name}.traces.jsonl.gz"
    return list(seen(path, "anthropic" if "anthropic" in name else "openai"))
