"""``query()``: which id a query gets, and whose child it is."""

from __future__ import annotations

from opentelemetry import baggage

from otel_prompt_trace.capture.context import OpenQuery, current_call, current_query
from otel_prompt_trace.capture.query import Query
from otel_prompt_trace.core import attributes
from otel_prompt_trace.core.pieces import POLICIES
from otel_prompt_trace.core.qid import check_qid, is_qid
from otel_prompt_trace.current import current
from otel_prompt_trace.exceptions import ConfigurationError
from otel_prompt_trace.sources import Sources

_mint = Sources().new_id


def query(
    question: str | None = None,
    *,
    user: str | None = None,
    session: str | None = None,
    tenant: str | None = None,
    conversation_id: str | None = None,
    policy: str | None = None,
    qid: str | None = None,
    join: bool = False,
) -> Query:
    """Open a query, for use in a ``with`` statement: a span and a qid.

    Args:
        question: what was asked; kept under the query's policy.
        user, session, tenant, conversation_id: whose it is; kept as given.
        policy: ``store`` or ``hash``; by default that of the query around it, else the installed one.
        qid: adopt an id of your own instead of minting one.
        join: continue the query that is open here, or a trusted one that arrived in baggage, under its qid.
            Otherwise a query inside a query is a child, with its parent named.

    Raises:
        InvalidQid: ``qid`` is outside the grammar.
        ConfigurationError: there is no such policy.
    """
    if policy is not None and policy not in POLICIES:
        raise ConfigurationError(f"policy={policy!r}: it takes {', '.join(POLICIES)}")
    runtime = current()
    outer = current_query()
    incoming = baggage.get_baggage(attributes.QID)
    incoming_qid = incoming if isinstance(incoming, str) and is_qid(incoming) else None
    parent: dict[str, str] | None = None
    joined, origin = False, "query"
    if qid is not None:
        adopted = check_qid(qid)
        parent = _parent(outer, incoming_qid if incoming_qid != qid else None)
    elif join and outer is not None:
        adopted, joined = outer.qid, True
    elif join and incoming_qid is not None and runtime is not None and runtime.settings.accept_qid == "trusted":
        adopted, joined, origin = incoming_qid, True, "baggage"
    else:
        adopted = runtime.new_id() if runtime is not None else _mint()
        parent = _parent(outer, incoming_qid)
    if outer is not None and policy is None:
        policy = outer.policy  # what must not be kept out there must not be kept in here either
    fields = {
        "question": question,
        "user": user,
        "session": session,
        "tenant": tenant,
        "conversation_id": conversation_id,
        "parent": parent,
    }
    opening = {name: value for name, value in fields.items() if value is not None}
    return Query(adopted, runtime, {"origin": origin, **opening}, policy, joined=joined, outer=outer)


def _parent(outer: OpenQuery | None, incoming: str | None) -> dict[str, str] | None:
    """Lineage: the query and the call within which this one begins, here or in the service that called us."""
    if outer is not None:
        call = current_call()
        return {"qid": outer.qid} if call is None else {"qid": outer.qid, "call": call.id}
    return None if incoming is None else {"qid": incoming}
