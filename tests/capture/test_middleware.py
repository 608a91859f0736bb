"""The caller gets the qid back, each its own."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

import otel_prompt_trace as pt
from otel_prompt_trace.capture.context import current_query, current_slot
from tests.capture.recording import Recording

HEADER = "x-prompt-trace-qid"


async def _asgi(scope: Any, receive: Any, send: Any) -> None:
    """Answers with the qid of the query that it opened, or with nothing."""
    qid = b""
    if scope["path"] != "/none":
        with pt.query(question=scope["path"]) as q:
            await asyncio.sleep(0)
            with pt.query():
                await asyncio.sleep(0)
        qid = q.qid.encode()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"x-own", b"kept")]})
    await send({"type": "http.response.body", "body": qid})


def _get(paths: list[str]) -> list[httpx.Response]:
    async def all_at_once() -> list[httpx.Response]:
        transport = httpx.ASGITransport(app=pt.ASGIMiddleware(_asgi))
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            return await asyncio.gather(*(client.get(path) for path in paths))

    return asyncio.run(all_at_once())


def test_asgi_returns_the_qid(recording: Recording) -> None:
    """The header names the outermost query of the request; the application's own headers stay."""
    (response,) = _get(["/ask"])
    assert response.headers[HEADER] == response.text
    assert response.headers["x-own"] == "kept"
    assert recording.of(response.text, "query")[0]["question"] == "/ask"


def test_asgi_without_a_query_has_no_header(recording: Recording) -> None:
    """Nothing is made up for a request that asked no model."""
    (response,) = _get(["/none"])
    assert HEADER not in response.headers
    assert response.headers["x-own"] == "kept"


def test_asgi_requests_do_not_mix(recording: Recording) -> None:
    """Fifty requests in flight together: each caller gets its own."""
    responses = _get([f"/{number}" for number in range(50)])
    assert len({response.text for response in responses}) == 50
    for response in responses:
        assert response.headers[HEADER] == response.text


def test_asgi_leaves_other_protocols_alone(recording: Recording) -> None:
    """Lifespan and websockets pass through with the very send function of the server."""
    seen: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.append((scope["type"], send))

    async def send(_: Any) -> None:
        raise AssertionError

    asyncio.run(pt.ASGIMiddleware(app)({"type": "lifespan"}, send, send))  # type: ignore[arg-type]
    assert seen == [("lifespan", send)]


def test_asgi_passes_exceptions_on(recording: Recording) -> None:
    """What the application raises arrives as the same object, and the context is as before."""
    error = LookupError("mine")

    async def app(scope: Any, receive: Any, send: Any) -> None:
        with pt.query():
            raise error

    async def call() -> None:
        await pt.ASGIMiddleware(app)({"type": "http"}, None, None)  # type: ignore[arg-type]

    with pytest.raises(LookupError) as caught:
        asyncio.run(call())
    assert caught.value is error


def _eager(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
    if environ["PATH_INFO"] == "/none":
        start_response("200 OK", [])
        return [b""]
    with pt.query(question=environ["PATH_INFO"]) as q:
        pass
    start_response("200 OK", [("x-own", "kept")])
    return [q.qid.encode()]


def _generator(environ: dict[str, Any], start_response: Any) -> Iterator[bytes]:
    if environ["PATH_INFO"] == "/none":
        start_response("200 OK", [])
        yield b""
        return
    with pt.query(question=environ["PATH_INFO"]) as q:
        start_response("200 OK", [("x-own", "kept")])
        yield q.qid[:3].encode()
        assert current_query() is q
        yield q.qid[3:].encode()


def _ask(app: Any, path: str) -> tuple[dict[str, str], str]:
    headers: dict[str, str] = {}

    def start_response(status: str, given: list[tuple[str, str]], *_: Any) -> None:
        assert status == "200 OK"
        headers.update(given)

    body = pt.WSGIMiddleware(app)({"PATH_INFO": path}, start_response)
    return headers, b"".join(body).decode()


@pytest.mark.parametrize("app", [_eager, _generator])
def test_wsgi_returns_the_qid(recording: Recording, app: Any) -> None:
    """Whether the application returns its body or produces it, the header is there and the context as before."""
    headers, body = _ask(app, "/ask")
    assert headers == {"x-own": "kept", HEADER: body}
    assert recording.of(body, "query")[0]["question"] == "/ask"
    assert (current_query(), current_slot()) == (None, None)


@pytest.mark.parametrize("app", [_eager, _generator])
def test_wsgi_without_a_query_has_no_header(recording: Recording, app: Any) -> None:
    """Nothing is made up for a request that asked no model."""
    assert _ask(app, "/none") == ({}, "")


@pytest.mark.parametrize("app", [_eager, _generator])
def test_wsgi_requests_do_not_mix(recording: Recording, app: Any) -> None:
    """Fifty requests on eight threads: each caller gets its own."""
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda number: _ask(app, f"/{number}"), range(50)))
    assert len({body for _, body in answers}) == 50
    for headers, body in answers:
        assert headers[HEADER] == body


def test_wsgi_requests_on_one_thread_do_not_mix(recording: Recording) -> None:
    """Two bodies produced in turns by one thread, as a server with cooperative workers does."""
    heads: list[dict[str, str]] = [{}, {}]
    bodies = [
        pt.WSGIMiddleware(_generator)({"PATH_INFO": "/x"}, lambda _, given, head=head: head.update(given))
        for head in heads
    ]
    texts = list(zip(*(iter(body) for body in bodies), strict=True))
    assert [b"".join(parts).decode() for parts in zip(*texts, strict=True)] == [head[HEADER] for head in heads]
    assert heads[0][HEADER] != heads[1][HEADER]


def test_wsgi_hands_on_a_body_that_has_begun(recording: Recording) -> None:
    """A server may treat its own kinds of body specially: it gets the very object."""
    body = [b"x"]

    def app(environ: Any, start_response: Any) -> list[bytes]:
        start_response("200 OK", [])
        return body

    assert pt.WSGIMiddleware(app)({}, lambda *_: None) is body


def test_wsgi_closes_the_body(recording: Recording) -> None:
    """A client that goes away early ends the application's generator, and with it the query."""
    body = pt.WSGIMiddleware(_generator)({"PATH_INFO": "/x"}, lambda *_: None)
    assert next(iter(body))
    body.close()  # type: ignore[attr-defined]
    (qid,) = (pt.flush(20), recording.stored_qids())[1]
    (end,) = recording.of(qid, "end")
    assert end["error"] == "GeneratorExit"
