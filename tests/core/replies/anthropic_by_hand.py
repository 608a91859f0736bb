"""Replies of Anthropic, written by hand."""

from __future__ import annotations

import json
from typing import Any

from tests.core.replies.wire_forms import SSE, Case, typed_events

_ANTHROPIC_START = {
    "type": "message_start",
    "message": {
        "id": "msg_01",
        "type": "message",
        "role": "assistant",
        "model": "claude-sonnet-4-6",
        "content": [],
        "stop_reason": None,
        "usage": {"input_tokens": 7, "cache_read_input_tokens": 9800, "output_tokens": 1},
    },
}
_ANTHROPIC_BLOCKS = [
    {"type": "thinking", "thinking": "Hmm, naïve.", "signature": "c2ln"},
    {"type": "text", "text": "Ich schaue nach: 東京"},
    {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"city": "東京", "days": [1, 2]}},
    {"type": "tool_use", "id": "toolu_2", "name": "now", "input": {}},
]
_ANTHROPIC_USAGE = {"input_tokens": 7, "cache_read_input_tokens": 9800, "output_tokens": 30}
HEAD = {"usage": _ANTHROPIC_USAGE, "model": "claude-sonnet-4-6", "response_id": "msg_01"}


def _block(index: int, start: dict[str, Any], *deltas: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {"type": "content_block_start", "index": index, "content_block": start},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    ]


def _anthropic(reason: str, *events: dict[str, Any]) -> list[dict[str, Any]]:
    stopped = {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 30}}
    return [_ANTHROPIC_START, {"type": "ping"}, *events, stopped, {"type": "message_stop"}]


def text_events(text: str) -> list[dict[str, Any]]:
    """The events of a message that is one text."""
    pieces = [{"type": "text_delta", "text": piece} for piece in (text[:2], text[2:])]
    return _anthropic("end_turn", *_block(0, {"type": "text", "text": ""}, *pieces))


def whole(reason: str, blocks: list[Any]) -> dict[str, Any]:
    """The message, not streamed."""
    return {**_ANTHROPIC_START["message"], "content": blocks, "stop_reason": reason, "usage": _ANTHROPIC_USAGE}


_TOOL_INPUT = json.dumps(_ANTHROPIC_BLOCKS[2]["input"], ensure_ascii=False)
ANTHROPIC = [
    Case(
        "anthropic: text",
        "anthropic.messages",
        SSE,
        typed_events(*text_events("Déjà vu")),
        {"output": "Déjà vu", "finish_reason": "end_turn", **HEAD},
        whole("end_turn", [{"type": "text", "text": "Déjà vu"}]),
    ),
    Case(
        "anthropic: thinking, text and two tools",
        "anthropic.messages",
        SSE,
        typed_events(
            *_anthropic(
                "tool_use",
                *_block(
                    0,
                    {"type": "thinking", "thinking": "", "signature": ""},
                    {"type": "thinking_delta", "thinking": "Hmm, "},
                    {"type": "thinking_delta", "thinking": "naïve."},
                    {"type": "signature_delta", "signature": "c2ln"},
                ),
                *_block(
                    1,
                    {"type": "text", "text": ""},
                    {"type": "text_delta", "text": "Ich schaue nach: "},
                    {"type": "text_delta", "text": "東京"},
                ),
                *_block(
                    2,
                    {**_ANTHROPIC_BLOCKS[2], "input": {}},
                    {"type": "input_json_delta", "partial_json": ""},
                    {"type": "input_json_delta", "partial_json": _TOOL_INPUT[:9]},
                    {"type": "input_json_delta", "partial_json": _TOOL_INPUT[9:]},
                ),
                *_block(3, _ANTHROPIC_BLOCKS[3], {"type": "input_json_delta", "partial_json": ""}),
            )
        ),
        {"output": _ANTHROPIC_BLOCKS, "finish_reason": "tool_use", **HEAD},
        whole("tool_use", _ANTHROPIC_BLOCKS),
    ),
]
