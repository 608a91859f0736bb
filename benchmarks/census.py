"""What a census costs, against the simplest one, and against reading the prompt once.

The simplest is the published loop: ``find`` each piece, unite what was found, subtract. Typical prompts are of eight
pieces, in a row or with an undeclared joiner between them; ours takes the census of the same prompt with recorded
offsets, which it verifies, and by a search alone. The loop is right on these prompts, so that both find the same.

On hard inputs the loop is wrong, or does not come to an end: there the measure is one scan of the prompt, a loop in
Python that looks at each character once and does nothing. It is what any way must do that is written in Python.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from benchmarks.measuring import Comparison, compare
from benchmarks.subjects import texts
from otel_prompt_trace.core.census import take
from otel_prompt_trace.core.pieces import Piece
from otel_prompt_trace.core.segments import Segment, Split

SIZES: Final = (10_000, 66_000)
JOINERS: Final = {"in a row": "", "undeclared joiners": "\n\n"}
RECORDED, SEARCHED, SCANS = 0.5, 2.0, 100.0
ORDERED: Final = ("10,000 different pieces",)  # in any order each costs a search of its own, as it does in the loop


@dataclass(frozen=True, slots=True)
class Row:
    """One prompt, counted in one way, against the loop (``against`` is ``find``) or one scan (``scan``).

    Times are CPU microseconds; ``ratio`` is to be at most ``bound``.
    """

    what: str
    against: str
    chars: int
    pieces: int
    bare_us: float
    ours_us: float
    ratio: float
    low: float
    high: float
    bound: float

    @property
    def met(self) -> bool:
        """Whether the target was reached in this run."""
        return self.ratio <= self.bound

    def as_json(self) -> dict[str, Any]:
        """The row as plain JSON values."""
        return {**asdict(self), "met": self.met}


def measure(*, rounds: int = 20, count: int = 100, sizes: Sequence[int] = SIZES, times: int = 1) -> Iterator[Row]:
    """Typical prompts of every size, then the hard ones.

    Args:
        rounds: at least 2; one more is run before, and not counted.
        count: how often a round takes the census of a typical prompt; of a hard one, once.
        sizes: of the typical prompts, in characters.
        times: by how much the hard inputs are smaller than they are meant to be.

    Raises:
        ValueError: fewer than two rounds, or a count below one.
    """
    for size in sizes:
        for name, joiner in JOINERS.items():
            pieces = placed([text for _, text in texts(size).pieces()], joiner)
            yield from _typical(f"{size:,} characters, {name}", joiner, pieces, rounds, count)
    for name, (prompt, declared) in hard(times).items():
        for ordered in (True, False) if name not in ORDERED else (True,):
            what = f"{name}, {'in order' if ordered else 'in any order'}"
            found = _compare_hard(prompt, declared, ordered, rounds)
            yield _row(what, "scan", prompt, declared, found, SCANS)


def placed(parts: Sequence[str], joiner: str) -> list[Piece]:
    """Pieces of four producers by turns, with the offsets that they have with the joiner between them."""
    pieces, at = [], 0
    for number, text in enumerate(parts):
        pieces.append(Piece(f"producer-{number % 4}", text, segment=0, start=at, end=at + len(text)))
        at += len(text) + len(joiner)
    return pieces


def find_loop(prompt: str, pieces: Sequence[tuple[str, str]]) -> tuple[int, int, int, list[str]]:
    """Total, covered, unaccounted and unlocatable, as cheaply as it can be done; right where no text repeats."""
    spans, unlocatable = [], []
    for producer, text in pieces:
        start = prompt.find(text)
        if start < 0:
            unlocatable.append(producer)
        else:
            spans.append((start, start + len(text)))
    covered, reached = 0, 0
    for start, end in sorted(spans):
        covered += max(0, end - max(start, reached))
        reached = max(reached, end)
    return len(prompt), covered, len(prompt) - covered, unlocatable


def scan(prompt: str) -> None:
    """Look at each character once."""
    for _ in prompt:
        pass


def hard(times: int = 1) -> dict[str, tuple[str, list[Piece]]]:
    """Prompts that nobody writes and anybody can send, and many pieces; each with what is declared."""
    said, many, letters = "Thank you.", 10_000 // times, "a" * (300_000 // times)
    lengths = range(1, 500 // times)
    chunks = [f"{text}{n}." for n, prompt in enumerate(texts(8_000).prompts) for _, text in prompt][: 200 // times]
    edited = [text[:500] + "~" + text[501:] for text in chunks]
    return {
        "200 pieces": ("\n---\n".join(chunks), _pieces(chunks)),
        "200 pieces, backwards": ("\n---\n".join(chunks), _pieces(chunks[::-1])),
        "200 pieces that are not there": ("\n---\n".join(edited), _pieces(chunks)),
        "one piece that stands 10,000 times": (f"{said} " * many, _pieces([said])),
        "10,000 pieces of one text": (f"{said} " * many, _pieces([said] * many)),
        "11,000 pieces of a text that stands 10,000 times": (f"{said} " * many, _pieces([said] * (many * 11 // 10))),
        "5,000 pieces of two texts": (f"{said} " * many, _pieces([said, " "] * (many // 4))),
        "10,000 different pieces": (" ".join(map(str, range(many))), _pieces([f"{n} " for n in range(many)])),
        "one letter, 2,000 pieces": (letters, _pieces(["a"] * (2_000 // times))),
        "one letter, every length up to 500": (letters, _pieces(["a" * n for n in lengths])),
        "one letter, all of it taken": (letters + "!", _pieces([letters, *["a" * n for n in lengths]])),
        "one letter, and what is not there": (letters, _pieces(["a" * n + "b" + "a" * n for n in lengths])),
        "overlapping occurrences": ("ab" * (50_000 // times), _pieces([("ab" * n)[:n] for n in lengths])),
        "occurrences inside others": (
            "ab" * (50_000 // times) + " z",
            _pieces(["ab" * (50_000 // times), *[("ab" * n)[:n] for n in lengths]]),
        ),
    }


def _pieces(given: Sequence[str]) -> list[Piece]:
    return [Piece(f"producer-{number % 4}", text) for number, text in enumerate(given)]


def _typical(what: str, joiner: str, recorded: list[Piece], rounds: int, count: int) -> Iterator[Row]:
    prompt = joiner.join(piece.text or "" for piece in recorded)
    pairs = [(piece.producer, piece.text or "") for piece in recorded]
    split = Split((Segment("prompt", prompt),))
    searched = [Piece(producer, text) for producer, text in pairs]

    def loop(times: int) -> None:
        for _ in range(times):
            find_loop(prompt, pairs)

    for way, pieces, bound in (("recorded offsets", recorded, RECORDED), ("search", searched, SEARCHED)):

        def ours(times: int, pieces: list[Piece] = pieces) -> None:
            for _ in range(times):
                take(split, pieces)

        found = compare(loop, ours, rounds=rounds, count=count)
        yield _row(f"{what}, {way}", "find", prompt, pieces, found, bound)


def _compare_hard(prompt: str, pieces: list[Piece], ordered: bool, rounds: int) -> Comparison:
    split = Split((Segment("prompt", prompt),))
    return compare(lambda _: scan(prompt), lambda _: take(split, pieces, ordered=ordered), rounds=rounds, count=1)


def _row(what: str, against: str, prompt: str, pieces: Sequence[Piece], found: Comparison, bound: float) -> Row:
    return Row(what, against, len(prompt), len(pieces), bound=bound, **found.as_json())
