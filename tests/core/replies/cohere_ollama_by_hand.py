"""Replies of Cohere and Ollama, written by hand."""

from __future__ import annotations

from typing import Any

from tests.core.replies.wire_forms import NDJSON, SSE, Case, lines, typed_events

_COHERE_CALL = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city":"Łódź"}'}}
_COHERE_TOLD = {"billed_units": {"input_tokens": 5}, "tokens": {"input_tokens": 9, "output_tokens": 3}}
_COHERE_USAGE = {"input_tokens": 9, "output_tokens": 3, "billed_units": {"input_tokens": 5}}


def _cohere(kind: str, index: int = 0, **message: Any) -> dict[str, Any]:
    return {"type": kind, "index": index, "delta": {"message": message}}


_V2_START = {"id": "co1", **_cohere("message-start", role="assistant", content=[], tool_calls=[], citations=[])}
COHERE = [
    Case(
        "cohere: text",
        "cohere.chat",
        SSE,
        typed_events(
            _V2_START,
            _cohere("content-start", content={"type": "text", "text": ""}),
            _cohere("content-delta", content={"text": "Ça "}),
            _cohere("content-delta", content={"text": "va."}),
            {"type": "content-end", "index": 0},
            {"type": "message-end", "delta": {"finish_reason": "COMPLETE", "usage": _COHERE_TOLD}},
        ),
        {"output": "Ça va.", "finish_reason": "COMPLETE", "usage": _COHERE_USAGE, "response_id": "co1"},
        {
            "id": "co1",
            "message": {"role": "assistant", "content": [{"type": "text", "text": "Ça va."}]},
            "finish_reason": "COMPLETE",
            "usage": _COHERE_TOLD,
        },
    ),
    Case(
        "cohere: a plan and a tool",
        "cohere.chat",
        SSE,
        typed_events(
            _V2_START,
            _cohere("tool-plan-delta", tool_plan="I will "),
            _cohere("tool-plan-delta", tool_plan="look."),
            _cohere("tool-call-start", tool_calls={**_COHERE_CALL, "function": {"name": "weather", "arguments": ""}}),
            _cohere("tool-call-delta", tool_calls={"function": {"arguments": '{"city":'}}),
            _cohere("tool-call-delta", tool_calls={"function": {"arguments": '"Łódź"}'}}),
            {"type": "tool-call-end", "index": 0},
            {"type": "message-end", "delta": {"finish_reason": "TOOL_CALL", "usage": _COHERE_TOLD}},
        ),
        {
            "output": [{"role": "assistant", "tool_plan": "I will look.", "tool_calls": [_COHERE_CALL]}],
            "finish_reason": "TOOL_CALL",
            "usage": _COHERE_USAGE,
            "response_id": "co1",
        },
    ),
    Case(
        "cohere: version 1",
        "cohere.chat",
        "application/stream+json",
        lines(
            {"is_finished": False, "event_type": "stream-start", "generation_id": "gen1"},
            {"is_finished": False, "event_type": "text-generation", "text": "Ça "},
            {"is_finished": False, "event_type": "text-generation", "text": "va."},
            {
                "is_finished": True,
                "event_type": "stream-end",
                "finish_reason": "COMPLETE",
                "response": {"response_id": "r1", "text": "Ça va.", "tool_calls": None, "meta": _COHERE_TOLD},
            },
        ),
        {"output": "Ça va.", "finish_reason": "COMPLETE", "usage": _COHERE_USAGE, "response_id": "r1"},
        {"response_id": "r1", "text": "Ça va.", "finish_reason": "COMPLETE", "meta": _COHERE_TOLD},
    ),
]

_OLLAMA_END = {"done": True, "done_reason": "stop", "prompt_eval_count": 26, "eval_count": 3, "total_duration": 99}
_OLLAMA_USAGE = {"prompt_eval_count": 26, "eval_count": 3, "total_duration": 99}
_OLLAMA_HEAD = {"finish_reason": "stop", "usage": _OLLAMA_USAGE, "model": "llama3"}
_OLLAMA_CALL = {"function": {"name": "weather", "arguments": {"city": "Malmö"}}}


def _spoken(**message: Any) -> dict[str, Any]:
    return {"model": "llama3", "message": {"role": "assistant", **message}, "done": False}


OLLAMA = [
    Case(
        "ollama: chat",
        "ollama.chat",
        NDJSON,
        lines(_spoken(content="Der "), _spoken(content="Fluß"), {**_spoken(content=""), **_OLLAMA_END}),
        {"output": "Der Fluß", **_OLLAMA_HEAD},
        {**_spoken(content="Der Fluß"), **_OLLAMA_END},
    ),
    Case(
        "ollama: chat with thinking and a tool",
        "ollama.chat",
        NDJSON,
        lines(
            _spoken(content="", thinking="Wo"),
            _spoken(content="", thinking="hin?"),
            _spoken(content="", tool_calls=[_OLLAMA_CALL]),
            {**_spoken(content=""), **_OLLAMA_END},
        ),
        {
            "output": [{"role": "assistant", "content": "", "thinking": "Wohin?", "tool_calls": [_OLLAMA_CALL]}],
            **_OLLAMA_HEAD,
        },
        {**_spoken(content="", thinking="Wohin?", tool_calls=[_OLLAMA_CALL]), **_OLLAMA_END},
    ),
    Case(
        "ollama: generate",
        "ollama.generate",
        NDJSON,
        lines(
            {"model": "llama3", "response": "Ein", "done": False},
            {"model": "llama3", "response": "s", "done": False},
            {"model": "llama3", "response": "", **_OLLAMA_END},
        ),
        {"output": "Eins", **_OLLAMA_HEAD},
        {"model": "llama3", "response": "Eins", **_OLLAMA_END},
    ),
]
