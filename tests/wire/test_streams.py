"""Answers that are streamed: recorded with the request that they belong to, whoever reads and closes them, and when."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2
import pytest

import otel_prompt_trace as pt
from otel_prompt_trace.capture.context import current_query
from tests.wire.asking import URL, Recorded, asked, async_client, body, client, recorded, text_of

__all__ = ["recorded"]


class Chunks(httpx2.AsyncByteStream, httpx2.SyncByteStream):
    """An answer in server-sent events that waits between them for whoever else is there."""

    def __init__(self, words: list[str]) -> None:
        self._words = words

    def _lines(self) -> Iterator[bytes]:
        for word in self._words:
            choice = {"index": 0, "delta": {"content": word}, "finish_reason": None}
            yield b"data: " + json.dumps({"id": "c", "model": "m", "choices": [choice]}).encode() + b"\n\n"
        yield b"data: [DONE]\n\n"

    def __iter__(self) -> Iterator[bytes]:
        return self._lines()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for line in self._lines():
            await asyncio.sleep(0)
            yield line


def streaming(request: httpx2.Request) -> httpx2.Response:
    """Answers with what it was asked, word by word."""
    words = [f"{word} " for word in asked(request).split()]
    return httpx2.Response(200, headers={"content-type": "text/event-stream"}, stream=Chunks(words))


async def streaming_async(request: httpx2.Request) -> httpx2.Response:
    """The same."""
    await asyncio.sleep(0)
    return streaming(request)


def _answers(recorded: Recorded) -> dict[str, tuple[str, Any]]:
    """For each text that was asked, its qid and the answer that was recorded, as far as it was read."""
    return {
        text_of(call): (record.qid, (call.response or {}).get("output", "").strip())
        for record in recorded.records()
        for call in record.calls
    }


def test_streams_opened_in_one_task_and_read_in_another(recorded: Recorded) -> None:
    """The reader has a query of its own open, and the answer is recorded with the request that it belongs to."""
    qids: dict[str, tuple[str, str]] = {}

    async def opened(model: httpx2.AsyncClient, text: str) -> httpx2.Response:
        with pt.query(question=text) as q:
            qids[text] = q.qid, text
            return await model.send(model.build_request("POST", URL, json=body(text, stream=True)), stream=True)

    async def read(model: httpx2.AsyncClient, response: httpx2.Response, name: str) -> None:
        with pt.query(question=name) as q:
            qids[name] = q.qid, f"answer to {name}"
            async for _ in response.aiter_bytes(7):
                await asyncio.sleep(0)
            await response.aclose()
            async with async_client() as own:
                await own.post(URL, json=body(name))

    async def all_of_them() -> None:
        async with async_client(streaming_async) as model:
            texts = [f"words of {number} and more" for number in range(30)]
            responses = await asyncio.gather(*(asyncio.create_task(opened(model, text)) for text in texts))
            readers = (read(model, response, f"reader {number}") for number, response in enumerate(responses))
            await asyncio.gather(*map(asyncio.create_task, readers))

    asyncio.run(all_of_them())
    assert _answers(recorded) == qids


def test_streams_read_and_closed_by_other_threads(recorded: Recorded) -> None:
    """One thread opens, a second reads a part, a third closes, each within a query of its own."""
    qids: dict[str, tuple[str, str]] = {}
    answers: dict[str, Any] = {}
    model = client(streaming)

    def opened(text: str) -> httpx2.Response:
        with pt.query(question=text) as q:
            qids[text] = q.qid, text.split(maxsplit=1)[0]
            return model.send(model.build_request("POST", URL, json=body(text, stream=True)), stream=True)

    def read(response: httpx2.Response) -> httpx2.Response:
        with pt.query(question="of the reader"):
            answers[str(id(response))] = lines = response.iter_raw()
            next(lines)
        return response

    def close(response: httpx2.Response) -> None:
        with pt.query(question="of the closer"):
            response.close()

    with ThreadPoolExecutor(3) as one, ThreadPoolExecutor(3) as two, ThreadPoolExecutor(3) as three:
        texts = [f"w{number} is never read whole" for number in range(30)]
        list(three.map(close, two.map(read, one.map(opened, texts))))
    answers.clear()
    model.close()
    found = _answers(recorded)
    assert found == qids
    for record in recorded.records():
        for call in record.calls:
            assert call.unfinished


class StreamingResponse:
    """As web frameworks send one: the endpoint has returned when the first part is asked for.

    A generator is stepped in worker threads, each step in a copy of the request's context; an asynchronous one is
    stepped by the request's own task.
    """

    def __init__(self, content: Any) -> None:
        self._content = content

    async def send(self) -> str:
        parts = []
        if hasattr(self._content, "__aiter__"):
            async for part in self._content:
                parts.append(part)
                await asyncio.sleep(0)
            return "".join(parts)
        steps, none = iter(self._content), object()
        while (part := await asyncio.to_thread(next, steps, none)) is not none:
            parts.append(part)
        return "".join(parts)


def _endpoint_that_streams_a_response(text: str, told: dict[str, str]) -> StreamingResponse:
    model = client(streaming)
    with pt.query(question=text) as q:
        told[text] = q.qid
        response = model.send(model.build_request("POST", URL, json=body(text, stream=True)), stream=True)

    def parts() -> Iterator[str]:
        with contextlib.closing(response):
            yield from response.iter_text()

    return StreamingResponse(parts())


def _endpoint_that_asks_later(text: str, told: dict[str, str]) -> StreamingResponse:
    with pt.query(question=text) as q:
        told[text] = q.qid

        def parts() -> Iterator[str]:
            with client(streaming) as model, model.stream("POST", URL, json=body(text, stream=True)) as response:
                yield from response.iter_text()

        return StreamingResponse(pt.carry(parts)())


def _endpoint_that_asks_later_asynchronously(text: str, told: dict[str, str]) -> StreamingResponse:
    with pt.query(question=text) as q:
        told[text] = q.qid

        async def parts() -> AsyncIterator[str]:
            model = async_client(streaming_async)
            async with model, model.stream("POST", URL, json=body(text, stream=True)) as response:
                async for part in response.aiter_text():
                    yield part

        return StreamingResponse(pt.carry(parts)())


def _endpoint_whose_stream_opens_the_query(text: str, told: dict[str, str]) -> StreamingResponse:
    def parts() -> Iterator[str]:
        with pt.query(question=text) as q:
            told[text] = q.qid
            yield ""
            with client(streaming) as model, model.stream("POST", URL, json=body(text, stream=True)) as response:
                yield from response.iter_text()

    return StreamingResponse(pt.carry(parts)())


def _endpoint_whose_asynchronous_stream_opens_the_query(text: str, told: dict[str, str]) -> StreamingResponse:
    async def parts() -> AsyncIterator[str]:
        with pt.query(question=text) as q:
            told[text] = q.qid
            yield ""
            model = async_client(streaming_async)
            async with model, model.stream("POST", URL, json=body(text, stream=True)) as response:
                async for part in response.aiter_text():
                    yield part

    return StreamingResponse(pt.carry(parts)())


_ENDPOINTS = [
    _endpoint_that_streams_a_response,
    _endpoint_that_asks_later,
    _endpoint_that_asks_later_asynchronously,
    _endpoint_whose_stream_opens_the_query,
    _endpoint_whose_asynchronous_stream_opens_the_query,
]


@pytest.mark.parametrize("endpoint", _ENDPOINTS, ids=lambda endpoint: endpoint.__name__.removeprefix("_endpoint_"))
def test_responses_that_are_streamed_after_the_endpoint_returned(
    recorded: Recorded, caplog: pytest.LogCaptureFixture, endpoint: Callable[[str, dict[str, str]], StreamingResponse]
) -> None:
    """Requests that follow each other in one task, and ten such tasks at once: each answer in its own record."""
    told: dict[str, str] = {}

    async def worker(name: str) -> None:
        for number in range(3):
            text = f"{name} asks {number} times"
            got = await endpoint(text, told).send()
            assert text.split(maxsplit=1)[0] in got
            assert current_query() is None

    async def all_of_them() -> None:
        await asyncio.gather(*(worker(f"w{number}") for number in range(10)))

    asyncio.run(all_of_them())
    assert _answers(recorded) == {text: (qid, text) for text, qid in told.items()}
    assert Counter(record.query["origin"] for record in recorded.records() if record.query) == {"query": 30}
    assert "Failed to detach" not in caplog.text


def test_without_being_carried_a_late_stream_is_nobody_elses(recorded: Recorded) -> None:
    """What asks after its query's block was left, without its context, is recorded by itself."""
    told: list[str] = []

    async def request(text: str) -> None:
        with pt.query(question=text) as q:
            told.append(q.qid)

            async def parts() -> AsyncIterator[str]:
                async with async_client() as model:
                    yield (await model.post(URL, json=body(text))).text

        await StreamingResponse(parts()).send()

    async def all_of_them() -> None:
        await asyncio.gather(*(request(f"r{number}") for number in range(20)))

    asyncio.run(all_of_them())
    owners = recorded.owners()
    assert len(owners) == 20
    assert {origin for _, origin in owners.values()} == {"minted"}
    assert not {qid for qid, _ in owners.values()} & set(told)


def test_interleaved_generators_each_have_their_own(recorded: Recorded) -> None:
    """Carried, generators that one thread steps in turns keep their queries apart, and leave none behind."""
    qids: dict[str, str] = {}
    model = client()

    def stream(name: str) -> Iterator[None]:
        with pt.query(question=name) as q:
            for turn in range(3):
                yield
                qids[f"{name}.{turn}"] = q.qid
                model.post(URL, json=body(f"{name}.{turn}"))

    rng = random.Random(20)
    streams = [pt.carry(stream)(f"g{number}") for number in range(20)]
    left = list(streams)
    while left:
        one = rng.choice(left)
        if next(one, one) is one:
            left.remove(one)
        assert current_query() is None
    assert len(qids) == 60
    assert {text: qid for text, (qid, _) in recorded.owners().items()} == qids
    assert not [record for record in recorded.records() if record.query and "parent" in record.query]


def test_a_copy_of_a_stream_is_made_as_without_us(recorded: Recorded) -> None:
    """Debuggers and tests copy responses: what stands before a stream can be copied, and lacks what it lacks."""
    import copy

    with client(streaming).stream("POST", URL, json=body("one two", stream=True)) as response:
        copied = copy.copy(response.stream)
        assert isinstance(copied, httpx2.SyncByteStream)
        assert not hasattr(copied, "no_such_thing")
        assert not hasattr(response.stream, "__deepcopy__")
        response.read()

    async def asynchronous() -> None:
        async with (
            async_client(streaming_async) as model,
            model.stream("POST", URL, json=body("three", stream=True)) as answer,
        ):
            assert isinstance(copy.copy(answer.stream), httpx2.AsyncByteStream)
            await answer.aread()

    asyncio.run(asynchronous())
    assert {text: said for text, (_, said) in _answers(recorded).items()} == {"one two": "one two", "three": "three"}


def test_a_hook_that_reads_leaves_the_answer_recorded(recorded: Recorded) -> None:
    """Logging hooks read a stream before its caller does: each equal call is one of its own, with its answer."""
    model = client(streaming)
    model.event_hooks = {"response": [lambda response: response.read()]}
    with pt.query() as q:
        for _ in range(2):
            with model.stream("POST", URL, json=body("one two", stream=True)) as response:
                assert b"two" in b"".join(response.iter_bytes())

    async def asynchronous() -> None:
        async with async_client(streaming_async) as model:
            model.event_hooks = {"response": [lambda response: response.aread()]}
            with q2:
                async with model.stream("POST", URL, json=body("three", stream=True)) as answer:
                    assert "three" in "".join([part async for part in answer.aiter_text()])

    q2 = pt.query()
    asyncio.run(asynchronous())
    assert (len(recorded.record(q.qid).calls), len(recorded.record(q2.qid).calls)) == (2, 1)
    for record in recorded.records():
        for call in record.calls:
            assert (call.response or {})["output"].strip() == text_of(call)
            assert not call.unfinished


def test_a_hook_that_keeps_what_it_read(recorded: Recorded) -> None:
    """Read raw, an answer is nobody's twice: the application gets the library's error, the record that it left."""
    model = client(streaming)
    model.event_hooks = {"response": [lambda response: list(response.iter_raw())]}
    with (
        pt.query() as q,
        model.stream("POST", URL, json=body("one", stream=True)) as response,
        pytest.raises(httpx2.StreamConsumed),
    ):
        response.read()
    assert len(list(recorded.records())) == 1
    (call,) = recorded.record(q.qid).calls
    assert call.response is not None
    assert call.response["status"] == 200
    assert call.unfinished
