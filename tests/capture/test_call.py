"""What a call records: before it goes out, when it comes back, and when it does not."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

import otel_prompt_trace as pt
from tests.capture.recording import Recording


class _Refused(Exception):
    """An application's own."""


def test_the_request_is_in_the_spool_before_it_goes_out(recording: Recording) -> None:
    """Inside the call, before any answer, the request is where a kill can't take it."""
    with pt.query() as q, q.call(prompt="is it safe yet?"):
        assert b"is it safe yet?" in recording.spooled_bytes()


def test_a_list_of_messages_is_kept_as_it_is(recording: Recording) -> None:
    """Roles, parts and unknown fields stay; each text is a segment with its digest."""
    messages = [
        {"role": "system", "content": "Answer."},
        {"role": "user", "content": [{"type": "text", "text": "Why?"}], "x-odd": "field"},
    ]
    with pt.query() as q, q.call(model="m", prompt=messages) as call:
        call.respond("o")
    (request,) = recording.of(q.qid, "request")
    assert request["messages"] == messages
    assert "prompt" not in request
    texts = {"messages[0].content": "Answer.", "messages[1].content[0].text": "Why?", "messages[1].x-odd": "field"}
    digests = {path: hashlib.sha256(text.encode()).hexdigest() for path, text in texts.items()}
    assert {segment["path"]: segment["sha256"] for segment in request["segments"]} == digests
    assert request["chars"] == 16


def test_a_prompt_of_messages(recording: Recording) -> None:
    """Pieces of a ``Prompt`` with messages lie in their message's segment."""
    prompt = pt.Prompt().message("system").add("system", "Answer.").message("user").add("user", "Why?")
    with pt.query() as q, q.call(prompt=prompt) as call:
        call.respond("o")
    record = recording.record(q.qid)
    assert [(piece["text"], piece["segment"], piece["start"]) for piece in record.of("piece")] == [
        ("Answer.", 0, 0),
        ("Why?", 1, 0),
    ]
    assert pt.grade(record).verdict == "exact"


def test_a_prompt_grades_exact_and_one_character_too_many_does_not(recording: Recording) -> None:
    """The declared path end to end: what was placed accounts for all of it, and only for that."""
    with pt.query() as exact:
        first, second = pt.declare("a", "alpha "), pt.declare("b", "beta")
        with exact.call(prompt=first + second) as call:
            call.respond("o", usage={"input_tokens": 2})
    with pt.query() as gap:
        first = pt.declare("a", "alpha ")
        with gap.call(prompt=f"{first}beta") as call:
            call.respond("o")
    assert pt.grade(recording.record(exact.qid)).verdict == "exact"
    assert pt.grade(recording.record(gap.qid)).verdict == "mismatch"


def test_a_call_without_an_answer_is_unfinished(recording: Recording) -> None:
    """No ``respond`` is a record too, and says so."""
    with pt.query() as q, q.call(prompt="p"):
        pass
    (response,) = recording.of(q.qid, "response")
    assert response["unfinished"] is True
    assert "output" not in response
    assert recording.record(q.qid).calls[0].unfinished


@pytest.mark.parametrize("error", [_Refused("no"), KeyboardInterrupt(), SystemExit(3), GeneratorExit()])
def test_the_application_s_exceptions_pass_through_and_mark_the_record(
    recording: Recording, error: BaseException
) -> None:
    """The same object arrives outside; call and end carry its type, never its message."""
    with pytest.raises(type(error)) as caught, pt.query() as q, q.stage("s"), q.call(prompt="p"):
        raise error
    assert caught.value is error
    name = type(error).__name__
    (response,) = recording.of(q.qid, "response")
    (end,) = recording.of(q.qid, "end")
    assert response == response | {"unfinished": True, "error": name}
    assert end["error"] == name
    assert "s" in end["ms"]
    for span in ("query", "s", "call"):
        assert recording.span(span).status.description == name


def test_an_error_after_the_answer_leaves_the_answer(recording: Recording) -> None:
    """What came back is not taken back by what the application did with it."""
    with pytest.raises(_Refused), pt.query() as q, q.call(prompt="p") as call:  # noqa: PT012 - the order is the case
        call.respond("o")
        raise _Refused
    (response,) = recording.of(q.qid, "response")
    assert response["output"] == "o"
    assert "unfinished" not in response


def test_two_answers_are_both_kept(recording: Recording) -> None:
    """Nothing is merged away; the last one is the call's."""
    with pt.query() as q, q.call(prompt="p") as call:
        call.respond("draft")
        call.respond("final")
    assert [response["output"] for response in recording.of(q.qid, "response")] == ["draft", "final"]
    response = recording.record(q.qid).calls[0].response
    assert response is not None
    assert response["output"] == "final"


def test_calls_of_one_query_are_numbered_as_they_went_out(recording: Recording) -> None:
    """Two calls, one prompt: two calls with ids of their own."""
    with pt.query() as q:
        for _ in range(2):
            with q.call(prompt="same") as call:
                call.respond("o")
    calls = recording.record(q.qid).calls
    assert [call.number for call in calls] == [1, 2]
    assert len({call.id for call in calls}) == 2


class _Dumped:
    def model_dump(self) -> dict[str, int]:
        return {"input_tokens": 4}


class _Broken:
    __slots__ = ()

    def model_dump(self) -> dict[str, int]:
        raise ValueError("not today")


@pytest.mark.parametrize(
    ("usage", "stored"),
    [
        ({"input_tokens": 4}, {"input_tokens": 4}),
        (_Dumped(), {"input_tokens": 4}),
        (SimpleNamespace(input_tokens=4, _private=1), {"input_tokens": 4}),
    ],
)
def test_usage_in_the_shapes_it_comes_in(recording: Recording, usage: Any, stored: dict[str, int]) -> None:
    """A mapping, or an object of a provider's SDK."""
    with pt.query() as q, q.call(prompt="p") as call:
        call.respond("o", usage=usage)
    assert recording.of(q.qid, "response")[0]["usage"] == stored


def test_an_odd_usage_object_does_not_cost_the_output(recording: Recording) -> None:
    """A dump that raises leaves the answer, and the object's type in the place of its numbers."""
    with pt.query() as q, q.call(prompt="p") as call:
        call.respond("the answer", usage=_Broken())
    (response,) = recording.of(q.qid, "response")
    assert response["output"] == "the answer"
    assert response["usage"].kind.endswith("_Broken")


@pytest.mark.parametrize("late", [True, False])
def test_what_is_changed_after_the_call_went_out_is_stored_as_it_was(recording: Recording, late: bool) -> None:
    """Messages, tools, parameters, tool arguments and outputs are taken when they are handed over."""
    messages = [{"role": "user", "content": "as sent"}]
    tools = [{"name": "as sent"}]
    arguments, output, value, stop = {"a": ["as sent"]}, {"text": "as sent"}, [{"name": "as sent"}], ["as sent"]
    with pt.query() as q:
        pt.declare("tools", value)
        q.tool_call("t", arguments=arguments, keep_arguments=True)
        if not late:
            value[0]["name"] = "changed"
        with q.call(prompt=messages, tools=tools, stop=stop) as call:
            messages[0]["content"] = tools[0]["name"] = value[0]["name"] = "changed"
            arguments["a"].append("changed")
            stop.append("changed")
            call.respond(output)
            output["text"] = "changed"
    pt.flush(20)
    assert b"changed" not in recording.stored_bytes()
    assert recording.of(q.qid, "piece")[0]["value"] == [{"name": "as sent"}]


def test_a_tool_result_is_offered_to_later_calls(recording: Recording) -> None:
    """What a tool gave back accounts for itself in the next prompt, as an inferred piece."""
    with pt.query() as q:
        q.tool_call("clock", result="It is noon.")
        pt.declare("frame", "Time: ")
        with q.call(prompt="Time: It is noon.") as call:
            call.respond("o")
    record = recording.record(q.qid)
    assert [piece.text for piece in record.calls[0].inferred] == ["It is noon."]
    assert pt.grade(record).verdict == "exact"


def test_tool_arguments_are_kept_only_when_asked(recording: Recording) -> None:
    """By default a keyed digest stands for them; equal arguments have equal digests."""
    with pt.query() as q:
        for keep in (False, False, True):
            q.tool_call("t", arguments={"card": "4929-0000"}, keep_arguments=keep)
    first, second, third = recording.of(q.qid, "tool_call")
    assert first["arguments_hmac_sha256"] == second["arguments_hmac_sha256"]
    assert "arguments" not in first
    assert third["arguments"] == {"card": "4929-0000"}
    assert recording.stored_bytes().count(b"4929-0000") == 1


def test_the_key_of_digests_is_shared_by_the_processes_of_a_spool(install: Callable[..., Recording]) -> None:
    """The next installation over the same spool digests the same; the key is for its owner's eyes."""
    digests = []
    for number in range(2):
        recording = install(policy=("store", "hash")[number])
        digests.append(recording.runtime.digest()("x"))
    assert digests[0] == digests[1]
    assert (recording.spool / "hash.key").stat().st_mode & 0o777 == 0o600
    assert install(hash_key="another").runtime.digest()("x") != digests[0]


def test_an_answer_put_back_into_the_messages_is_kept_as_it_is_sent(recording: Recording) -> None:
    """An SDK's own message object among the messages becomes the mapping that the SDK sends, so its text counts."""
    chat = pytest.importorskip("openai.types.chat")
    answer = chat.ChatCompletionMessage(role="assistant", content="Because.")
    messages = [{"role": "user", "content": "Why?"}, answer]
    with pt.query() as q:
        pt.declare("user", "Why?")
        pt.declare("history", "Because.")
        with q.call(model="m", prompt=messages) as call:
            call.respond("o")
    (request,) = recording.of(q.qid, "request")
    assert request["messages"] == [messages[0], {"role": "assistant", "content": "Because."}]
    assert pt.grade(recording.record(q.qid)).verdict == "exact"


def test_credentials_of_a_request_reach_no_record(recording: Recording) -> None:
    """The authorization of a tool, of an MCP server, and headers for the client are cut wherever they stand."""
    tools = [{"type": "mcp", "server_label": "crm", "authorization": "Bearer tool-secret"}]
    with (
        pt.query() as q,
        q.call(
            model="m",
            prompt="hello",
            tools=tools,
            mcp_servers=[{"name": "s", "authorization_token": "server-secret"}],
            extra_headers={"X-Token": "header-secret"},
            api_key="key-secret",
        ) as call,
    ):
        assert b"-secret" not in recording.spooled_bytes()
        call.respond("the key is key-secret")
    pt.flush(20)
    assert b"-secret" not in recording.stored_bytes()
    (request,) = recording.of(q.qid, "request")
    assert request["tools"][0]["server_label"] == "crm"
    assert len(request["tools"][0]["authorization"]) == len("Bearer tool-secret")
