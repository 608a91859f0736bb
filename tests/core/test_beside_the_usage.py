"""What a model was given and no text of the prompt shows: reports from practice. None of it is ever exact."""

from __future__ import annotations

import json
from typing import Any, ClassVar

import pytest

from otel_prompt_trace.core.checks import Check
from otel_prompt_trace.core.grade import CallGrade, grade
from otel_prompt_trace.core.usage import normalize
from tests.core.by_hand import Script

SAID = "how long are they kept"
TOOLS = [{"type": "function", "function": {"name": "look_up", "parameters": {"type": "object"}}}]
TOOL_CALLS = [{"id": "c", "type": "function", "function": {"name": "look_up", "arguments": "{}"}}]


def graded(prompt: Any, usage: Any, pieces: list[tuple[str, str]], tokens: int, **fields: Any) -> CallGrade:
    """A call of a model whose tokens are counted here as ``tokens``."""
    script = Script()
    script.call("c1", prompt, *[{"producer": p, "text": text} for p, text in pieces], model="public", **fields)
    script("response", call="c1", usage=usage, finish_reason="stop")
    first = iter([tokens])
    (call,) = grade(script.record(), lambda text, model: next(first, 0)).calls
    return call


def check(call: CallGrade, name: str) -> Check:
    """One check of it."""
    return next(c for c in call.checks if c.name == name)


class TestACachedPrefix:
    """Anthropic leaves cached tokens out of its count, OpenAI has them in: both models were given 9,807."""

    @pytest.mark.parametrize(
        "usage",
        [
            {"input_tokens": 7, "cache_read_input_tokens": 9800, "cache_creation_input_tokens": 0},
            {"input_tokens": 7, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 9800},
            {"input_tokens": 7, "cache_read_input_tokens": 5000, "cache_creation_input_tokens": 4800},
            {"prompt_tokens": 9807, "prompt_tokens_details": {"cached_tokens": 9800}},
            {"input_tokens": 9807, "input_tokens_details": {"cached_tokens": 9800}},
        ],
    )
    def test_is_part_of_what_the_model_was_given(self, usage: dict[str, Any]) -> None:
        """Compared with 9,807 in either dialect: equal, and not "fewer than the prompt holds"."""
        assert normalize(usage)["input_tokens"] == 9807
        call = graded("a b", usage, [("a", "a "), ("b", "b")], 9807)
        assert call.verdict == "exact"
        assert check(call, "token_identity").status == "pass"

    def test_left_out_by_the_dialect_that_has_it_in(self) -> None:
        """A count that really is below the string is one, cached or not."""
        usage = {"prompt_tokens": 7, "prompt_tokens_details": {"cached_tokens": 0}}
        call = graded("a b", usage, [("a", "a "), ("b", "b")], 9807)
        assert (call.verdict, call.reasons) == ("mismatch", ("provider_count_below_prompt",))


class TestToolCalls:
    """47,194 counted, 140,384 reported: tools are in the count, and how they were rendered only the provider knows."""

    USAGE: ClassVar = {"prompt_tokens": 140_384}

    def test_with_tools_in_the_request(self) -> None:
        """The gap is named by what may be it; undeclared tools make it unknown, whatever the text's census is."""
        prompt = [{"role": "user", "content": SAID}, {"role": "assistant", "tool_calls": TOOL_CALLS}]
        pieces = [("user", SAID), ("model", "look_up"), ("model", "{}")]
        call = graded(prompt, self.USAGE, pieces, 47_194, tools=TOOLS)
        assert call.census is not None
        assert call.census.unaccounted == 0
        assert (call.verdict, call.reasons) == ("unknown", ("undeclared_model_visible_part",))
        identity = check(call, "token_identity")
        assert identity.status == "unknown"
        assert "tools" in identity.detail

    def test_without_anything_that_explains_it(self) -> None:
        """It is unexplained, and the check is not passed."""
        identity = check(graded(SAID, self.USAGE, [("a", SAID[:4]), ("b", SAID[4:])], 47_194), "token_identity")
        assert identity.status == "unknown"
        assert "unexplained" in identity.detail


class TestASchema:
    """A field that one backend renders into the prompt and another uses as a grammar, unseen by the model."""

    SCHEMA: ClassVar = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object"}}}

    @pytest.mark.parametrize("provider", ["openai", "llama.cpp"])
    def test_has_no_count_of_characters(self, provider: str) -> None:
        """It may be rendered by the provider: unknown, by name, and never in the prompt's total."""
        call = graded(SAID, None, [("a", SAID[:4]), ("b", SAID[4:])], 5, response_format=self.SCHEMA, provider=provider)
        assert call.census is not None
        assert call.census.total == call.census.covered == len(SAID)
        assert [(part.name, part.declared) for part in call.census.visible] == [("response_format", False)]
        assert (call.verdict, call.reasons) == ("unknown", ("undeclared_model_visible_part",))

    def test_that_is_declared(self) -> None:
        """As a JSON value: still no characters, and nothing is open."""
        script = Script()
        script("piece", call="c1", producer="schema", value=self.SCHEMA)
        script.call("c1", SAID, {"producer": "a", "text": SAID[:4]}, {"producer": "b", "text": SAID[4:]},
                    response_format=self.SCHEMA)  # fmt: skip
        (call,) = grade(script.record()).calls
        assert call.verdict == "exact"
        assert call.census is not None
        assert call.census.total == len(SAID)


class TestItemsThatTelemetryLeavesOut:
    """Of a message, a tool call, its result and encrypted reasoning an instrumentation reported the first."""

    ITEMS: ClassVar[list[dict[str, Any]]] = [
        {"type": "message", "role": "user", "content": SAID},
        {"type": "function_call", "call_id": "c", "name": "look_up", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": "ten years"},
        {"type": "reasoning", "encrypted_content": "Zm9vYmFy", "summary": []},
    ]
    DECLARED = (("a", SAID[:4]), ("b", SAID[4:]))

    def told(self, script: Script) -> None:
        """What the span carried."""
        parts = [{"type": "text", "content": SAID}]
        script("content", call="c1", route="attributes", scope="x", attributes={"gen_ai.operation.name": "chat"},
               values={"gen_ai.input.messages": json.dumps([{"role": "user", "parts": parts}])})  # fmt: skip

    def sent(self, script: Script, body: dict[str, Any]) -> None:
        """The request's bytes."""
        script("request", call="c1", evidence="wire", api="openai.responses", host="h", path="/v1/responses",
               body=json.dumps(body).encode())  # fmt: skip

    def declare(self, script: Script) -> None:
        """All that the telemetry shows."""
        for producer, text in self.DECLARED:
            script("piece", call="c1", producer=producer, text=text)

    def test_telemetry_alone_is_never_exact(self) -> None:
        """All that was reported is accounted for, and that says nothing about what was not."""
        script = Script()
        self.declare(script)
        self.told(script)
        (call,) = grade(script.record()).calls
        assert call.census is not None
        assert call.census.unaccounted == 0
        assert (call.verdict, call.reasons) == ("unknown", ("weak_evidence",))

    @pytest.mark.parametrize("more", [1, 2, 3])
    def test_beside_the_request_as_sent(self, more: int) -> None:
        """The wire has every item: what telemetry left out is a gap, or a part that nobody declared; never exact."""
        script = Script()
        self.declare(script)
        self.sent(script, {"model": "m", "input": self.ITEMS[: more + 1]})
        self.told(script)
        (call,) = grade(script.record()).calls
        assert call.census is not None
        assert [gap.path for gap in call.census.gaps][:2] == ["input[1].name", "input[1].arguments"][: more * 2]
        assert ("undeclared_model_visible_part" in call.reasons) is (more == 3)
        assert call.verdict == ("unknown" if more == 3 else "mismatch")

    @pytest.mark.parametrize("held", ["previous_response_id", "conversation"])
    def test_what_the_provider_holds(self, held: str) -> None:
        """Part of the prompt is on its side: unknown, whatever this request accounts for."""
        script = Script()
        self.declare(script)
        self.sent(script, {"model": "m", "input": SAID, held: "resp_1"})
        (call,) = grade(script.record()).calls
        assert (call.verdict, call.reasons) == ("unknown", ("held_by_reference",))


@pytest.mark.parametrize("text", ["<|endoftext|>", "half \ud83d", "<|fim_prefix|>x", "\udfff\ud800", "\x00"])
def test_a_text_that_a_tokenizer_trips_over(text: str) -> None:
    """It is counted or not: the record is whole, the census is taken, and its verdict does not hang on the count."""

    def count(given: str, model: str) -> int | None:
        return None if text in given else len(given)

    script = Script()
    script.call("c1", f"Say: {text}", {"producer": "a", "text": "Say: "}, {"producer": "user", "text": text}, model="m")
    (call,) = grade(script.record(), count).calls
    assert (call.verdict, call.prompt_tokens) == ("exact", None)
    assert call.census is not None
    assert call.census.total == 5 + len(text)
