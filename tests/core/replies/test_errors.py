"""Errors of every host, and replies that are none of theirs."""

from __future__ import annotations

import json
from typing import Any

import pytest

from otel_prompt_trace.core.replies import APIS, read_reply
from tests.core.replies.wire_forms import JSON, SSE, data_lines, lines, typed_events

_REFUSED = [
    ("openai.chat", 404, {"error": {"message": "No.", "type": "invalid_request_error", "code": "model_not_found"}},
     "invalid_request_error/model_not_found"),
    ("openai.responses", 400, {"error": {"message": "No.", "type": "invalid_request_error", "code": None}},
     "invalid_request_error"),
    ("openai.chat", 429, {"error": {"message": "No.", "code": 429}}, "429"),
    ("anthropic.messages", 529, {"type": "error", "error": {"type": "overloaded_error", "message": "No."}},
     "overloaded_error"),
    ("google.generate", 404, {"error": {"code": 404, "message": "No.", "status": "NOT_FOUND"}}, "NOT_FOUND/404"),
    ("google.generate", 404, [{"error": {"code": 404, "message": "No.", "status": "NOT_FOUND"}}], "NOT_FOUND/404"),
    ("bedrock.converse", 400, {"message": "No.", "__type": "ValidationException"}, "ValidationException"),
    ("bedrock.invoke", 403, {"Message": "No."}, "http 403"),
    ("cohere.chat", 400, {"id": "x", "message": "No."}, "http 400"),
    ("ollama.chat", 404, {"error": "No."}, "http 404"),
    ("openai.chat", 422, {"detail": "No."}, "http 422"),
]  # fmt: skip


@pytest.mark.parametrize(("api", "status", "body", "error"), _REFUSED)
def test_a_refusal_is_named_by_type_and_code(api: str, status: int, body: Any, error: str) -> None:
    """The host's message, which may quote the request, stands apart from what names the error."""
    found = read_reply(api, status, JSON, json.dumps(body).encode())
    assert found == {"error": error, "error_message": "No."}


def test_an_error_under_a_good_status() -> None:
    """Some hosts answer 200 and tell of the error in the body."""
    found = read_reply("openai.chat", 200, JSON, b'{"error": {"code": 502, "message": "upstream"}}')
    assert found == {"error": "502", "error_message": "upstream"}
    body = {"id": "r", "status": "failed", "output": [], "error": {"code": "server_error", "message": "x"}}
    found = read_reply("openai.responses", 200, JSON, json.dumps(body).encode())
    assert (found["error"], found["finish_reason"]) == ("server_error", "failed")


def test_an_error_in_a_stream_leaves_what_was_said_before_it() -> None:
    """The answer is unfinished, and why stands beside it."""
    chunk = {"id": "c", "choices": [{"index": 0, "delta": {"content": "Half"}, "finish_reason": None}]}
    found = read_reply("openai.chat", 200, SSE, data_lines(chunk, {"error": {"type": "server_error", "message": "m"}}))
    assert found == {
        "response_id": "c",
        "output": "Half",
        "error": "server_error",
        "error_message": "m",
        "unfinished": True,
    }
    overloaded = {"type": "error", "error": {"type": "overloaded_error", "message": "m"}}
    assert read_reply("anthropic.messages", 200, SSE, typed_events(overloaded))["error"] == "overloaded_error"
    failed = {"type": "error", "code": "rate_limit", "message": "m", "param": None}
    assert read_reply("openai.responses", 200, SSE, typed_events(failed))["error"] == "rate_limit"
    said = {"model": "m", "response": "Half", "done": False}
    found = read_reply("ollama.generate", 200, "", lines(said, {"error": "out of memory"}))
    assert (found["output"], found["error_message"], found["unfinished"]) == ("Half", "out of memory", True)


@pytest.mark.parametrize("api", APIS)
def test_what_no_model_host_wrote_is_unread(api: str) -> None:
    """A proxy's page, a line of text, JSON of something else, and nothing at all: each says what it is."""
    page = b"\n<!DOCTYPE html><html>Bad gateway</html>"
    assert read_reply(api, 502, "text/html", page) == {"error": "http 502", "unread": "a page of markup"}
    assert read_reply(api, 200, JSON, page) == {"unread": "a page of markup"}
    assert read_reply(api, 503, "text/plain", b"no healthy upstream")["error"] == "http 503"
    assert read_reply(api, 200, "text/plain", b"hello") == {"unread": "text of no known form"}
    assert "unread" in read_reply(api, 200, JSON, b'{"hello": "world"}')
    assert read_reply(api, 200, JSON, b"") == {"unread": "an empty body"}
    assert read_reply(api, 200, JSON, b"{" + b'"a":{' * 100_000)["unfinished"] is True
    assert "unread" in read_reply(api, 200, JSON, b"[" * 100_000 + b"]" * 100_000)


def test_an_api_that_is_not_known_tells_errors_only() -> None:
    """Its answers are said to be unread."""
    assert read_reply("other", 200, JSON, b'{"choices": []}') == {"unread": "an API that is not known"}
    assert read_reply("other", 400, JSON, b'{"error": {"type": "t"}}') == {"error": "t"}


def test_a_prompt_that_was_blocked_has_its_reason() -> None:
    """Google answers without candidates then; the reason is that of the prompt's feedback."""
    found = read_reply("google.generate", 200, JSON, b'{"promptFeedback": {"blockReason": "SAFETY"}}')
    assert found == {"finish_reason": "SAFETY"}
    found = read_reply("google.generate", 200, SSE, data_lines({"promptFeedback": {"blockReason": "SAFETY"}}))
    assert found == {"finish_reason": "SAFETY"}


def test_a_response_in_the_background_is_unfinished() -> None:
    """Its first answer says only that it was taken."""
    body = {"id": "r", "status": "queued", "output": [], "error": None}
    found = read_reply("openai.responses", 200, JSON, json.dumps(body).encode())
    assert found == {"response_id": "r", "unfinished": True}


def test_a_response_cut_by_its_limit_says_so() -> None:
    """The reason is that of the details, by which answers that were cut are known."""
    item = {"id": "m", "type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Ha"}]}
    details = {"reason": "max_output_tokens"}
    body = {"status": "incomplete", "incomplete_details": details, "output": [item]}
    found = read_reply("openai.responses", 200, JSON, json.dumps(body).encode())
    assert found == {"output": "Ha", "finish_reason": "max_output_tokens"}


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"index": 0, "id": "a"}, {"index": 0, "id": "b"}),  # all numbered 0
        ({"id": "a"}, {"id": "b"}),  # none numbered
        ({"index": 0, "id": "a"}, {"index": 1, "id": "b"}),
    ],
)
def test_tool_calls_are_told_apart_however_hosts_number_them(first: dict[str, Any], second: dict[str, Any]) -> None:
    """By index, and by id where the index does not tell; a name said again is not said twice."""
    pieces = []
    for call in (first, second):
        head = {**call, "type": "function", "function": {"name": f"f_{call['id']}", "arguments": '{"x"'}}
        rest = {"index": call["index"]} if "index" in call else {}
        pieces += [head, {**rest, "function": {"name": f"f_{call['id']}", "arguments": ":1}"}}]
    chunks = [{"choices": [{"index": 0, "delta": {"tool_calls": [piece]}}]} for piece in pieces]
    found = read_reply("openai.chat", 200, SSE, data_lines(*chunks, done=True))
    calls = found["output"][0]["tool_calls"]
    told = [(call["id"], call["function"]) for call in calls]
    assert told == [(key, {"name": f"f_{key}", "arguments": '{"x":1}'}) for key in ("a", "b")]


def test_texts_that_json_may_hold_and_utf8_may_not() -> None:
    """A lone surrogate stays as it was written; bytes that are no UTF-8 become replacement characters."""
    body = b'{"choices": [{"message": {"role": "assistant", "content": "\\ud83d"}}]}'
    assert read_reply("openai.chat", 200, JSON, body)["output"] == "\ud83d"
    assert read_reply("openai.chat", 200, JSON, body.replace(b"\\ud83d", b"\xff"))["output"] == "\ufffd"
