"""Weaker evidence in a delivery with and without the wire, and where a policy has cut something."""

from __future__ import annotations

import json
from typing import Any

import pytest

from otel_prompt_trace.core.beside import beside_the_wire, difference
from otel_prompt_trace.core.events import Event
from otel_prompt_trace.core.redaction import redactor
from otel_prompt_trace.core.seal import keyed_digest, seal
from otel_prompt_trace.core.text import CutText, sha256_text
from tests.core.by_hand import KEY, Script

DIGEST = keyed_digest(KEY)
MAIL = "max@example.com"
MESSAGES = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": f"I am {MAIL}, why?"}]
REPORTED = json.dumps([{"role": m["role"], "parts": [{"type": "text", "content": m["content"]}]} for m in MESSAGES])
ANSWER = json.dumps([{"role": "assistant", "parts": [{"type": "text", "content": "So."}], "finish_reason": "stop"}])
VALUES = {"gen_ai.input.messages": REPORTED, "gen_ai.output.messages": ANSWER, "input.value": "{no JSON"}


def script(*, wire: bool = True, answered: bool = True, call: str = "c1", **fields: Any) -> Script:
    """A call on the wire, and what a span told of call ``c1``."""
    written = Script()
    if wire:
        body = json.dumps({"model": "m", "messages": MESSAGES, **fields}).encode()
        written("request", call=call, evidence="wire", api="openai.chat", host="h", path="/p", body=body,
                **({"secrets": True} if fields else {}))  # fmt: skip
    if wire and answered:
        raw = {"choices": [{"message": {"role": "assistant", "content": "So."}, "finish_reason": "stop"}]}
        written("response", call=call, evidence="wire", api="openai.chat", status=200, complete=True,
                content_type="application/json", raw=json.dumps(raw).encode())  # fmt: skip
    written("content", call="c1", route="attributes", values=dict(VALUES))
    return written


def told(events: list[Event]) -> Event:
    (event,) = [event for event in beside_the_wire(events) if event["kind"] == "content"]
    return event


def test_beside_the_wire_what_was_sent_gives_way() -> None:
    """Digest, length and an empty difference stay; the value that nobody can read stays whole."""
    event = told(script().sealed())
    assert event["values"] == {"input.value": "{no JSON"}
    assert event["digests"] == {
        name: {"sha256": sha256_text(VALUES[name]), "chars": len(VALUES[name])}
        for name in ("gen_ai.input.messages", "gen_ai.output.messages")
    }
    assert event["difference"] == {}


@pytest.mark.parametrize("options", [{"wire": False}, {"call": "another"}])
def test_without_the_wire_everything_stays(options: dict[str, Any]) -> None:
    """Nothing was sent that could stand for it: not in this delivery, or by another call."""
    assert told(script(**options).sealed())["values"] == VALUES


def test_an_answer_that_the_wire_did_not_give_stays() -> None:
    """The request is known as it was sent, the answer is not."""
    event = told(script(answered=False).sealed())
    assert set(event["values"]) == {"gen_ai.output.messages", "input.value"}


def test_the_events_handed_over_are_not_changed() -> None:
    """What lessens is a copy; any other event is the same object."""
    sealed = script().sealed()
    before = json.dumps([event.get("values") for event in sealed])
    lessened = beside_the_wire(sealed)
    assert json.dumps([event.get("values") for event in sealed]) == before
    assert [a is b for a, b in zip(sealed, lessened, strict=True)] == [event["kind"] != "content" for event in sealed]


@pytest.mark.parametrize("how", ["redacted", "withheld", "hashed", "credential"])
def test_where_a_policy_cut_something_what_is_left_stays(how: str) -> None:
    """What was reported can't be compared with a body of which something is missing; nothing is told by a digest."""
    given: dict[str, Any] = {"tools": [{"type": "mcp", "authorization": "abc"}]} if how == "credential" else {}
    events = script(**given).events
    match how:
        case "redacted":
            sealed = seal(events, "store", DIGEST, (), redactor("email"))
        case "withheld":
            sealed = seal(events, "store", DIGEST, (MAIL,))
        case "hashed":
            sealed = seal(events, "hash", DIGEST)
        case _:
            sealed = seal(events, "store", DIGEST)
    event = told(sealed)
    assert "digests" not in event
    assert event["values"].keys() == VALUES.keys()
    if how != "credential":
        assert isinstance(event["values"]["gen_ai.input.messages"], CutText)
        assert sha256_text(REPORTED) not in json.dumps(event, default=repr)


def test_a_report_of_which_something_is_cut_is_not_compared() -> None:
    """The text that was cut stands in a span event alone: the rest stays, and nothing is said of it."""
    events = script().events
    told_more = {"attributes": {}, "body": {"role": "user", "content": f"{MAIL}, once more"}}
    events[-1] = {**events[-1], "values": {}, "events": [{"gen_ai.user.message": told_more}]}
    body = events[0]["body"].replace(MAIL.encode(), b"m")
    event = told(seal([{**events[0], "body": body}, *events[1:]], "store", DIGEST, (MAIL,)))
    assert "difference" not in event
    assert isinstance(event["events"][0]["gen_ai.user.message"]["body"]["content"], CutText)


def test_a_request_that_can_not_be_read_has_no_difference() -> None:
    """Neither is anything taken for the same."""
    sent = next(event for event in script().sealed() if event["kind"] == "request")
    assert difference({"prompt": None}, sent) is None
    assert difference({"messages": MESSAGES}, {**sent, "body": [b"\xff"]}) is None
    assert difference({"messages": MESSAGES}, sent) == {}
