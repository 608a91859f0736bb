"""``feedback()``: what somebody thought of an answer, added to its record at any later time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from otel_prompt_trace.capture.guard import never_raises
from otel_prompt_trace.core.qid import check_qid
from otel_prompt_trace.current import current
from otel_prompt_trace.pipeline.flags import END

if TYPE_CHECKING:
    from otel_prompt_trace.core.events import Event


def feedback(
    qid: str, *, score: float | None = None, comment: str | None = None, fields: Mapping[str, Any] | None = None
) -> None:
    """Record what somebody thought of the answer to a query, now or days later.

    Raises:
        InvalidQid: ``qid`` is outside the grammar.
    """
    check_qid(qid)
    named = {"score": score, "comment": comment, "fields": fields}
    _feedback(qid, {"kind": "feedback", **{name: value for name, value in named.items() if value is not None}})


@never_raises
def _feedback(qid: str, event: Event) -> None:
    runtime = current()
    if runtime is not None:
        runtime.append(qid, [event], flags=END, policy=runtime.settings.policy)
