"""What it costs: near linear in the prompt and the texts, whatever they are. Ratios within one run, far from tight."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

import pytest

from otel_prompt_trace.core.census import explained, take
from otel_prompt_trace.core.pieces import Piece
from otel_prompt_trace.core.segments import split

SIZE = 200_000
PIECES = 200


def seconds(work: Callable[[], object]) -> float:
    """The least of three."""
    taken = []
    for _ in range(3):
        began = time.thread_time()
        work()
        taken.append(time.thread_time() - began)
    return min(taken)


def prose(draw: random.Random, size: int) -> str:
    """Words of a vocabulary."""
    words = ["".join(draw.choices("etaoinshrdlu", k=draw.randint(2, 9))) for _ in range(2000)]
    return " ".join(draw.choices(words, k=size // 4))[:size]


PROMPT = prose(random.Random(3), SIZE)
CUT = [PROMPT[n * 1000 : n * 1000 + 1000] for n in range(PIECES)]
OTHER = [prose(random.Random(1000 + n), 1000) for n in range(PIECES)]


@pytest.fixture(scope="module")
def one_census() -> float:
    """Seconds for the census of 200 texts of 1 KB that do not stand in a prompt of 200 KB."""
    whole, pieces = split(PROMPT), [Piece("x", text) for text in OTHER]
    return seconds(lambda: take(whole, pieces))


@pytest.mark.parametrize(
    ("prompt", "texts", "found"),
    [
        pytest.param(PROMPT, OTHER, 0, id="unrelated"),
        pytest.param(PROMPT, [text.upper() for text in CUT], PIECES, id="every one in another case"),
        pytest.param(PROMPT, [a[:500] + b for a, b in zip(CUT, OTHER, strict=True)], PIECES, id="every one truncated"),
        pytest.param(" ".join(t[:500] + "##" + t[500:] for t in CUT), CUT, PIECES, id="every one split"),
        pytest.param("a" * SIZE, ["a" * (900 + n) + "b" for n in range(PIECES)], None, id="one letter, and another at the end"),
        pytest.param("a" * SIZE, ["b" + "a" * (900 + n) for n in range(PIECES)], None, id="and at the beginning"),
        pytest.param("a" * SIZE, ["a" * 450 + "b" + "a" * (450 + n) for n in range(PIECES)], None, id="and in the middle"),
        pytest.param("a" * SIZE, ["A" * (900 + n) for n in range(PIECES)], None, id="one letter in another case"),
        pytest.param("\\" * SIZE, ["\\" * (900 + n) + "n" for n in range(PIECES)], None, id="backslashes"),
        pytest.param(" \n" * (SIZE // 2), ["x" + " \n" * (450 + n) for n in range(PIECES)], None, id="white space"),
        pytest.param("&amp;" * (SIZE // 5), ["&" * (900 + n) + "<" for n in range(PIECES)], None, id="entities"),
        pytest.param("%25" * (SIZE // 3), ["%" * (900 + n) + "x" for n in range(PIECES)], None, id="percents"),
        pytest.param("e" + "\u0301\u0323" * (SIZE // 2), ["e" + "\u0323\u0301" * (450 + n) for n in range(PIECES)], None, id="marks"),
        pytest.param("e" + "&#769;&#803;" * (SIZE // 12), ["e" + "\u0323\u0301" * (450 + n) for n in range(PIECES)], None, id="escaped marks"),
        pytest.param("ab\r\n" * (SIZE // 4), ["ab\n" * (300 + n) for n in range(PIECES)], None, id="one line"),
        pytest.param(PROMPT, [text[:20] for text in OTHER] * 10, None, id="2,000 short ones"),
    ],
)  # fmt: skip
def test_reasons_cost_a_few_censuses(prompt: str, texts: list[str], found: int | None, one_census: float) -> None:
    """Texts that stand nowhere, of 1 KB in 200 KB of the hardest kinds: at most 100 times a census of ordinary ones."""
    plain = take(split(prompt), [Piece("x", text) for text in texts])
    began = time.thread_time()
    missing = [p for p in explained(plain).pieces if p.state == "unlocatable"]
    spent = time.thread_time() - began
    assert len(missing) == len(texts)
    if found is not None:
        assert sum(p.hint is not None for p in missing) == found
    assert spent < 100 * one_census


@pytest.mark.parametrize("standing", [1, 5_000])
def test_the_same_text_ten_thousand_times(standing: int) -> None:
    """Each place explains one; what is left has no reason, and is not looked for again and again."""
    prompt, pieces = "Hello THERE, World. " * standing, [Piece("x", "hello there, world.")] * 10_000
    plain = take(split(prompt), pieces)
    census, reasons = seconds(lambda: take(split(prompt), pieces)), seconds(lambda: explained(plain))
    assert sum(p.hint is not None for p in explained(plain).pieces) == standing
    assert reasons < 100 * census


def test_ten_times_as_much_takes_about_ten_times_as_long() -> None:
    """Prompt and texts together: not their product."""

    def cost(factor: int) -> float:
        prompt = prose(random.Random(1), 20_000 * factor)
        texts = [prompt[n * 500 : n * 500 + 500].upper() for n in range(20 * factor)]
        plain = take(split(prompt), [Piece("x", text) for text in texts])
        return seconds(lambda: explained(plain))

    assert cost(10) < 40 * cost(1)
