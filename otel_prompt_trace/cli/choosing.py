"""Which call of a query is meant."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from otel_prompt_trace.exceptions import NotFound

T = TypeVar("T")


def choose_call(qid: str, calls: Sequence[T], number: int | None) -> T:
    """The call of this number, counting from 1, or the only one.

    Raises:
        NotFound: there is no such call, or there are several and none was named.
    """
    if not calls:
        raise NotFound(f"{qid} has no call")
    if number is None and len(calls) > 1:
        raise NotFound(f"{qid} has {len(calls)} calls: say which with --call 1 to {len(calls)}")
    if number is not None and not 1 <= number <= len(calls):
        raise NotFound(f"{qid} has {len(calls)} call(s), no call {number}")
    return calls[(number or 1) - 1]
