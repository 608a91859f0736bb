"""The grade: each call's verdict with its reasons, and every check.

This is the only place where a verdict of a record is made, so that ``show``, ``grade``, the batch and the viewer
can't differ. A producer that takes in what the others leave is seen over several calls only: those of one record, or
of several that are graded together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import overload

from otel_prompt_trace.core.again import Again
from otel_prompt_trace.core.call import Call
from otel_prompt_trace.core.census import Census
from otel_prompt_trace.core.checks import Check, check_call, check_query, integrity
from otel_prompt_trace.core.counting import CountTokens, TokenCounts, count_call
from otel_prompt_trace.core.derive import Derivation, derive
from otel_prompt_trace.core.placement import Placement
from otel_prompt_trace.core.record import Record
from otel_prompt_trace.core.residuals.remainder import suspicions
from otel_prompt_trace.core.residuals.sketch import Sketch, sketch
from otel_prompt_trace.core.residuals.suspicion import Suspicion
from otel_prompt_trace.core.sightings import lost_attributes
from otel_prompt_trace.core.text import as_text
from otel_prompt_trace.core.usage import normalize
from otel_prompt_trace.core.verdict import Verdict, in_order, verdict, worst


@dataclass(frozen=True, slots=True)
class CallGrade:
    """What may be said of one call. ``tokens`` are counted here, None without a public encoding.

    ``again`` is what came of asking the call's placement again; None where it was rendered by none. ``suspected`` names
    the producers that took in what others left, with the evidence.
    """

    call: Call
    census: Census | None
    verdict: Verdict
    reasons: tuple[str, ...]
    checks: tuple[Check, ...]
    tokens: TokenCounts
    again: Again | None = None
    suspected: tuple[Suspicion, ...] = ()

    @property
    def prompt_tokens(self) -> int | None:
        """Tokens of the prompt."""
        return self.tokens.prompt


@dataclass(frozen=True, slots=True)
class Grade:
    """What may be said of a record; ``verdict`` is the worst of its calls', unknown for none."""

    qid: str
    verdict: Verdict
    calls: tuple[CallGrade, ...]
    checks: tuple[Check, ...]

    @property
    def failed(self) -> tuple[Check, ...]:
        """Every failed check, of the query and of its calls."""
        return tuple(c for c in (*self.checks, *(c for g in self.calls for c in g.checks)) if c.status == "fail")

    @property
    def exit_code(self) -> int:
        """0 all exact, 1 a mismatch or a failed check, 3 nothing worse than unknown."""
        return exit_code([self])


Placements = Mapping[str, Placement]


@overload
def grade(record: Record, count_tokens: CountTokens | None = None, placements: Placements | None = None) -> Grade: ...
@overload
def grade(
    record: Iterable[Record], count_tokens: CountTokens | None = None, placements: Placements | None = None
) -> tuple[Grade, ...]: ...
def grade(
    record: Record | Iterable[Record], count_tokens: CountTokens | None = None, placements: Placements | None = None
) -> Grade | tuple[Grade, ...]:
    """Grade a record, or several together.

    Args:
        record: as :meth:`PayloadStore.get` returns it; or several of them, in any order: their calls are compared in
            the order of time, so that a producer which takes in what the others leave is seen.
        count_tokens: a function of (text, model) that gives the number of tokens, or None where no encoding is
            public; without it ``token_identity`` is unknown.
        placements: as :func:`derive` takes them.

    Returns:
        A grade; of several records one for each, in their order.
    """
    if isinstance(record, Record):
        graded = _grade(record, count_tokens, placements)
        return across([graded], suspicions(sketches(record, graded)))[0] if len(graded.calls) > 1 else graded
    grades: list[Grade] = []
    seen: list[Sketch] = []
    for one in record:
        grades.append(_grade(one, count_tokens, placements))
        seen += sketches(one, grades[-1])
    return tuple(across(grades, suspicions(seen)))


def sketches(record: Record, graded: Grade) -> tuple[Sketch, ...]:
    """The calls of a graded record, as they are compared with others."""
    return tuple(sketch(record, g.call, g.census) for g in graded.calls if g.census is not None)


def across(grades: Sequence[Grade], found: Iterable[Suspicion]) -> list[Grade]:
    """The grades with what was found over all of their calls."""
    suspected: dict[tuple[str, str], list[Suspicion]] = {}
    for suspicion in found:
        suspected.setdefault((suspicion.qid, suspicion.call), []).append(suspicion)
    return [_suspect(graded, suspected) for graded in grades]


def exit_code(grades: Iterable[Grade]) -> int:
    """The exit code of a command that graded several records."""
    given = list(grades)
    if any(g.verdict == "mismatch" or g.failed for g in given):
        return 1
    return 3 if any(g.verdict == "unknown" for g in given) else 0


def _grade(record: Record, count_tokens: CountTokens | None, placements: Placements | None) -> Grade:
    calls = tuple(_grade_call(record, derivation, count_tokens) for derivation in derive(record, placements))
    return _of_calls(record.qid, calls, tuple(check_query(record)))


def _of_calls(qid: str, calls: tuple[CallGrade, ...], checks: tuple[Check, ...]) -> Grade:
    return Grade(qid, worst(call.verdict for call in calls) or "unknown", calls, checks)


def _suspect(graded: Grade, suspected: dict[tuple[str, str], list[Suspicion]]) -> Grade:
    calls = []
    for call in graded.calls:
        found = suspected.get((graded.qid, as_text(call.call.id)))
        if found:
            reasons = in_order({*call.reasons, "remainder_suspected"})
            call = replace(call, reasons=reasons, verdict=verdict(reasons), suspected=tuple(found))  # noqa: PLW2901
        calls.append(call)
    return _of_calls(graded.qid, tuple(calls), graded.checks)


def _grade_call(record: Record, derivation: Derivation, count_tokens: CountTokens | None) -> CallGrade:
    call, census = derivation.call, derivation.census
    tokens = count_call(record, call, census, count_tokens)
    reasons = set(census.reasons) if census else {"no_prompt"}
    if call.request is not None and call.evidence not in ("wire", "declared"):
        reasons.add("weak_evidence")
    if integrity(call)[0] == "fail" or derivation.rendered is False:
        reasons.add("sha256_failed")
    if (call.request or {}).get("held_by_reference"):
        reasons.add("held_by_reference")
    if (call.request or {}).get("model_visible_withheld"):
        reasons.add("undeclared_model_visible_part")
    reasons |= _holes(record, call)
    if (call.request or {}).get("after_end"):
        reasons.add("after_end")
    if record.unreadable or record.problems:
        reasons.add("unreadable_event")
    reported = normalize((call.response or {}).get("usage")).get("input_tokens")
    if tokens.prompt is not None and reported is not None and reported < tokens.prompt:
        reasons.add("provider_count_below_prompt")
    return CallGrade(
        call=call,
        census=census,
        verdict=verdict(reasons),
        reasons=in_order(reasons),
        checks=tuple(check_call(record, derivation, tokens)),
        tokens=tokens,
        again=derivation.again,
    )


def _holes(record: Record, call: Call) -> set[str]:
    """What a prompt that was read out of a span's content is known, or feared, to lack.

    What was declared, or seen on the wire, has no holes whatever its spans lost.
    """
    request = call.request
    if request is None:  # nothing could be read: what the spans lost may be why
        told = (event for event in record.of("content") if event.get("call") == call.id)
        return {"dropped_attributes"} if any(map(lost_attributes, told)) else set()
    if not request.get("projected"):
        return set()
    missing = {"missing_messages"} if request.get("missing") else set()
    return missing | ({"dropped_attributes"} if lost_attributes(request) else set())
