"""The second story: one support conversation over the handbook, in twelve turns.

Invariants:

- The house rules that open every prompt are sections of the handbook, verbatim, one blank line apart; about
  17,000 characters that never change, as a model host's prefix cache likes them.
- The sections of the house rules are not in the index of the conversation, so no text stands twice in a prompt.
- The twelve questions are asked in this order; each follows from the one before.
"""

from __future__ import annotations

from collections.abc import Iterable

from otel_prompt_trace.demo.handbook import CHUNKS, Chunk

__all__ = ["HOUSE_RULES", "INSTRUCTIONS", "TURNS", "indexed", "preamble"]

HOUSE_RULES = ("conduct", "security", "on-call", "data-handling")
"""The handbook's files whose sections make up the house rules, in this order."""

INSTRUCTIONS = """\
You answer questions of the staff of Merrowby Parcels. The house rules above hold for every answer. Use the handbook \
sections that come with the question, name the section that you relied on, and say so when they do not hold the \
answer."""

TURNS = (
    "How long do we keep customer records after an account is closed?",
    "Does that hold for the nightly backups too, or do deleted records stay in the backups for longer?",
    "The customer has now asked us to delete everything. To whom do I pass a deletion request?",
    "And if the legal team has placed a hold on the account: do we keep the records until it is lifted?",
    "I would rather explain this in person, at their office in Leeds. Where do I book trains?",
    "The meeting ends late. May I stay in a hotel, and what is the limit for a night?",
    "What may I claim for meals when I am away for the night?",
    "If I drive my own car instead, what is the mileage rate?",
    "How many days after the trip do I have to enter the claim?",
    "I should like to add two days of annual leave to the trip. How much notice do I have to give for two days?",
    "And what if I fall ill during annual leave?",
    "Back to that customer, for my notes: for how many days are the server logs about the account kept?",
)


def preamble() -> str:
    """The house rules: every section of the files :data:`HOUSE_RULES`."""
    return "\n\n".join(chunk.text for document in HOUSE_RULES for chunk in CHUNKS if chunk.document == document)


def indexed(chunks: Iterable[Chunk] = CHUNKS) -> tuple[Chunk, ...]:
    """The sections that are searched: all but those of the house rules."""
    return tuple(chunk for chunk in chunks if chunk.document not in HOUSE_RULES)
