"""aiohttp's sessions: what the application sees is the same without us, and what it has read is what we were told."""

from __future__ import annotations

import asyncio
import gc
import hashlib
import io
import json
import re
import socket
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

import otel_prompt_trace as pt
from otel_prompt_trace.current import current
from otel_prompt_trace.wire.exchange import Exchange
from otel_prompt_trace.wire.layers import aiohttp_client
from tests.wire.model_host import Answer, ModelHost
from tests.wire.replies import TEXT, WORDS, chat, chat_stream, cut, failing, gated, whole, zipped

BODY = {"model": "gpt-stand-in", "messages": [{"role": "user", "content": "Wann? é 返"}]}
SPACED = b'{ "model": "gpt-stand-in",\n  "messages": [{"role": "user", "content": "\\u00e9 \\/ \xc3\xa9"}] }\n'
CHAT = "/v1/chat/completions"
Session = aiohttp.ClientSession


class Installed:
    """What one test records."""

    def __init__(self, folder: Path) -> None:
        self._store = folder / "store"
        assert pt.install(store=str(self._store), spool=str(folder / "spool"))

    def calls(self, qid: str) -> list[Any]:
        """The calls of a query, after a flush."""
        assert pt.flush(20).lost == 0
        return list(pt.open_store(str(self._store)).get(qid).calls)

    def call(self, qid: str) -> Any:
        """The one call of a query."""
        (call,) = self.calls(qid)
        return call


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], Installed]]:
    """Install with a store of the test's own, when the test asks for it."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    yield lambda: Installed(tmp_path)
    pt.uninstall()


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The parts of answers that exchanges are told of."""
    parts: list[bytes] = []
    seen = Exchange.seen

    def spy(self: Exchange, data: bytes) -> None:
        parts.append(data)
        seen(self, data)

    monkeypatch.setattr(Exchange, "seen", spy)
    return parts


class _Reader:
    """Reads a response in one way, asks the host for chunks as it goes, and writes down what it is given."""

    def __init__(self, host: ModelHost, response: aiohttp.ClientResponse) -> None:
        self._gate = socket.create_connection(("127.0.0.1", host.gate))
        self.response, self.content = response, response.content
        self.log: list[Any] = []

    def go(self, chunks: int = 100) -> None:
        """Let chunks go; all there are by default."""
        self._gate.sendall(b"." * chunks)

    def close(self) -> None:
        self._gate.close()

    async def read(self) -> None:
        self.go()
        self.log += [await self.response.read(), await self.response.text(), self.response.closed]

    async def content_read(self) -> None:
        self.go()
        self.log += [await self.content.read(), await self.content.read(), self.content.at_eof()]

    async def any(self) -> None:
        self.go(1)
        async for part in self.content.iter_any():
            self.log.append(part)
            self.go(1)

    async def chunks(self) -> None:
        self.go(1)
        async for part, ends in self.content.iter_chunks():
            self.log += [part, ends]
            self.go(1)

    async def chunk_by_chunk(self) -> None:
        self.go(1)
        while (found := await self.content.readchunk()) != (b"", False):
            self.log.extend(found)
            self.go(1)

    async def sized(self) -> None:
        self.go()
        parts = []
        try:
            while part := await self.content.read(7):
                assert len(part) <= 7
                parts.append(part)
        finally:
            self.log.append(b"".join(parts))

    async def iterate_sized(self) -> None:
        self.go(1)
        async for part in self.content.iter_chunked(100_000):
            self.log.append(part)
            self.go(1)

    async def lines(self) -> None:
        self.go()
        async for line in self.content:
            self.log.append(line)

    async def until(self) -> None:
        self.go()
        while part := await self.content.readuntil(b"\n\n"):
            self.log.append(part)

    async def exactly(self) -> None:
        self.go()
        while not self.content.at_eof():
            try:
                self.log.append(await self.content.readexactly(50))
            except asyncio.IncompleteReadError as error:
                self.log += [error.partial, error.expected]

    async def nowait(self) -> None:
        self.go(1)
        while part := await self.content.read(1):
            self.log += [part, self.content.read_nowait()]
            self.go(1)

    async def put_back(self) -> None:
        self.go()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            self.content.unread_data(await self.content.readexactly(9))
        self.log.append(await self.content.read())

    async def impatient(self) -> None:
        """A read that is given up, and then another."""
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(self.content.readany(), 0.02)
        await self.content_read()

    async def two_at_once(self) -> None:
        first = asyncio.ensure_future(self.content.readany())
        await asyncio.sleep(0)
        with pytest.raises(RuntimeError, match="another coroutine") as raised:
            await self.content.readany()
        self.log.append(str(raised.value))
        self.go()
        self.log.append(await first + await self.content.read())


READERS = [name for name, member in vars(_Reader).items() if asyncio.iscoroutinefunction(member)]
LARGE = replace(
    whole({"choices": [{"index": 0, "message": {"role": "assistant", "content": "x" * 700_000}}]}), framing="close"
)
ANSWERS = {
    "whole": gated(chat()),
    "stream": gated(chat_stream()),
    "zipped": gated(zipped(chat())),
    "cut": gated(cut(chat_stream(), 3)),
    "large": gated(LARGE),
}
_WHOLE = ("read", "content_read", "exactly", "put_back", "impatient", "two_at_once")
# How a large body is divided is up to the network: only what does not show it can be compared.
WAYS = [(reader, answer) for reader in READERS for answer in ANSWERS if answer != "large" or reader in _WHOLE]


async def _through(answer: Answer, reader: str) -> list[Any]:
    with ModelHost([answer]) as host:
        log: list[Any] = []
        reading: _Reader | None = None
        try:
            async with Session() as session, session.post(f"http://127.0.0.1:{host.port}{CHAT}", json=BODY) as response:
                reading = _Reader(host, response)
                log = reading.log
                await getattr(reading, reader)()
                log += [response.closed, response.content.at_eof(), isinstance(response.content, aiohttp.StreamReader)]
        except Exception as error:  # noqa: BLE001 - whatever the application would see
            log += [type(error), re.sub(r"0x\w+", "", str(error)), error.__cause__, error.__context__]
        finally:
            if reading is not None:
                reading.close()
    return [repr(item) if isinstance(item, BaseException) else item for item in log]


@pytest.mark.parametrize(("reader", "answer"), WAYS)
def test_every_way_to_read(install: Callable[[], Installed], told: list[bytes], reader: str, answer: str) -> None:
    """The same parts in the same order, the same error; what was read was told, once, and says whether it is whole."""
    bare = asyncio.run(_through(ANSWERS[answer], reader))
    assert not told
    recording = install()
    with pt.query(question="?") as query:
        ours = asyncio.run(_through(ANSWERS[answer], reader))
    assert ours == bare
    call = recording.call(query.qid)
    given = b"".join(part for part in ours if isinstance(part, bytes))
    assert b"".join(told) == given or (answer == "cut" and b"".join(told).startswith(given))
    assert call.response["status"] == 200
    assert call.response["bytes"] == len(b"".join(told))
    assert call.unfinished == (answer == "cut")
    if answer == "cut":
        assert call.response["error"] == "ClientPayloadError"
        assert "".join(WORDS[:2]).startswith(call.response["output"])
        assert reader in ("exactly", "lines", "until") or b"".join(told) == b"".join(ANSWERS["cut"].chunks)
    elif answer != "large":
        assert call.response["output"] == TEXT


async def _parts(body: bytes = SPACED) -> AsyncIterator[bytes]:
    for at in range(0, len(body), 40):
        await asyncio.sleep(0)
        yield body[at : at + 40]


_BODIES: dict[str, Callable[[], dict[str, Any]]] = {
    "json": lambda: {"json": BODY},
    "bytes": lambda: {"data": SPACED},
    "bytearray": lambda: {"data": bytearray(SPACED)},
    "memoryview": lambda: {"data": memoryview(SPACED)},
    "text": lambda: {"data": SPACED.decode()},
    "payload": lambda: {"data": aiohttp.JsonPayload(BODY)},
    "generator": lambda: {"data": _parts()},
    "file": lambda: {"data": io.BytesIO(SPACED)},
    "compressed": lambda: {"json": BODY, "compress": "gzip"},
    "expecting": lambda: {"json": BODY, "expect100": True},
}


@pytest.mark.parametrize("body", _BODIES)
def test_every_kind_of_body(install: Callable[[], Installed], monkeypatch: pytest.MonkeyPatch, body: str) -> None:
    """A body that is at hand is recorded before it leaves, any other once it is out; both as the host received it."""
    recorded: list[bytes] = []
    sent = Exchange.sent

    def spy(self: Exchange, data: bytes | None = None) -> None:
        recorded.append(data or b"")
        sent(self, data)

    monkeypatch.setattr(Exchange, "sent", spy)
    received: list[bytes] = []
    early: list[bool] = []

    async def answer(request: web.Request) -> web.Response:
        first = await request.content.readany()
        early.append(bool(recorded))
        received.append(first + await request.content.read())
        return web.json_response(json.loads(chat().chunks[0]))

    async def ask() -> None:
        async with _serving(answer) as url, Session() as session:
            response = await session.post(url + CHAT + "?key=secret", **_BODIES[body]())
            assert (await response.json())["choices"]

    recording = install()
    with pt.query(question="?") as query:
        asyncio.run(ask())
    call = recording.call(query.qid)
    assert recorded == received
    assert call.request["sha256"] == hashlib.sha256(received[0]).hexdigest()
    assert call.request["path"] == CHAT
    assert call.request["host"].startswith("127.0.0.1:")
    assert call.response["output"] == TEXT
    if body not in ("generator", "file"):
        assert early == [True]


def test_a_generator_is_asked_for_its_parts_one_by_one(install: Callable[[], Installed]) -> None:
    """The host has a part before the next one is asked for, as without us; the request is recorded after the last."""
    arrived: list[int] = []

    async def run() -> list[Any]:
        got = asyncio.Event()
        log: list[Any] = []

        async def answer(request: web.Request) -> web.Response:
            async for part in request.content.iter_any():
                arrived.append(len(part))
                got.set()
            return web.Response(body=chat().chunks[0], content_type="application/json")

        async def parts() -> AsyncIterator[bytes]:
            for at in range(0, len(SPACED), 40):
                got.clear()
                yield SPACED[at : at + 40]
                await got.wait()
                log.append(list(arrived))

        async with _serving(answer) as url, Session() as session, session.post(url + CHAT, data=parts()) as response:
            log.append(len(await response.read()))
        return log

    bare = asyncio.run(run())
    arrived.clear()
    recording = install()
    with pt.query(question="?") as query:
        ours = asyncio.run(run())
    assert ours == bare
    assert recording.call(query.qid).request["bytes"] == len(SPACED)


def test_an_answer_that_comes_before_the_body_is_out(install: Callable[[], Installed]) -> None:
    """The host answers at once; what had gone out by then was a whole request, and so it is one."""

    async def ask() -> None:
        never = asyncio.Event()

        async def parts() -> AsyncIterator[bytes]:
            yield SPACED
            await never.wait()

        async def answer(request: web.Request) -> web.Response:
            await request.content.readany()
            return web.Response(body=chat().chunks[0], content_type="application/json")

        async with _serving(answer) as url, Session() as session, session.post(url + CHAT, data=parts()) as response:
            assert response.status == 200
            await response.read()

    recording = install()
    with pt.query(question="?") as query:
        asyncio.run(ask())
    call = recording.call(query.qid)
    assert call.request["bytes"] == len(SPACED)
    assert call.response["output"] == TEXT


def test_a_redirect_is_one_request(install: Callable[[], Installed]) -> None:
    """The body is sent twice; the record names the host and path that it was meant for, and the last answer."""
    moved = Answer((b"elsewhere",), status=307, headers=(("Location", "/v1/elsewhere"),))

    async def ask(host: ModelHost) -> None:
        async with Session() as session, session.post(f"http://127.0.0.1:{host.port}{CHAT}", json=BODY) as response:
            assert len(response.history) == 1
            await response.json()

    recording = install()
    with pt.query(question="?") as query, ModelHost([moved, chat()]) as host:
        asyncio.run(ask(host))
    call = recording.call(query.qid)
    assert [event["path"] for event in call.requests] == [CHAT]
    assert [event["status"] for event in call.responses] == [200]
    assert call.response["output"] == TEXT


@pytest.mark.parametrize("how", ["flag", "hook"])
def test_a_status_that_the_session_raises_for(install: Callable[[], Installed], how: str) -> None:
    """The application is given an error alone; the record has the status, and the body where a hook has read it."""

    async def hook(response: aiohttp.ClientResponse) -> None:
        raise ValueError(await response.text())

    async def ask(host: ModelHost) -> None:
        async with Session(raise_for_status=True if how == "flag" else hook) as session:
            await session.post(f"http://127.0.0.1:{host.port}{CHAT}", json=BODY)

    recording = install()
    refused = pytest.raises(aiohttp.ClientResponseError if how == "flag" else ValueError, match="429")
    with pt.query(question="?") as query, ModelHost([failing(429)]) as host, refused:
        asyncio.run(ask(host))
    call = recording.call(query.qid)
    assert call.response["status"] == 429
    assert (call.response["bytes"] > 0) == (how == "hook")
    assert call.unfinished == (how == "flag")


async def _leave(response: aiohttp.ClientResponse, how: str) -> None:
    if how in ("close", "cancelled"):
        response.close()
        with pytest.raises(aiohttp.ClientConnectionError):
            await response.content.readany()
    elif how == "release":
        response.release()
    elif how == "with":
        async with response:
            pass


@pytest.mark.filterwarnings("ignore:Unclosed connection:ResourceWarning")  # the library's own, of one that is dropped
@pytest.mark.parametrize("how", ["close", "release", "with", "dropped", "cancelled", "cancelled and dropped"])
def test_an_answer_that_is_left(install: Callable[[], Installed], told: list[bytes], how: str) -> None:
    """What was read until then is recorded, and no more."""

    async def ask(host: ModelHost) -> bytes:
        session = Session()
        response = await session.post(f"http://127.0.0.1:{host.port}{CHAT}", json=BODY)
        reading = _Reader(host, response)
        reading.go(2)
        read = b""
        while read.count(b"\n\n") < 2:
            read += await response.content.readany()
        if how.startswith("cancelled"):
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(response.content.readany(), 0.02)
        await _leave(response, how)
        reading.close()
        del reading, response
        await session.close()
        return read

    recording = install()
    with pt.query(question="?") as query, ModelHost([gated(chat_stream())]) as host:
        read = asyncio.run(ask(host))
        gc.collect()
    call = recording.call(query.qid)
    assert b"".join(told) == read
    assert call.unfinished
    assert call.response["bytes"] == len(read)
    assert call.response["output"] == WORDS[0]
    assert call.response.get("error") == ("CancelledError" if how == "cancelled" else None)


def test_an_answer_without_a_body_is_complete(install: Callable[[], Installed]) -> None:
    """There is nothing to read, and so nothing to wait for."""

    async def ask(host: ModelHost) -> None:
        async with Session() as session:
            response = await session.post(f"http://127.0.0.1:{host.port}{CHAT}", json=BODY)
            assert await response.read() == b""

    recording = install()
    with pt.query(question="?") as query, ModelHost([Answer(status=500)]) as host:
        asyncio.run(ask(host))
    call = recording.call(query.qid)
    assert call.response["status"] == 500
    assert not call.unfinished


@pytest.mark.parametrize("body", ["json", "bytes", "text", "generator"])
def test_a_host_that_is_not_there(install: Callable[[], Installed], body: str) -> None:
    """What was to be sent is recorded with the error, where the application gave it as a whole."""

    async def ask(port: int) -> None:
        async with Session() as session:
            await session.post(f"http://127.0.0.1:{port}{CHAT}", **_BODIES[body]())

    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        recording = install()
        with pt.query(question="?") as query, pytest.raises(aiohttp.ClientConnectorError):
            asyncio.run(ask(nobody.getsockname()[1]))
    if body == "generator":
        assert recording.calls(query.qid) == []
        return
    call = recording.call(query.qid)
    sent = json.dumps(BODY).encode() if body == "json" else SPACED
    assert call.request["sha256"] == hashlib.sha256(sent).hexdigest()
    assert call.unfinished
    assert "status" not in call.response
    assert call.response["error"].startswith("ClientConnectorError")


def test_requests_at_the_same_time(install: Callable[[], Installed]) -> None:
    """Each in the query that it is awaited in, over one session."""

    async def answer(request: web.Request) -> web.Response:
        asked = await request.json()
        reply = json.loads(chat().chunks[0])
        reply["choices"][0]["message"]["content"] = asked["messages"][0]["content"]
        return web.json_response(reply)

    async def ask(session: Session, url: str, name: str) -> str:
        with pt.query(question=name) as query:
            body = {**BODY, "messages": [{"role": "user", "content": name}]}
            async with session.post(url + CHAT, json=body) as response:
                assert (await response.json())["choices"][0]["message"]["content"] == name
        return query.qid

    async def ask_all() -> dict[str, str]:
        async with _serving(answer) as url, Session() as session:
            names = [f"question {number}" for number in range(5)]
            return dict(zip(names, await asyncio.gather(*(ask(session, url, name) for name in names)), strict=True))

    recording = install()
    for name, qid in asyncio.run(ask_all()).items():
        call = recording.call(qid)
        assert call.response["output"] == name
        assert name in call.request["body"][0]


def test_a_client_above_records_alone(install: Callable[[], Installed]) -> None:
    """OpenAI's client over aiohttp passes two captured layers: one request, one answer."""
    openai = pytest.importorskip("openai")

    async def ask(host: ModelHost) -> str:
        async with openai.AsyncOpenAI(
            api_key="none", base_url=f"http://127.0.0.1:{host.port}/v1", http_client=openai.DefaultAioHttpClient()
        ) as client:
            answer = await client.chat.completions.create(**BODY)
            return str(answer.choices[0].message.content)

    recording = install()
    with pt.query(question="?") as query, ModelHost([chat()]) as host:
        assert asyncio.run(ask(host)) == TEXT
        (received,) = host.received
    call = recording.call(query.qid)
    assert [event["sha256"] for event in call.requests] == [hashlib.sha256(received.body).hexdigest()]
    assert [event["output"] for event in call.responses] == [TEXT]


def test_what_is_no_model_request_is_left_alone(install: Callable[[], Installed]) -> None:
    """No record, no trace hook in the session, and the library's own streams."""

    async def ask(host: ModelHost) -> None:
        url = f"http://127.0.0.1:{host.port}"
        async with Session() as session:
            for sent in (session.post(url + "/orders", json={"item": "x"}), session.get(url + CHAT)):
                async with sent as response:
                    assert type(response.content) is aiohttp.StreamReader
            with pytest.raises(aiohttp.InvalidURL):
                await session.post("no address", json=BODY)
            assert session.trace_configs == []

    recording = install()
    with pt.query(question="?") as query, ModelHost([Answer((b"{}",)), Answer((b"{}",))]) as host:
        asyncio.run(ask(host))
    assert recording.calls(query.qid) == []


def test_hooks_and_sessions_of_the_application(install: Callable[[], Installed]) -> None:
    """A session made before is captured too; its list of hooks stays as it was, and hooks are called as they were."""
    called: list[str] = []
    trace = aiohttp.TraceConfig()

    async def hook(_session: Any, _context: Any, params: Any) -> None:
        called.append(type(params).__name__)

    for signal in (trace.on_request_start, trace.on_request_chunk_sent, trace.on_request_end):
        signal.append(hook)
    hooks = [trace]

    async def ask(session: Session, host: ModelHost) -> list[str]:
        called.clear()
        async with session.post(f"http://127.0.0.1:{host.port}{CHAT}", json=BODY) as response:
            await response.read()
        return list(called)

    async def run() -> tuple[Installed, str]:
        with ModelHost([chat()] * 3) as host:
            async with Session(trace_configs=hooks) as session:
                bare = await ask(session, host)
                recording = install()
                with pt.query(question="?") as query:
                    assert await ask(session, host) == bare
                assert hooks == [trace]
                pt.flush(20)
                pt.uninstall()
                assert await ask(session, host) == bare
        return recording, query.qid

    before = vars(Session)["_request"]
    recording, qid = asyncio.run(run())
    assert vars(Session)["_request"] is before
    assert len(list(pt.open_store(str(recording._store)).get(qid).calls)) == 1


def test_a_connection_keeps_no_exchange(install: Callable[[], Installed]) -> None:
    """It keeps the context that it was made in, for as long as it is open: bodies must not be held by that."""

    async def ask(host: ModelHost) -> int:
        async with Session() as session:
            async with session.post(f"http://127.0.0.1:{host.port}{CHAT}", json=BODY) as response:
                await response.read()
            del response
            gc.collect()
            return sum(isinstance(found, Exchange) for found in gc.get_objects())

    install()
    with pt.query(question="?"), ModelHost([chat()]) as host:
        assert asyncio.run(ask(host)) == 0


@pytest.mark.parametrize("broken", ["begin", "sent", "answered", "seen", "over"])
def test_a_fault_of_ours_stays_ours(
    install: Callable[[], Installed], monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    """The application is answered as ever; that something was not captured is counted."""

    def fail(*_args: Any, **_kwargs: Any) -> Any:
        raise RuntimeError("ours")

    if broken == "begin":
        monkeypatch.setattr(aiohttp_client, "begin", fail)
    else:
        monkeypatch.setattr(Exchange, broken, fail)

    async def ask(host: ModelHost) -> Any:
        async with Session() as session, session.post(f"http://127.0.0.1:{host.port}{CHAT}", json=BODY) as response:
            return await response.json()

    install()
    with pt.query(question="?"), ModelHost([chat()]) as host:
        assert asyncio.run(ask(host))["choices"]
    runtime = current()
    assert runtime is not None
    assert "not_captured" in pt.flush(20).reasons


@asynccontextmanager
async def _serving(handler: Callable[[web.Request], Awaitable[web.StreamResponse]]) -> AsyncIterator[str]:
    """An aiohttp server on loopback for the length of a block; gives its URL."""
    app = web.Application()
    app.router.add_post(CHAT, handler)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()
