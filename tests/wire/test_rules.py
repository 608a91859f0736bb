"""Which requests are looked at: by path, shape and rule. Everything else is left alone, and nothing of it is kept."""

from __future__ import annotations

import json
from typing import Any

import pytest

from otel_prompt_trace.core.bodies.apis import APIS, BY_NAME, api_of, model_in_path
from otel_prompt_trace.exceptions import ConfigurationError
from otel_prompt_trace.wire.rules import Rules, body_of

VERTEX = "/v1/projects/p/locations/europe-west1/publishers"
ARN = (
    "arn%3Aaws%3Abedrock%3Aus-east-1%3A123456789012%3Ainference-profile%2Fus.anthropic.claude-3-5-haiku-20241022-v1%3A0"
)

PATHS = [
    ("/v1/chat/completions", "openai.chat", None),  # OpenAI, vLLM, LM Studio, llama.cpp, Ollama, LiteLLM
    ("/v1/chat/completions/", "openai.chat", None),
    ("/api/v1/chat/completions", "openai.chat", None),  # OpenRouter
    ("/openai/v1/chat/completions", "openai.chat", None),  # Groq, Azure's newer form
    ("/openai/deployments/gpt-4o/chat/completions", "openai.chat", "gpt-4o"),  # Azure
    ("/v1beta/openai/chat/completions", "openai.chat", None),  # Google's compatible form
    ("/v1/projects/p/locations/l/endpoints/openapi/chat/completions", "openai.chat", None),  # Vertex
    ("/compatibility/v1/chat/completions", "openai.chat", None),  # Cohere
    ("/chat/completions", "openai.chat", None),  # DeepSeek, Perplexity
    ("/v1/agents/completions", "openai.chat", None),  # Mistral
    ("/v1/completions", "openai.completions", None),
    ("/openai/deployments/davinci-002/completions", "openai.completions", "davinci-002"),
    ("/v1/fim/completions", "openai.completions", None),  # Mistral
    ("/v1/responses", "openai.responses", None),
    ("/openai/v1/responses", "openai.responses", None),
    ("/openai/responses", "openai.responses", None),
    ("/v1/messages", "anthropic.messages", None),
    ("/anthropic/v1/messages", "anthropic.messages", None),
    (f"{VERTEX}/anthropic/models/claude-3-5-sonnet@20240620:rawPredict", "anthropic.messages",
     "claude-3-5-sonnet@20240620"),
    (f"{VERTEX}/anthropic/models/claude-3-5-sonnet@20240620:streamRawPredict", "anthropic.messages",
     "claude-3-5-sonnet@20240620"),
    ("/v1beta/models/gemini-2.0-flash:generateContent", "google.generate", "gemini-2.0-flash"),
    ("/v1beta/models/gemini-2.0-flash:streamGenerateContent", "google.generate", "gemini-2.0-flash"),
    (f"{VERTEX}/google/models/gemini-1.5-pro:generateContent", "google.generate", "gemini-1.5-pro"),
    ("/v1beta/tunedModels/mine-1:generateContent", "google.generate", None),
    ("/model/anthropic.claude-3-5-sonnet-20241022-v2:0/converse", "bedrock.converse",
     "anthropic.claude-3-5-sonnet-20241022-v2:0"),
    ("/model/anthropic.claude-3-5-sonnet-20241022-v2%3A0/converse", "bedrock.converse",
     "anthropic.claude-3-5-sonnet-20241022-v2:0"),
    ("/model/amazon.nova-lite-v1%3a0/converse-stream", "bedrock.converse", "amazon.nova-lite-v1:0"),
    (f"/model/{ARN}/converse", "bedrock.converse",
     "arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.anthropic.claude-3-5-haiku-20241022-v1:0"),
    ("/model/amazon.titan-text-express-v1/invoke", "bedrock.invoke", "amazon.titan-text-express-v1"),
    ("/model/meta.llama3-8b-instruct-v1%3A0/invoke-with-response-stream", "bedrock.invoke",
     "meta.llama3-8b-instruct-v1:0"),
    ("/api/chat", "ollama.chat", None),
    ("/api/generate", "ollama.generate", None),
    ("/ollama/api/chat", "ollama.chat", None),
    ("/v1/chat", "cohere.chat", None),
    ("/v2/chat", "cohere.chat", None),
]  # fmt: skip

NO_MODEL = [
    "", "/", "/v1", "/v1/embeddings", "/openai/deployments/e/embeddings", "/v1/messages/count_tokens",
    "/v1/messages/batches", "/v1/messages/batches/b1/results", "/v1/threads", "/v1/threads/t/runs",
    "/v1/responses/resp_1", "/v1/responses/resp_1/cancel", "/v1/responses/resp_1/input_items",
    "/v1/chat/completions/chatcmpl-1", "/v1/chat/completions/chatcmpl-1/messages/x", "/v1/audio/transcriptions",
    "/v1/images/generations", "/v1/moderations", "/v1/models", "/v1/files", "/v1/batches", "/v1/realtime/sessions",
    "/v1beta/models/gemini-2.0-flash:countTokens", "/v1beta/models/text-embedding-004:embedContent",
    "/v1beta/models/text-embedding-004:batchEmbedContents", "/v1beta/cachedContents", "/v1/models/x/predictions",
    "/model/m/count-tokens", "/model/m/async-invoke", "/model/a/b/converse", "/guardrail/g/version/1/apply",
    "/api/embed", "/api/embeddings", "/api/tags", "/api/pull", "/v2/embed", "/v2/rerank", "/v1/tokenize", "/mcp",
    "/v1/chatter", "/v1/chat/history", "/v1/traces", "/mymessages", "/v1/incompletions", "/chat/completionsx",
]  # fmt: skip

BODIES: dict[str, list[dict[str, Any]]] = {
    "openai.chat": [{"messages": []}],
    "openai.completions": [{"prompt": "x"}, {"prompt": ["a", "b"]}, {"prompt": [1, 2]}],
    "openai.responses": [{"input": "x"}, {"input": []}, {"prompt": {"id": "p"}}],
    "anthropic.messages": [
        {"messages": [], "model": "m", "max_tokens": 1},
        {"messages": [], "anthropic_version": "vertex-2023-10-16"},
    ],
    "google.generate": [{"contents": []}, {"contents": {"parts": []}}, {"contents": "x"}],
    "bedrock.converse": [{"messages": []}],
    "bedrock.invoke": [
        {"messages": []},
        {"prompt": "x"},
        {"inputText": "x", "textGenerationConfig": {}},
        {"message": "x"},
    ],
    "ollama.chat": [{"messages": []}],
    "ollama.generate": [{"model": "m", "prompt": "x"}, {"model": "m"}],
    "cohere.chat": [{"message": "x"}, {"messages": []}],
}
OTHERS: dict[str, list[Any]] = {
    "openai.chat": [{"prompt": "x"}, {"messages": "x"}],
    "openai.completions": [{"messages": []}, {"prompt": {}}, {"prompt": "x", "messages": []}],
    "openai.responses": [{"messages": []}, {"input": {}}, {"prompt": "x"}],
    "anthropic.messages": [
        {"role": "user", "content": "a message of a thread"},
        {"messages": [{"to": "+49", "text": "of some other service"}]},
        {"messages": {}, "model": "m"},
    ],
    "google.generate": [{"content": {}}],
    "bedrock.converse": [{"prompt": "x"}],
    "bedrock.invoke": [{"inputText": "to embed"}, {"texts": ["to embed"]}, {"query": "q", "documents": []}],
    "ollama.chat": [{"model": "m"}],
    "ollama.generate": [{"prompt": "x"}, {"model": "m", "prompt": []}],
    "cohere.chat": [{"texts": []}],
}


def no_route() -> str:
    raise AssertionError("nobody asked for a route")


def chosen(rules: Rules, host: str, route: str = "") -> bool:
    return rules.api("POST", host, "/v1/chat/completions", lambda: route) is not None


@pytest.mark.parametrize(("path", "name", "model"), PATHS)
def test_a_path_of_a_model(path: str, name: str, model: str | None) -> None:
    """Of every API, wherever it is mounted, with the model where the path names it."""
    api = Rules().api("POST", "any.example", path, no_route)
    assert api is not None
    assert api.name == name
    assert model_in_path(path) == model


@pytest.mark.parametrize("path", NO_MODEL)
def test_any_other_path(path: str) -> None:
    """Is left alone: what embeds, counts, lists, stores or only sounds like it."""
    assert api_of(path) is None


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "HEAD", "post", ""])
def test_any_other_method(method: str) -> None:
    """A model is asked by POST."""
    assert Rules().api(method, "h", "/v1/chat/completions", no_route) is None


def test_every_api_is_tried() -> None:
    """By paths, by bodies of its shape and by others."""
    assert {api.name for api in APIS} == {name for _, name, _ in PATHS} == BODIES.keys() == OTHERS.keys()


@pytest.mark.parametrize("name", BY_NAME)
def test_the_shape_must_fit_the_path(name: str) -> None:
    """Of a body of another shape nothing is kept; nor of what is no JSON object."""
    for body in BODIES[name]:
        assert body_of(BY_NAME[name], json.dumps(body).encode()) == body
    for body in (*OTHERS[name], {}, [], [{"messages": []}], None, 7, "messages"):
        assert body_of(BY_NAME[name], json.dumps(body).encode()) is None
    for raw in (b"", b"no JSON", b"\xff\xfe\x00", b'{"messages": [', b'{"messages": []} x', b'{"messages": [NaN]}'):
        assert body_of(BY_NAME[name], raw) is None


def test_what_hosts_take_although_it_is_no_strict_json() -> None:
    """A lone surrogate's escape, huge numbers and deep nesting are no reason to miss a request."""
    for odd in (r'"\ud83d"', "9" * 5000, "[" * 5000 + "]" * 5000, "1e999"):
        body = body_of(BY_NAME["openai.chat"], f'{{"messages": [], "x": {odd}}}'.encode())
        assert body is not None
        assert body["messages"] == []


def test_a_thread_of_messages_is_no_request_to_a_model() -> None:
    """Its path ends like one; its shape does not fit."""
    api = api_of("/v1/threads/thread_1/messages")
    assert api is None or body_of(api, b'{"role": "user", "content": "x"}') is None


@pytest.mark.parametrize(
    ("rule", "matching", "other"),
    [
        ("host:api.openai.com", ["api.openai.com", "api.openai.com:443", "API.OpenAI.com"], ["openai.com"]),
        ("API.OpenAI.com", ["api.openai.com"], ["api.openai.com.evil.example"]),
        ("*.internal", ["llm.internal", "llm.internal:8000"], ["internal", "internal.example"]),
        ("localhost:8000", ["localhost:8000"], ["localhost", "localhost:8001"]),
        ("host:localhost:*", ["localhost:8000"], ["localhost"]),
        (" host: 127.0.0.? ", ["127.0.0.1:11434", "127.0.0.2"], ["127.0.1.1"]),
        ("host:[[]::1]", ["[::1]", "[::1]:8000"], ["::2"]),
        ("api.openai.com", ["user:password@api.openai.com"], ["api.openai.com@evil.example"]),
    ],
)  # fmt: skip
def test_rules_for_hosts(rule: str, matching: list[str], other: list[str]) -> None:
    """With or without its port, in any case; allowed is what matches, denied as well."""
    for host in matching:
        assert chosen(Rules(allow=[rule]), host)
        assert not chosen(Rules(deny=[rule]), host)
    for host in other:
        assert not chosen(Rules(allow=[rule]), host)
        assert chosen(Rules(deny=[rule]), host)


def test_rules_for_services() -> None:
    """The service is this process's own."""
    assert chosen(Rules(allow=["service:shop-*"], service="shop-eu"), "h")
    assert not chosen(Rules(allow=["service:shop-*"], service="billing"), "h")
    assert not chosen(Rules(allow=["service:shop-*"]), "h")
    assert not chosen(Rules(deny=["service:shop-*"], service="shop-eu"), "h")
    assert chosen(Rules(deny=["service:Shop-*"], service="shop-eu"), "h")
    assert not chosen(Rules(deny=["service:billing"]), "h"), "whose service is not known yet may be the denied one"
    assert chosen(Rules(deny=["host:other"]), "h")


def test_rules_for_routes() -> None:
    """The route is the one of the request that the application answers; where it is not known a rule may deny it."""
    rules = Rules(deny=["route:/admin/*"])
    assert not chosen(rules, "h", "/admin/users")
    assert chosen(rules, "h", "/ask")
    assert not chosen(rules, "h", "")
    assert chosen(Rules(deny=["host:other"]), "h", "")
    only = Rules(allow=["route:/ask"])
    assert (chosen(only, "h", "/ask"), chosen(only, "h", "/"), chosen(only, "h")) == (True, False, False)


def test_several_rules() -> None:
    """One that allows is enough; one that denies is, too, and it wins."""
    rules = Rules(allow=["host:a", "route:/b"], deny=["host:c", "route:/d"])
    assert chosen(rules, "a", "/c")
    assert not chosen(rules, "a")
    assert chosen(rules, "x", "/b")
    assert not chosen(rules, "x")
    assert not chosen(rules, "a", "/d")
    assert not chosen(rules, "c", "/b")


@pytest.mark.parametrize("rule", ["path:/x", "Host:a", "services:a", "https://api.openai.com", "host:", ":", ""])
def test_a_rule_that_could_never_match_is_an_error(rule: str) -> None:
    """Else somebody would rely on it."""
    with pytest.raises(ConfigurationError, match="rule"):
        Rules(deny=[rule])


def test_further_paths() -> None:
    """A pattern and the API that is spoken there; it goes before the paths that are known."""
    rules = Rules(apis=["/my/llm/*=openai.chat", "*/generate = ollama.generate", "/v1/messages=openai.chat"])
    for path, name in [
        ("/my/llm/x", "openai.chat"),
        ("/a/generate", "ollama.generate"),
        ("/v1/messages", "openai.chat"),
    ]:
        api = rules.api("POST", "h", path, no_route)
        assert api is not None
        assert api.name == name
    assert rules.api("POST", "h", "/my/other", no_route) is None


@pytest.mark.parametrize("text", ["/my/llm", "/my/llm=", "/my/llm=openai", "my/llm=openai.chat", "=openai.chat", ""])
def test_further_paths_that_can_not_be_used(text: str) -> None:
    """The error names the variable and the APIs that there are."""
    with pytest.raises(ConfigurationError, match=r"PROMPT_TRACE_WIRE_APIS.*openai\.chat"):
        Rules(apis=[text])
