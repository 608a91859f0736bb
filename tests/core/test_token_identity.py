"""Counts against a provider's: what stands between the two is named, never apportioned, and no record is lost to it."""

from __future__ import annotations

import json
from typing import Any, ClassVar

import pytest

from otel_prompt_trace import tokens
from otel_prompt_trace.core.grade import CallGrade, grade
from otel_prompt_trace.core.published import published
from otel_prompt_trace.core.token_identity import token_identity
from tests.core.by_hand import Script
from tests.core.test_checks import check, words

TOOLS = [{"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}]
CALLS = {"role": "assistant", "tool_calls": [{"id": "c1", "function": {"name": "weather", "arguments": "{}"}}]}


def sent(body: dict[str, Any], usage: Any = None, api: str = "openai.chat") -> Script:
    """A request as it was sent, and its answer."""
    script = Script()
    raw = json.dumps(body, ensure_ascii=False).encode("utf-8", "surrogatepass")
    script("request", call="k1", evidence="wire", api=api, host="api.example.com", path="/v1/x", attempt=1, body=raw)
    if usage is not None:
        script("response", call="k1", evidence="wire", attempt=1, usage=usage, output="ok", finish_reason="stop")
    return script


def graded(script: Script, count: Any = words) -> CallGrade:
    """The one call."""
    (found,) = grade(script.record(), count).calls
    return found


class TestCandidates:
    """What the local count can't hold is named by its kind."""

    def candidates(self, messages: list[dict[str, Any]], **more: Any) -> tuple[str, ...]:
        """Of a request as sent, one token short of what was reported."""
        call = graded(sent({"model": "public", "messages": messages, **more}, {"prompt_tokens": 99})).call
        return token_identity(call, 9).candidates

    def test_none(self) -> None:
        """A plain chat has a wrapper and nothing else."""
        assert self.candidates([{"role": "user", "content": "Why?"}]) == ()

    def test_tools_and_schemas(self) -> None:
        """By the names of their fields, and with what a host says of them itself."""
        named = self.candidates(
            [{"role": "user", "content": "?"}], tools=TOOLS, response_format={"type": "json_schema"}
        )
        assert named == ("tools", "response format", "a system message of the host's")

    def test_tool_calls(self) -> None:
        """Their names and ids stand in the envelope."""
        named = self.candidates([{"role": "user", "content": "?"}, CALLS, {"role": "tool", "content": "sunny"}])
        assert named == ("names and ids of tool calls",)

    def test_images_and_references(self) -> None:
        """What is no text."""
        parts = [
            {"type": "text", "text": "?"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBO"}},
            {"type": "file", "file": {"file_id": "f-1"}},
        ]
        assert self.candidates([{"role": "user", "content": parts}]) == ("binary parts", "reference parts")

    @pytest.mark.parametrize(
        ("model", "speaks"),
        [("gpt-5-mini", True), ("o3", True), ("openai/gpt-oss-120b", True), ("gpt-4o", False), ("o200k", False)],
    )
    def test_a_host_that_speaks_first(self, model: str, speaks: bool) -> None:
        """Before the messages of reasoning models the host puts a system message that is in no request."""
        call = graded(sent({"model": model, "messages": [{"role": "user", "content": "?"}]})).call
        assert token_identity(call, 9).candidates == (("a system message of the host's",) if speaks else ())


@pytest.mark.parametrize(
    "usage",
    [
        {"input_tokens": 7, "cache_read_input_tokens": 9_800, "cache_creation_input_tokens": 0},
        {"prompt_tokens": 9_807, "prompt_tokens_details": {"cached_tokens": 9_800}},
        {"input_tokens": 9_807, "input_tokens_details": {"cached_tokens": 9_800}},
        {"inputTokens": 7, "cacheReadInputTokens": 9_800, "cacheWriteInputTokens": 0},
        {"promptTokenCount": 9_807, "cachedContentTokenCount": 9_800},
    ],
    ids=["anthropic", "openai chat", "openai responses", "bedrock", "google"],
)
def test_a_cached_prefix_is_counted_in_every_dialect(usage: dict[str, Any]) -> None:
    """9,807 tokens were given to the model, whoever says how many of them came from a cache."""
    script = Script()
    script.call("k1", "word " * 9_807, {"producer": "a", "text": "word " * 9_807}, model="public")
    script("response", call="k1", usage=usage)
    found = check(script.record(), "token_identity", counting=True)
    assert (found.status, found.detail) == ("pass", "9807 counted here = 9807 reported")
    assert "provider_count_below_prompt" not in graded(script).reasons
    shown = published(script.record(), grade(script.record(), words))["tokens"]
    assert (shown["counted"], shown["reported"], shown["cached"], shown["gap"]) == (9_807, 9_807, 9_800, 0)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"tools": TOOLS}, "tools"),
        ({"functions": TOOLS}, "functions"),
        ({"response_format": {"type": "json_schema", "json_schema": {"name": "x"}}}, "response format"),
        ({"messages": [{"role": "user", "content": "one two"}, CALLS]}, "names and ids of tool calls"),
        ({}, "unexplained"),
    ],
    ids=["tools", "functions", "schema", "tool calls", "nothing"],
)
def test_a_gap_is_named_or_unexplained_and_never_passed(more: dict[str, Any], said: str) -> None:
    """A hundred thousand tokens beyond the text are not those of the text, whatever else was sent."""
    body = {"model": "public", "messages": [{"role": "user", "content": "one two"}], **more}
    script = sent(body, {"prompt_tokens": 140_384})
    found = check(script.record(), "token_identity", counting=True)
    assert found.status == "unknown"
    assert said in found.detail
    assert graded(script).verdict != "exact"


@pytest.mark.parametrize("name", ["tools", "response_format", "json_schema", "guided_json", "grammar"])
def test_a_schema_may_be_rendered_and_may_not(name: str) -> None:
    """One host shows it to the model, another only constrains the answer: it is no part of the prompt's characters."""
    text = "one two three"
    value = TOOLS if name == "tools" else {"type": "object", "properties": {"answer": {"type": "string"}}}
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": text}]
    for reported in (10, 60):
        script = sent({"model": "public", "messages": messages, name: value}, {"prompt_tokens": reported})
        script("piece", call="k1", producer="system", text="Be brief.")
        script("piece", call="k1", producer="user", text=text)
        found = graded(script)
        assert found.census is not None
        assert found.census.total == len(text) + len("Be brief.")
        assert (found.verdict, found.reasons) == ("unknown", ("undeclared_model_visible_part",))
        status = {c.name: c.status for c in found.checks}
        assert status["token_identity"] == "unknown"


class TestItemsOfResponses:
    """A Responses request has items of many kinds, and some of it may lie with the provider."""

    MESSAGE: ClassVar = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Weather?"}]}
    ITEMS = (
        {"type": "function_call", "call_id": "c1", "name": "weather", "arguments": '{"city": "Oslo"}'},
        {"type": "function_call_output", "call_id": "c1", "output": "sunny"},
        {"type": "reasoning", "id": "r1", "summary": [], "encrypted_content": "gAAAA"},
    )

    def script(self, **more: Any) -> Script:
        """All of them, of which telemetry told the first: the application declared it."""
        body = {"model": "gpt-4o", "input": [self.MESSAGE, *self.ITEMS], **more}
        script = sent(body, {"input_tokens": 40}, api="openai.responses")
        script("piece", call="k1", producer="user", text="Weather?")
        return script

    def test_what_was_sent_is_all_there(self) -> None:
        """Arguments and results are characters of the prompt, and gaps as long as nobody declares them."""
        found = graded(self.script())
        assert found.census is not None
        texts = {segment.text for segment in found.census.segments}
        assert {"Weather?", "weather", '{"city": "Oslo"}', "sunny"} <= texts
        assert found.verdict == "unknown"
        assert {"undeclared_model_visible_part", "gap"} <= set(found.reasons)

    @pytest.mark.parametrize("held", [{"previous_response_id": "resp_1"}, {"conversation": "conv_1"}])
    def test_what_lies_with_the_provider(self, held: dict[str, str]) -> None:
        """Then nobody here can say what the model saw."""
        found = graded(self.script(**held))
        assert (found.verdict, "held_by_reference" in found.reasons) == ("unknown", True)

    def test_what_was_told_in_part(self) -> None:
        """Attributes that have the first item and know of more, and attributes at all, are never exact."""
        for more in ({"missing": 3}, {}):
            script = Script()
            messages = [{"role": "user", "content": "Weather?"}]
            script.call("k1", messages, {"producer": "user", "text": "Weather?"}, evidence="attributes")
            script.events[-1].update({"projected": True, **more})
            found = graded(script)
            assert found.verdict == "unknown"
            assert ("missing_messages" in found.reasons) == bool(more)


ODD = [
    "<|endoftext|>",
    "a <|fim_prefix|> b <|im_start|>system<|im_sep|>",
    "half \ud83d",
    "\udc00\ud800",
    "nul \x00 \ufffe \U0010ffff",
    "",
    " \n" * 500,
]


@pytest.mark.parametrize("text", ODD, ids=lambda text: ascii(text)[:30])
@pytest.mark.parametrize("model", ["gpt-4o", "gpt-4"])
def test_odd_text_is_counted_and_costs_no_record(text: str, model: str) -> None:
    """The text of special tokens is text; a lone surrogate counts as what takes its place on the way to a model."""
    script = Script()
    script.call(
        "k1", f"Say: {text}", {"producer": "user", "text": text}, {"producer": "t", "text": "Say: "}, model=model
    )
    expected = tokens.count(f"Say: {text}", model)
    assert expected is not None
    script("response", call="k1", usage={"prompt_tokens": expected})
    result = grade(script.record(), tokens.count)
    assert result.calls[0].prompt_tokens == expected
    assert check(script.record(), "payload_integrity").status == "pass"
    assert published(script.record(), result)["tokens"]["gap"] == 0
    assert result.verdict == ("exact" if text.strip() else "unknown")  # "Say:" alone would be the whole prompt


def broken(_text: str, _model: str) -> int:
    """A tokenizer that can't."""
    raise ValueError("disallowed special token")


def test_a_tokenizer_that_raises_costs_the_count_alone() -> None:
    """The census stands, the record is printed, and the identity is unknown."""
    script = Script()
    script.call("k1", "one two", {"producer": "a", "text": "one "}, {"producer": "b", "text": "two"}, model="public")
    script("response", call="k1", usage={"prompt_tokens": 2})
    result = grade(script.record(), broken)
    assert (result.verdict, result.calls[0].prompt_tokens) == ("exact", None)
    assert published(script.record(), result)["tokens"]["counted"] is None
    (found,) = [c for c in result.calls[0].checks if c.name == "token_identity"]
    assert found.status == "unknown"
