"""Calls by the client library of Anthropic."""

from __future__ import annotations

import gc
from typing import Any

import anthropic

QUESTION: Any = {
    "model": "claude-stand-in",
    "max_tokens": 50,
    "system": "Be brief.",
    "messages": [{"role": "user", "content": "Wann? é 返"}],
}


def _client(at: Any, **more: Any) -> Any:
    return anthropic.Anthropic(base_url=at.url, api_key="none", **{"max_retries": 0, **more})


def _async_client(at: Any, **more: Any) -> Any:
    return anthropic.AsyncAnthropic(base_url=at.url, api_key="none", **{"max_retries": 0, **more})


def message(at: Any) -> Any:
    return _client(at).messages.create(**QUESTION)


def message_stream(at: Any) -> None:
    at.go(2)  # one ahead: of a ping the library does not tell
    for event in _client(at).messages.create(**QUESTION, stream=True):
        at.see("event", event)
        at.go()


def stream_helper(at: Any) -> Any:
    with _client(at).messages.stream(**QUESTION) as stream:
        for text in stream.text_stream:
            at.see("text", text)
        return stream.get_final_message()


def stream_helper_left(at: Any) -> None:
    with _client(at).messages.stream(**QUESTION) as stream:
        at.go(5)
        for text in stream.text_stream:
            at.see("text", text)
            if text == " take":
                break


def stream_collected(at: Any) -> None:
    client = _client(at)
    stream = client.messages.create(**QUESTION, stream=True)
    at.go(4)
    at.see("events", [next(stream) for _ in range(3)])
    del stream
    gc.collect()
    client.close()


def stream_cut(at: Any) -> None:
    for event in _client(at).messages.create(**QUESTION, stream=True):
        at.see("event", event.type)


def stream_overloaded(at: Any) -> None:
    """The stream itself says that something went wrong."""
    for event in _client(at).messages.create(**QUESTION, stream=True):
        at.see("event", event.type)


def twice_the_same_stream(at: Any) -> None:
    client = _client(at)
    for _ in range(2):
        for event in client.messages.create(**QUESTION, stream=True):
            at.see("event", event.type)


def raw_response(at: Any) -> Any:
    raw = _client(at).messages.with_raw_response.create(**QUESTION)
    at.see("raw", raw.status_code, raw.http_response.content, raw.text)
    return raw.parse()


def streaming_response(at: Any) -> None:
    with _client(at).messages.with_streaming_response.create(**QUESTION) as answer:
        at.see("json", answer.json())


def retried(at: Any) -> Any:
    return _client(at, max_retries=2).messages.create(**QUESTION)


def refused(at: Any) -> None:
    _client(at).messages.create(**QUESTION)


def timed_out(at: Any) -> None:
    _client(at, timeout=0.3).messages.create(**QUESTION)


async def async_message(at: Any) -> Any:
    async with _async_client(at) as client:
        return await client.messages.create(**QUESTION)


async def async_stream_helper(at: Any) -> Any:
    async with _async_client(at) as client, client.messages.stream(**QUESTION) as stream:
        async for text in stream.text_stream:
            at.see("text", text)
        return await stream.get_final_message()


async def async_stream_helper_left(at: Any) -> None:
    async with _async_client(at) as client, client.messages.stream(**QUESTION) as stream:
        at.go(5)
        async for text in stream.text_stream:
            at.see("text", text)
            if text == " take":
                break
