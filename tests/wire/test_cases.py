"""Cases that people who trace model calls have reported, each as its whole kind, where the request is captured as sent.

What concerns threads, tasks and executors is in the tests of contexts.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
import random
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import otel_prompt_trace as pt
from otel_prompt_trace.batch import CensusReport, run_census
from otel_prompt_trace.core.bodies.runs import rebuild
from otel_prompt_trace.core.call import Call
from otel_prompt_trace.pipeline.drain import drain
from otel_prompt_trace.pipeline.spool import Spool, SpoolFull
from otel_prompt_trace.records import Records
from tests.batch.worlds import Tracing
from tests.surroundings import forget_settings, without_settings
from tests.waiting import until
from tests.wire import replies
from tests.wire.asking import URL, Recorded, body, client, echo, message

ROOT = Path(__file__).parents[2]
CHAT = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}


class Application:
    """An application with a tracer provider of its own."""

    def __init__(self, folder: Path, store: str) -> None:
        self.folder = folder
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider(shutdown_on_exit=False)
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.tracer = self.provider.get_tracer("app")
        assert pt.install(store=store, spool=str(folder / "spool"), tracer_provider=self.provider)
        self.recorded = Recorded(folder)

    def model_span(self, **attributes: Any) -> Any:
        """A model-call span of an instrumentation, as the current one."""
        return self.tracer.start_as_current_span("chat m", attributes={**CHAT, **attributes})

    def call(self, qid: str) -> Call:
        """The one call of a query."""
        (found,) = self.recorded.record(qid).calls
        return found

    def span(self, name: str = "chat m") -> ReadableSpan:
        """The one finished span of a name."""
        (found,) = (span for span in self.exporter.get_finished_spans() if span.name == name)
        return found

    def census(self, archive: Path | None = None) -> CensusReport:
        """The batch over everything that is stored."""
        assert pt.flush(60).lost == 0
        spans = [] if archive is None else [archive]
        return run_census(pt.open_store(self.recorded.folder), spans, self.folder / "out")


Make = Callable[..., Application]


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    """Makes the application, by default with a store in the test's folder."""
    forget_settings(monkeypatch)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    made: list[Application] = []

    def begin(store: str | None = None) -> Application:
        made.append(Application(tmp_path, store or str(tmp_path / "store")))
        return made[-1]

    yield begin
    pt.uninstall()
    for app in made:
        app.provider.shutdown()


@pytest.fixture
def app(make: Make) -> Application:
    """The application, with everything as it is by default."""
    return make()


def texts(call: Call) -> list[str]:
    """The texts of a recorded prompt."""
    assert call.prompt is not None
    return [segment.text for segment in call.prompt.segments]


def stored_body(app: Application, qid: str, call: Call) -> bytes:
    """A request's bytes, put together from what is stored."""
    store = pt.open_store(app.recorded.folder)
    assert call.request is not None
    found, missing = rebuild(call.request["body"], lambda digest: store.blob(qid, digest))
    assert missing == 0
    assert hashlib.sha256(found).hexdigest() == call.request["sha256"]
    return found


# The prompt does not depend on what became of the span.


def _openinference(messages: list[dict[str, str]]) -> dict[str, Any]:
    flat = {"input.value": json.dumps(messages)}
    for number, each in enumerate(messages):
        for key, value in each.items():
            flat[f"llm.input_messages.{number}.message.{key}"] = value
    return flat


def _openllmetry(messages: list[dict[str, str]]) -> dict[str, Any]:
    """Up to an index, as some do."""
    return {f"gen_ai.prompt.{n}.{key}": value for n, each in enumerate(messages[:49]) for key, value in each.items()}


def _preview(messages: list[dict[str, str]]) -> dict[str, Any]:
    """A cut value in the place of the whole one."""
    return {"gen_ai.input.messages": json.dumps(messages)[:240]}


@pytest.mark.parametrize("flatten", [_openinference, _openllmetry, _preview], ids=lambda each: each.__name__[1:])
def test_a_long_conversation_whose_span_loses_most_of_it(
    app: Application, flatten: Callable[[list[dict[str, str]]], dict[str, Any]]
) -> None:
    """Attributes evicted, stopped at an index or cut: the record has all 101 messages, and the span has its qid."""
    messages = [{"role": ("user", "assistant")[n % 2], "content": f"message {n} é"} for n in range(101)]
    with pt.query() as q, client() as model, app.model_span() as span:
        for key, value in flatten(messages).items():
            span.set_attribute(key, value)
        for number in range(130):
            span.set_attribute(f"app.{number}", number)
        model.post(URL, json={"model": "m", "messages": messages})
    call = app.call(q.qid)
    assert call.evidence == "wire"
    assert texts(call) == [each["content"] for each in messages]
    attributes = app.span().attributes or {}
    assert attributes["prompt_trace.qid"] == q.qid
    assert attributes["prompt_trace.ref"]
    assert call.id == f"{span.get_span_context().span_id:016x}"
    assert not {"missing_messages", "dropped_attributes"} & set(pt.grade(app.recorded.record(q.qid)).calls[0].reasons)


@pytest.mark.parametrize("chars", [18_635, 70_000, 1_000_000])
def test_every_count_is_of_the_whole_text(app: Application, chars: int) -> None:
    """Whatever its length, no reader gets a part of it, and no number is that of a preview."""
    text = "".join(random.Random(chars).choices("abc é返🏳\n", k=chars))
    with pt.query() as q, client() as model:
        pt.declare("head", text[:100])
        pt.declare("rest", text[100:])
        model.post(URL, json=body(text))
    call = app.call(q.qid)
    assert texts(call) == [text]
    assert call.request is not None
    assert call.request["chars"] == call.request["segments"][0]["chars"] == chars
    assert call.request["segments"][0]["sha256"] == hashlib.sha256(text.encode()).hexdigest()
    (graded,) = pt.grade(app.recorded.record(q.qid)).calls
    assert graded.census is not None
    assert (graded.census.total, graded.census.covered, graded.verdict) == (chars, chars, "exact")


class _Odd:
    def __str__(self) -> str:
        return "what str() says"

    def __repr__(self) -> str:
        raise ZeroDivisionError


_ODD = [
    None, {"a": 1}, [{"a": 1}, {"b": None}], _Odd(), b"\xff\xfe", 10**40, float("nan"), "half \ud83d", [None, 1, "x"],
    [], {1: {2}}, ["deep", ["deeper", ["deepest"]]],
]  # fmt: skip


@pytest.mark.parametrize("key", ["gen_ai.input.messages", "input.value", "llm.input_messages.0.message.content"])
@pytest.mark.parametrize("value", _ODD, ids=lambda value: type(value).__name__)
@pytest.mark.filterwarnings("ignore")
def test_attributes_of_any_type_cost_the_request_nothing(app: Application, key: str, value: Any) -> None:
    """Set on a span beside the request, in an event, at its start: nothing raises, and none passes for the prompt."""
    with pt.query() as q, client() as model, app.model_span(**{key: value}) as span:
        span.set_attribute(key, value)
        span.add_event("gen_ai.user.message", {"content": value})
        model.post(URL, json=body("the prompt"))
    call = app.call(q.qid)
    assert (call.evidence, texts(call)) == ("wire", ["the prompt"])
    stored = app.recorded.record(q.qid)
    assert "what str() says" not in repr(stored.events)
    assert key not in (app.span().attributes or {})


# What is not text


def _data_url(image: bytes) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": "data:image/png;base64," + base64.b64encode(image).decode()}}


def _source(image: bytes) -> dict[str, Any]:
    source = {"type": "base64", "media_type": "image/png", "data": base64.b64encode(image).decode()}
    return {"type": "image", "source": source}


_IMAGES: dict[str, tuple[str, Callable[[bytes, str], dict[str, Any]]]] = {
    "chat": (
        URL,
        lambda image, text: {
            "model": "m",
            "messages": [{"role": "user", "content": [{"type": "text", "text": text}, _data_url(image)]}],
        },
    ),
    "responses": (
        "http://model.test/v1/responses",
        lambda image, text: {
            "model": "m",
            "input": [
                {
                    "role": "user",
                    "content": [
                        {"type": "input_image", "image_url": _data_url(image)["image_url"]["url"]},
                        {"type": "input_text", "text": text},
                    ],
                }
            ],
        },
    ),
    "messages": (
        "http://model.test/v1/messages",
        lambda image, text: {
            "model": "m",
            "max_tokens": 9,
            "messages": [{"role": "user", "content": [_source(image), {"type": "text", "text": text}]}],
        },
    ),
    "google": (
        "http://model.test/v1beta/models/m:generateContent",
        lambda image, text: {
            "contents": [
                {
                    "parts": [
                        {"text": text},
                        {"inlineData": {"mimeType": "image/png", "data": base64.b64encode(image).decode()}},
                    ]
                }
            ]
        },
    ),
}


@pytest.mark.parametrize("api", _IMAGES)
def test_the_text_beside_an_image_stays_and_the_image_is_stored_once(app: Application, api: str) -> None:
    """6 MB of image in two calls of a query: its text is verbatim in the record, its bytes lie in one blob."""
    image, text = random.Random(7).randbytes(4_500_000), "what is this? é返\n"
    url, make_body = _IMAGES[api]
    sent: list[bytes] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        sent.append(request.content)
        return echo_nothing()

    with pt.query() as q, client(answer) as model:
        pt.declare("head", text[:4])
        for turn in (1, 2):
            pt.declare("rest", f"{text[4:]}{turn}")
            model.post(url, json=make_body(image, f"{text}{turn}"))
    assert len(sent[0]) > 6_000_000
    record = app.recorded.record(q.qid)
    for call, number in zip(record.calls, (1, 2), strict=True):
        assert texts(call) == [f"{text}{number}"]
        assert stored_body(app, q.qid, call) == sent[number - 1]
        assert call.request is not None
        assert call.request["parts"]["binary"] >= 6_000_000
    objects = [path for path in app.recorded.folder.rglob("*") if path.is_file()]
    (blob,) = [path for path in objects if "blobs" in path.parts]
    assert sum(path.stat().st_size for path in objects if path != blob) < 20_000
    assert {graded.verdict for graded in pt.grade(record).calls} == {"unknown"}


def echo_nothing() -> httpx2.Response:
    """An answer that says nothing."""
    return message("")


# References and deliveries


def test_a_span_refers_only_to_what_is_kept(app: Application, monkeypatch: pytest.MonkeyPatch) -> None:
    """Content has left the span, and there is room for it nowhere: no reference, and every event is counted as lost."""

    def full(*_: Any, **__: Any) -> None:
        raise SpoolFull

    monkeypatch.setattr(Spool, "append", full)
    given = json.dumps([{"role": "user", "parts": [{"type": "text", "content": "asked"}]}])
    with client() as model, app.model_span(**{"gen_ai.input.messages": given}):
        assert model.post(URL, json=body("asked")).status_code == 200
    monkeypatch.undo()
    attributes = app.span().attributes or {}
    assert "prompt_trace.ref" not in attributes
    result = pt.flush(20)
    assert (result.stored, result.spooled, set(result.reasons)) == (0, 0, {"spool_full"})
    assert result.lost >= 3


def test_a_store_that_refuses_costs_nothing_and_gets_it_all_later(
    make: Make, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """While the store refuses, requests go on at their pace, spans refer to what is kept here, and a flush says no."""
    (tmp_path / "not a folder").write_text("")
    app = make(str(tmp_path / "not a folder" / "store"))
    qids = []
    with client() as model:
        for number in range(20):
            with pt.query() as q, app.model_span():
                model.post(URL, json=body(f"asked {number}"))
            qids.append(q.qid)
    assert app.provider.force_flush(200) is False
    spans = [span for span in app.exporter.get_finished_spans() if span.name == "chat m"]
    assert all((span.attributes or {}).get("prompt_trace.ref") for span in spans)
    waiting = Records(pt.open_store(tmp_path / "elsewhere"), tmp_path / "spool")
    for number, qid in enumerate(qids):
        assert texts(waiting.get(qid).calls[0]) == [f"asked {number}"]
    (tmp_path / "not a folder").unlink()
    until(lambda: pt.flush(5).ok)
    store = pt.open_store(tmp_path / "not a folder" / "store")
    assert {qid for _, qid in store.qids()} == set(qids)


def test_a_flush_keeps_its_time_and_holds_nobody_up(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """The store's host takes connections and never answers: False within the budget, and meanwhile requests go on."""
    for name, value in (("AWS_ACCESS_KEY_ID", "none"), ("AWS_SECRET_ACCESS_KEY", "none"), ("NO_PROXY", "127.0.0.1")):
        monkeypatch.setenv(name, value)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        app = make(f"s3://bucket/prefix?endpoint_url=http://127.0.0.1:{silent.getsockname()[1]}&region=us-east-1")
        with client() as model:
            with pt.query():
                model.post(URL, json=body("before"))
            results: list[tuple[bool, float]] = []

            def flush() -> None:
                began = time.monotonic()
                results.append((app.provider.force_flush(600), time.monotonic() - began))

            thread = threading.Thread(target=flush)
            thread.start()
            slowest, asked = 0.0, 0
            while thread.is_alive():
                began = time.monotonic()
                with pt.query():
                    model.post(URL, json=body(f"meanwhile {asked}"))
                slowest, asked = max(slowest, time.monotonic() - began), asked + 1
            thread.join()
    ((ok, seconds),) = results
    assert ok is False
    assert 0.5 < seconds < 2.0
    assert asked > 20
    assert slowest < seconds


@contextlib.contextmanager
def _parting(folder: Path, what: str) -> Iterator[subprocess.Popen[str]]:
    env = without_settings()
    env["XDG_STATE_HOME"] = str(folder / "state")
    called = [sys.executable, "-m", "tests.wire.parting_application", what, folder / "store", folder / "spool"]
    pipes: dict[str, Any] = {"text": True, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(list(map(str, called)), cwd=ROOT, env=env, **pipes) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("what", ["fork and flush", "fork and leave"])
def test_forks_while_threads_ask(tmp_path: Path, what: str) -> None:
    """Two forks in the middle of it: 150 of 150 are kept, none twice and none torn, and no child waits for ever."""
    with _parting(tmp_path, what) as process:
        out, err = process.communicate(timeout=90)
    assert process.returncode == 0, err
    told = json.loads(out)
    assert len(set(told["qids"])) == 150
    assert told["threads"]
    store = pt.open_store(tmp_path / "store")
    left = drain(tmp_path / "spool", store)
    assert (left.problems, left.set_aside, left.alive) == ([], [], 0)
    assert (left.queries > 0) == (what == "fork and leave")
    seen: set[tuple[str, int]] = set()
    for qid in told["qids"] + told["threads"]:
        record = store.get(qid)
        assert record.problems == ()
        (call,) = record.calls
        assert record.query is not None
        assert record.query["question"] == texts(call)[0]
        assert not call.unfinished
        assert [event["kind"] for event in record.events] == ["query", "request", "response", "end"]
        identities = {(event["writer"], event["seq"]) for event in record.events}
        assert not identities & seen
        seen |= identities
    assert len({writer for writer, _ in seen}) == 3
    assert {qid for _, qid in store.qids()} == set(told["qids"] + told["threads"])


def test_a_fork_while_another_thread_holds_our_locks(tmp_path: Path) -> None:
    """In the child nobody gives them back: it asks, under sampled spans and dropped ones, without waiting for any."""
    with _parting(tmp_path, "fork under lock") as process:
        out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    told = json.loads(out)
    assert told["status"] == 0, err
    left = set(told["qids"]) - {qid for _, qid in pt.open_store(tmp_path / "store").qids()}
    assert left <= {told["qids"][0]}  # the parent's, which goes no further


def test_a_process_that_is_frozen_after_its_flush(tmp_path: Path) -> None:
    """Three queries and one flush of the provider: all is stored when it returns, before any timer has run."""
    with _parting(tmp_path, "freeze") as process:
        assert process.stdout is not None
        told = json.loads(process.stdout.readline())
        _, status = os.waitpid(process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        assert told["flushed"] is True
        store = pt.open_store(tmp_path / "store")
        assert {qid for _, qid in store.qids()} == set(told["qids"])
        assert all(store.get(qid).ends for qid in told["qids"])


# Calls that no span tells of, or more than one request


def _events(api: str) -> list[bytes]:
    answer = {"chat": replies.chat_stream, "responses": replies.response_stream, "messages": replies.messages_stream}
    return list(answer[api]().chunks)


class _Sse(httpx2.SyncByteStream):
    def __init__(self, chunks: list[bytes]) -> None:
        self._chunks = chunks

    def __iter__(self) -> Iterator[bytes]:
        yield from self._chunks


def _streaming(api: str) -> httpx2.Client:
    def answer(_: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, headers={"content-type": replies.SSE}, stream=_Sse(_events(api)))

    return httpx2.Client(transport=httpx2.MockTransport(answer))


def _helper_of_chat(reading: int) -> None:
    model = openai.OpenAI(api_key="k", base_url="http://model.test/v1", http_client=_streaming("chat"))
    asked: Any = [{"role": "user", "content": "asked é"}]
    with model, model.chat.completions.stream(model="m", messages=asked) as stream:
        for number, _ in enumerate((event for event in stream if event.type == "content.delta" and event.delta), 1):
            if number == reading:
                break


def _helper_of_responses(reading: int) -> None:
    model = openai.OpenAI(api_key="k", base_url="http://model.test/v1", http_client=_streaming("responses"))
    with model, model.responses.stream(model="m", input="asked é") as stream:
        for number, _ in enumerate((event for event in stream if event.type == "response.output_text.delta"), 1):
            if number == reading:
                break


def _text_stream(reading: int) -> None:
    """As a client's text stream reads: the texts alone, out of the lines of the events."""
    url, sent = "http://model.test/v1/messages", {"model": "m", "max_tokens": 9, "stream": True}
    sent["messages"] = [{"role": "user", "content": "asked é"}]
    with _streaming("messages") as model, model.stream("POST", url, json=sent) as response:
        parts = (line for line in response.iter_lines() if "text_delta" in line)
        for number, _ in enumerate(parts, 1):
            if number == reading:
                break


@pytest.mark.parametrize("reading", [1, 2, 100])
@pytest.mark.parametrize("helper", [_helper_of_chat, _helper_of_responses, _text_stream], ids=lambda h: h.__name__[1:])
def test_a_helper_that_streams_past_every_wrapper(
    app: Application, helper: Callable[[int], None], reading: int
) -> None:
    """No instrumentation sees it: the prompt is there and its census too, and the answer as far as it was read."""
    with pt.query() as q:
        pt.declare("user", "asked")
        pt.declare("accent", " é")
        helper(reading)
    call = app.call(q.qid)
    assert texts(call) == ["asked é"]
    (graded,) = pt.grade(app.recorded.record(q.qid)).calls
    assert graded.census is not None
    assert graded.census.unaccounted == 0
    assert call.response is not None
    assert call.response["output"] == "".join(replies.WORDS[:reading])
    assert call.unfinished == (reading < len(replies.WORDS))


def test_calls_without_any_span_are_counted_as_such(app: Application, tmp_path: Path) -> None:
    """A path without a model-call span: its record is graded like any other, and counted as one without a span."""
    tracing = Tracing(tmp_path / "spans.jsonl")
    with client() as model:
        model.post(URL, json=body("nobody opened anything"))
        with pt.query() as q:
            pt.declare("user", "declared ")
            pt.declare("more", "in full")
            model.post(URL, json=body("declared in full"))
    with tracing.provider.get_tracer("web").start_as_current_span("GET /"):
        pass
    report = app.census(tracing.close())
    assert {row.qid: (row.verdict, row.span_joined) for row in report.rows}[q.qid] == ("exact", "fail")
    assert len(report.rows) == report.joins["payload_without_span"] == 2
    assert {lost.qid for lost in report.payloads_without_span} == {row.qid for row in report.rows}


def test_many_calls_with_one_long_beginning(app: Application) -> None:
    """81 calls of one query are numbered and counted each by itself; what they share takes the store's room once."""
    beginning = "".join(random.Random(3).choices("abcdefghij klmn", k=47_000))
    with pt.query() as q, client() as model:
        pt.declare("system", beginning, trust="policy")
        for turn in range(81):
            text = f"turn {turn}"
            pt.declare("user", text, trust="user")
            sent = [{"role": "system", "content": beginning}, {"role": "user", "content": text}]
            model.post(URL, json={"model": "m", "messages": sent})
    record = app.recorded.record(q.qid)
    assert [call.number for call in record.calls] == list(range(1, 82))
    assert [texts(call)[1] for call in record.calls] == [f"turn {turn}" for turn in range(81)]
    grades = pt.grade(record).calls
    assert {graded.verdict for graded in grades} == {"exact"}
    counts = [(graded.census.total, graded.census.covered) for graded in grades if graded.census is not None]
    assert counts == [(47_000 + len(f"turn {turn}"),) * 2 for turn in range(81)]
    assert sum(path.stat().st_size for path in app.recorded.folder.rglob("*") if path.is_file()) < 4 * 47_000
    report = app.census()
    assert sorted((row.qid, row.number) for row in report.rows) == [(q.qid, turn) for turn in range(1, 82)]


def _refusing(*statuses: int) -> Callable[[httpx2.Request], httpx2.Response]:
    left = list(statuses)

    def answer(request: httpx2.Request) -> httpx2.Response:
        status = left.pop(0)
        return echo(request) if status == 200 else httpx2.Response(status, headers={"retry-after-ms": "1"}, json={})

    return answer


@pytest.mark.parametrize("place", ["query", "span", "call", "entry"])
def test_the_clients_retries_are_attempts_and_the_applications_are_calls(app: Application, place: str) -> None:
    """429, 429, 200 is one call wherever it is sent; the same request sent again by the application is another one."""
    http = client(_refusing(429, 429, 200, 200))
    with openai.OpenAI(api_key="k", base_url="http://model.test/v1", http_client=http, max_retries=2) as model:
        scope: Any = app.tracer.start_as_current_span("GET /") if place == "entry" else pt.query()
        with scope as opened:
            for _ in range(2):
                within: Any = contextlib.nullcontext()
                if place == "span":
                    within = app.model_span()
                elif place == "call":
                    within = opened.call(prompt="again")
                with within:
                    model.chat.completions.create(model="m", messages=[{"role": "user", "content": "again"}])
    (record,) = app.recorded.records()
    first, second = record.calls
    assert [attempt.status for attempt in first.attempts] == [429, 429, 200]
    assert [attempt.status for attempt in second.attempts] == [200]
    assert first.request is not None
    assert second.request is not None
    assert first.request["sha256"] == second.request["sha256"]
    assert len(app.census().rows) == 2


def test_batches_are_declared_without_spans_and_answered_later(app: Application, tmp_path: Path) -> None:
    """Three requests of one batch file: each under the query's id and its own, with no span and no usage."""
    tracing = Tracing(tmp_path / "spans.jsonl")
    custom = [f"request-{number}" for number in range(3)]
    with pt.query(question="nightly batch") as q:
        for name in custom:
            prompt = pt.Prompt().add("task", "Summarise: ", trust="policy").add("document", f"text of {name}")
            with q.call(model="m", prompt=prompt, custom_id=name):
                pass
    record = app.recorded.record(q.qid)
    by_id = {_custom_id(call): call for call in record.calls}
    assert list(by_id) == custom
    for name, call in by_id.items():
        assert texts(call) == [f"Summarise: text of {name}"]
        assert call.unfinished
    for graded in pt.grade(record).calls:
        assert graded.census is not None
        assert graded.census.unaccounted == 0
        checks = {check.name: check.status for check in graded.checks}
        assert checks["token_identity"] == "unknown"
    report = app.census(tracing.close())
    assert [row.span_joined for row in report.rows] == ["fail"] * 3
    assert report.joins == {"payload_without_span": 3}


def _custom_id(call: Call) -> str:
    assert call.request is not None
    parameters: Mapping[str, Any] = call.request["parameters"]
    return str(parameters["custom_id"])
