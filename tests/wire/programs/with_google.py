"""Calls by Google's client library."""

from __future__ import annotations

from typing import Any

from google import genai
from google.genai import types

MODEL = "gemini-stand-in"
QUESTION = "Wann? é 返"


def _client(at: Any, **more: Any) -> Any:
    return genai.Client(api_key="none", http_options=types.HttpOptions(base_url=at.url, **more))


def generate(at: Any) -> Any:
    config = types.GenerateContentConfig(system_instruction="Be brief.", temperature=0.1)
    client = _client(at)
    return client.models.generate_content(model=MODEL, contents=QUESTION, config=config).text


def generate_stream(at: Any) -> None:
    client = _client(at)
    for chunk in client.models.generate_content_stream(model=MODEL, contents=QUESTION):
        at.see("chunk", chunk.text)


def generate_stream_left(at: Any) -> None:
    client = _client(at)
    stream = client.models.generate_content_stream(model=MODEL, contents=QUESTION)
    at.go(2)
    at.see("chunks", next(stream).text, next(stream).text)
    stream.close()


def refused(at: Any) -> None:
    client = _client(at)
    client.models.generate_content(model=MODEL, contents=QUESTION)


def timed_out(at: Any) -> None:
    client = _client(at, timeout=300)
    client.models.generate_content(model=MODEL, contents=QUESTION)


async def async_generate(at: Any) -> Any:
    async with _client(at).aio as client:
        return (await client.models.generate_content(model=MODEL, contents=QUESTION)).text


async def async_generate_stream(at: Any) -> None:
    async with _client(at).aio as client:
        async for chunk in await client.models.generate_content_stream(model=MODEL, contents=QUESTION):
            at.see("chunk", chunk.text)


async def async_generate_stream_left(at: Any) -> None:
    async with _client(at).aio as client:
        stream = await client.models.generate_content_stream(model=MODEL, contents=QUESTION)
        at.go(2)
        at.see("chunks", (await anext(stream)).text, (await anext(stream)).text)
        await stream.aclose()
