"""What is really sent, where something between the application and the host has a hand in it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
import requests
from opentelemetry.sdk.trace import TracerProvider

import otel_prompt_trace as pt
from otel_prompt_trace.core.grade import grade
from otel_prompt_trace.core.record import Record
from tests.wire import replies as say
from tests.wire.model_host import Answer, ModelHost

CHAT = "/v1/chat/completions"


def body(text: str) -> bytes:
    """A request that says this."""
    return json.dumps({"model": "m", "messages": [{"role": "user", "content": text}]}).encode()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[str]:
    """Recording into a folder store."""
    folder = str(tmp_path / "store")
    pt.install(store=folder, spool=str(tmp_path / "spool"), tracer_provider=TracerProvider())
    yield folder
    pt.uninstall()


def record(store: str, qid: str) -> Record:
    """What was recorded of a query."""
    assert pt.flush(20)
    return pt.open_store(store).get(qid)


def texts(found: Record) -> list[str]:
    """The first text of each call."""
    return [call.prompt.segments[0].text for call in found.calls if call.prompt is not None]


@pytest.mark.parametrize("library", ["httpx2", "requests"])
def test_a_hook_that_changes_the_request(store: str, library: str) -> None:
    """The record's body is what the host received, and not what the hook was handed."""

    def hooked(request: Any) -> Any:
        if library == "requests":
            request.prepare_body(body("hooked"), None)
            return request
        request.stream = httpx2.ByteStream(body("hooked"))
        request._content = body("hooked")
        request.headers["Content-Length"] = str(len(body("hooked")))
        return None

    class Adapter(requests.adapters.HTTPAdapter):
        def send(self, request: Any, *arguments: Any, **named: Any) -> Any:
            return super().send(hooked(request), *arguments, **named)

    with ModelHost([say.chat()]) as host, pt.query() as query:
        url = f"http://127.0.0.1:{host.port}{CHAT}"
        if library == "requests":
            with requests.Session() as session:
                session.mount("http://", Adapter())
                session.post(url, data=body("as asked"), timeout=20)
        else:
            with httpx2.Client(event_hooks={"request": [hooked]}) as client:
                client.post(url, content=body("as asked"))
    found = record(store, query.qid)
    assert texts(found) == ["hooked"]
    assert found.calls[0].request is not None
    assert host.received[0].body == body("hooked")
    assert found.calls[0].request["bytes"] == len(body("hooked"))


def test_an_auth_flow_that_asks_twice(store: str) -> None:
    """Two requests went out for one call: two attempts, each with its status."""

    class Flow(httpx2.Auth):
        def auth_flow(self, request: Any) -> Iterator[Any]:
            response = yield request
            if response.status_code == 401:
                request.headers["Authorization"] = "Bearer fresh"
                yield request

    refused = Answer([b"{}"], status=401)
    with ModelHost([refused, say.chat()]) as host, pt.query() as query, httpx2.Client(auth=Flow()) as client:
        client.post(f"http://127.0.0.1:{host.port}{CHAT}", content=body("let me in"))
    call = record(store, query.qid).calls[0]
    assert [attempt.status for attempt in call.attempts] == [401, 200]
    assert texts(record(store, query.qid)) == ["let me in"]


def test_a_redirect_to_another_host(store: str) -> None:
    """The body reached both: each is named, with what it answered."""
    with ModelHost([say.chat()]) as there:
        target = f"http://127.0.0.1:{there.port}{CHAT}"
        moved = Answer([b""], status=307, headers=(("Location", target),))
        with ModelHost([moved]) as here, pt.query() as query, httpx2.Client(follow_redirects=True) as client:
            client.post(f"http://127.0.0.1:{here.port}{CHAT}", content=body("where to?"))
    attempts = record(store, query.qid).calls[0].attempts
    assert [(attempt.host, attempt.status) for attempt in attempts] == [
        (f"127.0.0.1:{here.port}", 307),
        (f"127.0.0.1:{there.port}", 200),
    ]


def test_a_gateway_in_this_process(store: str) -> None:
    """What it sends on, with a text of its own, is a call beside the one that it was asked."""
    with ModelHost([say.chat()]) as host:
        url = f"http://127.0.0.1:{host.port}{CHAT}"

        def gateway(environ: dict[str, Any], start: Any) -> list[bytes]:
            asked = json.loads(environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"])))
            asked["messages"].insert(0, {"role": "system", "content": "Be brief."})
            answer = httpx2.post(url, json=asked)
            start("200 OK", [("Content-Type", "application/json")])
            return [answer.content]

        transport = httpx2.WSGITransport(app=gateway)
        with pt.query() as query, httpx2.Client(transport=transport, base_url="http://gateway") as client:
            client.post(CHAT, content=body("hello"))
    found = record(store, query.qid)
    assert texts(found) == ["hello", "Be brief."]
    assert [call.attempts[0].host for call in found.calls] == ["gateway", f"127.0.0.1:{host.port}"]


def test_a_call_after_the_query_s_end(store: str) -> None:
    """A worker that the query started may serve others by now: the call says so, and its verdict is unknown."""
    with pt.query() as query:
        pt.declare("user", "late")
        later = pt.carry(lambda url: httpx2.post(url, content=body("late")))
    with ModelHost([say.chat()]) as host:
        later(f"http://127.0.0.1:{host.port}{CHAT}")
    found = record(store, query.qid)
    assert found.calls[0].request is not None
    assert found.calls[0].request["after_end"] is True
    assert "after_end" in grade(found).calls[0].reasons
    assert grade(found).verdict == "unknown"


def test_an_answer_that_is_read_after_the_query_s_end(store: str) -> None:
    """The call was sent in time, and nothing of it says otherwise."""
    with ModelHost([say.chat()]) as host, httpx2.Client() as client:
        with pt.query() as query:
            pt.declare("user", "in time")
            request = client.build_request("POST", f"http://127.0.0.1:{host.port}{CHAT}", content=body("in time"))
            response = client.send(request, stream=True)
        response.read()
    found = record(store, query.qid)
    assert found.calls[0].response is not None
    assert not [event for event in found.events if "after_end" in event]
    assert "after_end" not in grade(found).calls[0].reasons


def _recorded_of_one(tmp_path: Path, path: str = CHAT, **settings: Any) -> Any:
    """The record of a query in which one request was sent, with these settings."""
    folder = str(tmp_path / "s")
    pt.install(store=folder, spool=str(tmp_path / "p"), **settings)
    try:
        with ModelHost([say.chat()]) as host, pt.query() as query:
            httpx2.post(f"http://127.0.0.1:{host.port}{path}", content=body("hello"))
        return record(folder, query.qid)
    finally:
        pt.uninstall()


@pytest.mark.parametrize(
    ("settings", "captured"),
    [
        ({"wire_allow": ["host:127.*"]}, 1),
        ({"wire_allow": ["host:elsewhere"]}, 0),
        ({"wire_deny": ["127.0.0.1"]}, 0),
        ({"wire_deny": ["host:elsewhere"]}, 1),
        ({"wire_deny": ["route:/admin/*"]}, 0),  # in doubt nothing is kept: no entry span says which route it is
    ],
)
def test_rules_of_the_installation(tmp_path: Path, settings: dict[str, Any], captured: int) -> None:
    """What ``install()`` is given decides which requests are kept."""
    assert len(_recorded_of_one(tmp_path, **settings).calls) == captured


@pytest.mark.parametrize(("apis", "captured"), [(["/my/llm/*=openai.chat"], 1), ([], 0)])
def test_apis_of_the_installation(tmp_path: Path, apis: list[str], captured: int) -> None:
    """A gateway's own path is captured where it was named, and read as the API that is spoken there."""
    found = _recorded_of_one(tmp_path, "/my/llm/ask", wire_apis=apis)
    assert [call.response is not None for call in found.calls] == [True] * captured
    assert texts(found) == ["hello"] * captured
