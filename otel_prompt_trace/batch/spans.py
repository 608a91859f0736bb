"""A span as the batch needs it, and what it says about payloads.

Invariants:

- Ids are lower-case hex and never all zeros.
- Nothing of a span is trusted: a ``prompt_trace.qid`` outside the grammar of qids is none, and says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from typing import Any

from otel_prompt_trace.core.attributes import CHARS, QID, REF, SHA256
from otel_prompt_trace.core.qid import carried_date, is_qid

PAYLOAD_ATTRIBUTES = (REF, SHA256, CHARS)  # each of them says that a payload was recorded
MODEL_CALLS = frozenset({"chat", "text_completion", "generate_content"})

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


@dataclass(frozen=True, slots=True)
class Span:
    """One finished span. Times are nanoseconds since 1970, UTC; ``events`` is a number.

    ``kind`` is one of INTERNAL, SERVER, CLIENT, PRODUCER, CONSUMER, UNSPECIFIED; ``status_code`` of UNSET, OK, ERROR.
    ``source`` and ``line`` say where the archive holds it.
    """

    trace_id: str
    span_id: str
    parent_span_id: str | None
    name: str
    kind: str
    start_ns: int
    end_ns: int
    status_code: str
    status_message: str
    scope: str
    service: str
    attributes: Mapping[str, Any]
    events: int
    dropped_attributes: int
    source: str
    line: int

    @property
    def qid(self) -> str | None:
        """The query that the span belongs to, None where it carries no legal qid."""
        value = self.attributes.get(QID)
        return value if is_qid(value) else None

    @property
    def illegal_qid(self) -> str | None:
        """What stands in place of a qid and is none, as text cut to 40 characters."""
        value = self.attributes.get(QID)
        return None if value is None or is_qid(value) else repr(value)[:40]

    @property
    def digest(self) -> str | None:
        """The digest of the prompt that the span names."""
        value = self.attributes.get(SHA256)
        return value if isinstance(value, str) else None

    @property
    def is_model_call(self) -> bool:
        """Whether an instrumentation made the span for one request to a model."""
        operation = self.attributes.get("gen_ai.operation.name")
        kind = self.attributes.get("openinference.span.kind")
        return (isinstance(operation, str) and operation in MODEL_CALLS) or (
            isinstance(kind, str) and kind.upper() == "LLM"
        )

    @property
    def expects_payload(self) -> bool:
        """Whether a payload ought to be stored for the span: a model call, or a span that names a payload."""
        return self.is_model_call or any(name in self.attributes for name in PAYLOAD_ATTRIBUTES)

    @property
    def day(self) -> date | None:
        """The UTC date that its payload is stored under: that of its qid if it carries one, else of its start."""
        carried = carried_date(self.qid) if self.qid is not None else None
        if carried is not None:
            return carried
        try:
            return (_EPOCH + timedelta(microseconds=self.start_ns // 1000)).date()
        except OverflowError:
            return None
