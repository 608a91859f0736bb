"""A prompt with a hole must not pass for a whole one: what its span lost is among the reasons."""

from __future__ import annotations

from typing import Any

import pytest

from otel_prompt_trace.core.grade import grade
from tests.core.by_hand import Script

FACTS = {"openinference.span.kind": "LLM", "llm.model_name": "m"}


def flat(*indexes: int) -> dict[str, Any]:
    """Messages under OpenInference's flat keys, those of the indexes given."""
    return {
        f"llm.input_messages.{n}.message.{name}": value
        for n in indexes
        for name, value in (("role", "user"), ("content", f"message {n}"))
    }


def told(script: Script, values: dict[str, Any], **fields: Any) -> None:
    """What one span carried of the call ``c1``."""
    common = {"call": "c1", "route": "attributes", "scope": "app", "attributes": FACTS}
    script("content", values=values, **common, **fields)


def reasons(script: Script) -> tuple[str, ...]:
    """Of the one call; a prompt that was read out of a span is never better than unknown."""
    result = grade(script.record())
    assert result.verdict == "unknown"
    (call,) = result.calls
    return call.reasons


@pytest.mark.parametrize(
    ("indexes", "dropped", "expected"),
    [
        ((0, 1, 2), 0, set()),
        ((0, 2), 0, {"missing_messages"}),
        ((2, 3), 0, {"missing_messages"}),
        ((0, 1), 7, {"dropped_attributes"}),
        ((1, 2), 7, {"missing_messages", "dropped_attributes"}),
    ],
)
def test_holes_and_losses_are_reasons(indexes: tuple[int, ...], dropped: int, expected: set[str]) -> None:
    """A gap in the numbering, and attributes that were evicted: each says so, and neither is said without cause."""
    script = Script()
    told(script, flat(*indexes), **({"dropped_attributes": dropped} if dropped else {}))
    found = set(reasons(script))
    assert "weak_evidence" in found
    assert found & {"missing_messages", "dropped_attributes"} == expected


def test_a_hook_heard_everything() -> None:
    """The request is read out of what the hook was handed; that a span beside it lost attributes takes nothing away."""
    script = Script()
    told(script, flat(1), dropped_attributes=3)
    handed = {"gen_ai.input.messages": [{"role": "user", "parts": [{"type": "text", "content": "all of it"}]}]}
    script("content", call="c1", route="hook", values=handed, attributes={"gen_ai.operation.name": "chat"})
    assert not {"missing_messages", "dropped_attributes"} & set(reasons(script))


def test_a_declared_prompt_has_no_holes() -> None:
    """What the application handed us is whole, whatever the spans beside it lost."""
    script = Script()
    script.call("c1", "one two", {"producer": "a", "text": "one "}, {"producer": "b", "text": "two"})
    told(script, flat(1), dropped_attributes=3)
    result = grade(script.record())
    assert (result.verdict, result.calls[0].reasons) == ("exact", ())


def test_a_span_that_lost_the_whole_prompt() -> None:
    """An answer alone is left: there is no prompt, and the reason for that is named."""
    script = Script()
    answer = {"llm.output_messages.0.message.role": "assistant", "llm.output_messages.0.message.content": "an answer"}
    told(script, answer, dropped_attributes=40)
    assert reasons(script) == ("dropped_attributes", "no_prompt")
    script = Script()
    told(script, answer)
    assert reasons(script) == ("no_prompt",)


@pytest.mark.parametrize("strange", ["many", None, -1, {"n": 1}, 0])
def test_a_number_that_is_none(strange: Any) -> None:
    """A record from outside is read, not trusted."""
    script = Script()
    told(script, flat(0), dropped_attributes=strange)
    assert "dropped_attributes" not in reasons(script)
