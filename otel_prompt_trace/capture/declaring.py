"""``declare()``: say who put a text into the prompt, at the place where the text is made."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any, TypeVar

from otel_prompt_trace.capture.context import current_call, current_query
from otel_prompt_trace.capture.guard import never_raises
from otel_prompt_trace.core.pieces import check_labels
from otel_prompt_trace.core.withheld import texts_of
from otel_prompt_trace.current import current

if TYPE_CHECKING:
    from otel_prompt_trace.core.events import Event

T = TypeVar("T")


def declare(
    producer: str,
    text: T,
    *,
    source_id: str | None = None,
    trust: str = "unknown",
    policy: str = "store",
    inline: bool = False,
) -> T:
    """Record that ``producer`` made ``text``, and return ``text`` itself.

    It works inside f-strings, joins and dicts. Inside an open call the piece belongs to that call; elsewhere in a
    query it is offered to every call of it. Outside any query nothing is recorded.

    Args:
        producer: the part of the application that made it (``system``, ``history``, ``rag`` …).
        text: a str, a number as ``str`` writes it, or a JSON value (tool definitions, a response schema) that the
            model sees beside the prompt.
        source_id: what it was made from: a chunk id, a document, a row.
        trust: owner, policy, tool, child, retrieved, user or unknown.
        policy: ``hash`` keeps a keyed digest and the length in place of the text: here, and wherever it stands in what
            is recorded of the query, and of queries within it, from now on. Declare it before the call that sends it.
            Of a JSON value that holds for each of its strings and names of eight characters or more.
        inline: it rides inside another declared text, and owns its characters there.

    Raises:
        ConfigurationError: there is no such trust label or policy.
    """
    check_labels(trust, policy)
    _declare(producer, text, source_id, trust, policy, inline)
    return text


@never_raises
def _declare(producer: str, text: Any, source_id: str | None, trust: str, policy: str, inline: bool) -> None:
    query = current_query()
    if query is None or query.runtime is None:
        runtime = current()
        if policy != "store" and runtime is not None:
            runtime.accounts.warn("withheld", "A text to be withheld was declared where no query is open: it is not")
        return
    if type(text) in (int, float):
        text = str(text)  # as an f-string renders it
    event: Event = {"kind": "piece", "producer": str(producer), "trust": trust}
    if isinstance(text, str):
        event["text"] = text
    else:
        event["value"] = _as_it_is_now(text)
    if source_id is not None:
        event["source_id"] = str(source_id)
    if policy != "store":
        event["policy"] = policy
        query.withhold([text] if isinstance(text, str) else texts_of(event["value"]))
    if inline:
        event["inline"] = True
    call = current_call()
    if call is not None:
        call.declare(event)
    elif query.offers.add(event):
        query.note(event)


def _as_it_is_now(value: Any) -> Any:
    """A copy, since the application may go on to change what it declared before that is written."""
    try:
        return deepcopy(value)
    except Exception:  # noqa: BLE001 - a value that can't be copied is stored as whatever it is when it is written
        return value
