"""Names of span events and log records whose attributes or body carry content.

Some conventions hand over a message as an event of its own instead of as an attribute. Beside keys of the table, such
an event carries its content under bare names (``content``, ``message``, ``tool_calls``), which mean something only
there; and a log record carries it in its body.
"""

from __future__ import annotations

from typing import NamedTuple

from otel_prompt_trace.core.conventions.keys import content_key
from otel_prompt_trace.core.conventions.table import Convention, Direction


class ContentEvent(NamedTuple):
    """Whose event it is, which way its content goes, and the role that its name gives to the message.

    ``bare`` says that attributes with a bare name are content as well; without it only keys of the table are. The body
    of a log record is content in either case.
    """

    convention: Convention
    direction: Direction
    role: str | None = None
    bare: bool = True


_EVENTS: dict[str, ContentEvent] = {
    "gen_ai.client.inference.operation.details": ContentEvent("otel", "both", bare=False),
    "gen_ai.choice": ContentEvent("otel", "out", "assistant"),
    "gen_ai.content.prompt": ContentEvent("otel", "in"),
    "gen_ai.content.completion": ContentEvent("otel", "out", "assistant"),
    "gen_ai.evaluation.result": ContentEvent("otel", "evaluation", bare=False),
    "llm.content.prompt": ContentEvent("openllmetry", "in"),
    "llm.content.completion": ContentEvent("openllmetry", "out", "assistant"),
    "db.query.result": ContentEvent("openllmetry", "retrieval", bare=False),
    "db.search.result": ContentEvent("openllmetry", "retrieval", bare=False),
    "db.query.embeddings": ContentEvent("openllmetry", "embedding", bare=False),
    "db.search.embeddings": ContentEvent("openllmetry", "embedding", bare=False),
    "data.input": ContentEvent("monocle", "in"),
    "data.output": ContentEvent("monocle", "out"),
}
_MESSAGE = {
    name: ContentEvent("otel", "in", name) for name in ("system", "developer", "user", "assistant", "tool", "function")
}
_HEAD, _TAIL = "gen_ai.", ".message"
# One vendor's distribution turns a span's messages into a log record named after the instrumentation.
_SCOPES = ("openinference.instrumentation.", "opentelemetry.instrumentation.")
_EXCHANGE = ContentEvent("openinference", "both")


def content_event(name: str) -> ContentEvent | None:
    """What the content of an event or log record of this name is; None where it carries none.

    Never raises, also for a name that is no string.
    """
    if not isinstance(name, str):
        return None
    found = _EVENTS.get(name)
    if found is not None:
        return found
    if name.startswith(_HEAD) and name.endswith(_TAIL):
        return _MESSAGE.get(name[len(_HEAD) : -len(_TAIL)], ContentEvent("otel", "in"))
    return _EXCHANGE if name.startswith(_SCOPES) else None


def content_in_event(event: ContentEvent | None, key: str) -> bool:
    """Whether the attribute ``key`` of an event or log record is content.

    Keys of the table are content in any event. In one whose name says that it carries a message, so is every
    attribute with a bare name, known or not; dotted ones outside the table describe the call (``gen_ai.system``,
    ``server.address``), except for a tool's result under a message. A key that is no string is nobody's: the SDK
    refuses it.
    """
    if not isinstance(key, str):
        return False
    if content_key(key) is not None:
        return True
    return event is not None and event.bare and ("." not in key or key == "tool.result")
