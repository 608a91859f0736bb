"""What it costs: near linear in the prompt and the texts, whatever they are. Ratios within one run, far from tight."""

from __future__ import annotations

import html
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


def many(form: str, unit: str, ends: tuple[str, str] = ("", "")) -> list[str]:
    """Texts of one unit over and over, each a little longer than the one before."""
    return [ends[0] + unit * (900 // len(unit) + n) + form + ends[1] for n in range(PIECES)]


HARD: dict[str, tuple[str, list[str], int | None]] = {
    "unrelated": (PROMPT, OTHER, 0),
    "every one in another case": (PROMPT, [text.upper() for text in CUT], PIECES),
    "every one in three ways": (
        html.escape("<br>".join(CUT).upper().replace(" ", "\r\n")),
        [f"{text}<br>".replace(" ", "\n") for text in CUT[:-1]],
        PIECES - 1,
    ),
    "every one truncated": (PROMPT, [a[:500] + b for a, b in zip(CUT, OTHER, strict=True)], PIECES),
    "every one split": (" ".join(text[:500] + "##" + text[500:] for text in CUT), CUT, PIECES),
    "one letter, and another at the end": ("a" * SIZE, many("b", "a"), None),
    "and at the beginning": ("a" * SIZE, many("", "a", ("b", "")), None),
    "and in the middle": ("a" * SIZE, many("b", "a", ("", "a" * 450)), None),
    "one letter in another case": ("a" * SIZE, many("", "A"), None),
    "backslashes": ("\\" * SIZE, many("n", "\\"), None),
    "white space": (" \n" * (SIZE // 2), many("", " \n", ("x", "")), None),
    "entities": ("&amp;" * (SIZE // 5), many("<", "&"), None),
    "percents": ("%25" * (SIZE // 3), many("x", "%"), None),
    "marks": ("e" + "\u0301\u0323" * (SIZE // 2), many("", "\u0323\u0301", ("e", "")), None),
    "escaped marks": ("e" + "&#769;&#803;" * (SIZE // 12), many("", "\u0323\u0301", ("e", "")), None),
    "one line": ("ab\r\n" * (SIZE // 4), many("", "ab\n"), None),
    "2,000 short ones": (PROMPT, [text[:20] for text in OTHER] * 10, None),
}


@pytest.mark.parametrize("kind", HARD)
def test_reasons_cost_a_few_censuses(kind: str, one_census: float) -> None:
    """Texts that stand nowhere, of 1 KB in 200 KB of the hardest kinds: at most 100 times a census of ordinary ones."""
    prompt, texts, found = HARD[kind]
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


@pytest.mark.parametrize("unit", ["\\", "&", "&amp;", "%", "%25", "\\u", "&#", "\u0301", "\xa0", "+", ";", "\0"])
@pytest.mark.parametrize("end", ["", "n", "u0041"])
def test_a_run_of_what_begins_an_escape_is_looked_at_once(unit: str, end: str) -> None:
    """A long run that no escape, or one, follows: never once for each place in it."""

    def cost(length: int) -> float:
        prompt, missing = unit * (length // len(unit)), unit * (length // 2 // len(unit)) + end + "q"
        return seconds(lambda: explained(take(split(prompt), [Piece("x", missing)])))

    assert cost(40_000) < 50 * cost(4_000)


def test_ten_times_as_much_takes_about_ten_times_as_long() -> None:
    """Prompt and texts together: not their product."""

    def cost(factor: int) -> float:
        prompt = prose(random.Random(1), 20_000 * factor)
        texts = [prompt[n * 500 : n * 500 + 500].upper() for n in range(20 * factor)]
        plain = take(split(prompt), [Piece("x", text) for text in texts])
        return seconds(lambda: explained(plain))

    assert cost(10) < 40 * cost(1)
