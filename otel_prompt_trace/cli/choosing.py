"""Which call of a query is meant."""

from __future__ import annotations

from otel_prompt_trace.core.grade import CallGrade, Grade
from otel_prompt_trace.exceptions import NotFound


def choose_call(graded: Grade, number: int | None, option: str = "--call") -> CallGrade:
    """The call of this number, counting from 1, or the only one.

    Raises:
        NotFound: there is no such call, or there are several and none was named.
    """
    calls = graded.calls
    if not calls:
        raise NotFound(f"{graded.qid} has no call")
    if number is None and len(calls) > 1:
        raise NotFound(f"{graded.qid} has {len(calls)} calls: say which with {option} 1 to {len(calls)}")
    if number is not None and not 1 <= number <= len(calls):
        raise NotFound(f"{graded.qid} has {len(calls)} call(s), no call {number}")
    return calls[(number or 1) - 1]
