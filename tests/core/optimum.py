"""The best that an assignment can do, found by trying everything. For small inputs alone."""

from __future__ import annotations

from collections.abc import Sequence

from otel_prompt_trace.core.words import is_word, splits_word

Spot = tuple[int, int, int]  # segment, start, end


def spots(texts: Sequence[str], text: str) -> list[Spot]:
    """Every place where a text stands, overlapping ones as well."""
    return [
        (number, start, start + len(text))
        for number, body in enumerate(texts)
        for start in range(len(body) - len(text) + 1)
        if text and body.startswith(text, start)
    ]


def is_fragment(texts: Sequence[str], spot: Spot) -> bool:
    """Whether a bare word stands there inside a longer one."""
    segment, start, end = spot
    return is_word(texts[segment][start:end]) and splits_word(texts[segment], start, end)


def allowed(texts: Sequence[str], taken: Sequence[Spot]) -> bool:
    """Whether every bare word among them is a word of its own, or touches another."""
    begins, ends = {(n, start) for n, start, _ in taken}, {(n, end) for n, _, end in taken}
    return all(
        (segment, end) in begins or (segment, start) in ends
        for segment, start, end in taken
        if is_fragment(texts, (segment, start, end))
    )


def optimum(texts: Sequence[str], pieces: Sequence[str]) -> int:
    """The most characters that pieces can cover, each in one place or none, no two over the same character."""
    return _best(texts, sorted(pieces, key=len, reverse=True), 0, [], 0)


def _best(texts: Sequence[str], pieces: Sequence[str], at: int, taken: list[Spot], least: int) -> int:
    covered = sum(end - start for _, start, end in taken)
    if covered + sum(map(len, pieces[at:])) <= least:
        return least
    if at == len(pieces):
        return covered if allowed(texts, taken) else least
    for spot in spots(texts, pieces[at]):
        segment, start, end = spot
        if all(segment != n or end <= a or b <= start for n, a, b in taken):
            least = _best(texts, pieces, at + 1, [*taken, spot], least)
    return _best(texts, pieces, at + 1, taken, least)
