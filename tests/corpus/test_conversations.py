"""2,420 prompts of 60 conversations, rebuilt turn by turn: each grows by all that was said before."""

from __future__ import annotations

import hashlib
from collections import Counter
from typing import Any, NamedTuple

import pytest

from otel_prompt_trace.core.census import Census, census
from otel_prompt_trace.core.pieces import Piece
from tests.corpus.conftest import Lines

pytestmark = pytest.mark.corpus

CONVERSATIONS = 60
PROMPTS = 2_420
LONGEST = 75_372


class Turn(NamedTuple):
    """One prompt, rebuilt, what the builder says of it, and its census."""

    name: str
    prompt: str
    built: dict[str, Any]
    found: Census


def rebuild(conversation: dict[str, Any], turn: int) -> str:
    """The prompt of one turn, as the conversation's recipe makes it."""
    said = conversation["turns"]
    history = "".join(f"<|user|>\n{t['user']}\n<|assistant|>\n{t['assistant']}\n" for t in said[:turn])
    chunks = "\n---\n".join(chunk[1] for chunk in said[turn]["chunks"])
    return f"{conversation['system']}\n\n{history}{chunks}\n---\n<|user|>\n{said[turn]['user']}\n<|assistant|>\n"


@pytest.fixture(scope="module")
def turns(corpus_lines: Lines) -> list[Turn]:
    """Every prompt of every conversation, with its declared pieces in order."""
    found = []
    for conversation in corpus_lines("conversations"):
        for built in conversation["prompts"]:
            prompt = rebuild(conversation, built["turn"])
            pieces = [Piece(producer, prompt[a:b], source_id=source) for producer, source, a, b in built["offsets"]]
            name = f"{conversation['conversation']}/{built['turn']}"
            found.append(Turn(name, prompt, built, census(prompt, pieces)))
    return found


def test_the_corpus_is_whole(turns: list[Turn]) -> None:
    """No prompt is passed over in silence."""
    print_table(turns)
    assert len(turns) == PROMPTS
    assert len({turn.name.partition("/")[0] for turn in turns}) == CONVERSATIONS
    assert max(len(turn.prompt) for turn in turns) == LONGEST


def test_every_prompt_is_rebuilt_to_the_byte(turns: list[Turn]) -> None:
    """By sha256: what is counted is what was built."""
    wrong = [turn.name for turn in turns if hashlib.sha256(turn.prompt.encode()).hexdigest() != turn.built["sha256"]]
    assert wrong == []


def test_every_offset_and_total_is_the_builder_s(turns: list[Turn]) -> None:
    """Histories repeat themselves, and each text is still found where this turn put it."""
    wrong = []
    for turn in turns:
        expected, found = turn.built["expected"], turn.found
        right = (
            [(p.state, p.start, p.end) for p in found.pieces]
            == [("located", start, end) for _, _, start, end in turn.built["offsets"]]
            and found.total == expected["total_chars"] == turn.built["prompt_chars"]
            and found.covered == expected["covered_chars"]
            and found.unaccounted == expected["unaccounted_chars"]
            and found.unlocatable == tuple(expected["unlocatable"])
        )
        if not right:
            wrong.append(turn.name)
    assert wrong == []


def test_what_is_left_over_makes_a_mismatch(turns: list[Turn]) -> None:
    """The template around the pieces was declared by nobody: a gap, in every one of them."""
    assert {(turn.found.verdict, turn.found.reasons) for turn in turns} == {("mismatch", ("gap",))}
    for turn in turns:
        assert sum(map(len, turn.found.gaps)) == turn.found.unaccounted > 0


def print_table(turns: list[Turn]) -> None:
    """What the counts are, for whoever runs this with ``-s``."""
    row: Counter[str] = Counter()
    for turn in turns:
        row["prompts"] += 1
        row["pieces"] += len(turn.found.pieces)
        row["located"] += len(turn.found.located)
        row["total"] += turn.found.total
        row["unaccounted"] += turn.found.unaccounted
    print("\n" + "".join(f"{name:>14}" for name in row))
    print("".join(f"{count:>14,}" for count in row.values()))
