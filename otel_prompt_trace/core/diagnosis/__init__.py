"""Diagnosis: which factor was zero when an answer lacked what it should have had.

For a text, or a chunk, to be in an answer it must be in the index, be retrieved, be rendered into the prompt, and be
used. Each factor is 1, 0, or None for unknown, with the evidence for it. Invariants:

- A factor is 0 only where the record or the application says so; what nobody told is unknown.
- Rendered is 1 only for characters of the prompt: a text that stands there in another form is a hint.
- Used is never 0: nobody can see that a model did not use what it read.

``facts`` gathers what is known of the expectation, ``factors`` judges each of the four, ``manifest`` reads what an
index was built from, ``quoting`` finds quotes.
"""

from __future__ import annotations

from dataclasses import dataclass

from otel_prompt_trace.core.diagnosis.factors import Value, indexed, rendered, retrieved, used
from otel_prompt_trace.core.diagnosis.facts import Facts, TakenAs, known_ids
from otel_prompt_trace.core.diagnosis.manifest import Manifest
from otel_prompt_trace.core.grade import CallGrade
from otel_prompt_trace.core.record import Record

__all__ = ["Diagnosis", "Factor", "Manifest", "diagnose", "known_ids"]


@dataclass(frozen=True, slots=True)
class Factor:
    """One of the four. ``value`` is 1, 0, or None for unknown."""

    name: str
    value: Value
    evidence: str


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The factors in their order, and what they come to. ``taken_as`` says how ``expected`` was understood.

    ``chunks`` are the chunks that it is about: the one that was named, or those that hold the text.
    """

    expected: str
    taken_as: TakenAs
    chunks: tuple[str, ...]
    factors: tuple[Factor, ...]

    @property
    def zero(self) -> Factor | None:
        """The first factor that was zero: what comes after it could be nothing else."""
        return next((factor for factor in self.factors if factor.value == 0), None)

    @property
    def unknown(self) -> tuple[Factor, ...]:
        """The factors of which nothing can be said."""
        return tuple(factor for factor in self.factors if factor.value is None)

    @property
    def sentence(self) -> str:
        """Which factor was zero, in one sentence."""
        zero = self.zero
        open_ = [factor.name for factor in self.unknown]
        if zero is not None:
            before = [f.name for f in self.factors[: self.factors.index(zero)] if f.value is None]
            doubt = f"; whether it was {' and '.join(before)} is unknown" if before else ""
            return f"The factor that was zero: {zero.name}{doubt}."
        if not open_:
            return "No factor was zero: it was in the index, retrieved, rendered, and quoted in the answer."
        known = [factor.name for factor in self.factors if factor.value == 1]
        sure = f"it was {', '.join(known)}; " if known else ""
        return f"No factor is known to be zero: {sure}whether it was {' or '.join(open_)} is unknown."

    @property
    def exit_code(self) -> int:
        """1 where a factor was zero, 3 where none is known to be and one is unknown, 0 else."""
        return 1 if self.zero is not None else 3 if self.unknown else 0


def diagnose(
    record: Record,
    expected: str,
    call: CallGrade | None,
    manifest: Manifest | None = None,
    *,
    taken_as: TakenAs | None = None,
) -> Diagnosis:
    """Which of the four factors was zero for one call.

    Args:
        record: the query.
        expected: a chunk id, or a text that should have been in the prompt. What the record or the manifest names as
            a chunk is one, and so is a single word that stands in no text that is known here.
        call: the graded call; None where the query made none.
        manifest: what the index was built from, made for ``expected`` and :func:`known_ids`; None where none is at
            hand.
        taken_as: ``chunk`` or ``text``, where that should not be told by what is known.
    """
    facts = Facts(record, expected, call, manifest, taken_as)
    factors = (
        Factor("in the index", *indexed(facts)),
        Factor("retrieved", *retrieved(facts)),
        Factor("rendered", *rendered(facts)),
        Factor("used", *used(facts)),
    )
    return Diagnosis(expected, "chunk" if facts.is_chunk else "text", tuple(facts.chunks), factors)
