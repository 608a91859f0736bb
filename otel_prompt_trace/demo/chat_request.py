"""Reads the body of a chat completions request, and refuses what the stand-in can't honour.

Invariant: a parameter is honoured, or it could make no difference to an answer that is quoted word by word
(sampling, accounting), or the request is refused. What is refused, and why, is told in OpenAI's error shape:
``{"error": {"message", "type", "param", "code"}}``.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from otel_prompt_trace.demo.stand_in_model import MODEL, Message

__all__ = ["ChatRequest", "Refusal", "parse"]

_HONOURED = {"model", "messages", "stream", "stream_options", "max_tokens", "max_completion_tokens", "n"}
_NO_DIFFERENCE = {
    "frequency_penalty", "logit_bias", "metadata", "presence_penalty", "prompt_cache_key", "prompt_cache_retention",
    "reasoning_effort", "safety_identifier", "seed", "service_tier", "store", "temperature", "top_p", "user",
    "verbosity",
}  # fmt: skip
_ROLES = ("system", "developer", "user", "assistant")


class Refusal(Exception):
    """An HTTP answer on its way out, no failure of this package: a status and OpenAI's error object."""

    def __init__(self, status: HTTPStatus, message: str, *, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.body = {"error": {"message": message, "type": "invalid_request_error", "param": param, "code": code}}


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """What a request asks for, checked. ``max_tokens`` None means no limit."""

    messages: tuple[Message, ...]
    stream: bool
    include_usage: bool
    max_tokens: int | None


def parse(body: bytes) -> ChatRequest:
    """The request that ``body`` (UTF-8 JSON) holds.

    Raises:
        Refusal: 400 for anything malformed or not supported, 404 for any model but ``stand-in-1``.
    """
    request = _json_object(body)
    for name in request:
        if name not in _HONOURED and name not in _NO_DIFFERENCE and request[name] is not None:
            raise _bad(f"The stand-in model does not support {name!r}.", name, "unsupported_parameter")
    if not isinstance(request.get("model"), str):
        raise _bad("You must provide a model parameter.", "model")
    if request["model"] != MODEL:
        message = f"The model {request['model']!r} does not exist here: there is only {MODEL!r}."
        raise Refusal(HTTPStatus.NOT_FOUND, message, param="model", code="model_not_found")
    if request.get("n") not in (None, 1):
        raise _bad("The stand-in model has one answer: n must be 1.", "n")
    stream = request.get("stream") or False
    if not isinstance(stream, bool):
        raise _bad("stream must be true or false.", "stream")
    return ChatRequest(_messages(request.get("messages")), stream, _include_usage(request, stream), _limit(request))


def _bad(message: str, param: str | None = None, code: str | None = None) -> Refusal:
    return Refusal(HTTPStatus.BAD_REQUEST, message, param=param, code=code)


def _json_object(body: bytes) -> dict[str, Any]:
    try:
        value = json.loads(body.decode())
    except (ValueError, RecursionError):
        raise _bad("We could not parse the JSON body of your request.") from None
    if not isinstance(value, dict):
        raise _bad("The JSON body of the request must be an object.")
    return value


def _messages(value: Any) -> tuple[Message, ...]:
    if not isinstance(value, list) or not value:
        raise _bad("messages must be a list with at least one message.", "messages")
    return tuple(_message(item, f"messages[{number}]") for number, item in enumerate(value))


def _message(item: Any, path: str) -> Message:
    if not isinstance(item, dict):
        raise _bad(f"{path} must be an object.", path)
    for name in item:
        if name not in ("role", "content", "name") and item[name] is not None:
            raise _bad(f"The stand-in model does not support {name!r} in a message.", f"{path}.{name}")
    role, name = item.get("role"), item.get("name")
    if role not in _ROLES:
        raise _bad(f"{path}.role must be one of {', '.join(_ROLES)}.", f"{path}.role")
    if name is not None and not isinstance(name, str):
        raise _bad(f"{path}.name must be a string.", f"{path}.name")
    return Message(role, _text(item.get("content"), f"{path}.content"), name)


def _text(content: Any, path: str) -> str:
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise _bad(f"{path} must be a string or a list of text parts.", path)
    texts = []
    for number, part in enumerate(content):
        text = part.get("text") if isinstance(part, dict) and part.get("type") == "text" else None
        if not isinstance(text, str):
            raise _bad("The stand-in model reads text parts only.", f"{path}[{number}]")
        texts.append(text)
    return "".join(texts)


def _include_usage(request: dict[str, Any], stream: bool) -> bool:
    options = request.get("stream_options")
    if options is None:
        return False
    if not stream:
        raise _bad("stream_options is only allowed when stream is true.", "stream_options")
    if not isinstance(options, dict) or not isinstance(options.get("include_usage", False), bool):
        raise _bad("stream_options must be an object with a boolean include_usage.", "stream_options")
    return bool(options.get("include_usage", False))


def _limit(request: dict[str, Any]) -> int | None:
    limits = []
    for name in ("max_tokens", "max_completion_tokens"):
        value = request.get(name)
        if value is None:
            continue
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise _bad(f"{name} must be a whole number above 0.", name)
        limits.append(value)
    return min(limits, default=None)
