"""Calls by Ollama's client library."""

from __future__ import annotations

from typing import Any

import ollama

MESSAGES = [{"role": "user", "content": "Wann? é 返"}]


def chat(at: Any) -> Any:
    return ollama.Client(host=at.url).chat("llama-stand-in", MESSAGES)


def chat_stream(at: Any) -> None:
    at.go()
    for part in ollama.Client(host=at.url).chat("llama-stand-in", MESSAGES, stream=True):
        at.see("part", part)
        at.go()


def chat_stream_left(at: Any) -> None:
    stream = ollama.Client(host=at.url).chat("llama-stand-in", MESSAGES, stream=True)
    at.go(2)
    at.see("parts", next(stream), next(stream))
    stream.close()


def refused(at: Any) -> None:
    ollama.Client(host=at.url).chat("llama-stand-in", MESSAGES)


async def async_chat(at: Any) -> Any:
    return await ollama.AsyncClient(host=at.url).chat("llama-stand-in", MESSAGES)


async def async_chat_stream(at: Any) -> None:
    async for part in await ollama.AsyncClient(host=at.url).chat("llama-stand-in", MESSAGES, stream=True):
        at.see("part", part)
