"""The stand-in server under the real OpenAI SDK, and under clients that send nonsense."""

from __future__ import annotations

import asyncio
import concurrent.futures
import http.client
import json
import threading
import time
from urllib.parse import urlsplit

import openai
import pytest

from otel_prompt_trace import tokens
from otel_prompt_trace.demo import model_server
from otel_prompt_trace.demo.conversation import preamble
from otel_prompt_trace.demo.model_server import ModelServer
from otel_prompt_trace.demo.stand_in_model import NOTICE
from otel_prompt_trace.exceptions import MissingDependency

pytestmark = pytest.mark.integration

MESSAGES = [
    {"role": "system", "content": "Answer from the notes."},
    {"role": "user", "content": "Tea is at four. Größe 42 costs £5.\n\nWhen is tea?"},
]
ANSWER = NOTICE + "Tea is at four."


@pytest.fixture
def server():
    with ModelServer(clock=lambda: 1_700_000_000.9) as running:
        yield running


@pytest.fixture
def client(server):
    """The SDK against the stand-in; no proxy of the environment comes between, and no failure is tried again."""
    http_client = openai.DefaultHttpxClient(trust_env=False)
    with openai.OpenAI(base_url=server.base_url, api_key="unused", http_client=http_client, max_retries=0) as opened:
        yield opened


def post(server, body, path="/v1/chat/completions", method="POST", headers=None):
    """Status, headers and JSON of one request, made without the SDK."""
    connection = http.client.HTTPConnection("127.0.0.1", urlsplit(server.base_url).port, timeout=10)
    try:
        connection.request(method, path, body=body, headers=headers or {})
        response = connection.getresponse()
        return response.status, response.headers, json.loads(response.read())
    finally:
        connection.close()


def test_it_says_that_it_is_a_stand_in(client):
    """Header, model, fingerprint and the text's first words all say that no model answered."""
    raw = client.chat.completions.with_raw_response.create(model="stand-in-1", messages=MESSAGES)
    completion = raw.parse()
    assert raw.headers["x-stand-in"] == "true"
    assert (completion.model, completion.system_fingerprint) == ("stand-in-1", "stand-in")
    assert completion.choices[0].message.content == ANSWER
    assert completion.choices[0].message.role == "assistant"
    assert completion.choices[0].finish_reason == "stop"
    assert completion.created == 1_700_000_000
    assert client.models.list().data[0].id == client.models.retrieve("stand-in-1").id == "stand-in-1"


def test_it_listens_on_loopback_only(server):
    """The address is 127.0.0.1, with a port of the system's choice, and /v1 as OpenAI's has."""
    parts = urlsplit(server.base_url)
    assert (parts.scheme, parts.hostname, parts.path) == ("http", "127.0.0.1", "/v1")
    assert parts.port > 0


def test_usage_is_measured_and_adds_up(client):
    """Prompt and completion are counted in o200k_base, and the total is their sum."""
    usage = client.chat.completions.create(model="stand-in-1", messages=MESSAGES).usage
    texts = [text for message in MESSAGES for text in message.values()]
    assert usage.prompt_tokens == sum(tokens.count(text, "o200k_base") for text in texts) + 2 * 3 + 3
    assert usage.completion_tokens == tokens.count(ANSWER, "o200k_base")
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens
    assert usage.prompt_tokens_details.cached_tokens == 0


def test_the_second_long_request_finds_its_prefix_cached(client):
    """The house rules are no cached tokens at first; under another question their prefix is, within the prompt."""

    def ask(question):
        messages = [{"role": "system", "content": preamble()}, {"role": "user", "content": question}]
        return client.chat.completions.create(model="stand-in-1", messages=messages).usage

    rules = tokens.count(preamble(), "o200k_base")
    first, second = ask("Who pays for tolls?"), ask("May my dog visit?")
    assert first.prompt_tokens_details.cached_tokens == 0
    cached = second.prompt_tokens_details.cached_tokens
    assert cached % 128 == 0
    assert rules - 128 < cached <= second.prompt_tokens


@pytest.mark.parametrize("include_usage", [False, True])
def test_a_stream_is_the_same_answer(client, include_usage):
    """The deltas concatenate to the whole answer; the usage comes last, and only if asked for."""
    whole = client.chat.completions.create(model="stand-in-1", messages=MESSAGES)
    options = {"stream_options": {"include_usage": True}} if include_usage else {}
    with client.chat.completions.create(model="stand-in-1", messages=MESSAGES, stream=True, **options) as stream:
        assert stream.response.headers["x-stand-in"] == "true"
        chunks = list(stream)
    content = [chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices]
    assert "".join(content) == ANSWER
    assert len(list(filter(None, content))) > 5
    reasons = [choice.finish_reason for chunk in chunks for choice in chunk.choices]
    assert reasons == [None] * (len(reasons) - 1) + ["stop"]
    assert len({chunk.id for chunk in chunks}) == 1
    assert {chunk.system_fingerprint for chunk in chunks} == {"stand-in"}
    usages = [chunk.usage for chunk in chunks]
    assert usages == [None] * (len(usages) - 1) + [whole.usage if include_usage else None]


@pytest.mark.parametrize("include_usage", [False, True])
def test_events_on_the_wire(server, include_usage):
    """Each event is a data line and a blank one, the last is [DONE]; usage is null before the end, or nowhere."""
    options = {"stream_options": {"include_usage": True}} if include_usage else {}
    body = json.dumps({"model": "stand-in-1", "messages": MESSAGES, "stream": True, **options})
    connection = http.client.HTTPConnection("127.0.0.1", urlsplit(server.base_url).port, timeout=10)
    connection.request("POST", "/v1/chat/completions", body=body)
    response = connection.getresponse()
    *events, end = response.read().decode().split("\n\n")
    connection.close()
    assert response.headers["Content-Type"] == "text/event-stream"
    assert (events.pop(), end) == ("data: [DONE]", "")
    chunks = [json.loads(event.removeprefix("data: ")) for event in events]
    assert {chunk["object"] for chunk in chunks} == {"chat.completion.chunk"}
    if include_usage:
        last = chunks.pop()
        assert last["choices"] == []
        assert last["usage"]["total_tokens"] > 0
        assert [chunk["usage"] for chunk in chunks] == [None] * len(chunks)
    else:
        assert not any("usage" in chunk for chunk in chunks)


def test_the_async_client_is_served_too(server):
    """Whole and streamed, through the SDK's asynchronous client, several at once."""

    async def run():
        http_client = openai.DefaultAsyncHttpxClient(trust_env=False)
        async with openai.AsyncOpenAI(base_url=server.base_url, api_key="unused", http_client=http_client) as client:
            create = client.chat.completions.create
            whole = await asyncio.gather(*(create(model="stand-in-1", messages=MESSAGES) for _ in range(5)))
            stream = await create(model="stand-in-1", messages=MESSAGES, stream=True)
            streamed = [chunk.choices[0].delta.content or "" async for chunk in stream]
            return [completion.choices[0].message.content for completion in whole], "".join(streamed)

    assert asyncio.run(run()) == ([ANSWER] * 5, ANSWER)


def test_requests_are_kept_byte_for_byte(server, client):
    """Every body is there as it was sent, spaces and malformed ones included, in the order of arrival."""
    client.chat.completions.create(model="stand-in-1", messages=MESSAGES)
    post(server, b' {"torn": \xff\r\n')
    first, second = server.requests
    assert json.loads(first)["messages"] == MESSAGES
    assert second == b' {"torn": \xff\r\n'


def test_many_clients_at_once(server):
    """Thirty-two requests in parallel are all answered, each with an id of its own."""
    body = json.dumps({"model": "stand-in-1", "messages": MESSAGES}).encode()
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda _: post(server, body), range(32)))
    assert {status for status, _, _ in answers} == {200}
    assert len({answer["id"] for _, _, answer in answers}) == len(server.requests) == 32


def test_text_parts_names_and_limits_are_honoured(client):
    """Content may be a list of text parts, messages may name their author, and max_tokens cuts the answer."""
    parts = [{"type": "text", "text": "Tea is at "}, {"type": "text", "text": "four.\n\nWhen is tea?"}]
    completion = client.chat.completions.create(
        model="stand-in-1",
        messages=[{"role": "developer", "content": "Answer."}, {"role": "user", "name": "anna", "content": parts}],
        max_completion_tokens=6,
        temperature=0,
        seed=1,
    )
    assert completion.choices[0].finish_reason == "length"
    assert ANSWER.startswith(completion.choices[0].message.content)
    assert completion.usage.completion_tokens <= 6


@pytest.mark.parametrize(
    ("change", "param"),
    [
        ({"tools": []}, "tools"),
        ({"response_format": {"type": "json_object"}}, "response_format"),
        ({"n": 2}, "n"),
        ({"messages": []}, "messages"),
        ({"messages": "hello"}, "messages"),
        ({"messages": ["hello"]}, "messages[0]"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "user"}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": "x", "name": 1}]}, "messages[0].name"),
        ({"messages": [{"role": "assistant", "content": "x", "tool_calls": []}]}, "messages[0].tool_calls"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "messages[0].content[0]"),
        ({"stream": "yes"}, "stream"),
        ({"stream_options": {"include_usage": True}}, "stream_options"),
        ({"stream": True, "stream_options": {"include_usage": 1}}, "stream_options"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_completion_tokens": True}, "max_completion_tokens"),
        ({"model": None}, "model"),
    ],
)
def test_what_it_cannot_honour_is_refused(server, change, param):
    """A request that a real model might answer otherwise, or no model would take, is a 400 that names its field."""
    body = json.dumps({"model": "stand-in-1", "messages": MESSAGES, **change})
    status, headers, answer = post(server, body)
    assert status == 400
    assert headers["x-stand-in"] == "true"
    assert answer["error"].keys() == {"message", "type", "param", "code"}
    assert (answer["error"]["type"], answer["error"]["param"]) == ("invalid_request_error", param)


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'"x"', b"\xff\xfe", b"[" * 100_000], ids=range(6))
def test_a_malformed_body_is_a_400(server, body):
    """A body that is no JSON object, down to one nested beyond reason, is refused in OpenAI's error shape."""
    status, _, answer = post(server, body)
    assert status == 400
    assert answer["error"]["type"] == "invalid_request_error"
    assert "JSON body" in answer["error"]["message"]


def test_the_sdk_raises_its_own_errors(client):
    """The SDK reads the refusals: a bad request, and a model that is not there."""
    with pytest.raises(openai.BadRequestError, match="tools"):
        client.chat.completions.create(model="stand-in-1", messages=MESSAGES, tools=[{"type": "function"}])
    with pytest.raises(openai.NotFoundError, match="only 'stand-in-1'") as caught:
        client.chat.completions.create(model="gpt-4o", messages=MESSAGES)
    assert caught.value.code == "model_not_found"


@pytest.mark.parametrize(
    ("method", "path"), [("POST", "/v1/completions"), ("GET", "/v1/chat/completions"), ("GET", "/v1/models/gpt-4o")]
)
def test_other_addresses_are_not_found(server, method, path):
    """Anything but the two endpoints is a 404 of the same shape, and no completion request."""
    status, headers, answer = post(server, b"{}" if method == "POST" else None, path, method)
    assert (status, headers["x-stand-in"], answer["error"]["code"]) == (404, "true", "unknown_url")
    assert server.requests == []


@pytest.mark.parametrize(("length", "status"), [("-1", 411), ("x", 411), (str(2**40), 413)])
def test_a_false_length_is_refused_unread(server, length, status):
    """A length that is none, or beyond the bound, is answered without waiting for a body."""
    connection = http.client.HTTPConnection("127.0.0.1", urlsplit(server.base_url).port, timeout=10)
    connection.putrequest("POST", "/v1/chat/completions")
    connection.putheader("Content-Length", length)
    connection.endheaders()
    response = connection.getresponse()
    assert response.status == status
    assert json.loads(response.read())["error"]["type"] == "invalid_request_error"
    connection.close()


def test_a_text_the_tokenizer_gives_up_on_is_refused(server, monkeypatch):
    """Usage that can't be measured is an error, and the server goes on."""
    body = json.dumps({"model": "stand-in-1", "messages": MESSAGES})
    with monkeypatch.context() as patch:
        patch.setattr(tokens, "encode", lambda text, encoding: None)
        status, _, answer = post(server, body)
    assert (status, answer["error"]["param"]) == (400, "messages")
    assert post(server, body)[0] == 200


def test_a_client_that_leaves_early_disturbs_nobody(server, client, capfd):
    """A stream of 20 MB, closed after its first event, leaves no trace on the terminal, and the next is served."""
    messages = [{"role": "user", "content": "tea " * 100_000 + "is at four.\n\nWhen is tea?"}]
    with client.chat.completions.create(model="stand-in-1", messages=messages, stream=True) as stream:
        next(iter(stream))
    deadline = time.monotonic() + 30
    while any("process_request_thread" in thread.name for thread in threading.enumerate()):
        assert time.monotonic() < deadline, "the handler of the closed stream did not end"
        time.sleep(0.01)
    assert client.chat.completions.create(model="stand-in-1", messages=MESSAGES).choices
    assert capfd.readouterr() == ("", "")


def test_it_ends_with_its_block():
    """Outside the block there is no address, no thread and no open port; the requests stay."""
    server = ModelServer()
    with pytest.raises(RuntimeError, match="with block"):
        _ = server.base_url
    with server:
        port = urlsplit(server.base_url).port
        post(server, b"{}")
    assert "stand-in-model" not in {thread.name for thread in threading.enumerate()}
    with pytest.raises(ConnectionRefusedError):
        http.client.HTTPConnection("127.0.0.1", port, timeout=10).connect()
    assert server.requests == [b"{}"]


def test_without_a_tokenizer_it_does_not_start(monkeypatch):
    """Where nothing can be counted the error names the extra to install."""
    monkeypatch.setattr(model_server.tokens, "prepare", lambda encoding: False)
    with pytest.raises(MissingDependency, match="tokens"):
        ModelServer()
