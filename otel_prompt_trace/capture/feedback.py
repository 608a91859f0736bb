"""``feedback()``: what somebody thought of an answer, added to its record at any later time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from otel_prompt_trace.capture.guard import never_raises
from otel_prompt_trace.core.pieces import check_labels
from otel_prompt_trace.core.qid import check_qid
from otel_prompt_trace.current import current
from otel_prompt_trace.pipeline.flags import END

if TYPE_CHECKING:
    from otel_prompt_trace.core.events import Event


def feedback(
    qid: str,
    *,
    score: float | None = None,
    comment: str | None = None,
    fields: Mapping[str, Any] | None = None,
    policy: str | None = None,
) -> None:
    """Record what somebody thought of the answer to a query, now or days later.

    Args:
        qid: of the query.
        score, comment, fields: what was said.
        policy: ``hash`` where the query's text is not to be kept; by default the installed policy, and that of the
            query itself where it was opened by this process not long ago.

    Raises:
        InvalidQid: ``qid`` is outside the grammar.
        ConfigurationError: there is no such policy.
    """
    check_qid(qid)
    if policy is not None:
        check_labels("unknown", policy)
    named = {"score": score, "comment": comment, "fields": fields}
    _feedback(qid, {"kind": "feedback", **{name: value for name, value in named.items() if value is not None}}, policy)


@never_raises
def _feedback(qid: str, event: Event, policy: str | None) -> None:
    runtime = current()
    if runtime is not None:
        runtime.append(qid, [event], flags=END, policy=policy or runtime.policy_of(qid))
