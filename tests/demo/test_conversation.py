"""The second story's data: house rules outside the index, and twelve questions that the handbook answers."""

from __future__ import annotations

import pytest

from otel_prompt_trace.demo.conversation import HOUSE_RULES, INSTRUCTIONS, TURNS, indexed, preamble
from otel_prompt_trace.demo.handbook import CHUNKS
from otel_prompt_trace.demo.retrieval import Index
from otel_prompt_trace.demo.stand_in_model import NOTICE, Message, answer

EXPECTED = [
    ("retention-2019#customer-records", "kept for seven years"),
    ("records#backups", "still in the backups for up to six months"),
    ("records#deletion-requests", "privacy@merrowby.example on the same day"),
    ("records#legal-hold", "keep the records until the hold is lifted"),
    ("travel#booking", "through the travel desk's page"),
    ("travel#hotels", "£110 a night"),
    ("expenses#meals", "£38 for the whole day"),
    ("expenses#mileage", "45p a mile"),
    ("expenses#claims-and-receipts", "within 30 days after the end of the trip"),
    ("leave#annual-leave", "ask at least four days before"),
    ("leave#sick-leave", "given back to you as leave"),
    ("records#log-retention", "kept for 30 days"),
]


def test_house_rules_and_index_share_out_the_handbook():
    """Every section is either a house rule, verbatim in the preamble, or in the index, and never both."""
    rules = preamble()
    assert 16_000 < len(rules) < 18_000
    assert rules == "\n\n".join(chunk.text for name in HOUSE_RULES for chunk in CHUNKS if chunk.document == name)
    assert {chunk for chunk in CHUNKS if chunk.text in rules} == set(CHUNKS) - set(indexed())
    assert {chunk.document for chunk in CHUNKS} - {chunk.document for chunk in indexed()} == set(HOUSE_RULES)


def test_there_are_twelve_turns():
    """Twelve different questions, each with an expected source."""
    assert len(set(TURNS)) == len(EXPECTED) == 12
    assert all(turn.endswith("?") for turn in TURNS)


@pytest.mark.parametrize(("turn", "expected"), list(zip(TURNS, EXPECTED, strict=True)))
def test_each_turn_finds_its_section_and_quotes_it(turn, expected):
    """Retrieval puts the section into the top five, and the stand-in quotes its sentence with the rules above it."""
    chunk_id, quoted = expected
    hits = Index(indexed()).search(turn, 5)
    assert chunk_id in [hit.chunk.chunk_id for hit in hits]
    context = "\n\n".join(hit.chunk.text for hit in hits)
    system = Message("system", f"{preamble()}\n\n{INSTRUCTIONS}")
    text = answer([system, Message("user", f"{context}\n\n{turn}")])
    assert text.startswith(NOTICE)
    assert quoted in text
