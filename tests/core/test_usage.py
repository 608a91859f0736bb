"""Token usage, in the dialects in which providers report it."""

from __future__ import annotations

from typing import Any

import pytest

from otel_prompt_trace.core.usage import normalize


@pytest.mark.parametrize(
    ("dialect", "usage", "input_tokens", "cached"),
    [
        (
            "Anthropic: cached tokens are not in the count",
            {"input_tokens": 7, "cache_read_input_tokens": 9800, "cache_creation_input_tokens": 0, "output_tokens": 3},
            9807,
            9800,
        ),
        (
            "Anthropic, first call: tokens written to the cache are not in the count either",
            {"input_tokens": 7, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 9800, "output_tokens": 3},
            9807,
            0,
        ),
        (
            "OpenAI chat: cached tokens are part of the count",
            {"prompt_tokens": 9807, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 9800}},
            9807,
            9800,
        ),
        (
            "OpenAI responses",
            {"input_tokens": 9807, "output_tokens": 3, "input_tokens_details": {"cached_tokens": 9800}},
            9807,
            9800,
        ),
        (
            "a flat count of cached tokens",
            {"prompt_tokens": 9807, "completion_tokens": 3, "cached_tokens": 9800},
            9807,
            9800,
        ),
        (
            "a proxy that adds Anthropic's fields to OpenAI's count",
            {"prompt_tokens": 9807, "completion_tokens": 3, "cache_read_input_tokens": 9800},
            9807,
            9800,
        ),
        (
            "a proxy that speaks both dialects at once",
            {"prompt_tokens": 9807, "input_tokens": 9807, "output_tokens": 3, "cache_read_input_tokens": 9800},
            9807,
            9800,
        ),
        (
            "a cached count beside a total that leaves it out: it is part of the count",
            {"input_tokens": 9807, "output_tokens": 3, "total_tokens": 9810, "cache_read_input_tokens": 9800},
            9807,
            9800,
        ),
        (
            "DeepSeek names what was in its cache and what was not",
            {"prompt_tokens": 9807, "completion_tokens": 3, "prompt_cache_hit_tokens": 9800},
            9807,
            9800,
        ),
        ("Google", {"promptTokenCount": 9807, "candidatesTokenCount": 3}, 9807, None),
        (
            "Google: cached tokens are part of the count, thoughts no part of the candidates'",
            {
                "promptTokenCount": 9807,
                "candidatesTokenCount": 1,
                "thoughtsTokenCount": 2,
                "cachedContentTokenCount": 9800,
            },
            9807,
            9800,
        ),
        (
            "Google, as its SDK dumps it",
            {"prompt_token_count": 9807, "candidates_token_count": 3, "cached_content_token_count": 9800},
            9807,
            9800,
        ),
        (
            "Bedrock Converse: cached tokens, read or written, are not in the count, and are in the total",
            {
                "inputTokens": 7,
                "outputTokens": 3,
                "totalTokens": 9810,
                "cacheReadInputTokens": 9000,
                "cacheWriteInputTokens": 800,
            },
            9807,
            9000,
        ),
        (
            "Bedrock's own counts beside a model's",
            {"inputTokenCount": 7, "outputTokenCount": 3, "cacheReadInputTokenCount": 9800},
            9807,
            9800,
        ),
        (
            "Cohere: what is billed is not what the model was given",
            {
                "billed_units": {"input_tokens": 62, "output_tokens": 3},
                "tokens": {"input_tokens": 9807, "output_tokens": 3},
            },
            9807,
            None,
        ),
        (
            "Anthropic, where the prompt was summarized first: the request is what the first round read",
            {
                "input_tokens": 220,
                "cache_read_input_tokens": 0,
                "output_tokens": 3,
                "iterations": [
                    {"type": "compaction", "input_tokens": 7, "cache_read_input_tokens": 9800, "output_tokens": 125},
                    {"type": "message", "input_tokens": 220, "output_tokens": 3},
                ],
            },
            9807,
            9800,
        ),
        ("Bedrock", {"inputTokens": 9807, "outputTokens": 3}, 9807, None),
        ("Ollama", {"prompt_eval_count": 9807, "eval_count": 3}, 9807, None),
    ],
)
def test_every_dialect_gives_the_number_of_tokens_that_the_model_was_given(
    dialect: str, usage: dict[str, Any], input_tokens: int, cached: int | None
) -> None:
    """9,807 tokens are 9,807 tokens, whether the provider adds the cached ones or leaves that to the reader."""
    normal = normalize(usage)
    assert normal["input_tokens"] == input_tokens, dialect
    assert normal["output_tokens"] == 3
    assert normal.get("cached_tokens") == cached
    assert normalize(normal) == normal


def test_what_was_reported_is_kept() -> None:
    """Where the count is a sum, the provider's own number stands beside it; fields that we do not know stay."""
    usage = {"input_tokens": 7, "cache_read_input_tokens": 9800, "service_tier": "batch"}
    assert normalize(usage) == {
        "input_tokens": 9807,
        "cached_tokens": 9800,
        "cache_read_input_tokens": 9800,
        "service_tier": "batch",
        "reported_input_tokens": 7,
    }


@pytest.mark.parametrize("usage", [None, {}, "many", 5, ["input_tokens"], object()])
def test_anything_but_a_mapping_tells_nothing(usage: object) -> None:
    """An odd usage object costs the usage, never the record."""
    assert normalize(usage) == {}


@pytest.mark.parametrize("number", [-1, "7", True, None, 7.0])
def test_what_is_no_count_is_not_counted(number: object) -> None:
    """A provider that reports nonsense has reported no input tokens."""
    assert "input_tokens" not in normalize({"prompt_tokens": number})
