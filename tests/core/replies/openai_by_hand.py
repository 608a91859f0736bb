"""Replies of OpenAI's APIs, written by hand."""

from __future__ import annotations

from typing import Any

from tests.core.replies.wire_forms import SSE, Case, data_lines, typed_events


def _chunk(*choices: dict[str, Any], **rest: Any) -> dict[str, Any]:
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": "gpt-4o-mini-2024-07-18"}
    return {**head, "choices": list(choices), **rest}


def _delta(delta: dict[str, Any], reason: str | None = None, index: int = 0) -> dict[str, Any]:
    return {"index": index, "delta": delta, "logprobs": None, "finish_reason": reason}


def _whole(*choices: dict[str, Any], **rest: Any) -> dict[str, Any]:
    return {**_chunk(*choices, **rest), "object": "chat.completion"}


_CHAT_USAGE = {
    "prompt_tokens": 9807,
    "completion_tokens": 5,
    "total_tokens": 9812,
    "prompt_tokens_details": {"cached_tokens": 9800},
}
_CHAT_HEAD = {"model": "gpt-4o-mini-2024-07-18", "response_id": "chatcmpl-1"}
_CALLS = [
    {"id": "call_a", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Sèvres"}'}},
    {"id": "call_b", "type": "function", "function": {"name": "time", "arguments": "{}"}},
]

CHAT = [
    Case(
        "chat: text with cached tokens",
        "openai.chat",
        SSE,
        data_lines(
            _chunk(_delta({"role": "assistant", "content": "", "refusal": None})),
            _chunk(_delta({"content": "Grüße, "})),
            _chunk(_delta({"content": "世界 🌍"})),
            _chunk(_delta({}, "stop")),
            _chunk(usage=_CHAT_USAGE),
            done=True,
        ),
        {"output": "Grüße, 世界 🌍", "finish_reason": "stop", "usage": _CHAT_USAGE, **_CHAT_HEAD},
        _whole(
            {"index": 0, "message": {"role": "assistant", "content": "Grüße, 世界 🌍"}, "finish_reason": "stop"},
            usage=_CHAT_USAGE,
        ),
    ),
    Case(
        "chat: tool calls",
        "openai.chat",
        SSE,
        data_lines(
            _chunk(_delta({"role": "assistant", "content": None})),
            _chunk(
                _delta(
                    {"tool_calls": [{"index": 0, **_CALLS[0], "function": {"name": "weather", "arguments": ""}}]},
                )
            ),
            _chunk(_delta({"tool_calls": [{"index": 0, "function": {"arguments": '{"city": '}}]})),
            _chunk(_delta({"tool_calls": [{"index": 0, "function": {"arguments": '"Sèvres"}'}}]})),
            _chunk(_delta({"tool_calls": [{"index": 1, **_CALLS[1]}]})),
            _chunk(_delta({}, "tool_calls")),
            done=True,
            end="\r\n",
        ),
        {"output": [{"role": "assistant", "tool_calls": _CALLS}], "finish_reason": "tool_calls", **_CHAT_HEAD},
        _whole({"index": 0, "message": {"role": "assistant", "tool_calls": _CALLS}, "finish_reason": "tool_calls"}),
    ),
    Case(
        "chat: two choices",
        "openai.chat",
        SSE,
        data_lines(
            _chunk(_delta({"role": "assistant", "content": "He"}, index=1)),
            _chunk(_delta({"role": "assistant", "content": "A"}, index=0)),
            _chunk(_delta({"content": "ads"}, index=1), _delta({"content": "ce"}, index=0)),
            _chunk(_delta({}, "stop", 0)),
            _chunk(_delta({}, "length", 1)),
            done=True,
            end="\r",
        ),
        {
            "output": [{"role": "assistant", "content": "Ace"}, {"role": "assistant", "content": "Heads"}],
            "finish_reason": "stop, length",
            **_CHAT_HEAD,
        },
        _whole(
            {"index": 0, "message": {"role": "assistant", "content": "Ace"}, "finish_reason": "stop"},
            {"index": 1, "message": {"role": "assistant", "content": "Heads"}, "finish_reason": "length"},
        ),
    ),
    Case(
        "chat: refusal",
        "openai.chat",
        SSE,
        data_lines(
            _chunk(_delta({"role": "assistant", "refusal": "I can't "})),
            _chunk(_delta({"refusal": "help."})),
            _chunk(_delta({}, "stop")),
            done=True,
        ),
        {"output": [{"role": "assistant", "refusal": "I can't help."}], "finish_reason": "stop", **_CHAT_HEAD},
    ),
    Case(
        "chat: reasoning beside the text",
        "openai.chat",
        SSE,
        data_lines(
            _chunk(_delta({"role": "assistant", "reasoning_content": "First"})),
            _chunk(_delta({"reasoning_content": ", think."})),
            _chunk(_delta({"content": "42"})),
            _chunk(_delta({}, "stop")),
            done=True,
        ),
        {
            "output": [{"role": "assistant", "reasoning_content": "First, think.", "content": "42"}],
            "finish_reason": "stop",
            **_CHAT_HEAD,
        },
    ),
    Case(
        "completions: text",
        "openai.completions",
        SSE,
        data_lines(
            {"id": "cmpl-1", "model": "instruct", "choices": [{"index": 0, "text": "Once", "finish_reason": None}]},
            {"id": "cmpl-1", "model": "instruct", "choices": [{"index": 0, "text": " upon", "finish_reason": "stop"}]},
            done=True,
        ),
        {"output": "Once upon", "finish_reason": "stop", "model": "instruct", "response_id": "cmpl-1"},
        {"id": "cmpl-1", "model": "instruct", "choices": [{"index": 0, "text": "Once upon", "finish_reason": "stop"}]},
    ),
]

_REASONING = {"id": "rs_1", "type": "reasoning", "summary": [{"type": "summary_text", "text": "Looks it up."}]}
_FUNCTION = {
    "id": "fc_1",
    "type": "function_call",
    "status": "completed",
    "call_id": "call_1",
    "name": "find",
    "arguments": '{"q":"Ω"}',
}
_TEXT_PART = {"type": "output_text", "annotations": [], "text": "Voilà."}
_MESSAGE = {"id": "msg_1", "type": "message", "status": "completed", "role": "assistant", "content": [_TEXT_PART]}
_RESPONSES_USAGE = {"input_tokens": 30, "input_tokens_details": {"cached_tokens": 20}, "output_tokens": 4}


def _response(status: str, output: list[Any], **rest: Any) -> dict[str, Any]:
    return {"id": "resp_1", "object": "response", "model": "gpt-5", "status": status, "output": output, **rest}


def _deltas(kind: str, text: str, **rest: Any) -> list[dict[str, Any]]:
    return [{"type": f"response.{kind}.delta", **rest, "delta": piece} for piece in (text[:3], text[3:]) if piece]


def _told_in_pieces(output: list[Any], last: dict[str, Any] | None) -> list[dict[str, Any]]:
    """The events of a response: begun, each item in deltas, and the last event if there is one."""
    events: list[dict[str, Any]] = [{"type": "response.created", "response": _response("in_progress", [])}]
    for place, item in enumerate(output):
        at = {"output_index": place, "item_id": item["id"]}
        bare = {**item, **{name: [] for name in ("content", "summary") if name in item}}
        bare.update({"arguments": ""} if "arguments" in item else {})
        events.append({"type": "response.output_item.added", **at, "item": bare})
        for part in item.get("content", ()):
            events += _deltas("output_text", part["text"], **at, content_index=0)
        for part in item.get("summary", ()):
            events += _deltas("reasoning_summary_text", part["text"], **at, summary_index=0)
        events += _deltas("function_call_arguments", item.get("arguments", ""), **at)
        events.append({"type": "response.output_item.done", **at, "item": item})
    return events + ([{"type": f"response.{last['status']}", "response": last}] if last else [])


RESPONSES = [
    Case(
        "responses: text",
        "openai.responses",
        SSE,
        typed_events(*_told_in_pieces([_MESSAGE], _response("completed", [_MESSAGE], usage=_RESPONSES_USAGE))),
        {
            "output": "Voilà.",
            "finish_reason": "completed",
            "usage": _RESPONSES_USAGE,
            "model": "gpt-5",
            "response_id": "resp_1",
        },
        _response("completed", [_MESSAGE], usage=_RESPONSES_USAGE),
    ),
    Case(
        "responses: reasoning and a function call, the last event without items",
        "openai.responses",
        SSE,
        typed_events(*_told_in_pieces([_REASONING, _FUNCTION], _response("completed", []))),
        {"output": [_REASONING, _FUNCTION], "finish_reason": "completed", "model": "gpt-5", "response_id": "resp_1"},
        _response("completed", [_REASONING, _FUNCTION]),
    ),
]
