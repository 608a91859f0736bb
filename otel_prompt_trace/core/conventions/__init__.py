"""The conventions by which instrumentations put content on spans, events and logs.

Two questions are answered, both purely. Which attribute carries content, and is the span a model call: asked on the
application's thread, answered by what is named here. What the content says of a request, a response and a retrieval:
asked later, answered by its module ``projection``, which this package does not load by itself.
"""

from __future__ import annotations

from otel_prompt_trace.core.conventions.event_names import ContentEvent, content_event, content_in_event
from otel_prompt_trace.core.conventions.keys import content_key, known_keys
from otel_prompt_trace.core.conventions.roles import Role, is_model_call, span_role
from otel_prompt_trace.core.conventions.table import ContentKey, Convention, Direction

__all__ = [
    "ContentEvent",
    "ContentKey",
    "Convention",
    "Direction",
    "Role",
    "content_event",
    "content_in_event",
    "content_key",
    "is_model_call",
    "known_keys",
    "span_role",
]
