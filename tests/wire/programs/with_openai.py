"""Calls by the client library of OpenAI."""

from __future__ import annotations

import asyncio
import gc
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import openai

QUESTION: Any = {"model": "gpt-stand-in", "messages": [{"role": "user", "content": "Wann? é 返"}], "temperature": 0.1}
ASKED: Any = {"model": "gpt-stand-in", "input": "Wann? é 返", "instructions": "Be brief."}
WITH_USAGE: Any = {"stream": True, "stream_options": {"include_usage": True}}


def _client(at: Any, **more: Any) -> Any:
    return openai.OpenAI(base_url=f"{at.url}/v1", api_key="none", **{"max_retries": 0, **more})


def _async_client(at: Any, **more: Any) -> Any:
    return openai.AsyncOpenAI(base_url=f"{at.url}/v1", api_key="none", **{"max_retries": 0, **more})


def chat(at: Any) -> Any:
    return _client(at).chat.completions.create(**QUESTION)


def chat_zipped(at: Any) -> Any:
    return _client(at).chat.completions.create(**QUESTION)


def completion(at: Any) -> Any:
    return _client(at).completions.create(model="gpt-stand-in", prompt="Wann? é 返")


def response(at: Any) -> Any:
    return _client(at).responses.create(**ASKED)


def response_stream(at: Any) -> None:
    for event in _client(at).responses.create(**ASKED, stream=True):
        at.see("event", event)


def response_stream_helper(at: Any) -> Any:
    with _client(at).responses.stream(**ASKED) as stream:
        for event in stream:
            at.see("event", event.type)
        return stream.get_final_response()


def chat_stream(at: Any) -> None:
    at.go()
    for chunk in _client(at).chat.completions.create(**QUESTION, **WITH_USAGE):
        at.see("chunk", chunk)
        at.go()


def chat_stream_sliced(at: Any) -> None:
    for chunk in _client(at).chat.completions.create(**QUESTION, **WITH_USAGE):
        at.see("chunk", chunk)


def chat_stream_helper(at: Any) -> Any:
    with _client(at).chat.completions.stream(**QUESTION) as stream:
        for event in stream:
            at.see("event", event.type)
        return stream.get_final_completion()


def chat_stream_left(at: Any) -> None:
    """A loop that is left, in a with block."""
    with _client(at).chat.completions.create(**QUESTION, stream=True) as stream:
        at.go(3)
        for number, chunk in enumerate(stream, 1):
            at.see("chunk", chunk)
            if number == 3:
                break


def chat_stream_closed(at: Any) -> None:
    stream = _client(at).chat.completions.create(**QUESTION, stream=True)
    at.go(2)
    at.see("chunk", next(stream))
    at.see("chunk", next(stream))
    stream.close()
    at.see("closed", stream.response.is_closed)


def chat_stream_collected(at: Any) -> None:
    client = _client(at)
    stream = client.chat.completions.create(**QUESTION, stream=True)
    at.go(2)
    at.see("chunk", next(stream))
    at.see("chunk", next(stream))
    del stream
    gc.collect()
    client.close()


def chat_stream_cut(at: Any) -> None:
    at.go()
    for chunk in _client(at).chat.completions.create(**QUESTION, stream=True):
        at.see("chunk", chunk)
        at.go()


def raw_response(at: Any) -> Any:
    raw = _client(at).chat.completions.with_raw_response.create(**QUESTION)
    at.see("raw", raw.status_code, raw.http_response.content, raw.http_response.is_closed, raw.text)
    return raw.parse()


def raw_response_stream(at: Any) -> None:
    raw = _client(at).chat.completions.with_raw_response.create(**QUESTION, **WITH_USAGE)
    at.see("raw", raw.status_code, raw.http_response.is_closed)
    for chunk in raw.parse():
        at.see("chunk", chunk)


def streaming_response(at: Any) -> None:
    with _client(at).chat.completions.with_streaming_response.create(**QUESTION) as answer:
        at.see("bytes", b"".join(answer.iter_bytes()))


def streaming_response_lines(at: Any) -> None:
    with _client(at).chat.completions.with_streaming_response.create(**QUESTION, stream=True) as answer:
        for line in answer.iter_lines():
            at.see("line", line)


def streaming_response_unread(at: Any) -> None:
    with _client(at).chat.completions.with_streaming_response.create(**QUESTION) as answer:
        at.see("status", answer.status_code)


def retried(at: Any) -> Any:
    """429, 429, 200: the library tries again by itself."""
    return _client(at, max_retries=2).chat.completions.create(**QUESTION)


def retried_stream(at: Any) -> None:
    for chunk in _client(at, max_retries=2).chat.completions.create(**QUESTION, **WITH_USAGE):
        at.see("chunk", chunk)


def retried_in_vain(at: Any) -> None:
    _client(at, max_retries=1).chat.completions.create(**QUESTION)


def refused(at: Any) -> None:
    _client(at).chat.completions.create(**QUESTION)


def refused_stream(at: Any) -> None:
    _client(at).chat.completions.create(**QUESTION, stream=True)


def gateway_page(at: Any) -> None:
    _client(at).chat.completions.create(**QUESTION)


def page_instead_of_json(at: Any) -> Any:
    return _client(at).chat.completions.create(**QUESTION)


def timed_out(at: Any) -> None:
    _client(at, timeout=0.3).chat.completions.create(**QUESTION)


def cut_in_mid_request(at: Any) -> None:
    large = [{"role": "user", "content": "x" * 8_000_000}]
    try:
        _client(at).chat.completions.create(model="gpt-stand-in", messages=large)
    except openai.APIConnectionError as error:
        at.see("raised", type(error).__name__, str(error))


def twice_the_same(at: Any) -> None:
    client = _client(at)
    for _ in range(2):
        at.see("answer", client.chat.completions.create(**QUESTION))


def twice_the_same_stream(at: Any) -> None:
    client = _client(at)
    for _ in range(2):
        for chunk in client.chat.completions.create(**QUESTION, **WITH_USAGE):
            at.see("chunk", chunk)


async def async_twice_the_same_stream(at: Any) -> None:
    async with _async_client(at) as client:
        for _ in range(2):
            async for chunk in await client.chat.completions.create(**QUESTION, **WITH_USAGE):
                at.see("chunk", chunk)


def stream_cut_and_again(at: Any) -> None:
    """The application asks again after a stream that broke off."""
    client = _client(at)
    for _ in range(2):
        try:
            for chunk in client.chat.completions.create(**QUESTION, **WITH_USAGE):
                at.see("chunk", chunk)
        except Exception as error:  # noqa: BLE001 - as careless applications do
            at.see("failed", type(error).__name__)


def end_mark_in_the_text_and_again(at: Any) -> None:
    """As above; and what the model said looks like the end of a stream."""
    stream_cut_and_again(at)


def in_threads(at: Any) -> None:
    """Threads that carry no context: their calls are of no entry."""
    client = _client(at)
    with ThreadPoolExecutor(4) as pool:
        asked = [pool.submit(client.chat.completions.create, **QUESTION, seed=seed) for seed in range(4)]
        at.see("answers", [one.result() for one in asked])
    client.close()


def over_http2(at: Any) -> Any:
    import httpx2

    client = _client(at, http_client=httpx2.Client(http1=False, http2=True))
    raw = client.chat.completions.with_raw_response.create(**QUESTION)
    at.see("version", raw.http_response.http_version)
    for chunk in client.chat.completions.create(**QUESTION, **WITH_USAGE):
        at.see("chunk", chunk)
    client.close()
    return raw.parse()


async def async_over_http2(at: Any) -> None:
    """Many calls on one connection at one time."""
    import httpx2

    client = _async_client(at, http_client=httpx2.AsyncClient(http1=False, http2=True))
    asked = (client.chat.completions.create(**QUESTION, seed=seed) for seed in range(6))
    at.see("answers", await asyncio.gather(*asked))
    await client.close()


async def async_chat(at: Any) -> Any:
    async with _async_client(at) as client:
        return await client.chat.completions.create(**QUESTION)


async def async_response_stream(at: Any) -> None:
    async with _async_client(at) as client:
        async for event in await client.responses.create(**ASKED, stream=True):
            at.see("event", event)


async def async_chat_stream(at: Any) -> None:
    async with _async_client(at) as client:
        at.go()
        async for chunk in await client.chat.completions.create(**QUESTION, **WITH_USAGE):
            at.see("chunk", chunk)
            at.go()


async def async_chat_stream_left(at: Any) -> None:
    async with _async_client(at) as client:
        stream = await client.chat.completions.create(**QUESTION, stream=True)
        at.go(3)
        number = 0
        async with stream:
            async for chunk in stream:
                at.see("chunk", chunk)
                number += 1
                if number == 3:
                    break


async def async_chat_stream_collected(at: Any) -> None:
    client = _async_client(at)
    stream = await client.chat.completions.create(**QUESTION, stream=True)
    at.go(2)
    at.see("chunk", await anext(stream))
    at.see("chunk", await anext(stream))
    del stream
    gc.collect()
    await asyncio.sleep(0)
    await client.close()


async def async_chat_stream_cut(at: Any) -> None:
    async with _async_client(at) as client:
        at.go()
        async for chunk in await client.chat.completions.create(**QUESTION, stream=True):
            at.see("chunk", chunk)
            at.go()


async def async_retried(at: Any) -> Any:
    async with _async_client(at, max_retries=2) as client:
        return await client.chat.completions.create(**QUESTION)


async def async_timed_out(at: Any) -> None:
    async with _async_client(at, timeout=0.3) as client:
        await client.chat.completions.create(**QUESTION)


async def async_gathered(at: Any) -> None:
    async with _async_client(at) as client:
        asked = (client.chat.completions.create(**QUESTION, seed=seed) for seed in range(4))
        at.see("answers", await asyncio.gather(*asked))


async def aiohttp_chat(at: Any) -> Any:
    async with _async_client(at, http_client=openai.DefaultAioHttpClient()) as client:
        return await client.chat.completions.create(**QUESTION)


async def aiohttp_chat_stream(at: Any) -> None:
    async with _async_client(at, http_client=openai.DefaultAioHttpClient()) as client:
        at.go()
        async for chunk in await client.chat.completions.create(**QUESTION, **WITH_USAGE):
            at.see("chunk", chunk)
            at.go()


async def aiohttp_chat_stream_left(at: Any) -> None:
    async with _async_client(at, http_client=openai.DefaultAioHttpClient()) as client:
        at.go(3)
        number = 0
        async with await client.chat.completions.create(**QUESTION, stream=True) as stream:
            async for chunk in stream:
                at.see("chunk", chunk)
                number += 1
                if number == 3:
                    break


async def aiohttp_retried(at: Any) -> Any:
    async with _async_client(at, max_retries=2, http_client=openai.DefaultAioHttpClient()) as client:
        return await client.chat.completions.create(**QUESTION)
