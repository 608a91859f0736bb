"""Real instrumentations beside requests that are captured as they are sent: the bytes are kept, and counted once."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from otel_prompt_trace.core.call import Call
from otel_prompt_trace.core.record import Record
from tests.instrumentations.by_hand import (
    LONG_TEXT,
    MARK,
    Prepared,
    anthropic_calls,
    many_calls,
    openai_calls,
    parallel_calls,
    parallel_streams,
)
from tests.instrumentations.conftest import Environments
from tests.instrumentations.holding import APPLICATION, assert_nothing_left
from tests.instrumentations.holding_wire import (
    assert_calls_are_those_sent,
    assert_nothing_lost,
    assert_same_requests,
    assert_sent_is_kept,
    by_time,
    differences,
    shown,
    usage,
)
from tests.instrumentations.recorded import recorded_calls
from tests.instrumentations.replay_server import INCOMPLETE, Reply
from tests.instrumentations.running import UNLIMITED, Run, run
from tests.instrumentations.test_matrix import COMBINATIONS, THREE, Combination

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

_WIRE = {"PROMPT_TRACE_WIRE": "on"}
_CASES = Path(__file__).with_name("wire_cases.py")
_BY_HAND: dict[str, Callable[[], list[list[Prepared]]]] = {"openai": openai_calls, "anthropic": anthropic_calls}
_ITSELF = {"openai": (), "anthropic": ("sdk",)}


@pytest.mark.parametrize("combination", COMBINATIONS, ids=str)
def test_what_is_kept_is_what_was_sent(combination: Combination, environments: Environments, tmp_path: Path) -> None:
    """Our processor before the exporter's and after it: every body whole, one call each, nothing told twice."""
    python = environments(combination.environment)
    entries = _BY_HAND[combination.provider]()
    at_work = combination.instrumentations
    bare = run(python, tmp_path / "bare", combination.provider, at_work, entries, ours=False, **UNLIMITED)
    for ours_first in (False, True):
        folder = tmp_path / f"{ours_first}"
        found = run(python, folder, combination.provider, at_work, entries, ours_first=ours_first, **_WIRE)
        assert "lost=0" in found.printed
        assert_nothing_left(found)
        assert assert_sent_is_kept(found) == sum(map(len, entries))
        assert assert_calls_are_those_sent(found) == sum(map(len, entries))
        assert usage(found) == _usage(entries)
        gone, whole = assert_nothing_lost(found, bare)
        assert gone > 0
        assert _differing(found) == _expected(combination)
        print(f"{combination}: {gone} values gave way, {whole} are kept whole")
        print(shown(combination, found))


def _differing(found: Run) -> dict[str, dict[str, int]]:
    """By scope, what was told otherwise than it was sent."""
    counted = {scope: dict(numbers) for scope, numbers in differences(found).items()}
    for numbers in counted.values():
        del numbers["tellings"]
    return {scope: rest for scope, numbers in counted.items() if (rest := {k: n for k, n in numbers.items() if n})}


def _expected(of: Combination) -> dict[str, dict[str, int]]:
    """Three of them leave out the definitions of tools, of which one request has some; a span may hold no content."""
    tools = {"not_reported_parts": 1}
    if of.provider == "anthropic":  # the SDK's own spans are there in any case
        return {"com.anthropic.sdk.python": tools if "sdk" in of.instrumentations else {"not read": 6}}
    if "openai-v2" in of.instrumentations:
        return {"opentelemetry.util.genai.handler": tools}
    return {"opentelemetry.instrumentation.openai.v1": tools} if "openllmetry-events" in of.instrumentations else {}


def _usage(entries: list[list[Prepared]]) -> Counter[str]:
    """What the replies by hand report: 9 and 2 tokens each, in no stream of OpenAI's and no error."""
    counted = sum(b'"usage"' in call.reply.body for calls in entries for call in calls)
    return Counter({"input_tokens": 9 * counted, "output_tokens": 2 * counted})


@pytest.mark.corpus
@pytest.mark.parametrize(
    ("environment", "provider"),
    [("current", "openai"), ("current", "anthropic"), ("before_official", "openai"), ("before_official", "anthropic")],
)
def test_recorded_requests(environment: str, provider: str, environments: Environments, tmp_path: Path) -> None:
    """Recorded requests, with images, long histories and tools, beside every instrumentation."""
    entries = recorded_calls(provider)
    of = Combination(environment, provider, (*THREE, *_ITSELF[provider]))
    found = run(environments(environment), tmp_path / "run", provider, of.instrumentations, entries, **_WIRE)
    assert "lost=0" in found.printed
    assert_nothing_left(found)
    assert assert_sent_is_kept(found) == len(found.requests) > 0
    assert assert_calls_are_those_sent(found) == len(found.requests)
    print(f"{of}: {len(found.requests)} requests")
    print(shown(of, found))


_SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
_SHAPED = {"type": "json_schema", "json_schema": {"name": "city", "strict": True, "schema": _SCHEMA}}
_IMAGE = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{'iVBORw0KGgo' * 500}"}}


@pytest.mark.parametrize(
    ("instrumentation", "expected"),
    [
        ("genai", {"not_reported_parts": ["response_format"]}),
        ("openinference", {}),
        ("openllmetry", {}),
    ],
)
def test_a_schema(instrumentation: str, expected: dict[str, Any], environments: Environments, tmp_path: Path) -> None:
    """Which of them report the schema that the answer has to follow: the model sees it in any case."""
    call = _asking(openai_calls()[0][0], response_format=_SHAPED)
    found = run(environments("current"), tmp_path / "run", "openai", (instrumentation,), [[call]], **_WIRE)
    (only,) = _calls(found)
    assert list(only.visible) == ["response_format"]
    assert [told.difference for told in only.seen] == [expected]
    assert_sent_is_kept(found)


@pytest.mark.parametrize(
    ("instrumentation", "expected"),
    [
        ("genai", {}),
        ("openinference", {}),
        ("openllmetry", None),  # it leaves out the whole prompt
    ],
)
def test_an_image(
    instrumentation: str, expected: dict[str, Any] | None, environments: Environments, tmp_path: Path
) -> None:
    """Bytes of an image are sent whole, and kept whole, whoever leaves them out."""
    content = [{"type": "text", "text": "Was?"}, _IMAGE]
    call = _asking(openai_calls()[0][0], messages=[{"role": "user", "content": content}])
    found = run(environments("current"), tmp_path / "run", "openai", (instrumentation,), [[call]], **_WIRE)
    (only,) = _calls(found)
    assert [told.difference for told in only.seen] == [expected]
    assert_sent_is_kept(found)
    assert_nothing_left(found)


@pytest.mark.parametrize("mode", ["gathered", "instrumented threads", "copied context", "interleaved async"])
@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_at_one_time(provider: str, mode: str, environments: Environments, tmp_path: Path) -> None:
    """Several calls are open at once, different ones and the same one several times: each has the spans of its own."""
    entries = parallel_streams(provider) if mode.startswith("interleaved") else parallel_calls(provider)
    at_work = (*THREE, *_ITSELF[provider])
    for order in (at_work, at_work[::-1]):
        found = run(environments("current"), tmp_path / "-".join(order), provider, order, entries, mode=mode, **_WIRE)
        assert "lost=0" in found.printed
        assert INCOMPLETE not in found.printed
        assert_nothing_left(found)
        assert assert_same_requests(found) == sum(map(len, entries))
        assert _assert_one_call_each_mark(found) == sum(map(len, entries))
        if not mode.startswith("interleaved"):  # there one of them makes no span while another of its own is open
            assert {len(call.seen) for call in _calls(found)} == {len(at_work)}


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_many_at_one_time(provider: str, environments: Environments, tmp_path: Path) -> None:
    """Forty calls under one entry span."""
    at_work = (*THREE, *_ITSELF[provider])
    found = run(
        environments("current"),
        tmp_path / "run",
        provider,
        at_work,
        [many_calls(provider, 40)],
        mode="gathered",
        **_WIRE,
    )
    assert INCOMPLETE not in found.printed
    assert assert_same_requests(found) == _assert_one_call_each_mark(found) == 40
    assert {len(call.seen) for call in _calls(found)} == {len(at_work)}


@pytest.mark.parametrize("sampler", ["always_on", "always_off"])
def test_beside_the_hook(sampler: str, environments: Environments, tmp_path: Path) -> None:
    """The completion hook tells of the call that was sent, as the spans do, sampled or not."""
    entries = openai_calls()
    more = {"OTEL_INSTRUMENTATION_GENAI_COMPLETION_HOOK": "prompt_trace", "OTEL_TRACES_SAMPLER": sampler}
    found = run(environments("current"), tmp_path / "run", "openai", THREE, entries, **_WIRE, **more)
    assert assert_sent_is_kept(found) == sum(map(len, entries))
    assert len(_calls(found)) == sum(map(len, entries))
    for call in _calls(found):
        assert call.evidence == "wire"
        assert sorted(told.route for told in call.seen) == ["attributes", "attributes", "attributes", "hook"]
    assert usage(found) == _usage(entries)


@pytest.mark.parametrize("at_work", [THREE, ()], ids=["three", "none"])
def test_tried_again(at_work: tuple[str, ...], environments: Environments, tmp_path: Path) -> None:
    """Twice too many requests, then an answer: one call of three attempts; what ends in an error is one as well."""
    call = openai_calls()[0][0]
    busy = Reply(call.path, b'{"error": {"message": "Too many."}}', 429)
    replies = [busy, busy, call.reply, busy, busy, busy]
    entries = [[call, call]]
    found = _case("patient", at_work, entries, environments, tmp_path, replies)
    assert assert_sent_is_kept(found) == 6
    first, second = _calls(found)
    assert [(attempt.number, attempt.status) for attempt in first.attempts] == [(1, 429), (2, 429), (3, 200)]
    assert [(attempt.number, attempt.status) for attempt in second.attempts] == [(1, 429), (2, 429), (3, 429)]
    assert len(first.seen) == len(second.seen) == len(at_work)
    assert usage(found) == Counter({"input_tokens": 9, "output_tokens": 2})


@pytest.mark.parametrize("at_work", [THREE, ()], ids=["three", "none"])
@pytest.mark.parametrize("mode", ["within a chat", "within an agent"])
def test_twice_within_one_span(mode: str, at_work: tuple[str, ...], environments: Environments, tmp_path: Path) -> None:
    """The same request twice, both answered, is two calls, whether the span around is a model call's or an agent's."""
    call = openai_calls()[0][0]
    found = _case(mode, at_work, [[call, call]], environments, tmp_path)
    assert assert_sent_is_kept(found) == 2
    first, second = _calls(found)
    assert first.id != second.id
    assert [len(first.attempts), len(second.attempts)] == [1, 1]
    told = [told.scope for call in (first, second) for told in call.seen]
    assert len([scope for scope in told if scope != APPLICATION]) == 2 * len(at_work)
    assert told.count(APPLICATION) == (mode == "within a chat")  # an agent's span is never a call's
    assert usage(found) == Counter({"input_tokens": 18, "output_tokens": 4})


@pytest.mark.parametrize("at_work", [THREE, ()], ids=["three", "none"])
def test_a_tool_loop(at_work: tuple[str, ...], environments: Environments, tmp_path: Path) -> None:
    """Two requests under an agent's span, the second with the tool's result: two calls, in their order."""
    first = openai_calls()[1][1]
    asked = json.loads(first.body)["messages"]
    called = json.loads(first.reply.body)["choices"][0]["message"]
    result = {"role": "tool", "tool_call_id": "call_1", "content": "Regen, 14 Grad"}
    second = _asking(openai_calls()[0][0], messages=[*asked, called, result])
    found = _case("within an agent", at_work, [[first, second]], environments, tmp_path)
    assert assert_sent_is_kept(found) == 2
    (record,) = found.records.values()
    assert [call.response and call.response.get("finish_reason") for call in record.calls] == ["tool_calls", "stop"]
    assert [len(call.seen) for call in record.calls] == [len(at_work)] * 2
    assert record.calls[1].prompt is not None
    assert record.calls[1].prompt.segments[-1].text == "Regen, 14 Grad"


@pytest.mark.parametrize("at_work", [("genai",), ()], ids=["genai", "none"])
def test_nobody_tells(at_work: tuple[str, ...], environments: Environments, tmp_path: Path) -> None:
    """A call that no span tells of, here of legacy completions, is recorded under the entry all the same."""
    body = {"model": "gpt-3.5-turbo-instruct", "prompt": LONG_TEXT, "max_tokens": 5}
    choice = {"index": 0, "text": " Nichts.", "finish_reason": "length", "logprobs": None}
    reply = {"id": "cmpl-1", "object": "text_completion", "created": 1, "model": body["model"], "choices": [choice]}
    reply["usage"] = {"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11}
    call = Prepared("/v1/completions", json.dumps(body), Reply("/v1/completions", json.dumps(reply).encode()))
    found = _case("legacy", at_work, [[call]], environments, tmp_path)
    assert assert_sent_is_kept(found) == 1
    (record,) = found.records.values()
    (entry,) = (span for span in found.spans if span["name"] == "entry")
    assert record.qid == f"{entry['trace_id']}-{entry['span_id']}"
    (only,) = record.calls
    assert only.evidence == "wire"
    assert only.seen == ()
    assert only.prompt is not None
    assert [segment.text for segment in only.prompt.segments] == [LONG_TEXT]
    assert only.response is not None
    assert only.response["output"] == " Nichts."
    assert entry["attributes"]["prompt_trace.qid"] == record.qid


def _case(
    mode: str,
    at_work: tuple[str, ...],
    entries: list[list[Prepared]],
    environments: Environments,
    folder: Path,
    replies: list[Reply] | None = None,
) -> Run:
    found = run(
        environments("current"),
        folder / "run",
        "openai",
        at_work,
        entries,
        mode=mode,
        application=_CASES,
        replies=replies,
        **_WIRE,
    )
    assert "lost=0" in found.printed
    assert_nothing_left(found)
    return found


def _asking(call: Prepared, **fields: Any) -> Prepared:
    return replace(call, body=json.dumps(json.loads(call.body) | fields))


def _calls(found: Run) -> list[Call]:
    return [call for record in by_time(found) for call in record.calls]


def _assert_one_call_each_mark(found: Run) -> int:
    """A call's answer, and all that told of it, bear the one mark; so does the request, where not all are the same.

    Returns:
        The number of calls.
    """
    marks: list[str] = []
    told: list[str] = []
    for record in found.records.values():
        for call in record.calls:
            assert call.evidence == "wire"
            assert len(call.attempts) == 1
            assert len({sighting.scope for sighting in call.seen}) == len(call.seen)
            borne = _marks(found, record, call)
            assert len(borne) == 1, borne
            marks += borne
            told += [str(sighting.span_id) for sighting in call.seen]
    assert len(set(marks)) == len(marks)
    assert sorted(told) == sorted(span["span_id"] for span in found.spans if span["scope"] != APPLICATION)
    return len(marks)


def _marks(found: Run, record: Record, call: Call) -> set[str]:
    """The marks in the body, in the answer, and in what the spans of the call carry, or are stored to have carried."""
    ids = {told.span_id for told in call.seen}
    spans = [span for span in found.spans if span["span_id"] in ids]
    told = [event for event in record.events if event["kind"] == "content" and event.get("span_id") in ids]
    assert all(event.get("call") == call.id for event in told)
    requests = [event["body"] for event in call.requests if "body" in event]
    return set(MARK.findall(json.dumps([spans, told, requests, list(call.responses)], default=str)))
