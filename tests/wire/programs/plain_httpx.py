"""Model requests made by hand with httpx, or with its successor where ``CLIENT_LIBRARY`` names that."""

from __future__ import annotations

import asyncio
import gc
import hashlib
import importlib
import json
import os
import pickle
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

http: Any = importlib.import_module(os.environ["CLIENT_LIBRARY"])

BODY = {"model": "gpt-stand-in", "messages": [{"role": "user", "content": "Wann? é 返"}], "temperature": 0.10}
SPACED = b'{ "model": "gpt-stand-in",\n  "messages": [{"role": "user", "content": "\\u00e9 \\/ \xc3\xa9"}] }\n'
CHAT = "/v1/chat/completions"


def _answer(at: Any, response: Any) -> None:
    at.see("answer", response.status_code, response.http_version, response.content, response.num_bytes_downloaded)


def json_body(at: Any) -> None:
    with http.Client() as client:
        _answer(at, client.post(at.url + CHAT + "?api-version=1&key=secret", json=BODY))


def bytes_as_they_are(at: Any) -> None:
    """A body that no serialiser would write the same way again."""
    _answer(at, http.post(at.url + CHAT, content=SPACED, headers={"content-type": "application/json"}))


def no_json(at: Any) -> None:
    _answer(at, http.post(at.url + CHAT, content=b"\xff\xfe not JSON \x00"))


def generator_body(at: Any) -> None:
    """The pieces of a body are asked for one by one, as the connection takes them."""

    def parts() -> Iterator[bytes]:
        for at_ in range(0, len(SPACED), 40):
            at.see("asked for", at_)
            yield SPACED[at_ : at_ + 40]
        at.see("asked for", "no more")

    with http.Client() as client:
        _answer(at, client.post(at.url + CHAT, content=parts()))


def failing_generator_body(at: Any) -> None:
    """The application's own error, in the middle of its body, is the application's to see."""

    def parts() -> Iterator[bytes]:
        yield SPACED[:40]
        raise KeyError("no second part")

    with http.Client() as client:
        client.post(at.url + CHAT, content=parts())


async def async_generator_body(at: Any) -> None:
    async def parts() -> AsyncIterator[bytes]:
        for at_ in range(0, len(SPACED), 40):
            at.see("asked for", at_)
            await asyncio.sleep(0)
            yield SPACED[at_ : at_ + 40]

    async with http.AsyncClient() as client:
        _answer(at, await client.post(at.url + CHAT, content=parts()))


def file_body(at: Any) -> None:
    import io

    with http.Client() as client:
        _answer(at, client.post(at.url + CHAT, content=io.BytesIO(SPACED)))


def zipped_answer(at: Any) -> None:
    with http.Client() as client:
        _answer(at, client.post(at.url + CHAT, json=BODY))


def zipped_raw(at: Any) -> None:
    """Raw bytes stay packed."""
    with http.Client() as client, client.stream("POST", at.url + CHAT, json=BODY) as response:
        at.see("raw", b"".join(response.iter_raw()))


def redirected(at: Any) -> None:
    with http.Client(follow_redirects=True) as client:
        response = client.post(at.url + CHAT, json=BODY)
        _answer(at, response)
        at.see("history", [found.status_code for found in response.history])


def redirected_generator(at: Any) -> None:
    """A body that can't be sent a second time."""

    def parts() -> Iterator[bytes]:
        yield SPACED

    with http.Client(follow_redirects=True) as client:
        client.post(at.url + CHAT, content=parts())


def redirect_not_followed(at: Any) -> None:
    with http.Client() as client:
        response = client.post(at.url + CHAT, json=BODY)
        _answer(at, response)
        at.see("next", response.next_request.url, response.next_request.content)


def own_auth(at: Any) -> None:
    """An auth flow of the application's, which sends the request again with what it was told."""

    class Auth(http.Auth):
        requires_response_body = True

        def auth_flow(self, request: Any) -> Any:
            response = yield request
            at.see("challenged", response.status_code, response.content)
            request.headers["x-answer"] = "yes"
            yield request

    with http.Client(auth=Auth()) as client:
        _answer(at, client.post(at.url + CHAT, json=BODY))


def uploaded(at: Any) -> None:
    """No JSON at all, at a model's path."""
    with http.Client() as client:
        headers = {"content-type": "multipart/form-data; boundary=b"}
        _answer(at, client.post(at.url + CHAT, files={"file": ("a.txt", b"a secret")}, headers=headers))


def zipped_stream(at: Any) -> None:
    with http.Client() as client, client.stream("POST", at.url + CHAT, json=BODY) as response:
        at.see("lines", list(response.iter_lines()))


def large_answer(at: Any) -> None:
    with http.Client() as client, client.stream("POST", at.url + CHAT, json=BODY) as response:
        digest = hashlib.sha256()
        for chunk in response.iter_bytes():
            digest.update(chunk)
        at.see("answer", digest.hexdigest(), response.num_bytes_downloaded)


def interleaved(at: Any) -> None:
    """Two streams, read in turns in one thread."""
    with http.Client() as client:
        asked = [client.build_request("POST", at.url + CHAT, json={**BODY, "seed": seed}) for seed in range(2)]
        answers = [client.send(request, stream=True) for request in asked]
        lines = [answer.iter_lines() for answer in answers]
        while lines:
            for one in list(lines):
                try:
                    at.see("line", next(one))
                except StopIteration:
                    lines.remove(one)


def read_in_another_thread(at: Any) -> None:
    with http.Client() as client, ThreadPoolExecutor(1) as pool:
        response = client.send(client.build_request("POST", at.url + CHAT, json=BODY), stream=True)
        at.see("read", pool.submit(response.read).result())


def attributes(at: Any) -> None:
    """What an answer tells of itself, before and after it is read."""
    with http.Client() as client:
        response = client.send(client.build_request("POST", at.url + CHAT, json=BODY), stream=True)
        for _ in range(2):
            at.see("extensions", sorted(response.extensions), response.encoding, response.charset_encoding)
            at.see("headers", sorted(response.headers.multi_items()), response.reason_phrase, str(response.url))
            at.see("state", response.is_closed, response.is_stream_consumed, response.num_bytes_downloaded)
            try:
                at.see("elapsed", response.elapsed.total_seconds() > 0)
            except RuntimeError as error:
                at.see("elapsed", str(error))
            response.read()
        at.see("copy", pickle.loads(pickle.dumps(response)).content)


async def async_sent_by_hand(at: Any) -> None:
    async with http.AsyncClient() as client:
        response = await client.send(client.build_request("POST", at.url + CHAT, json=BODY), stream=True)
        at.see("read", await response.aread(), response.is_closed, response.elapsed.total_seconds() > 0)


def not_a_model(at: Any) -> None:
    """Requests that are not the project's business."""
    with http.Client() as client:
        _answer(at, client.post(at.url + "/orders", json={"item": "a secret of the shop"}))
        _answer(at, client.get(at.url + "/v1/models"))


def hooks(at: Any) -> None:
    """The order of the client's own hooks."""
    called = {
        "request": [lambda request: at.see("request hook", request.content)],
        "response": [lambda response: at.see("response hook", response.status_code, response.is_closed)],
    }
    with http.Client(event_hooks=called) as client:
        _answer(at, client.post(at.url + CHAT, json=BODY))


def sent_by_hand(at: Any) -> None:
    """A request built first, and an answer read later."""
    with http.Client() as client:
        request = client.build_request("POST", at.url + CHAT, json=BODY)
        response = client.send(request, stream=True)
        at.see("before", response.is_closed, response.is_stream_consumed, type(response.request).__name__)
        at.see("read", response.read(), response.read() is response.content, response.is_closed)
        at.see("elapsed", response.elapsed.total_seconds() > 0, request.content, request is response.request)


def stream_raw(at: Any) -> None:
    with http.Client() as client, client.stream("POST", at.url + CHAT, json=BODY) as response:
        at.go()
        for chunk in response.iter_raw():
            at.see("chunk", chunk, response.num_bytes_downloaded)
            at.go()
        at.see("closed", response.is_closed, response.is_stream_consumed)


def stream_bytes_sized(at: Any) -> None:
    with http.Client() as client, client.stream("POST", at.url + CHAT, json=BODY) as response:
        for chunk in response.iter_bytes(37):
            at.see("chunk", chunk)


def stream_lines(at: Any) -> None:
    with http.Client() as client, client.stream("POST", at.url + CHAT, json=BODY) as response:
        for line in response.iter_lines():
            at.see("line", line)


def stream_left(at: Any) -> None:
    with http.Client() as client, client.stream("POST", at.url + CHAT, json=BODY) as response:
        at.go(3)
        seen = b""
        for chunk in response.iter_raw():
            seen += chunk
            if seen.count(b"\n\n") == 3:
                break
        at.see("until then", seen)


def stream_closed(at: Any) -> None:
    """Closed before the first byte, and read all the same."""
    with http.Client() as client:
        response = client.send(client.build_request("POST", at.url + CHAT, json=BODY), stream=True)
        response.close()
        response.close()
        at.see("closed", response.is_closed)
        response.read()


def stream_collected(at: Any) -> None:
    """Dropped without a word."""
    client = http.Client()
    response = client.send(client.build_request("POST", at.url + CHAT, json=BODY), stream=True)
    at.go(2)
    chunks = response.iter_raw()
    seen = b""
    while seen.count(b"\n\n") < 2:
        seen += next(chunks)
    at.see("until then", seen)
    del chunks, response
    gc.collect()
    client.close()


def stream_cut(at: Any) -> None:
    with http.Client() as client, client.stream("POST", at.url + CHAT, json=BODY) as response:
        at.go()
        try:
            for chunk in response.iter_raw():
                at.see("chunk", chunk)
                at.go()
        finally:
            at.see("closed", response.is_closed)


def reader_fails(at: Any) -> None:
    """The application's own error while it reads."""
    with http.Client() as client, client.stream("POST", at.url + CHAT, json=BODY) as response:
        at.go(1)
        for chunk in response.iter_raw():
            at.see("chunk", chunk)
            raise LookupError("what the application threw")


def read_twice(at: Any) -> None:
    with http.Client() as client, client.stream("POST", at.url + CHAT, json=BODY) as response:
        at.see("first", b"".join(response.iter_bytes()))
        at.see("second", b"".join(response.iter_bytes()))


def refused(at: Any) -> None:
    with http.Client() as client:
        response = client.post(at.url + CHAT, json=BODY)
        _answer(at, response)
        response.raise_for_status()


def gateway_page(at: Any) -> None:
    with http.Client() as client:
        _answer(at, client.post(at.url + CHAT, json=BODY))


def timed_out(at: Any) -> None:
    with http.Client(timeout=0.3) as client:
        client.post(at.url + CHAT, json=BODY)


def timed_out_in_mid_stream(at: Any) -> None:
    with http.Client(timeout=0.3) as client, client.stream("POST", at.url + CHAT, json=BODY) as response:
        at.see("read", response.read())


def nobody_there(at: Any) -> None:
    with http.Client() as client:
        client.post("http://127.0.0.1:1" + CHAT, json=BODY)


def cut_in_mid_request(at: Any) -> None:
    large = {**BODY, "messages": [{"role": "user", "content": "x" * 8_000_000}]}
    with http.Client() as client:
        try:
            client.post(at.url + CHAT, json=large)
        except http.TransportError:
            at.see("a transport error")


def twice_the_same(at: Any) -> None:
    """Two questions that happen to be the same: both are answered."""
    with http.Client() as client:
        for _ in range(2):
            _answer(at, client.post(at.url + CHAT, json=BODY))


def own_retries(at: Any) -> None:
    """The application tries again until it is answered."""
    with http.Client() as client:
        for _ in range(3):
            response = client.post(at.url + CHAT, json=BODY)
            at.see("status", response.status_code)
            if response.is_success:
                return


def own_transport(at: Any) -> None:
    """No network at all: the application answers itself, as its tests would."""

    def handle(request: Any) -> Any:
        at.see("handled", request.content)
        return http.Response(200, json={"choices": [{"index": 0, "message": {"role": "assistant", "content": "me"}}]})

    with http.Client(transport=http.MockTransport(handle)) as client:
        _answer(at, client.post(at.url + CHAT, json=BODY))


def anthropic_by_hand(at: Any) -> None:
    with http.Client(base_url=at.url) as client:
        _answer(at, client.post("/v1/messages", json={**BODY, "max_tokens": 9}, headers={"x-api-key": "k"}))


def anthropic_cut_and_again(at: Any) -> None:
    """The application asks again after a stream that broke off at its very beginning."""
    with http.Client(base_url=at.url) as client:
        for _ in range(2):
            try:
                with client.stream("POST", "/v1/messages", json={**BODY, "max_tokens": 9}) as response:
                    at.see("read", response.read())
            except http.RemoteProtocolError as error:
                at.see("failed", str(error))


def cohere_by_hand(at: Any) -> None:
    with http.Client(base_url=at.url) as client:
        _answer(at, client.post("/v2/chat", json={**BODY, "model": "command-stand-in"}))


def subclass(at: Any) -> None:
    """A client class of the application's own, with a send of its own."""

    class Own(http.Client):
        def send(self, request: Any, **more: Any) -> Any:
            at.see("own send", request.content)
            return super().send(request, **more)

    with Own() as client:
        _answer(at, client.post(at.url + CHAT, json=BODY))


async def async_json(at: Any) -> None:
    async with http.AsyncClient() as client:
        _answer(at, await client.post(at.url + CHAT, json=BODY))


async def async_stream(at: Any) -> None:
    async with http.AsyncClient() as client, client.stream("POST", at.url + CHAT, json=BODY) as response:
        at.go()
        async for chunk in response.aiter_raw():
            at.see("chunk", chunk)
            at.go()
        at.see("closed", response.is_closed)


async def async_stream_lines(at: Any) -> None:
    async with http.AsyncClient() as client, client.stream("POST", at.url + CHAT, json=BODY) as response:
        async for line in response.aiter_lines():
            at.see("line", line)


async def async_stream_left(at: Any) -> None:
    async with http.AsyncClient() as client, client.stream("POST", at.url + CHAT, json=BODY) as response:
        at.go(3)
        seen = b""
        async for chunk in response.aiter_raw():
            seen += chunk
            if seen.count(b"\n\n") == 3:
                break
        at.see("until then", seen)


async def async_stream_collected(at: Any) -> None:
    client = http.AsyncClient()
    response = await client.send(client.build_request("POST", at.url + CHAT, json=BODY), stream=True)
    at.go(2)
    chunks = response.aiter_raw()
    seen = b""
    while seen.count(b"\n\n") < 2:
        seen += await anext(chunks)
    at.see("until then", seen)
    del chunks, response
    gc.collect()
    await asyncio.sleep(0)
    await client.aclose()


async def async_stream_cut(at: Any) -> None:
    async with http.AsyncClient() as client, client.stream("POST", at.url + CHAT, json=BODY) as response:
        at.go()
        async for chunk in response.aiter_raw():
            at.see("chunk", chunk)
            at.go()


async def async_cancelled(at: Any) -> None:
    """The application cancels its task while the model is still silent."""

    async def ask() -> None:
        async with http.AsyncClient() as client:
            await client.post(at.url + CHAT, json=BODY)

    try:
        await asyncio.wait_for(ask(), 0.3)
    except asyncio.TimeoutError:
        at.see("cancelled")


async def async_cancelled_in_mid_stream(at: Any) -> None:
    seen: list[bytes] = []

    async def ask() -> None:
        async with http.AsyncClient() as client, client.stream("POST", at.url + CHAT, json=BODY) as response:
            async for chunk in response.aiter_raw():
                seen.append(chunk)  # noqa: PERF401 - what came before the end is what counts

    try:
        await asyncio.wait_for(ask(), 0.5)
    except asyncio.TimeoutError:
        at.see("cancelled", b"".join(seen))


async def gathered(at: Any) -> None:
    """Several at one time, each with a body of its own."""
    async with http.AsyncClient() as client:
        bodies = [{**BODY, "seed": seed} for seed in range(4)]
        answers = await asyncio.gather(*(client.post(at.url + CHAT, json=body) for body in bodies))
        at.see("answers", [json.loads(answer.content) for answer in answers])


async def gathered_the_same(at: Any) -> None:
    """Self-consistency: the same question four times at one time is four calls."""
    async with http.AsyncClient() as client:
        answers = await asyncio.gather(*(client.post(at.url + CHAT, json=BODY) for _ in range(4)))
        at.see("answers", [json.loads(answer.content) for answer in answers])
