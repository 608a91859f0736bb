"""What weaker evidence beside a request as sent gives way, and what stays because nothing else tells it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from otel_prompt_trace.core import contained
from otel_prompt_trace.core.beside import beside_the_wire
from otel_prompt_trace.core.contained import Texts
from otel_prompt_trace.core.events import Event
from otel_prompt_trace.core.seal import seal
from otel_prompt_trace.core.text import sha256_text
from tests.core.by_hand import Script

ASKED = "Wie heißt die Hauptstadt?"
TOOL = {"type": "function", "function": {"name": "weather", "description": "Wetter jetzt", "parameters": {}}}
BODY: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": ASKED}]}
TEXT = {"type": "text", "text": "Regen"}
REPLY = {"id": "r-1", "object": "chat.completion", "created": 7, "model": "m", "usage": {"prompt_tokens": 3}}
REPLY |= {
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "Paris ist es."}, "finish_reason": "stop"}]
}


def lessened(values: dict[str, Any], body: Any = BODY, *, events: list[Any] | None = None, **fields: Any) -> Event:
    """What is stored of one span beside the request and the answer on the wire."""
    script = Script()
    sent = {
        "call": "c",
        "attempt": 1,
        "evidence": "wire",
        "api": "openai.chat",
        "host": "h",
        "path": "/chat/completions",
    }
    script("request", **sent, body=json.dumps(body).encode())
    raw = {"raw": json.dumps(REPLY).encode(), "complete": True, "content_type": "application/json", "status": 200}
    script("response", call="c", attempt=1, evidence="wire", api="openai.chat", **raw)
    more = {"events": events} if events else {}
    told = {"route": "attributes", "scope": "s", "attributes": {"gen_ai.operation.name": "chat"}}
    script("content", call="c", values=values, **told, **more, **fields)
    return beside_the_wire(seal(script.events))[-1]


def messages(*texts: str, **parts: Any) -> str:
    """Messages of a user, as OpenTelemetry's convention has them."""
    return json.dumps([{"role": "user", "parts": [{"type": "text", "content": t}], **parts} for t in texts])


def test_a_value_that_tells_nothing_more_gives_way() -> None:
    """Question and answer as they were sent and received: digest and length stay."""
    told = messages(ASKED)
    answer = json.dumps([{"role": "assistant", "parts": [{"type": "text", "content": "Paris ist es."}]}])
    event = lessened({"gen_ai.input.messages": told, "gen_ai.output.messages": answer})
    assert event["values"] == {}
    assert event["digests"]["gen_ai.input.messages"] == {"sha256": sha256_text(told), "chars": len(told)}
    assert event["digests"].keys() == {"gen_ai.input.messages", "gen_ai.output.messages"}
    assert event["difference"] == {}


def test_what_was_not_sent_stays_as_text() -> None:
    """A text that was reported only stands in the difference; the rest of the value is in the body."""
    event = lessened({"gen_ai.input.messages": messages(ASKED, "Nie gesendet")})
    assert event["values"] == {}
    assert event["difference"] == {"reported_only": [{"path": "messages[1].content", "text": "Nie gesendet"}]}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("input.value", json.dumps({"kwargs": {"note": "only here"}})),
        ("llm.invocation_parameters", json.dumps({"stop": ["only here"]})),
        ("traceloop.entity.input", "only here"),
        ("gen_ai.tool.definitions", json.dumps([{"name": "only here"}])),
        ("llm.invocation_parameters", json.dumps({"max_tokens": 4711})),
    ],
)
def test_a_value_that_tells_more_stays_whole(key: str, value: str) -> None:
    """One value was read and compared; another beside it, of whatever kind, says what was not sent."""
    event = lessened({"gen_ai.input.messages": messages(ASKED), key: value})
    assert event["values"] == {key: value}
    assert event["digests"].keys() == {"gen_ai.input.messages"}


def test_an_answer_that_tells_more_stays_whole() -> None:
    """The answer is the one that came; a refusal beside it did not."""
    answer = {"output.value": json.dumps(REPLY), "llm.output_messages.0.message.content": "Paris ist es."}
    event = lessened(
        {"gen_ai.input.messages": messages(ASKED), **answer, "llm.choices.0.completion.text": "Nein, nein."}
    )
    assert event["values"] == {"llm.choices.0.completion.text": "Nein, nein."}


def test_another_answer_stays_whole() -> None:
    """Where the reported answer is another one, nothing of it gives way."""
    answer = json.dumps([{"role": "assistant", "parts": [{"type": "text", "content": "Rom ist es."}]}])
    event = lessened({"gen_ai.input.messages": messages(ASKED), "gen_ai.output.messages": answer})
    assert event["values"] == {"gen_ai.output.messages": answer}


def test_definitions_that_were_reported_in_part() -> None:
    """A tool without its description was not reported whole; with it, it was."""
    body = {**BODY, "tools": [TOOL]}
    short = json.dumps([{"type": "function", "name": "weather"}])
    whole = json.dumps([{"type": "function", **TOOL["function"]}])  # type: ignore[dict-item]
    told = {"gen_ai.input.messages": messages(ASKED)}
    assert lessened(told, body)["difference"] == {"not_reported_parts": ["tools"]}
    assert lessened({**told, "gen_ai.tool.definitions": short}, body)["difference"] == {"not_reported_parts": ["tools"]}
    assert lessened({**told, "gen_ai.tool.definitions": whole}, body)["difference"] == {}


def test_equal_texts_have_not_moved() -> None:
    """The system's text is the user's as well: nobody can tell one from the other; others can be told."""
    twice = {"system": "a b", "messages": [{"role": "user", "content": "a b"}]}
    assert (
        lessened({"gen_ai.input.messages": messages("a b"), "gen_ai.system_instructions": "a b"}, twice)["difference"]
        == {}
    )
    two = {"messages": [{"role": "user", "content": "x y"}, {"role": "user", "content": "a b"}]}
    assert lessened({"gen_ai.input.messages": messages("a b", "x y")}, two)["difference"] == {"moved": True}


def test_the_same_in_another_form_is_no_difference() -> None:
    """Arguments are sent as a text and reported as an object; parts are sent as such and reported as a text."""
    called = {
        "id": "t",
        "type": "function",
        "function": {"name": "weather", "arguments": '{"city": "Bonn", "days": 3}'},
    }
    body = {"messages": [{"role": "assistant", "tool_calls": [called]}, {"role": "tool", "content": [TEXT]}]}
    call = {"type": "tool_call", "id": "t", "name": "weather", "arguments": {"city": "Bonn", "days": 3}}
    result = {"type": "tool_call_response", "id": "t", "response": json.dumps([TEXT])}
    told = [{"role": "assistant", "parts": [call]}, {"role": "tool", "parts": [result]}]
    event = lessened({"gen_ai.input.messages": json.dumps(told)}, body)
    assert event["difference"] == {}
    assert event["values"] == {}
    told[1]["parts"][0]["response"] = json.dumps([TEXT, {"type": "text", "text": "Nie gesendet"}])
    event = lessened({"gen_ai.input.messages": json.dumps(told)}, body)
    assert [only["path"] for only in event["difference"]["reported_only"]] == ["messages[1].content[0].response"]
    assert "not_reported" not in event["difference"]


def test_part_of_a_text_is_not_reported() -> None:
    """What was reported is cut short: the rest of the characters is named."""
    event = lessened({"gen_ai.input.messages": messages(ASKED[:10])})
    assert event["difference"] == {"not_reported": [{"path": "messages[0].content", "chars": len(ASKED) - 10}]}


def test_looking_for_parts_takes_no_longer_than_it_may(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond that a value is taken to tell more, and stays; whole texts are found at any size."""
    monkeypatch.setattr(contained, "_SEARCHED", 10)
    event = lessened({"gen_ai.input.messages": messages(ASKED), "input.value": ASKED[:10]})
    assert event["values"] == {"input.value": ASKED[:10]}
    assert event["digests"].keys() == {"gen_ai.input.messages"}


def test_events_of_a_span() -> None:
    """A log record gives way as its attributes do; one that tells more is left as it is."""
    kept = {
        "gen_ai.client.inference.operation.details": {
            "attributes": {"gen_ai.input.messages": messages(ASKED)},
            "body": None,
        }
    }
    more = {"gen_ai.user.message": {"attributes": {}, "body": {"content": "only here"}}}
    event = lessened({"gen_ai.input.messages": messages(ASKED)}, events=[kept, more])
    assert event["events"] == [more]
    assert "event 1 gen_ai.client.inference.operation.details" in event["digests"]


def test_json_within_json() -> None:
    """A tool call's arguments are sent as a text, and reported as an object, or the other way round."""
    texts = Texts([{"arguments": '{"city": "\\u4eac\\u90fd", "days": 3}'}])
    assert texts.hold({"arguments": {"city": "京都", "days": 3}})
    assert texts.hold(json.dumps({"arguments": json.dumps({"city": "京都"})}))
    assert not texts.hold({"arguments": {"city": "京都", "days": 4}})
    assert texts.hold({"arguments": {"city": "京都", "days": 4}}, codes=True)
    assert list(texts.unknown({"arguments": {"city": "大阪"}})) == ["大阪"]


def test_names_of_fields_are_text() -> None:
    """A field that was not sent is not passed over because its value is none; a convention's own names are."""
    texts = Texts([{"content": "x"}])
    assert texts.hold({"parts": ["x"]})
    assert not texts.hold({"a secret name": None})
