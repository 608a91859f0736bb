"""What model hosts answer, in each of the forms that the clients under test read: whole, or as a stream.

Every reply carries the same ``TEXT``; its characters of two and three bytes are there for streams that are cut between
the bytes of one.
"""

from __future__ import annotations

import base64
import gzip
import json
import struct
import zlib
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from tests.wire.model_host import Answer

WORDS = ("Refunds", " take", " 14 days: café,", " 返金.")
TEXT = "".join(WORDS)
MARKS = ("data: [DONE]", '"stop_reason":"end_turn" messageStop', '"finishReason"', '"done":true')  # no end, but text
SSE = "text/event-stream"


def whole(body: dict[str, Any], **more: Any) -> Answer:
    """A reply in one JSON body."""
    return Answer((_json(body),), **more)


def failing(status: int, body: dict[str, Any] | None = None, **more: Any) -> Answer:
    """A refusal, with the header by which clients wait for a moment only before they try again."""
    body = {"error": {"message": f"refused with {status}", "type": "refused"}} if body is None else body
    return whole(body, status=status, headers=(("retry-after-ms", "1"), ("retry-after", "0")), **more)


def html(status: int) -> Answer:
    """What a proxy in between says."""
    return Answer((b"<html><body><h1>Bad gateway</h1></body></html>",), status, "text/html")


def zipped(answer: Answer) -> Answer:
    """The same under ``Content-Encoding: gzip``."""
    body = gzip.compress(b"".join(answer.chunks), mtime=0)
    return replace(answer, chunks=(body,), headers=(*answer.headers, ("Content-Encoding", "gzip")))


def sliced(answer: Answer, size: int) -> Answer:
    """The same in chunks that know nothing of lines, events and characters."""
    body = b"".join(answer.chunks)
    return replace(answer, chunks=tuple(body[at : at + size] for at in range(0, len(body), size)))


def cut(answer: Answer, after: int) -> Answer:
    """Only the first chunks come; then the connection is closed."""
    return replace(answer, chunks=answer.chunks[:after], then="cut")


def gated(answer: Answer) -> Answer:
    """Each chunk waits until it is asked for."""
    return replace(answer, gated=True)


def endless(answer: Answer, after: int) -> Answer:
    """The first chunks come, and then nothing, without an end."""
    return replace(answer, chunks=answer.chunks[:after], then="hang")


def _json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def _stream(lines: Iterable[bytes], content_type: str = SSE) -> Answer:
    return Answer(tuple(lines), content_type=content_type, framing="chunked")


def _data(value: object) -> bytes:
    return b"data: %s\n\n" % _json(value)


def _event(value: dict[str, Any]) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (value["type"].encode(), _json(value))


# OpenAI

_USAGE = {"prompt_tokens": 12, "completion_tokens": 7, "total_tokens": 19}
_HEAD = {"id": "chatcmpl-1", "created": 1, "model": "gpt-stand-in"}


def chat(text: str = TEXT) -> Answer:
    """Chat completions."""
    message = {"role": "assistant", "content": text}
    choice = {"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}
    return whole({**_HEAD, "object": "chat.completion", "choices": [choice], "usage": _USAGE})


def chat_stream(words: Iterable[str] = WORDS) -> Answer:
    """Chat completions as server-sent events, one a chunk."""
    head = {**_HEAD, "object": "chat.completion.chunk"}
    deltas: list[tuple[dict[str, Any], str | None]] = [({"role": "assistant", "content": ""}, None)]
    deltas += [*(({"content": word}, None) for word in words), ({}, "stop")]
    lines = [_data({**head, "choices": [{"index": 0, "delta": d, "finish_reason": f}]}) for d, f in deltas]
    return _stream([*lines, _data({**head, "choices": [], "usage": _USAGE}), b"data: [DONE]\n\n"])


def completion() -> Answer:
    """The older completions."""
    choice = {"index": 0, "text": TEXT, "finish_reason": "stop", "logprobs": None}
    return whole({**_HEAD, "object": "text_completion", "choices": [choice], "usage": _USAGE})


def _response(status: str, output: list[Any]) -> dict[str, Any]:
    usage = {"input_tokens": 12, "output_tokens": 7, "total_tokens": 19}
    usage |= {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}  # type: ignore[dict-item]
    head = {"id": "resp_1", "object": "response", "created_at": 1, "model": "gpt-stand-in", "status": status}
    rest = {"output": output, "parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "error": None}
    return {**head, **rest, "usage": usage if status == "completed" else None}


def _message(text: str, status: str) -> dict[str, Any]:
    content = [{"type": "output_text", "text": text, "annotations": []}] if text else []
    return {"type": "message", "id": "msg_1", "role": "assistant", "status": status, "content": content}


def response() -> Answer:
    """Responses."""
    return whole(_response("completed", [_message(TEXT, "completed")]))


def response_stream() -> Answer:
    """Responses as server-sent events."""
    place = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    part = {"type": "output_text", "text": "", "annotations": []}
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": _response("in_progress", [])},
        {"type": "response.output_item.added", "output_index": 0, "item": _message("", "in_progress")},
        {"type": "response.content_part.added", **place, "part": part},
        *({"type": "response.output_text.delta", **place, "delta": word, "logprobs": []} for word in WORDS),
        {"type": "response.output_text.done", **place, "text": TEXT, "logprobs": []},
        {"type": "response.content_part.done", **place, "part": {**part, "text": TEXT}},
        {"type": "response.output_item.done", "output_index": 0, "item": _message(TEXT, "completed")},
        {"type": "response.completed", "response": _response("completed", [_message(TEXT, "completed")])},
    ]
    return _stream(_event({**event, "sequence_number": number}) for number, event in enumerate(events))


# Anthropic


def messages() -> Answer:
    """Messages."""
    return whole(_claude([{"type": "text", "text": TEXT}], "end_turn", 7))


def messages_stream() -> Answer:
    """Messages as server-sent events."""
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": _claude([], None, 1)},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "ping"},
        *({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": w}} for w in WORDS),
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": _STOPPED, "usage": {"output_tokens": 7}},
        {"type": "message_stop"},
    ]
    return _stream(map(_event, events))


def overloaded() -> Answer:
    """A stream that begins well and then says that the host has too much to do."""
    begun = messages_stream().chunks[:4]
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    return _stream([*begun, _event(error)])


_STOPPED = {"stop_reason": "end_turn", "stop_sequence": None}


def _claude(content: list[Any], stop: str | None, tokens: int) -> dict[str, Any]:
    head = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-stand-in", "content": content}
    return {**head, "stop_reason": stop, "stop_sequence": None, "usage": {"input_tokens": 12, "output_tokens": tokens}}


# Google

_COUNTED = {"promptTokenCount": 12, "candidatesTokenCount": 7, "totalTokenCount": 19}


def _candidate(text: str, **more: Any) -> dict[str, Any]:
    return {"candidates": [{"content": {"role": "model", "parts": [{"text": text}]}, "index": 0, **more}]}


def generated() -> Answer:
    """GenerateContent."""
    return whole({**_candidate(TEXT, finishReason="STOP"), "usageMetadata": _COUNTED})


def generated_stream() -> Answer:
    """StreamGenerateContent as server-sent events."""
    last = {**_candidate(WORDS[-1], finishReason="STOP"), "usageMetadata": _COUNTED}
    return _stream([*(_data(_candidate(word)) for word in WORDS[:-1]), _data(last)])


# Bedrock

_CONVERSED = {"inputTokens": 12, "outputTokens": 7, "totalTokens": 19}


def conversed() -> Answer:
    """Converse."""
    message = {"role": "assistant", "content": [{"text": TEXT}]}
    body = {"output": {"message": message}, "stopReason": "end_turn", "usage": _CONVERSED, "metrics": {"latencyMs": 1}}
    return whole(body)


def conversed_stream() -> Answer:
    """ConverseStream, in frames of an AWS event stream."""
    events: list[tuple[str, dict[str, Any]]] = [
        ("messageStart", {"role": "assistant"}),
        *(("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": word}}) for word in WORDS),
        ("contentBlockStop", {"contentBlockIndex": 0}),
        ("messageStop", {"stopReason": "end_turn"}),
        ("metadata", {"usage": _CONVERSED, "metrics": {"latencyMs": 1}}),
    ]
    return _stream([frame("event", name, _json(body)) for name, body in events], "application/vnd.amazon.eventstream")


def throttled_stream() -> Answer:
    """A stream of frames that begins well and ends in an exception."""
    refused = frame("exception", "throttlingException", b'{"message":"Too many tokens"}')
    return replace(conversed_stream(), chunks=(*conversed_stream().chunks[:3], refused))


def invoked_stream() -> Answer:
    """InvokeModelWithResponseStream: the events of an Anthropic model, each in a frame."""
    events = [chunk.partition(b"data: ")[2].strip() for chunk in messages_stream().chunks]
    bodies = [_json({"bytes": base64.b64encode(event).decode()}) for event in events]
    return _stream([frame("event", "chunk", body) for body in bodies], "application/vnd.amazon.eventstream")


def frame(kind: str, name: str, payload: bytes) -> bytes:
    """One message of an AWS event stream: lengths, their checksum, headers, payload, and the checksum of it all."""
    headers = _header(":message-type", kind) + _header(f":{kind}-type", name)
    headers += _header(":content-type", "application/json")
    prelude = struct.pack("!II", 16 + len(headers) + len(payload), len(headers))
    message = prelude + struct.pack("!I", zlib.crc32(prelude)) + headers + payload
    return message + struct.pack("!I", zlib.crc32(message))


def _header(name: str, value: str) -> bytes:
    return struct.pack("!B", len(name)) + name.encode() + b"\x07" + struct.pack("!H", len(value)) + value.encode()


# Ollama and Cohere

_SPENT = {"total_duration": 1, "prompt_eval_count": 12, "eval_count": 7}


def ollama() -> Answer:
    """Ollama's chat in one body."""
    return whole({**_ollama(TEXT), "done": True, "done_reason": "stop", **_SPENT})


def ollama_stream() -> Answer:
    """Ollama's chat, one JSON object a line."""
    lines = [{**_ollama(word), "done": False} for word in WORDS]
    lines.append({**_ollama(""), "done": True, "done_reason": "stop", **_SPENT})
    return _stream((_json(line) + b"\n" for line in lines), "application/x-ndjson")


def _ollama(text: str) -> dict[str, Any]:
    message = {"role": "assistant", "content": text}
    return {"model": "llama-stand-in", "created_at": "2026-01-01T00:00:00Z", "message": message}


def cohere() -> Answer:
    """Cohere's chat, second version."""
    message = {"role": "assistant", "content": [{"type": "text", "text": TEXT}]}
    usage = {"tokens": {"input_tokens": 12, "output_tokens": 7}}
    return whole({"id": "c-1", "finish_reason": "COMPLETE", "message": message, "usage": usage})
