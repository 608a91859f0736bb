"""The APIs that are read, by name: what reads a body, and what puts a stream together into one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from otel_prompt_trace.core.replies.anthropic import AnthropicStream, read_anthropic
from otel_prompt_trace.core.replies.bedrock import ConverseStream, read_converse
from otel_prompt_trace.core.replies.bedrock_native import NativeStream, read_native
from otel_prompt_trace.core.replies.cohere import CohereStream, read_cohere
from otel_prompt_trace.core.replies.google import GoogleStream, read_google
from otel_prompt_trace.core.replies.ollama import OllamaStream, read_ollama
from otel_prompt_trace.core.replies.openai_chat import ChatStream, read_chat
from otel_prompt_trace.core.replies.openai_responses import ResponsesStream, read_responses

Read = Callable[[dict[str, Any]], dict[str, Any] | None]


class Stream(Protocol):
    """Messages of a stream, put together into the body of an answer that was not streamed."""

    @property
    def ended(self) -> bool:
        """The API's own end mark, or what stands for one, was seen."""
        ...

    def add(self, name: str, value: dict[str, Any], /) -> None:
        """One message, under the name that its framing gives it (or none)."""
        ...

    def body(self) -> dict[str, Any] | None:
        """The body so far; None if no message was of this API. Changes nothing."""
        ...


READERS: dict[str, Read] = {
    "openai.chat": read_chat,
    "openai.completions": read_chat,
    "openai.responses": read_responses,
    "anthropic.messages": read_anthropic,
    "google.generate": read_google,
    "bedrock.converse": read_converse,
    "bedrock.invoke": read_native,
    "cohere.chat": read_cohere,
    "ollama.chat": read_ollama,
    "ollama.generate": read_ollama,
}
STREAMS: dict[str, Callable[[], Stream]] = {
    "openai.chat": ChatStream,
    "openai.completions": ChatStream,
    "openai.responses": ResponsesStream,
    "anthropic.messages": AnthropicStream,
    "google.generate": GoogleStream,
    "bedrock.converse": ConverseStream,
    "bedrock.invoke": NativeStream,
    "cohere.chat": CohereStream,
    "ollama.chat": OllamaStream,
    "ollama.generate": OllamaStream,
}
# APIs whose streams tell the usage after they have told why the answer ended.
USAGE_LAST = frozenset({"openai.chat", "openai.completions", "bedrock.converse"})
