"""Request and response bodies of the model APIs."""

from __future__ import annotations

from typing import Any

import pytest

from otel_prompt_trace.core.conventions.request_bodies import request_of
from otel_prompt_trace.core.conventions.response_bodies import response_of

USER = {"role": "user", "content": "u"}
TOOL = {"name": "f", "parameters": {"type": "object"}}
SCHEMA = {"type": "json_schema", "schema": {"type": "object"}}

REQUESTS: dict[str, tuple[Any, dict[str, Any]]] = {
    "chat": (
        {"model": "m", "messages": [USER], "tools": [TOOL], "n": 1},
        {"messages": [USER], "model": "m", "tools": [TOOL], "parameters": {"n": 1}},
    ),
    "a setting is no schema": (
        {"messages": [USER], "response_format": {"type": "text"}},
        {"messages": [USER], "parameters": {"response_format": {"type": "text"}}},
    ),
    "responses, instructions apart": (
        {"model": "m", "instructions": "s", "input": "u", "text": {"format": SCHEMA, "verbosity": "low"}},
        {
            "messages": [{"role": "system", "content": "s"}, USER],
            "model": "m",
            "response_format": SCHEMA,
            "parameters": {"text": {"verbosity": "low"}},
        },
    ),
    "responses, items": (
        {
            "input": [
                USER,
                {"type": "function_call", "name": "f", "arguments": "{}"},
                {"type": "item_reference", "id": "x"},
            ]
        },
        {
            "messages": [
                USER,
                {"type": "function_call", "name": "f", "arguments": "{}"},
                {"type": "item_reference", "id": "x"},
            ]
        },
    ),
    "responses, held by the provider": (
        {"model": "m", "input": "u", "previous_response_id": "resp_1", "prompt": {"id": "pmpt_1"}},
        {
            "prompt": "u",
            "model": "m",
            "parameters": {"previous_response_id": "resp_1"},
            "held_by_reference": ["previous_response_id", "prompt"],
        },
    ),
    "completions": (
        {"model": "m", "prompt": "p", "echo": True},
        {"prompt": "p", "model": "m", "parameters": {"echo": True}},
    ),
    "anthropic, a text": (
        {"model": "m", "system": "s", "messages": [USER], "max_tokens": 1},
        {"messages": [{"role": "system", "content": "s"}, USER], "model": "m", "parameters": {"max_tokens": 1}},
    ),
    "anthropic, blocks": (
        {"system": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "messages": [USER]},
        {
            "messages": [
                {"role": "system", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
                USER,
            ]
        },
    ),
    "google": (
        {
            "systemInstruction": {"parts": [{"text": "s"}]},
            "contents": [{"role": "user", "parts": [{"text": "u"}]}],
            "generationConfig": {"temperature": 0.0, "topK": 3},
            "tools": [{"functionDeclarations": [TOOL]}],
            "cachedContent": "cachedContents/1",
        },
        {
            "messages": [
                {"role": "system", "content": {"parts": [{"text": "s"}]}},
                {"role": "user", "parts": [{"text": "u"}]},
            ],
            "temperature": 0.0,
            "tools": [{"functionDeclarations": [TOOL]}],
            "parameters": {"cachedContent": "cachedContents/1", "topK": 3},
            "held_by_reference": ["cachedContent"],
        },
    ),
    "bedrock": (
        {
            "modelId": "m",
            "system": [{"text": "s"}],
            "messages": [{"role": "user", "content": [{"text": "u"}]}],
            "inferenceConfig": {"maxTokens": 5, "temperature": 1},
            "toolConfig": {"tools": [{"toolSpec": TOOL}]},
        },
        {
            "messages": [{"role": "system", "content": "s"}, {"role": "user", "content": [{"text": "u"}]}],
            "model": "m",
            "temperature": 1,
            "tools": [{"toolSpec": TOOL}],
            "parameters": {"maxTokens": 5},
        },
    ),
    "headers are never kept": (
        {
            "messages": [USER],
            "extra_headers": {"x": "y"},
            "extra_query": {"key": "s"},
            "config": {"http_options": {"a": 1}},
        },
        {"messages": [USER]},
    ),
    "a bare list": ([USER], {"messages": [USER]}),
}


@pytest.mark.parametrize(("body", "expected"), REQUESTS.values(), ids=REQUESTS.keys())
def test_requests(body: Any, expected: dict[str, Any]) -> None:
    """Every API's request, field by field."""
    found = request_of(body)
    assert found is not None
    assert {name: value for name, value in found.items() if value is not None} == expected


@pytest.mark.parametrize(
    "body",
    [
        None,
        7,
        "text",
        "{}",
        {},
        [],
        [[USER]],
        ["text"],
        {"messages": []},
        {"messages": ["repr()"]},
        {"input": "no model"},
        {"prompt": ""},
        {"prompt": [1, 2]},
    ],
)
def test_what_is_no_request(body: Any) -> None:
    """A value that holds no messages and no prompt is no request body."""
    assert request_of(body) is None


RESPONSES: dict[str, tuple[Any, dict[str, Any]]] = {
    "chat": (
        {
            "id": "1",
            "model": "m",
            "choices": [
                {
                    "finish_reason": "stop",
                    "message": {"role": "assistant", "content": "a", "refusal": None, "annotations": []},
                }
            ],
            "usage": {"prompt_tokens": 1},
        },
        {"output": "a", "finish_reason": "stop", "usage": {"prompt_tokens": 1}, "model": "m", "response_id": "1"},
    ),
    "chat, tool calls": (
        {
            "choices": [
                {
                    "finish_reason": "tool_calls",
                    "message": {"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]},
                }
            ]
        },
        {"output": {"role": "assistant", "tool_calls": [{"id": "1"}]}, "finish_reason": "tool_calls"},
    ),
    "completions": (
        {"choices": [{"text": " a", "finish_reason": "length"}]},
        {"output": " a", "finish_reason": "length"},
    ),
    "responses": (
        {
            "status": "completed",
            "output": [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "a"}]}],
        },
        {"output": "a", "finish_reason": "completed"},
    ),
    "responses, a call": (
        {"status": "completed", "output": [{"type": "function_call", "name": "f", "arguments": "{}"}]},
        {"output": [{"type": "function_call", "name": "f", "arguments": "{}"}], "finish_reason": "completed"},
    ),
    "anthropic": (
        {"role": "assistant", "content": [{"type": "text", "text": "a", "citations": None}], "stop_reason": "end_turn"},
        {"output": "a", "finish_reason": "end_turn"},
    ),
    "anthropic, two blocks": (
        {
            "role": "assistant",
            "content": [{"type": "thinking", "thinking": "t"}, {"type": "text", "text": "a"}],
            "stop_reason": "end_turn",
        },
        {
            "output": {
                "role": "assistant",
                "content": [{"type": "thinking", "thinking": "t"}, {"type": "text", "text": "a"}],
            },
            "finish_reason": "end_turn",
        },
    ),
    "google": (
        {
            "candidates": [{"content": {"role": "model", "parts": [{"text": "a"}]}, "finishReason": "STOP"}],
            "usageMetadata": {"promptTokenCount": 3},
        },
        {"output": "a", "finish_reason": "STOP", "usage": {"promptTokenCount": 3}},
    ),
}


@pytest.mark.parametrize(("body", "expected"), RESPONSES.values(), ids=RESPONSES.keys())
def test_responses(body: Any, expected: dict[str, Any]) -> None:
    """Every API's response: the answer as a text where it is one."""
    assert response_of(body) == expected


@pytest.mark.parametrize(
    "body",
    [None, 7, "text", {}, [], {"messages": "<accumulator>"}, {"choices": []}, {"output": "text"}, {"content": "c"}],
)
def test_what_is_no_response(body: Any) -> None:
    """An object of somebody's that is no response is not read as one."""
    assert response_of(body) is None
