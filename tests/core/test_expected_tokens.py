"""``expected_tokens``: what top_k, the chunk size and the template let expect, against what was counted."""

from __future__ import annotations

from typing import Any

import pytest

from otel_prompt_trace.core.checks import Check
from otel_prompt_trace.core.packing import Chunk, pack
from otel_prompt_trace.core.prompt import Prompt
from tests.core.by_hand import Script
from tests.core.test_checks import check


def asked(
    sizes: list[int],
    *,
    system: str = "Be brief .",
    rider: str = "",
    usage: Any = None,
    model: str = "public",
    dropped: int = 0,
    fields: dict[str, Any] | None = None,
    **retrieval: Any,
) -> Check:
    """A call with chunks of so many words, after a system text of three; ``dropped`` more were retrieved."""
    script = Script()
    names = [f"c{n}" for n in range(1, len(sizes) + dropped + 1)]
    hits = [{"rank": n, "chunk_id": name} for n, name in enumerate(names, 1)]
    script("retrieval", hits=hits, dropped=names[len(sizes) :], **retrieval)
    prompt = Prompt().add("system", system)
    for name, size in zip(names, sizes, strict=False):
        prompt.literal("\n").add("rag", " ".join(["word"] * size), source_id=name)
    pieces = [{name: item for name, item in placed.items() if name != "kind"} for placed in prompt.placed]
    script.call("k1", prompt.text + rider, *pieces, model=model, **(fields or {}))
    if usage is not None:
        script("response", call="k1", usage=usage)
    return check(script.record(), "expected_tokens", counting=True)


def test_top_k_times_the_chunk_size_plus_the_template() -> None:
    """Five chunks of at most ten, and the three of the template; a token for each joint."""
    found = asked([10, 8, 10, 9, 10], top_k=5, chunk_tokens=10)
    assert found.status == "pass"
    assert found.detail == "50 counted here; expected 3 to 65: chunks 0 to 62, template 3"


@pytest.mark.parametrize(("size", "status"), [(10, "pass"), (60, "pass"), (75, "fail"), (400, "fail")])
def test_a_chunk_that_is_larger_than_the_index_has_them(size: int, status: str) -> None:
    """One of another index, or a whole document in place of a chunk of it."""
    assert asked([size, 1], top_k=2, chunk_tokens=30).status == status


def test_too_few() -> None:
    """A smallest size says when chunks are stubs; those that were dropped are not missed."""
    sizes = {"top_k": 4, "chunk_tokens": [20, 30]}
    assert asked([20, 25, 22, 30], **sizes).status == "pass"
    assert asked([2, 1, 2, 1], **sizes).status == "fail"
    assert asked([20], dropped=3, **sizes).status == "pass"
    assert asked([2], dropped=3, **sizes).status == "fail"


def test_fewer_hits_than_top_k() -> None:
    """A small index has no more: they are not missed either."""
    assert asked([20, 20], top_k=10, chunk_tokens=[20, 30]).status == "pass"


def test_text_that_nobody_declared_is_more_than_was_expected() -> None:
    """A rider of a hundred words shows here too, since the template counts what was declared alone."""
    rider = " word" * 100
    assert asked([10, 10], top_k=2, chunk_tokens=[10, 10], rider=rider).status == "fail"
    assert asked([10, 10], top_k=2, chunk_tokens=[10, 10]).status == "pass"


def test_a_template_that_was_declared() -> None:
    """It may not grow beyond that, whoever declares what it grew by."""
    asked_for = {"top_k": 2, "chunk_tokens": [10, 10]}
    assert asked([10, 10], system="word " * 50, template_tokens=[40, 60], **asked_for).status == "pass"
    assert asked([10, 10], system="word " * 90, template_tokens=[40, 60], **asked_for).status == "fail"
    assert asked([10, 10], system="word " * 90, **asked_for).status == "pass"


def test_what_the_provider_reported() -> None:
    """Its count has the chat wrapper on top; where it counts tools too, more of it is no failure and no pass."""
    asked_for: dict[str, Any] = {"top_k": 2, "chunk_tokens": [10, 10]}
    assert asked([10, 10], usage={"prompt_tokens": 30}, **asked_for).status == "pass"
    assert asked([10, 10], usage={"prompt_tokens": 300}, **asked_for).status == "fail"
    tools = {"tools": [{"name": "f"}]}
    with_tools = asked([10, 10], usage={"prompt_tokens": 300}, fields=tools, **asked_for)
    assert with_tools.status == "pass"  # by the local count
    assert "300 reported, of which some may be tools" in with_tools.detail


def test_the_provider_alone() -> None:
    """Without a public encoding its count is all there is; the template must then be declared."""
    asked_for: dict[str, Any] = {"top_k": 2, "chunk_tokens": [10, 10], "model": "secret"}
    assert asked([10, 10], usage={"input_tokens": 25}, template_tokens=5, **asked_for).status == "pass"
    assert asked([10, 10], usage={"input_tokens": 95}, template_tokens=5, **asked_for).status == "fail"
    tools = asked(
        [10, 10], usage={"input_tokens": 95}, template_tokens=5, fields={"tools": [{"name": "f"}]}, **asked_for
    )
    assert tools.status == "unknown"
    unknown = asked([10, 10], usage={"input_tokens": 25}, **asked_for)
    assert (unknown.status, "was not declared" in unknown.detail) == ("unknown", True)


@pytest.mark.parametrize("declared", [None, "ten", -1, True, 1.5, [5], [9, 3], ["a", "b"], [1, 2, 3], {}, [True, 5]])
def test_without_a_size_nothing_is_expected(declared: object) -> None:
    """Nor with one that is none."""
    found = asked([10], top_k=5, **({} if declared is None else {"chunk_tokens": declared}))
    assert (found.status, found.detail) == ("unknown", "no expected number of tokens was declared")


def test_a_packing_tells_what_to_expect() -> None:
    """The chunks take what was counted when they were packed, and no more than the budget."""
    packed = pack([Chunk("c1", "word " * 10, 1), Chunk("c2", "word " * 30, 2)], 20, lambda text: len(text.split()))
    event = {name: item for name, item in packed.event.items() if name in ("packing", "rule")}
    assert asked([10], dropped=1, **event).status == "pass"
    assert asked([30], dropped=1, **event).status == "fail"
    assert asked([30, 30], top_k=2, chunk_tokens=30, **event).status == "fail"
    assert asked([30, 30], top_k=2, chunk_tokens=30).status == "pass"
