"""Reasons for what was not found, over the prompts whose builder changed the texts and says how.

A kind whose texts still stand verbatim is due no reason: those are not in the table. Some changes can't be told apart
by what stands: ``repr`` of a text without both kinds of quotes is JSON, and a text that ends in one newline lost it
whether a template ate it or somebody stripped the text. The names that are right for a kind are listed with it.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from otel_prompt_trace.core.census import Census, census
from otel_prompt_trace.core.missing import escapes
from otel_prompt_trace.core.missing.explain import why
from otel_prompt_trace.core.pieces import Piece, Placed
from tests.core.missing.ways import WAYS
from tests.corpus.conftest import Lines

pytestmark = pytest.mark.corpus

RIGHT: dict[str, set[str | None]] = {
    "jinja_autoescape": {"html_escaped"},
    "strip": {"trimmed", "dropped_newline"},
    "crlf": {"line_endings"},
    "nfd": {"nfd"},
    "nfkc": {"nfkc"},
    "json_ascii": {"json_escaped"},
    "json_utf8": {"json_escaped"},
    "trim_blocks": {"collapsed_whitespace"},
    "truncated": {"truncated"},
    "dedented": {"collapsed_whitespace", "collapsed_whitespace+trimmed"},
    "repr": {"python_escaped", "json_escaped"},
    "dropped_chunk": {None},
}
# Where the joiner goes on with white space, which of it was the text's is not to be seen.
OPEN_ENDED = {"strip", "trim_blocks", "dedented", "truncated"}
STRANGERS = 3


@dataclass
class Row:
    """One kind: its missing pieces, how many have each reason, how many stand where the builder put them."""

    prompts: int = 0
    reasons: Counter[str | None] = field(default_factory=Counter)
    right: int = 0
    places: int = 0

    @property
    def missing(self) -> int:
        """Pieces that were not found."""
        return sum(self.reasons.values())


Result = tuple[dict[str, Any], Census]


def missing(record: dict[str, Any], found: Census) -> Iterator[tuple[dict[str, Any], Placed]]:
    """The pieces that were not found, as the builder has them and as the census has them."""
    for piece, placed in zip(record["pieces"], found.pieces, strict=True):
        if placed.state == "unlocatable":
            yield piece, placed


@pytest.fixture(scope="module")
def results(corpus_lines: Lines) -> list[Result]:
    """The prompts of every kind that changes or drops a text."""
    found = []
    for record in corpus_lines("rag_variants"):
        if record["variant"] in RIGHT:
            pieces = [Piece(p["producer"], p["text"], source_id=p["id"]) for p in record["pieces"]]
            found.append((record, census(record["prompt"], pieces)))
    return found


@pytest.fixture(scope="module")
def table(results: list[Result]) -> dict[str, Row]:
    """By kind."""
    rows: dict[str, Row] = {}
    for record, found in results:
        kind = record["variant"]
        row = rows.setdefault(kind, Row())
        row.prompts += 1
        for piece, placed in missing(record, found):
            hint = placed.hint
            row.reasons[hint.reason if hint else None] += 1
            row.right += (hint.reason if hint else None) in RIGHT[kind]
            row.places += hint is not None and (hint.start, hint.end) == (piece["start"], piece["end"])
    print_table(rows)
    return rows


def test_every_kind_has_its_reason(table: dict[str, Row]) -> None:
    """At least 95 in a hundred of each kind are named right, and no kind is without an example."""
    assert table.keys() == RIGHT.keys()
    wrong = {kind: dict(row.reasons) for kind, row in table.items() if row.right < 0.95 * row.missing}
    assert wrong == {}
    assert min(row.missing for row in table.values()) >= 12


def test_every_reason_has_its_place(table: dict[str, Row]) -> None:
    """To the character, wherever it can be seen where the text ends."""
    wrong = {
        kind: (row.places, row.missing)
        for kind, row in table.items()
        if kind not in OPEN_ENDED and row.places < row.missing and RIGHT[kind] != {None}
    }
    assert wrong == {}


def test_the_place_is_never_far_off(results: list[Result]) -> None:
    """Also where it can't be seen: it begins and ends within the white space that is there."""
    wrong = []
    for record, found in results:
        for piece, placed in missing(record, found):
            if placed.hint is None:
                continue
            prompt = record["prompt"]
            ends = (piece["start"], placed.hint.start), (piece["end"], placed.hint.end)
            apart = [prompt[min(pair) : max(pair)] for pair in ends]
            if any(text.strip() for text in apart):
                wrong.append((record["qid"], record["variant"], apart))
    assert wrong == []


def test_nothing_is_located_that_is_not_there(results: list[Result]) -> None:
    """A hint is none: what has one is not located, and every located piece stands to the character."""
    for record, found in results:
        assert not any(placed.hint for placed in found.located)
        for placed in found.located:
            assert record["prompt"][placed.start : placed.end] == placed.piece.text
        assert found.covered == sum(found.by_producer().values())


def test_strangers_have_no_reason(corpus_lines: Lines) -> None:
    """Passages of other prompts, in the same language, beside those that were changed: no one is given a place."""
    draw = random.Random(6)
    records = [record for record in corpus_lines("rag_variants") if record["variant"] in RIGHT]
    passages: dict[str, list[str]] = {}
    for record in records:
        passages.setdefault(record["lang"], []).extend(p["text"] for p in record["pieces"] if p["producer"] == "rag")
    asked, told = 0, []
    for record in records:
        pieces = [Piece(p["producer"], p["text"], source_id=p["id"]) for p in record["pieces"]]
        mine = {p.text for p in pieces}
        others = [text for text in draw.sample(passages[record["lang"]], STRANGERS) if text not in mine]
        found = census(record["prompt"], [*pieces, *(Piece("stranger", text) for text in others)])
        for placed in found.unlocatable:
            if placed.producer == "stranger":
                asked += 1
                if placed.hint is not None:
                    told.append((record["variant"], placed.hint))
    print(f"\nstrangers: {asked}, given a reason: {len(told)}")
    assert asked > 500
    assert len(told) <= 0.005 * asked, told


def test_strangers_have_hardly_a_reason_where_no_owner_is_known(corpus_lines: Lines) -> None:
    """The same without a census: a shared heading or licence is a part that stands, of one in a hundred at most."""
    draw = random.Random(7)
    records = list(corpus_lines("rag_plain"))
    passages: dict[str, list[str]] = {}
    for record in records:
        passages.setdefault(record["lang"], []).extend(p["text"] for p in record["pieces"] if p["producer"] == "rag")
    asked = told = 0
    for record in draw.sample(records, 150):
        texts = [text for text in draw.sample(passages[record["lang"]], 10) if text not in record["prompt"]]
        segments = census(record["prompt"], explain=False).segments
        asked += len(texts)
        told += sum(hint is not None for hint in why(segments, texts))
    print(f"\nstrangers without owners: {asked}, given a reason: {told}")
    assert told <= 0.015 * asked


def print_table(rows: dict[str, Row]) -> None:
    """What the counts are, for whoever runs this with ``-s``."""
    print(f"\n{'kind':<24}{'prompts':>8}{'missing':>8}{'right':>7}{'':>7}{'place':>7}  reasons")
    for kind, row in sorted(rows.items()):
        named = ", ".join(f"{reason or 'none'} {count}" for reason, count in row.reasons.most_common())
        share = f"{row.right / (row.missing or 1):.0%}"
        print(f"{kind:<24}{row.prompts:>8}{row.missing:>8}{row.right:>7}{share:>7}{row.places:>7}  {named}")
    right, every = sum(row.right for row in rows.values()), sum(row.missing for row in rows.values())
    print(f"{'all':<24}{sum(row.prompts for row in rows.values()):>8}{every:>8}{right:>7}{right / every:>7.1%}")


@pytest.fixture(scope="module")
def by_way(corpus_lines: Lines) -> dict[str, Row]:
    """Real prompts, their chunks changed here in every way that there is a name for: rows by way."""
    draw = random.Random(8)
    records = draw.sample(list(corpus_lines("rag_plain")), 60)
    rows: dict[str, Row] = {}
    for way, (reason, change) in WAYS.items():
        row = rows[way] = Row()
        for record in records:
            prompt, places, pieces, reached = "", [], [], 0
            for piece in record["pieces"]:
                shown = change(piece["text"]) if piece["producer"] == "rag" else piece["text"]
                prompt += record["prompt"][reached : piece["start"]]
                places.append((len(prompt), len(prompt) + len(shown)))
                prompt, reached = prompt + shown, piece["end"]
                pieces.append(Piece(piece["producer"], piece["text"], source_id=piece["id"]))
            row.prompts += 1
            for place, placed in zip(places, census(prompt + record["prompt"][reached:], pieces).pieces, strict=True):
                if placed.state == "unlocatable":
                    hint, text = placed.hint, placed.piece.text or ""
                    named = hint.reason if hint else None
                    alike = {name for name, other in WAYS.values() if other(text) == change(text)}
                    alike |= {"json_escaped"} if escapes.json(change(text)) == text else set()
                    row.reasons[named] += 1
                    row.right += named in {reason, *alike}
                    row.places += hint is not None and (hint.start, hint.end) == place
    print_table(rows)
    return rows


def test_every_way_has_its_reason(by_way: dict[str, Row]) -> None:
    """Of each way that changes a real text at all, at least 95 in a hundred are named right."""
    wrong = {way: dict(row.reasons) for way, row in by_way.items() if row.right < 0.95 * row.missing}
    assert wrong == {}
    assert sum(row.missing for row in by_way.values()) > 2000
