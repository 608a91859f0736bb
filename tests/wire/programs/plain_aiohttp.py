"""Model requests made by hand with aiohttp."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator
from typing import Any

import aiohttp

BODY = {"model": "gpt-stand-in", "messages": [{"role": "user", "content": "Wann? é 返"}], "temperature": 0.10}
SPACED = b'{ "model": "gpt-stand-in",\n  "messages": [{"role": "user", "content": "\\u00e9 \\/ \xc3\xa9"}] }\n'
CHAT = "/v1/chat/completions"


async def json_body(at: Any) -> None:
    async with aiohttp.ClientSession() as session, session.post(at.url + CHAT + "?key=secret", json=BODY) as response:
        at.see("answer", response.status, await response.json(), await response.read())


async def bytes_as_they_are(at: Any) -> None:
    async with aiohttp.ClientSession() as session, session.post(at.url + CHAT, data=SPACED) as response:
        at.see("answer", response.status, await response.text())


async def generator_body(at: Any) -> None:
    async def parts() -> AsyncIterator[bytes]:
        for at_ in range(0, len(SPACED), 40):
            at.see("asked for", at_)
            await asyncio.sleep(0)
            yield SPACED[at_ : at_ + 40]

    async with aiohttp.ClientSession() as session, session.post(at.url + CHAT, data=parts()) as response:
        at.see("answer", response.status, await response.read())


async def zipped_answer(at: Any) -> None:
    async with aiohttp.ClientSession() as session, session.post(at.url + CHAT, json=BODY) as response:
        at.see("answer", response.status, await response.read())


async def redirected(at: Any) -> None:
    async with aiohttp.ClientSession() as session, session.post(at.url + CHAT, json=BODY) as response:
        at.see("answer", response.status, await response.read(), [found.status for found in response.history])


async def not_a_model(at: Any) -> None:
    async with aiohttp.ClientSession() as session:
        async with session.post(at.url + "/orders", json={"item": "a secret of the shop"}) as response:
            at.see("answer", response.status, await response.read())
        async with session.get(at.url + "/v1/models") as response:
            at.see("answer", response.status, await response.read())


async def awaited(at: Any) -> None:
    """Without a with block."""
    session = aiohttp.ClientSession()
    response = await session.post(at.url + CHAT, json=BODY)
    at.see("answer", response.status, await response.read(), response.closed)
    await session.close()


async def stream_any(at: Any) -> None:
    async with aiohttp.ClientSession() as session, session.post(at.url + CHAT, json=BODY) as response:
        at.go()
        async for chunk in response.content.iter_any():
            at.see("chunk", chunk)
            at.go()


async def stream_chunks(at: Any) -> None:
    """With the sizes in which the host sent them."""
    async with aiohttp.ClientSession() as session, session.post(at.url + CHAT, json=BODY) as response:
        at.go()
        async for chunk, whole in response.content.iter_chunks():
            at.see("chunk", chunk, whole)
            at.go()


async def stream_lines(at: Any) -> None:
    async with aiohttp.ClientSession() as session, session.post(at.url + CHAT, json=BODY) as response:
        async for line in response.content:
            at.see("line", line)


async def stream_sized(at: Any) -> None:
    async with aiohttp.ClientSession() as session, session.post(at.url + CHAT, json=BODY) as response:
        while not response.content.at_eof():
            try:
                at.see("piece", await response.content.readexactly(50))
            except asyncio.IncompleteReadError as error:
                at.see("last piece", error.partial)


async def stream_left(at: Any) -> None:
    async with aiohttp.ClientSession() as session, session.post(at.url + CHAT, json=BODY) as response:
        at.go(3)
        seen = b""
        async for chunk in response.content.iter_any():
            seen += chunk
            if seen.count(b"\n\n") == 3:
                break
        at.see("until then", seen)


async def stream_released(at: Any) -> None:
    async with aiohttp.ClientSession() as session:
        response = await session.post(at.url + CHAT, json=BODY)
        at.see("status", response.status)
        response.release()
        at.see("closed", response.closed)


async def stream_collected(at: Any) -> None:
    session = aiohttp.ClientSession()
    response = await session.post(at.url + CHAT, json=BODY)
    at.go(2)
    seen = b""
    while seen.count(b"\n\n") < 2:
        seen += await response.content.readany()
    at.see("until then", seen)
    del response
    gc.collect()
    await session.close()


async def stream_cut(at: Any) -> None:
    async with aiohttp.ClientSession() as session, session.post(at.url + CHAT, json=BODY) as response:
        at.go()
        async for chunk in response.content.iter_any():
            at.see("chunk", chunk)
            at.go()


async def refused(at: Any) -> None:
    async with aiohttp.ClientSession(raise_for_status=True) as session:
        await session.post(at.url + CHAT, json=BODY)


async def timed_out(at: Any) -> None:
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(0.3)) as session:
        await session.post(at.url + CHAT, json=BODY)


async def cut_in_mid_request(at: Any) -> None:
    large = {**BODY, "messages": [{"role": "user", "content": "x" * 8_000_000}]}
    try:
        async with aiohttp.ClientSession() as session:
            await session.post(at.url + CHAT, json=large)
    except aiohttp.ClientError:
        at.see("a client error")


async def gathered(at: Any) -> None:
    async with aiohttp.ClientSession() as session:

        async def ask(seed: int) -> Any:
            async with session.post(at.url + CHAT, json={**BODY, "seed": seed}) as response:
                return await response.json()

        at.see("answers", await asyncio.gather(*map(ask, range(4))))


async def traced(at: Any) -> None:
    """The order of the session's own trace hooks."""
    trace = aiohttp.TraceConfig()

    async def told(_session: Any, _context: Any, params: Any) -> None:
        at.see("trace", type(params).__name__, getattr(params, "chunk", None))

    for signal in ("on_request_start", "on_request_chunk_sent", "on_response_chunk_received", "on_request_end"):
        getattr(trace, signal).append(told)
    session = aiohttp.ClientSession(trace_configs=[trace])
    async with session, session.post(at.url + CHAT, json=BODY) as response:
        at.see("answer", await response.read())
