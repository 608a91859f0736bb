"""Replies of Bedrock, written by hand: Converse, and each model family's own form."""

from __future__ import annotations

from typing import Any

from tests.core.replies import anthropic_by_hand as anthropic
from tests.core.replies.wire_forms import FRAMES, Case, converse, native

_CONVERSE_USAGE = {"inputTokens": 8, "outputTokens": 10, "totalTokens": 18, "cacheReadInputTokens": 3}
_CONVERSE_BLOCKS = [
    {"reasoningContent": {"reasoningText": {"text": "Nun denn…", "signature": "c2ln"}}},
    {"text": "Gern."},
    {"toolUse": {"toolUseId": "t1", "name": "weather", "input": {"city": "Köln"}}},
]


def _at(index: int, **delta: Any) -> tuple[str, dict[str, Any]]:
    return "contentBlockDelta", {"contentBlockIndex": index, "delta": delta, "p": "abc"}


_CONVERSE_TEXT = [
    ("messageStart", {"role": "assistant"}),
    _at(0, text="Sure, "),
    _at(0, text="how?"),
    ("contentBlockStop", {"contentBlockIndex": 0}),
    ("messageStop", {"stopReason": "max_tokens"}),
    ("metadata", {"metrics": {"latencyMs": 6}, "usage": _CONVERSE_USAGE}),
]
CONVERSE = [
    Case(
        "converse: text",
        "bedrock.converse",
        FRAMES,
        converse(*_CONVERSE_TEXT),
        {"output": "Sure, how?", "finish_reason": "max_tokens", "usage": _CONVERSE_USAGE},
        {
            "output": {"message": {"role": "assistant", "content": [{"text": "Sure, how?"}]}},
            "stopReason": "max_tokens",
            "usage": _CONVERSE_USAGE,
        },
    ),
    Case(
        "converse: reasoning, text and a tool",
        "bedrock.converse",
        FRAMES,
        converse(
            ("messageStart", {"role": "assistant"}),
            _at(0, reasoningContent={"text": "Nun "}),
            _at(0, reasoningContent={"text": "denn…"}),
            _at(0, reasoningContent={"signature": "c2ln"}),
            _at(1, text="Gern."),
            (
                "contentBlockStart",
                {"contentBlockIndex": 2, "start": {"toolUse": {"toolUseId": "t1", "name": "weather"}}},
            ),
            _at(2, toolUse={"input": '{"city": "Kö'}),
            _at(2, toolUse={"input": 'ln"}'}),
            ("messageStop", {"stopReason": "tool_use"}),
            ("metadata", {"usage": _CONVERSE_USAGE}),
        ),
        {"output": _CONVERSE_BLOCKS, "finish_reason": "tool_use", "usage": _CONVERSE_USAGE},
        {
            "output": {"message": {"role": "assistant", "content": _CONVERSE_BLOCKS}},
            "stopReason": "tool_use",
            "usage": _CONVERSE_USAGE,
        },
    ),
]
_METRICS = {"amazon-bedrock-invocationMetrics": {"inputTokenCount": 37, "outputTokenCount": 8}}
_COUNTED = {**_METRICS["amazon-bedrock-invocationMetrics"], "input_tokens": 37, "output_tokens": 8}
NATIVE = [
    Case(
        "invoke: Anthropic",
        "bedrock.invoke",
        FRAMES,
        native(*anthropic.text_events("Déjà vu")[:-1], {"type": "message_stop", **_METRICS}),
        {"output": "Déjà vu", "finish_reason": "end_turn", **anthropic.HEAD},
        anthropic.whole("end_turn", [{"type": "text", "text": "Déjà vu"}]),
    ),
    Case(
        "invoke: Anthropic's completions",
        "bedrock.invoke",
        FRAMES,
        native(
            {"completion": " Oh", "stop_reason": None},
            {"completion": " là", "stop_reason": "stop_sequence", "stop": "\n\nHuman:", **_METRICS},
        ),
        {"output": " Oh là", "finish_reason": "stop_sequence", "usage": _COUNTED},
    ),
    Case(
        "invoke: Llama",
        "bedrock.invoke",
        FRAMES,
        native(
            {"generation": "Ré", "prompt_token_count": 37, "generation_token_count": 1, "stop_reason": None},
            {"generation": "sumé", "prompt_token_count": None, "generation_token_count": 8, "stop_reason": "stop"},
        ),
        {
            "output": "Résumé",
            "finish_reason": "stop",
            "usage": {
                "prompt_token_count": 37,
                "generation_token_count": 8,
                "input_tokens": 37,
                "output_tokens": 8,
            },
        },
        {"generation": "Résumé", "prompt_token_count": 37, "generation_token_count": 8, "stop_reason": "stop"},
    ),
    Case(
        "invoke: Titan",
        "bedrock.invoke",
        FRAMES,
        native(
            {"outputText": "Ti", "index": 0, "completionReason": None, "inputTextTokenCount": 37},
            {"outputText": "tan", "index": 0, "completionReason": "FINISH", "totalOutputTextTokenCount": 8},
        ),
        {
            "output": "Titan",
            "finish_reason": "FINISH",
            "usage": {
                "inputTextTokenCount": 37,
                "totalOutputTextTokenCount": 8,
                "input_tokens": 37,
                "output_tokens": 8,
            },
        },
        {
            "inputTextTokenCount": 37,
            "results": [{"tokenCount": 8, "outputText": "Titan", "completionReason": "FINISH"}],
        },
    ),
    Case(
        "invoke: Nova",
        "bedrock.invoke",
        FRAMES,
        native(*({name: value} for name, value in _CONVERSE_TEXT), _METRICS),
        {"output": "Sure, how?", "finish_reason": "max_tokens", "usage": _CONVERSE_USAGE},
    ),
    Case(
        "invoke: Mistral",
        "bedrock.invoke",
        FRAMES,
        native(
            {"outputs": [{"text": "Le ", "stop_reason": None}]},
            {"outputs": [{"text": "vent", "stop_reason": "stop"}], **_METRICS},
        ),
        {"output": "Le vent", "finish_reason": "stop", "usage": _COUNTED},
        {"outputs": [{"text": "Le vent", "stop_reason": "stop"}], **_METRICS},
    ),
    Case(
        "invoke: Mistral as OpenAI",
        "bedrock.invoke",
        FRAMES,
        native(
            {"choices": [{"index": 0, "message": {"role": "assistant", "content": "Le "}, "stop_reason": None}]},
            {"choices": [{"index": 0, "message": {"content": "mur"}, "stop_reason": "stop"}], **_METRICS},
        ),
        {"output": "Le mur", "finish_reason": "stop", "usage": _COUNTED},
    ),
    Case(
        "invoke: Cohere's generations",
        "bedrock.invoke",
        FRAMES,
        native(
            {"generations": [{"id": "g", "index": 0, "text": "Co", "finish_reason": None}]},
            {"generations": [{"id": "g", "index": 0, "text": "here", "finish_reason": "COMPLETE"}], **_METRICS},
        ),
        {"output": "Cohere", "finish_reason": "COMPLETE", "usage": _COUNTED},
    ),
]
