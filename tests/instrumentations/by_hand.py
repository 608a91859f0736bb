"""Calls written by hand: what they are asked to show stands beside each. They need no corpus.

The replies have the shape that the providers' API documentation gives, and the least that the SDKs accept.

Calls that are made at one time carry a mark, by which their spans are told apart: in the request, so that the reply
meant for it can be given to it, or where all requests are the same, in the replies alone.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from tests.instrumentations.replay_server import Reply

LONG_TEXT = "Was steht in Absatz 7? Größe ≤ 3 µm, 漢字, 😀.\n" * 500  # 22,000 characters that JSON may escape
ASK = [{"role": "system", "content": "You answer in one word."}, {"role": "user", "content": "Grüße nach 京都?"}]
LONG_ASK = [{"role": "user", "content": LONG_TEXT}]
MARK = re.compile(r"call-\d\d-\d\d")
HUNDRED = [
    {"role": ("user", "assistant")[n % 2], "content": f"Message {n} of a long conversation: {'word ' * (n % 7 * 20)}"}
    for n in range(101)
]
WEATHER = {"type": "object", "properties": {"city": {"type": "string", "description": "A city. " * 700}}}
_TOOL = {"type": "function", "function": {"name": "weather", "description": "Weather now", "parameters": WEATHER}}
_ANTHROPIC_TOOL = {"name": "weather", "description": "Weather now", "input_schema": WEATHER}


@dataclass(frozen=True)
class Prepared:
    """A request's body, as the SDK is given it, and the reply to it."""

    path: str
    body: str
    reply: Reply


def openai_calls() -> list[list[Prepared]]:
    """Calls of the OpenAI SDK, those under one entry span together."""
    return [
        [_chat(ASK), _chat(LONG_ASK), _chat(ASK, stream=True)],
        [_chat(HUNDRED), _chat(ASK, tools=[_TOOL]), _responses(LONG_TEXT)],
        [_chat(ASK, status=400)],
    ]


def anthropic_calls() -> list[list[Prepared]]:
    """Calls of the Anthropic SDK, those under one entry span together."""
    system = [{"type": "text", "text": LONG_TEXT, "cache_control": {"type": "ephemeral"}}]
    return [
        [_message(ASK[1:], system="Short."), _message(LONG_ASK, system=system), _message(ASK[1:], stream=True)],
        [_message(HUNDRED), _message(ASK[1:], tools=[_ANTHROPIC_TOOL])],
        [_message(ASK[1:], status=400)],
    ]


def parallel_calls(provider: str) -> list[list[Prepared]]:
    """Calls to be made at one time, those under one entry span together; the second entry asks four times the same."""
    if provider == "openai":
        first = [
            _chat(_marked("call-01-01"), mark="call-01-01"),
            _chat(_marked("call-01-02", LONG_TEXT), mark="call-01-02"),
            _chat(_marked("call-01-03"), mark="call-01-03", stream=True),
            _chat(_marked("call-01-04"), mark="call-01-04", tools=[_TOOL]),
            _responses(f"call-01-05 {LONG_TEXT}", mark="call-01-05"),
            _chat(_marked("call-01-06"), mark="call-01-06", status=400),
        ]
        return [first, [_chat(ASK, mark=f"call-02-0{n}") for n in range(1, 5)]]
    first = [
        _message(_marked("call-01-01"), mark="call-01-01", system="Short."),
        _message(_marked("call-01-02", LONG_TEXT), mark="call-01-02", system=[{"type": "text", "text": LONG_TEXT}]),
        _message(_marked("call-01-03"), mark="call-01-03", stream=True),
        _message(_marked("call-01-04"), mark="call-01-04", tools=[_ANTHROPIC_TOOL]),
        _message(_marked("call-01-05"), mark="call-01-05", status=400),
    ]
    return [first, [_message(ASK[1:], mark=f"call-02-0{n}") for n in range(1, 5)]]


def many_calls(provider: str, count: int) -> list[Prepared]:
    """Calls of one entry that differ in their text alone."""
    make: Any = _chat if provider == "openai" else _message
    return [make(_marked(f"call-01-{n:02}"), mark=f"call-01-{n:02}") for n in range(count)]


def parallel_streams(provider: str) -> list[list[Prepared]]:
    """Streams to be read at one time, the first one the longest; those of the second entry are of the same request."""
    make: Any = _chat if provider == "openai" else _message
    marks = ["call-01-01", "call-01-02", "call-01-03"]
    return [
        [make(_marked(mark), mark=mark, stream=True, parts=4 - n) for n, mark in enumerate(marks)],
        [make(ASK[1:], mark=f"call-02-0{n}", stream=True, parts=5 - n) for n in range(1, 4)],
    ]


def _marked(mark: str, text: str = "Grüße nach 京都?") -> list[Any]:
    return [{"role": "user", "content": f"{mark} {text}"}]


def _chat(messages: list[Any], *, status: int = 200, mark: str = "", parts: int = 1, **more: Any) -> Prepared:
    usage = {"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11}
    head: dict[str, Any] = {
        "id": f"chatcmpl-{mark or len(json.dumps(messages))}",
        "created": 1,
        "model": "gpt-4o-2024-08-06",
    }
    if more.get("stream"):
        head |= {"object": "chat.completion.chunk"}
        chunks = [
            {"role": "assistant", "content": ""},
            *[{"content": "Ja, "}] * parts,
            {"content": f"gern. 漢{_shown(mark)}"},
        ]
        events = [head | {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in chunks]
        events.append(head | {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
        return _prepared("/v1/chat/completions", {"model": "gpt-4o", "messages": messages, **more}, stream(events))
    message: dict[str, Any] = {"role": "assistant", "content": f"Ja. 漢字{_shown(mark)}"}
    if more.get("tools"):
        called = {"name": "weather", "arguments": '{"city": "京都"}'}
        message |= {"content": None, "tool_calls": [{"id": "call_1", "type": "function", "function": called}]}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if more.get("tools") else "stop"}
    answer = head | {"object": "chat.completion", "choices": [choice], "usage": usage}
    return _prepared("/v1/chat/completions", {"model": "gpt-4o", "messages": messages, **more}, answer, status)


def _responses(text: str, mark: str = "") -> Prepared:
    part = {"type": "output_text", "text": f"Nichts. 漢字{_shown(mark)}", "annotations": []}
    output = [{"type": "message", "id": "msg_1", "status": "completed", "role": "assistant", "content": [part]}]
    usage = {
        "input_tokens": 9,
        "output_tokens": 2,
        "total_tokens": 11,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens_details": {"reasoning_tokens": 0},
    }
    answer = {
        "id": f"resp_{mark or 1}",
        "object": "response",
        "created_at": 1,
        "status": "completed",
        "model": "gpt-4o",
    }
    answer |= {"output": output, "usage": usage, "parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
    return _prepared("/v1/responses", {"model": "gpt-4o", "instructions": "Be brief.", "input": text}, answer)


def _message(messages: list[Any], *, status: int = 200, mark: str = "", parts: int = 1, **more: Any) -> Prepared:
    body = {"model": "claude-sonnet-4-5", "max_tokens": 100, "messages": messages, **more}
    usage = {"input_tokens": 9, "output_tokens": 2}
    head = {"id": f"msg_{mark or len(json.dumps(messages))}", "type": "message", "role": "assistant"}
    head |= {"model": "claude-sonnet-4-5", "stop_sequence": None}
    if more.get("stream"):
        delta = {"type": "text_delta", "text": f"Ja. 漢{_shown(mark)}"}
        events: list[dict[str, Any]] = [
            {"type": "message_start", "message": head | {"content": [], "stop_reason": None, "usage": usage}},
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
            *[{"type": "content_block_delta", "index": 0, "delta": delta}] * parts,
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}},
            {"type": "message_stop"},
        ]
        return _prepared("/v1/messages", body, stream(events, named=True))
    content: list[dict[str, Any]] = [{"type": "text", "text": f"Ja. 漢字{_shown(mark)}"}]
    if more.get("tools"):
        content.append({"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"city": "京都"}})
    answer = head | {"content": content, "stop_reason": "end_turn", "usage": usage}
    return _prepared("/v1/messages", body, answer, status)


def stream(events: list[dict[str, Any]], *, named: bool = False) -> bytes:
    """Server-sent events."""
    lines = [f"{'event: ' + e['type'] + chr(10) if named else ''}data: {json.dumps(e)}\n\n" for e in events]
    return "".join([*lines, *([] if named else ["data: [DONE]\n\n"])]).encode()


def _shown(mark: str) -> str:
    return f" {mark}" if mark else ""


def _prepared(path: str, body: dict[str, Any], answer: Any, status: int = 200) -> Prepared:
    asked = json.dumps(body)
    to = found[0] if (found := MARK.search(asked)) else ""
    if status != 200:
        answer = {"type": "error", "error": {"type": "invalid_request_error", "message": f"No. {LONG_TEXT}"}}
    if isinstance(answer, bytes):
        return Prepared(path, asked, Reply(path, answer, content_type="text/event-stream", to=to))
    return Prepared(path, asked, Reply(path, json.dumps(answer).encode(), status, to=to))
