"""No request to a model is ever recorded under another's query, whichever thread, task or generator sends it."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import itertools
import json
import random
import threading
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import anyio.to_thread
import httpx2
import openai
import pytest

import otel_prompt_trace as pt
from otel_prompt_trace.capture.context import current_query
from otel_prompt_trace.wire.sent import SentCalls
from tests.wire.asking import (
    URL,
    Recorded,
    asked,
    async_client,
    body,
    client,
    echo,
    message,
    recorded,
    recorded_in_memory,
)  # fmt: skip

__all__ = ["recorded", "recorded_in_memory"]

_SCHEDULES = 1_000
_SEED = 20


class Turnstile:
    """Lets two threads pass in a given order, one step at a time."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._order: list[str] = []

    def start(self, order: list[str]) -> None:
        self._order = order

    def step(self, name: str) -> None:
        """Wait for the turn of ``name``."""
        with self._changed:
            assert self._changed.wait_for(lambda: not self._order or self._order[0] == name, 20), "out of turn"
            if self._order:
                self._order.pop(0)
            self._changed.notify_all()


def _carried(pool: ThreadPoolExecutor, job: Callable[[], None]) -> Awaitable[None]:
    return asyncio.get_running_loop().run_in_executor(pool, pt.carry(job))


def _by_hand(pool: ThreadPoolExecutor, job: Callable[[], None]) -> Awaitable[None]:
    return asyncio.get_running_loop().run_in_executor(pool, contextvars.copy_context().run, job)


def _to_thread(pool: ThreadPoolExecutor, job: Callable[[], None]) -> Awaitable[None]:
    asyncio.get_running_loop().set_default_executor(pool)
    return asyncio.to_thread(job)


def _bare(pool: ThreadPoolExecutor, job: Callable[[], None]) -> Awaitable[None]:
    return asyncio.get_running_loop().run_in_executor(pool, job)


def _submitted(pool: ThreadPoolExecutor, job: Callable[[], None]) -> Awaitable[None]:
    return asyncio.wrap_future(pool.submit(job))


_WITH_CONTEXT = (_carried, _by_hand, _to_thread)
_WITHOUT = (_bare, _submitted)


def test_two_requests_over_one_pool_in_a_thousand_orders(recorded_in_memory: Recorded) -> None:
    """Two requests share one pool's threads; every step of the one comes between any two of the other.

    A job that has its query's context is recorded under its qid; one that has none is recorded by itself, each call
    of it, and under no query. The orders are distinct ones, drawn from all that there are.
    """
    # Steps of a job: it begins, then twice: before sending, in flight, after.
    orders = [set(places) for places in itertools.combinations(range(14), 7)]
    chosen = random.Random(_SEED).sample(orders, _SCHEDULES)
    ways = list(itertools.product(_WITH_CONTEXT + _WITHOUT, repeat=2))
    turnstile = Turnstile()
    names: dict[str, str] = {}  # the name of a request's text, without its number
    qids: dict[str, str] = {}
    expected: dict[str, bool] = {}

    def answer(request: httpx2.Request) -> httpx2.Response:
        turnstile.step(asked(request)[0])
        return echo(request)

    model = client(answer)

    async def request(name: str, number: int, way: Callable[..., Awaitable[None]], pool: ThreadPoolExecutor) -> None:
        own = f"{name}{number}"

        def job() -> None:
            turnstile.step(name)
            for turn in (1, 2):
                turnstile.step(name)
                text = f"{own}.{turn}"
                pt.declare("user", text)
                assert model.post(URL, json=body(text)).status_code == 200
                expected[text] = way in _WITH_CONTEXT
                turnstile.step(name)

        with pt.query(question=own) as q:
            names[own] = name
            qids[own] = q.qid
            await way(pool, job)

    async def run(pool: ThreadPoolExecutor) -> None:
        for number, of_a in enumerate(chosen):
            turnstile.start(["A" if place in of_a else "B" for place in range(14)])
            first, second = ways[number % len(ways)]
            await asyncio.gather(request("A", number, first, pool), request("B", number, second, pool))

    with ThreadPoolExecutor(2) as pool:
        asyncio.run(run(pool))
    owners = recorded_in_memory.owners()
    assert len(owners) == len(expected) == 4 * _SCHEDULES
    alone = []
    for text, (qid, origin) in owners.items():
        if expected[text]:
            assert (qid, origin) == (qids[text.partition(".")[0]], "query")
        else:
            assert origin == "minted"
            assert qid not in qids.values()
            alone.append(qid)
    assert len(set(alone)) == len(alone) > _SCHEDULES


def test_two_hundred_requests_with_tools_at_once(recorded: Recorded) -> None:
    """Each has two or three calls with tool results between them, all in its own record, in their order."""
    sent: dict[str, list[bytes]] = {}

    async def answer(request: httpx2.Request) -> httpx2.Response:
        messages = json.loads(request.content)["messages"]
        own = messages[0]["content"]
        sent.setdefault(own, []).append(request.content)
        for _ in range(random.Random(own).randrange(4)):
            await asyncio.sleep(0)
        done = sum(each["role"] == "tool" for each in messages)
        if done == 1 + int(own) % 2:
            return message(f"done {own}")
        function = {"name": "look", "arguments": json.dumps({"of": own, "turn": done})}
        return message(None, tool_calls=[{"id": f"t{own}.{done}", "type": "function", "function": function}])

    async def request(model: openai.AsyncOpenAI, own: str) -> str:
        messages: list[Any] = [{"role": "user", "content": own}]
        with pt.query(question=own) as q:
            while True:
                found = await model.chat.completions.create(model="m", messages=messages)
                said = found.choices[0].message
                if not said.tool_calls:
                    assert said.content == f"done {own}"
                    return q.qid
                messages.append(said)
                for call in said.tool_calls:
                    assert call.type == "function"
                    await asyncio.sleep(0)
                    result = f"result of {call.function.arguments}"
                    q.tool_call("look", arguments=call.function.arguments, result=result)
                    messages.append({"role": "tool", "tool_call_id": call.id, "content": result})

    async def all_of_them() -> list[str]:
        async with openai.AsyncOpenAI(
            api_key="k", base_url="http://model.test/v1", http_client=async_client(answer)
        ) as model:
            return await asyncio.gather(*(request(model, str(number)) for number in range(200)))

    qids = asyncio.run(all_of_them())
    assert len(set(qids)) == 200
    assert sum(len(list(record.calls)) for record in recorded.records()) == sum(map(len, sent.values())) == 500
    store = pt.open_store(recorded.folder)
    for number, qid in enumerate(qids):
        record = store.get(qid)
        bodies = [b"".join(run.encode() for run in call.request["body"]) for call in record.calls if call.request]
        assert bodies == sent[str(number)]
        kinds = ["request", "response", "tool_call"] * (1 + number % 2)
        assert [event["kind"] for event in record.events] == ["query", *kinds, "request", "response", "end"]
        assert record.query is not None
        assert record.query["question"] == str(number)
        (said,) = [call.response["output"] for call in record.calls[-1:] if call.response]
        assert said == f"done {number}"
        last = record.calls[-1]
        assert [piece.source_id for piece in last.inferred if piece.producer == "tool"] == ["look"] * (1 + number % 2)


# Ways from one request to a call that is sent elsewhere.

Ask = Callable[[], None]
AskAsync = Callable[[], Awaitable[None]]


async def _task(ask: AskAsync, _sync: Ask) -> None:
    await asyncio.create_task(_call(ask))


async def _gathered(ask: AskAsync, _sync: Ask) -> None:
    await asyncio.gather(_call(ask))


async def _group(ask: AskAsync, _sync: Ask) -> None:
    async with anyio.create_task_group() as group:
        group.start_soon(_call, ask)


async def _shielded_later(ask: AskAsync, _sync: Ask) -> None:
    done = asyncio.get_running_loop().create_future()

    def begin() -> None:
        task = asyncio.ensure_future(_call(ask))
        task.add_done_callback(lambda _: done.set_result(task))

    asyncio.get_running_loop().call_later(0, begin)
    await asyncio.shield(done)


async def _in_asyncio_thread(_ask: AskAsync, sync: Ask) -> None:
    await asyncio.to_thread(sync)


async def _in_anyio_thread(_ask: AskAsync, sync: Ask) -> None:
    await anyio.to_thread.run_sync(sync)


async def _in_executor(_ask: AskAsync, sync: Ask) -> None:
    await asyncio.get_running_loop().run_in_executor(None, pt.carry(sync))


async def _in_thread(_ask: AskAsync, sync: Ask) -> None:
    thread = threading.Thread(target=pt.carry(sync))
    thread.start()
    while thread.is_alive():
        await asyncio.sleep(0.001)


async def _in_a_pool_of_a_pool(_ask: AskAsync, sync: Ask) -> None:
    def outer() -> None:
        with ThreadPoolExecutor(1) as inner:
            inner.submit(pt.carry(sync)).result(20)

    await asyncio.get_running_loop().run_in_executor(None, pt.carry(outer))


async def _mapped(_ask: AskAsync, sync: Ask) -> None:
    def each(_: int) -> None:
        sync()

    def outer() -> None:
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(pt.carry(each), range(1)))

    await asyncio.to_thread(outer)


async def _in_another_loop(ask: AskAsync, _sync: Ask) -> None:
    await asyncio.get_running_loop().run_in_executor(None, pt.carry(lambda: asyncio.run(_call(ask))))


async def _threadsafe(ask: AskAsync, _sync: Ask) -> None:
    """A coroutine that another thread hands to this loop."""
    loop = asyncio.get_running_loop()
    carried = pt.carry(ask)

    def outer() -> None:
        asyncio.run_coroutine_threadsafe(_call(carried), loop).result(20)

    await loop.run_in_executor(None, outer)


async def _stepped_by_tasks(ask: AskAsync, _sync: Ask) -> None:
    """An asynchronous generator, each step of it asked for by another task."""

    async def stream() -> AsyncIterator[int]:
        yield 1
        await ask()
        yield 2

    steps = pt.carry(stream)()
    for expected in (1, 2):
        assert await contextvars.Context().run(asyncio.ensure_future, _call(lambda: anext(steps))) == expected


async def _call(ask: Callable[[], Awaitable[Any]]) -> Any:
    return await ask()


_WAYS = [
    _task, _gathered, _group, _shielded_later, _in_asyncio_thread, _in_anyio_thread, _in_executor, _in_thread,
    _in_a_pool_of_a_pool, _mapped, _in_another_loop, _threadsafe, _stepped_by_tasks,
]  # fmt: skip


@pytest.mark.parametrize("way", _WAYS, ids=lambda way: way.__name__.strip("_"))
def test_a_call_stays_with_its_request(recorded: Recorded, way: Callable[[AskAsync, Ask], Awaitable[None]]) -> None:
    """Twenty requests at once, each of which has a call sent elsewhere before and after one that it sends itself."""
    qids: dict[str, str] = {}

    async def request(name: str) -> None:
        async with async_client() as model:
            with pt.query(question=name) as q, client() as blocking:
                for turn in (1, 2):
                    text = f"{name} {turn}"
                    qids[f"{text} elsewhere"] = qids[f"{text} here"] = q.qid

                    async def ask(text: str = text) -> None:
                        await asyncio.sleep(0)
                        async with async_client() as own:  # of the loop that runs this
                            await own.post(URL, json=body(f"{text} elsewhere"))

                    def ask_blocking(text: str = text) -> None:
                        blocking.post(URL, json=body(f"{text} elsewhere"))

                    await way(ask, ask_blocking)
                    await model.post(URL, json=body(f"{text} here"))
                assert current_query() is q
        assert current_query() is None

    async def all_of_them() -> None:
        await asyncio.gather(*(request(f"r{number}") for number in range(20)))

    asyncio.run(all_of_them())
    assert {text: qid for text, (qid, _) in recorded.owners().items()} == qids


def test_what_a_request_leaves_running_stays_its_own(recorded: Recorded) -> None:
    """A background task that goes on after its request has ended, while the next request is under way."""
    qids: dict[str, str] = {}

    async def all_of_them() -> None:
        model, tasks, go = async_client(), [], asyncio.Event()

        async def later(name: str) -> None:
            await go.wait()
            await model.post(URL, json=body(name))

        for number in range(10):
            with pt.query() as q:
                tasks.append(asyncio.create_task(later(f"left by {number}")))
                qids[f"left by {number}"] = q.qid
        with pt.query() as q:
            qids["the last one's"] = q.qid
            go.set()
            await asyncio.gather(*tasks)
            await model.post(URL, json=body("the last one's"))
        await model.aclose()

    asyncio.run(all_of_them())
    assert {text: qid for text, (qid, _) in recorded.owners().items()} == qids


def test_threads_that_send_inside_one_call_at_once(recorded: Recorded, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first two requests of a call, begun in the same moment, are two calls and no attempts of one."""
    both = threading.Barrier(2)

    class Slow(SentCalls):
        """Waits for another thread that might be making one as well."""

        def __init__(self, base: str | None) -> None:
            with contextlib.suppress(threading.BrokenBarrierError):
                both.wait(0.3)
            super().__init__(base)

    monkeypatch.setattr("otel_prompt_trace.wire.place.SentCalls", Slow)

    def send(text: str) -> None:
        with client() as model:
            model.post(URL, json=body(text))

    with pt.query() as q, q.call(prompt="both"), ThreadPoolExecutor(2) as pool:
        list(pool.map(pt.carry(send), ["one", "other"]))
    record = recorded.record(q.qid)
    sent = [event for event in record.of("request") if event["evidence"] == "wire"]
    assert len({event["call"] for event in sent}) == len(sent) == len(record.calls) == 2


def test_threads_that_append_to_one_query_at_once(recorded: Recorded) -> None:
    """What waits in a query goes out once, with whichever thread is first, and costs the other thread nothing."""

    class Contended(deque[Any]):
        """While one thread is about to take what waits, another has taken it."""

        def popleft(self) -> Any:
            if threading.current_thread() is threading.main_thread():
                other = threading.Thread(target=q.append, args=([],))
                other.start()
                other.join()
            return super().popleft()

    with pt.query() as q, client() as model:
        pt.declare("user", "asked")
        q._waiting = Contended(q._waiting)
        model.post(URL, json=body("asked"))
    kinds = [event["kind"] for event in recorded.record(q.qid).events]
    assert sorted(kinds) == ["end", "piece", "query", "request", "response"]


def test_nothing_of_a_request_is_left_on_a_thread(recorded: Recorded) -> None:
    """A job that is carried, or fails in it, leaves its thread as it was: what comes next there is by itself."""
    with ThreadPoolExecutor(1) as pool, client() as model:

        def job(text: str) -> None:
            model.post(URL, json=body(text))
            raise ZeroDivisionError

        for number in range(5):
            with pt.query():
                with pytest.raises(ZeroDivisionError):
                    pool.submit(pt.carry(job), f"carried {number}").result(20)
                with pytest.raises(ZeroDivisionError):
                    pool.submit(job, f"bare {number}").result(20)
        assert pool.submit(current_query).result(20) is None
    origins = {text: origin for text, (_, origin) in recorded.owners().items()}
    assert origins == {
        f"{kind} {number}": origin for number in range(5) for kind, origin in (("carried", "query"), ("bare", "minted"))
    }
