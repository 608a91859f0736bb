"""requests, urllib3 and botocore, in this process: each application runs without us and with us, on equal answers."""

from __future__ import annotations

import contextlib
import gc
import gzip
import hashlib
import io
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import boto3
import pytest
import requests
import urllib3
from botocore.config import Config
from opentelemetry import context as otel_context

import otel_prompt_trace as pt
from otel_prompt_trace.core.record import Record
from otel_prompt_trace.wire.exchange import Exchange
from tests.waiting import until
from tests.wire import replies as say
from tests.wire.model_host import Answer, ModelHost
from tests.wire.replies import TEXT, WORDS, cut, failing, gated, sliced, zipped

pytestmark = pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")  # applications that leave connections open

CHAT = "/v1/chat/completions"
BODY = {"model": "gpt-stand-in", "messages": [{"role": "user", "content": "Wann? é 返"}]}
SENT, ASCII = json.dumps(BODY, ensure_ascii=False).encode(), json.dumps(BODY).encode()
MODEL = "anthropic.claude-stand-in-v1:0"
MOVED = Answer(status=307, headers=(("Location", "/v1/elsewhere/chat/completions"),))

_SECOND = hasattr(urllib3.HTTPResponse, "read1")  # or a later version of urllib3; the first one says nothing of cuts

Seen = list[Any]
Application = Callable[[str, Seen], None]


class Both:
    """Runs an application without us, then with us, each with a host of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.seen: Seen = []
        self.lost = 0  # events that a test makes us lose

    def __call__(self, application: Application, *answers: Answer) -> Record:
        """The record of the second run; fails where the application or the host saw a difference."""
        bare, host = self._run(application, answers)
        with self.installed() as qid:
            self.seen, ours = self._run(application, answers)
        assert self.seen == bare, "the application saw a difference"
        arrived, expected = (sorted((one.path, one.body, one.sizes) for one in run.received) for run in (ours, host))
        assert arrived == expected, "the host saw a difference"
        self.received = ours.received
        self.host = f"127.0.0.1:{ours.port}"
        return self.record(qid)

    @contextlib.contextmanager
    def installed(self) -> Iterator[str]:
        """With us, and within a query, whose qid is given."""
        pt.install(store=str(self._folder / "store"), spool=str(self._folder / "spool"))
        try:
            with pt.query(question="q") as q:
                yield q.qid
            assert pt.flush(20).lost == self.lost
        finally:
            pt.uninstall()

    def record(self, qid: str) -> Record:
        """The record of a query, as it is stored."""
        return pt.open_store(self._folder / "store").get(qid)

    def _run(self, application: Application, answers: tuple[Answer, ...]) -> tuple[Seen, ModelHost]:
        seen: Seen = []
        with ModelHost(answers) as host:
            try:
                application(f"http://127.0.0.1:{host.port}", seen)
            except Exception as error:  # noqa: BLE001 - it is what the application saw
                seen.append(_plain(error, host.port))
            gc.collect()
        return seen, host


def _plain(error: BaseException, port: int) -> list[str]:
    chain: list[str] = []
    below: BaseException | None = error
    while below is not None:
        text = str(below).replace(str(port), "PORT").split(" object at ")[0]
        chain.append(f"{type(below).__name__}: {text}")
        below = below.__cause__ or below.__context__
    return chain


@pytest.fixture
def both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Both:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    return Both(tmp_path)


def statuses(record: Record) -> list[list[int | None]]:
    """Of each call, those of its attempts; None where no status came."""
    return [[event.get("status") for event in call.responses] for call in record.calls]


def holds(record: Record, body: bytes) -> bool:
    """Whether the one call's request is recorded as these bytes."""
    (call,) = record.calls
    return (call.request or {}).get("sha256") == hashlib.sha256(body).hexdigest()


def told(record: Record) -> dict[str, Any]:
    """The one call's answer."""
    (call,) = record.calls
    assert call.response is not None
    return dict(call.response)


# requests


@pytest.mark.parametrize("kind", ["bytes", "text", "bytearray", "file", "text file", "generator"])
def test_every_kind_of_body_goes_out_as_it_is(both: Both, kind: str) -> None:
    """The host receives the same bytes in the same chunks; the record's digest is theirs; nobody finds a proxy."""

    def application(url: str, seen: Seen) -> None:
        text = (SENT if _SECOND else ASCII).decode()  # the first version sends text as Latin-1
        file = io.BytesIO(b"not this" + SENT)
        file.seek(8)
        bodies: dict[str, Any] = {"bytes": SENT, "text": text, "bytearray": bytearray(SENT), "file": file}
        bodies |= {"text file": io.StringIO(ASCII.decode()), "generator": iter([SENT[:30], b"", SENT[30:]])}
        body = bodies[kind]
        request = requests.Request("POST", url + CHAT + "?key=secret", data=body).prepare()
        with requests.Session() as session:
            response = session.send(request, timeout=20)
        seen += [response.json(), request.body is body, response.request.body is body, file.tell()]

    record = both(application, say.chat())
    (call,) = record.calls
    assert both.received[0].body == (SENT if kind != "text file" and (_SECOND or kind != "text") else ASCII)
    assert holds(record, both.received[0].body)
    assert (call.request or {})["host"] == both.host
    assert (call.request or {})["path"] == CHAT
    assert told(record)["output"] == TEXT
    assert both.seen[1:3] == [True, True]


def test_a_file_is_read_again_by_a_retry(both: Both) -> None:
    """urllib3 below requests seeks back and sends the file again: two attempts, one body, and not twice the bytes."""

    def application(url: str, seen: Seen) -> None:
        tries = urllib3.Retry(total=3, status_forcelist=[429], allowed_methods=None, backoff_factor=0)
        with requests.Session() as session:
            session.mount("http://", requests.adapters.HTTPAdapter(max_retries=tries))
            seen.append(session.post(url + CHAT, data=io.BytesIO(SENT), timeout=20).json())

    record = both(application, failing(429), say.chat())
    assert holds(record, SENT)
    assert statuses(record) == [[429, 200]]


def test_a_file_that_fails_once_is_read_from_its_start(both: Both) -> None:
    """What was read of it for the attempt that broke is not told a second time."""

    class Failing(io.BytesIO):
        reads = 0

        def read(self, size: int | None = -1) -> bytes:
            self.reads += 1
            if self.reads == 2:
                raise OSError("the disk had a bad moment")
            return super().read(20)

    def application(url: str, seen: Seen) -> None:
        tries = urllib3.Retry(total=3, allowed_methods=None, backoff_factor=0)
        with requests.Session() as session:
            session.mount("http://", requests.adapters.HTTPAdapter(max_retries=tries))
            seen.append(session.post(url + CHAT, data=Failing(SENT), timeout=20).json())

    record = both(application, say.chat(), say.chat())
    assert holds(record, SENT)
    assert statuses(record) == [[200]]


@pytest.mark.parametrize("framed", ["chunked", "length", "close"])
@pytest.mark.parametrize("way", ["content", "lines", "raw", "raw1", "readinto", "text", "data"])
def test_streams_are_told_as_they_are_read(both: Both, way: str, framed: str) -> None:
    """By every way of reading the application is given the same chunks, and each byte is told once."""
    if way == "raw1" and not _SECOND:
        pytest.skip("this version has no read1")
    answer = sliced(say.chat_stream(), 61)
    chunks = answer.chunks if way != "text" else (b"".join(answer.chunks),)  # it reads what is there, however much
    answer = Answer(chunks, content_type=answer.content_type, framing=framed)

    def application(url: str, seen: Seen) -> None:
        with requests.post(url + CHAT, data=SENT, stream=True, timeout=20) as response:
            raw = response.raw
            if way == "content":
                seen += response.iter_content(37)
            elif way == "lines":
                seen += response.iter_lines(chunk_size=1)
            elif way == "raw":
                while piece := raw.read(50):
                    seen += [piece, raw.tell()]
            elif way == "raw1":
                seen.append(b"".join(iter(lambda: raw.read1(50), b"")))
            elif way == "readinto":
                room = bytearray(50)
                while got := raw.readinto(room):
                    seen.append(bytes(room[:got]))
            elif way == "text":
                seen += io.TextIOWrapper(raw, "utf-8")
            else:
                seen += [raw.data, raw.data]
            seen += [raw.closed, type(raw).__name__, repr(raw).partition(" at ")[0]]

    response = told(both(application, answer))
    assert response["output"] == TEXT
    assert response["bytes"] == sum(map(len, answer.chunks))
    assert not response.get("unfinished")


@pytest.mark.parametrize("packed", [True, False], ids=["decoded", "raw"])
@pytest.mark.parametrize("stream", [True, False])
def test_encoded_answers(both: Both, *, packed: bool, stream: bool) -> None:
    """Whether the application takes the answer decoded or as it came, the record reads it."""

    def application(url: str, seen: Seen) -> None:
        response = requests.post(url + CHAT, data=SENT, stream=stream, timeout=20)
        if stream:
            seen.append(response.raw.read(decode_content=packed))
        else:
            seen.append(response.content)

    response = told(both(application, zipped(say.chat())))
    assert response["output"] == TEXT
    assert not response.get("unfinished")


def test_an_encoded_stream(both: Both) -> None:
    """A packed stream, unpacked by urllib3 in small steps."""
    packed = gzip.compress(b"".join(say.chat_stream().chunks) * 50, mtime=0)
    chunks = tuple(packed[at : at + 40] for at in range(0, len(packed), 40))
    answer = Answer(chunks, content_type=say.SSE, framing="chunked", headers=(("Content-Encoding", "gzip"),))

    def application(url: str, seen: Seen) -> None:
        with requests.post(url + CHAT, data=SENT, stream=True, timeout=20) as response:
            seen += response.iter_content(100)

    response = told(both(application, answer))
    assert response["output"].startswith(TEXT)
    assert response["bytes"] == sum(map(len, both.seen))
    assert not response.get("unfinished")


@pytest.mark.parametrize("how", ["closed", "left", "collected", "in a cycle", "never read"])
def test_an_answer_that_is_left_early(both: Both, how: str) -> None:
    """What was read until then is recorded, and that it is unfinished."""
    answer = Answer(say.chat_stream().chunks, content_type=say.SSE, framing="chunked", then="hang")

    def application(url: str, seen: Seen) -> None:
        session = requests.Session()
        response: Any = session.post(url + CHAT, data=SENT, stream=True, timeout=20)
        chunks = response.iter_content(None)
        while how != "never read" and b"".join(seen).count(b"\n\n") < 3:
            seen.append(next(chunks))
        seen[:] = [b"".join(seen)]
        if how == "closed":
            response.close()
        elif how == "left":
            chunks.close()
        elif how == "in a cycle":
            response.itself = response
            response.chunks = chunks
        del chunks, response
        gc.collect()
        session.close()

    gates = gated(answer) if how == "never read" else answer
    response = told(both(application, replace(gates, chunks=gates.chunks[:3])))
    assert response.get("output") == ("".join(WORDS[:2]) if how != "never read" else None)
    assert response["unfinished"] is True
    assert "error" not in response


@pytest.mark.parametrize("framed", ["chunked", "length"])
def test_an_answer_that_is_cut(both: Both, framed: str) -> None:
    """The application is given the same exception, and the record its name and what came before."""
    begun = cut(say.chat_stream(), 3)
    answer = Answer(begun.chunks, content_type=say.SSE, framing=framed, then="cut")

    def application(url: str, seen: Seen) -> None:
        with requests.post(url + CHAT, data=SENT, stream=True, timeout=20) as response:
            for chunk in response.iter_content(1):
                seen.append(chunk)

    response = told(both(application, answer))
    assert response["output"] == "".join(WORDS[:2])
    assert response["unfinished"] is True
    if _SECOND or framed == "chunked":
        assert response["error"] in ("ProtocolError", "InvalidChunkLength")
        assert "ChunkedEncodingError" in both.seen[-1][0]


def test_redirects_hooks_and_nested_layers_are_one_call(both: Both) -> None:
    """The library requests stands over urllib3 and recurses into itself: the outermost one records, and nobody else."""

    def application(url: str, seen: Seen) -> None:
        def hook(response: Any, **_more: Any) -> None:
            seen.append(["hook", response.status_code, response.raw.isclosed(), type(response.raw).__name__])

        response = requests.post(url + CHAT, data=SENT, hooks={"response": hook}, timeout=20)
        seen += [response.content, [one.status_code for one in response.history]]

    record = both(application, MOVED, say.chat())
    assert statuses(record) == [[307, 200]]


def test_what_is_no_request_to_a_model_leaves_no_trace(both: Both) -> None:
    """Another path, and another body."""

    def application(url: str, seen: Seen) -> None:
        seen.append(requests.post(url + "/orders", data=SENT, timeout=20).content)
        seen.append(requests.post(url + CHAT, data=b'{"order": 7}', timeout=20).content)
        seen.append(urllib3.PoolManager().request("POST", url + "/orders", body=SENT).data)

    assert both(application, *[say.chat()] * 3).calls == ()


def test_quiet_instrumentation_is_none_of_ours(both: Both) -> None:
    """Instrumentations of model clients silence those of HTTP clients, around the very requests we are for."""

    def application(url: str, seen: Seen) -> None:
        quiet = getattr(otel_context, "_SUPPRESS_INSTRUMENTATION_KEY")  # noqa: B009 - nothing public names it
        token = otel_context.attach(otel_context.set_value(quiet, True))
        seen.append(requests.post(url + CHAT, data=SENT, timeout=20).content)
        otel_context.detach(token)

    assert told(both(application, say.chat()))["output"] == TEXT


def test_nobody_there(both: Both) -> None:
    """The request that could not be sent is a record, with the name of the error."""

    def application(url: str, seen: Seen) -> None:
        requests.post("http://127.0.0.1:1" + CHAT, data=SENT, timeout=20)

    response = told(both(application))
    assert response["error"] == "ConnectionError"
    assert response["unfinished"] is True


# urllib3


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("preload", [True, False])
def test_urllib3_alone(both: Both, *, preload: bool, packed: bool) -> None:
    """Read beforehand or by the application, decoded or not."""

    def application(url: str, seen: Seen) -> None:
        pool = urllib3.PoolManager()
        got = pool.request("POST", url + CHAT + "?q", body=SENT, preload_content=preload, decode_content=packed)
        seen += [got.data, got.status, got.data]
        pool.clear()

    record = both(application, zipped(say.chat()))
    assert told(record)["output"] == TEXT
    assert holds(record, SENT)
    assert not told(record).get("unfinished")


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("kind", ["bytes", "file", "list"])
def test_each_try_of_urllib3_is_an_attempt(both: Both, kind: str, *, stream: bool) -> None:
    """429, silence and 200 are three attempts of one call, with what urllib3's history says of each."""

    def application(url: str, seen: Seen) -> None:
        tries = urllib3.Retry(total=3, status_forcelist=[429], allowed_methods=None, backoff_factor=0)
        body: Any = {"bytes": SENT, "file": io.BytesIO(SENT), "list": [SENT[:20], SENT[20:]]}[kind]
        host, port = url.removeprefix("http://").split(":")
        with urllib3.HTTPConnectionPool(host, int(port)) as pool:
            got = pool.urlopen("POST", CHAT, body, None, tries, timeout=0.3, preload_content=not stream)
            assert got.retries is not None
            seen += [got.data, [one.status for one in got.retries.history]]

    record = both(application, failing(429), Answer(silent=True), say.chat())
    (call,) = record.calls
    assert statuses(record) == [[429, None, 200]]
    assert [event["attempt"] for event in call.requests] == [1, 2, 3]
    assert [event.get("error") for event in call.responses] == ["http 429", "ReadTimeoutError", None]
    assert told(record)["output"] == TEXT
    assert holds(record, SENT)


def test_tries_in_vain(both: Both) -> None:
    """The last attempt carries the error that reached the application."""

    def application(url: str, seen: Seen) -> None:
        tries = urllib3.Retry(total=1, status_forcelist=[429], allowed_methods=None, backoff_factor=0)
        urllib3.PoolManager().request("POST", url + CHAT, body=SENT, retries=tries)

    record = both(application, failing(429), failing(429))
    assert [event.get("error") for event in record.calls[0].responses] == ["http 429", "MaxRetryError"]


def test_a_body_that_sends_requests_itself(both: Both) -> None:
    """What is sent while a body is read is within that request, and no further attempt of it."""

    def application(url: str, seen: Seen) -> None:
        pool = urllib3.PoolManager()

        def parts() -> Iterator[bytes]:
            yield SENT[:20]
            seen.append(pool.request("POST", url + CHAT, body=SENT).data)
            yield SENT[20:]

        seen.append(pool.request("POST", url + CHAT, body=parts()).data)

    record = both(application, say.chat(), say.chat())
    assert len(statuses(record)) == 1


# botocore


def _bedrock(url: str, attempts: int = 1) -> Any:
    config = Config(retries={"total_max_attempts": attempts, "mode": "standard"})
    keys = {"aws_access_key_id": "none", "aws_secret_access_key": "none", "region_name": "us-east-1"}
    client: Any = boto3.client  # typed by overloads, none of which takes settings as one mapping
    return client("bedrock-runtime", endpoint_url=url, config=config, **keys)


_ASKED: dict[str, Any] = {"modelId": MODEL, "messages": [{"role": "user", "content": [{"text": "Wann? é"}]}]}


def _answered(answer: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in answer.items() if key != "ResponseMetadata"}


def test_bedrock_converse(both: Both) -> None:
    """A real client, refused once and then answered; the path stays percent-encoded as it was sent."""

    def application(url: str, seen: Seen) -> None:
        answer = _bedrock(url, 2).converse(**_ASKED)
        seen += [_answered(answer), answer["ResponseMetadata"]["RetryAttempts"]]

    record = both(application, failing(429), say.conversed())
    (call,) = record.calls
    assert statuses(record) == [[429, 200]]
    assert told(record)["output"] == TEXT
    assert call.request is not None
    assert call.request["path"] == both.received[0].path == "/model/anthropic.claude-stand-in-v1%3A0/converse"
    assert holds(record, both.received[0].body)


@pytest.mark.parametrize("end", ["whole", "left", "collected", "cut", "throttled"])
def test_bedrock_streams_of_events(both: Both, end: str) -> None:
    """ConverseStream's frames are told as they are read, to the end or until they are left or cut."""

    def application(url: str, seen: Seen) -> None:
        client = _bedrock(url)
        stream = client.converse_stream(**_ASKED)["stream"]
        for number, event in enumerate(stream, 1):
            seen.append(event)
            if number == 3 and end in ("left", "collected"):
                break
        if end == "left":
            stream.close()
        del stream
        gc.collect()
        client.close()

    whole = say.conversed_stream()
    hanging = Answer(whole.chunks[:3], content_type=whole.content_type, framing="chunked", then="hang")
    answers = {"whole": whole, "cut": cut(whole, 3), "throttled": say.throttled_stream()}
    response = told(both(application, answers.get(end, hanging)))
    assert response["output"] == (TEXT if end == "whole" else "".join(WORDS[:2]))
    assert bool(response.get("unfinished")) == (end != "whole")
    assert response.get("error") == {"cut": "ProtocolError", "throttled": "throttlingException"}.get(end)


@pytest.mark.parametrize("way", ["read", "lines", "chunks", "readinto", "short", "sent from a file"])
def test_bedrock_bodies(both: Both, way: str) -> None:
    """InvokeModel hands out a body that the application reads as it likes; one that is too short is unfinished."""
    body = json.dumps({"anthropic_version": "bedrock-2023-05-31", "max_tokens": 9, "messages": BODY["messages"]})

    def application(url: str, seen: Seen) -> None:
        given: Any = io.BytesIO(body.encode()) if way == "sent from a file" else body
        stream = _bedrock(url).invoke_model(modelId=MODEL, body=given)["body"]
        if way == "read":
            seen += [stream.read(), stream.read()]
        elif way == "lines":
            seen += stream.iter_lines(chunk_size=16)
        elif way == "readinto":
            room = bytearray(33)
            while got := stream.readinto(room):
                seen.append(bytes(room[:got]))
        else:
            seen += stream.iter_chunks(20)

    answer = say.messages()
    answer = Answer(answer.chunks, then="cut") if way == "short" else answer
    record = both(application, answer)
    response = told(record)
    assert holds(record, body.encode())
    assert bool(response.get("unfinished")) == (way == "short")
    if way != "short":
        assert response["output"] == TEXT


# none of them


def test_the_garbage_collector_records_nothing_itself(both: Both, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may come within any lock: what it closes is only noted, and recorded by another thread or at a flush."""
    over: list[int] = []
    collecting: list[bool] = []
    real = Exchange.over

    def watched(self: Exchange, **told: Any) -> None:
        over.append(len(collecting))
        real(self, **told)

    monkeypatch.setattr(Exchange, "over", watched)
    monkeypatch.setattr("otel_prompt_trace.runtime.Runtime.later", lambda _self, what: collecting.append(what))
    for chunked in (True, False):
        answer = Answer(say.chat_stream().chunks, content_type=say.SSE, framing="chunked" if chunked else "length")
        with ModelHost([answer]) as host, both.installed():
            session = requests.Session()
            url = f"http://127.0.0.1:{host.port}{CHAT}"
            response: Any = session.post(url, data=SENT, stream=True, timeout=20)
            chunks = response.iter_content(20)
            assert len(next(chunks)) == 20
            del response, chunks
            gc.collect()
            session.close()
            assert over == []
            assert collecting
            collecting.clear()


def test_an_answer_without_a_body_is_whole(both: Both) -> None:
    """Nothing will be read of it, so its end is its head."""

    def application(url: str, seen: Seen) -> None:
        response = requests.post(url + CHAT, data=SENT, stream=True, timeout=20)
        seen.append(list(response.iter_content()))

    response = told(both(application, Answer(status=204, content_type="text/plain")))
    assert response["status"] == 204
    assert not response.get("unfinished")


def test_an_adapter_of_another_kind(both: Both) -> None:
    """What is no response of urllib3's stays as it is: its head is recorded, and that its body was not seen."""

    class Adapter(requests.adapters.BaseAdapter):
        def send(self, request: requests.PreparedRequest, *_args: Any, **_more: Any) -> requests.Response:
            answer = requests.Response()
            answer.status_code, answer.request, answer.url = 200, request, str(request.url)
            answer.raw = io.BytesIO(b"".join(say.chat().chunks))
            return answer

        def close(self) -> None:
            pass

    def application(url: str, seen: Seen) -> None:
        with requests.Session() as session:
            session.mount("test://", Adapter())
            for stream in (False, True):
                seen.append(session.post("test://host" + CHAT, data=SENT, stream=stream).content)

    first, second = both(application).calls
    assert first.response is not None
    assert first.response["output"] == TEXT
    assert second.unfinished


def test_uninstalling_leaves_the_libraries_as_they_were(both: Both) -> None:
    """The functions are the library's own again, and a response that is still being read goes on."""
    before = requests.Session.send, urllib3.HTTPConnectionPool.urlopen
    with ModelHost([sliced(say.chat_stream(), 61)]) as host:
        with both.installed():
            assert requests.Session.send is not before[0]
            url = f"http://127.0.0.1:{host.port}{CHAT}"
            response = requests.post(url, data=SENT, stream=True, timeout=20)
            chunks = response.iter_content(61)
            first = next(chunks)
        assert (requests.Session.send, urllib3.HTTPConnectionPool.urlopen) == before
        assert first + b"".join(chunks) == b"".join(say.chat_stream().chunks)
        until(lambda: host.received[0].ended == "answered")


def test_a_fault_of_ours_reaches_nobody(both: Both, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where telling fails, the application reads on."""

    def fails(*_args: Any, **_more: Any) -> None:
        raise ZeroDivisionError

    both.lost = 3
    monkeypatch.setattr("otel_prompt_trace.wire.exchange.Exchange.seen", fails)
    monkeypatch.setattr("otel_prompt_trace.wire.layers.urllib3_requests.host", fails)

    def application(url: str, seen: Seen) -> None:
        seen.append(requests.post(url + CHAT, data=SENT, timeout=20).content)
        seen.append(urllib3.PoolManager().request("POST", url + CHAT, body=SENT).data)

    both(application, say.chat(), say.chat())
