"""Checks: statements about a record that can fail, each ``pass``, ``fail`` or ``unknown`` with a detail.

Unknown means that the check was not exercised: what it needs is not in the record. It is shown as ``?`` and is
never counted as passed. ``payload`` has those of what was recorded and sent, ``chunks`` those of retrieval, ``tokens``
those of counts.
"""

from __future__ import annotations

from collections.abc import Iterator

from otel_prompt_trace.core.checks.check import Check, Outcome, Status
from otel_prompt_trace.core.checks.chunks import chunk_identity, chunks_located, rank_prefix
from otel_prompt_trace.core.checks.payload import finish_reason, integrity, none_in, sent_as_rendered, single_end
from otel_prompt_trace.core.checks.tokens import check_identity, expected_tokens
from otel_prompt_trace.core.counting import TokenCounts
from otel_prompt_trace.core.derive import Derivation
from otel_prompt_trace.core.record import Record
from otel_prompt_trace.core.token_identity import token_identity

__all__ = ["Check", "Status", "check_call", "check_query", "integrity"]


def check_query(record: Record) -> Iterator[Check]:
    """The checks that concern the query as a whole."""
    yield single_end(record)


def check_call(record: Record, derivation: Derivation, counts: TokenCounts) -> Iterator[Check]:
    """The checks of one call, whose tokens were counted."""
    number = derivation.call.number
    for name, (status, detail) in _outcomes(record, derivation, counts).items():
        yield Check(name, status, detail, number)


def _outcomes(record: Record, derivation: Derivation, counts: TokenCounts) -> dict[str, Outcome]:
    call, census = derivation.call, derivation.census
    identity = token_identity(call, counts.prompt)
    return {
        "payload_integrity": integrity(call),
        "duplicate_piece": none_in(census, "duplicate"),
        "whole_prompt_piece": none_in(census, "whole_prompt"),
        "sent_as_rendered": sent_as_rendered(call),
        "chunk_identity": chunk_identity(record, census),
        "chunks_located": chunks_located(record, census),
        "rank_prefix": rank_prefix(record, census),
        "token_identity": check_identity(identity),
        "expected_tokens": expected_tokens(record, counts, identity),
        "finish_reason": finish_reason(call),
        "span_joined": ("unknown", "answered by the batch, which has the spans"),
    }
