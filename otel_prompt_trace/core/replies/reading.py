"""Reads a reply, whole or as its bytes arrive.

What the first byte says decides the framing, since content types are missing or wrong in the wild: a brace or bracket
is JSON whatever the header says. The framing cuts the bytes into messages; bytes that made up a message are not kept.
How the bytes were chunked never matters.
"""

from __future__ import annotations

from typing import Any

from otel_prompt_trace.core.replies.apis import READERS
from otel_prompt_trace.core.replies.event_stream import Messages
from otel_prompt_trace.core.replies.gathering import DONE, Gathering
from otel_prompt_trace.core.replies.json_values import JsonValues
from otel_prompt_trace.core.replies.sse import EventLines
from otel_prompt_trace.core.replies.values import parsed

APIS = tuple(READERS)
_BOM = b"\xef\xbb\xbf"
_BLANK = b" \t\r\n"
_OF_LINES = ("ndjson", "jsonl", "json-lines", "stream+json")


def read_reply(api: str, status: int, content_type: str, body: bytes, *, complete: bool = True) -> dict[str, Any]:
    """The fields of a response event from a reply's body, its content codings undone. Never raises.

    Args:
        api: one of :data:`APIS`; of another only errors are read.
        status: of HTTP.
        content_type: the header's value, or an empty text.
        body: the bytes, perhaps not all of them.
        complete: the transfer ended as HTTP says it should.

    Returns:
        Of these, what is known: ``output`` (a text, or a list in the provider's own form), ``finish_reason``,
        ``usage``, ``model``, ``response_id``; ``error`` (type and code) and ``error_message``; ``unfinished`` (True:
        the reply stopped before its end) and ``unread`` (why the body, or a part of it, is no reply of this API).
    """
    reader = ReplyReader(api, status, content_type)
    reader.feed(body)
    return reader.fields(complete=complete)


class ReplyReader:
    """The same for bytes as they arrive; :func:`read_reply` says what is answered."""

    def __init__(self, api: str, status: int, content_type: str) -> None:
        kind = (content_type or "").lower()
        self._frames_said = "eventstream" in kind
        of_lines = any(word in kind for word in _OF_LINES)
        self._lines_said = of_lines or api.startswith("ollama.")
        self._stream_said = self._frames_said or of_lines or "event-stream" in kind
        self._gathering = Gathering(api, status)
        self._head = b""  # until the framing is decided
        self._framing: EventLines | JsonValues | Messages | _Document | _Page | None = None
        self._fault: str | None = None

    @property
    def ended(self) -> bool:
        """The stream's own end mark was seen: what a client does not read after it is no loss."""
        return self._gathering.marked

    def feed(self, data: bytes) -> None:
        """The next bytes of the body."""
        try:
            self._cut(self._decide(self._head + data) if self._framing is None else data)
        except Exception as why:  # noqa: BLE001 - telemetry never raises into what it watches
            self._fault = type(why).__name__

    def fields(self, *, complete: bool) -> dict[str, Any]:
        """What is known so far. May be asked at any time, and again after further bytes."""
        try:
            found = self._fields()
        except Exception as why:  # noqa: BLE001 - telemetry never raises into what it watches
            self._fault = type(why).__name__
            found = {}
        if self._fault is not None:
            found = self._gathering.unread(f"the reply cannot be read ({self._fault})", found)
        if not complete:
            found["unfinished"] = True
        return found

    def _decide(self, head: bytes) -> bytes:
        """Chooses the framing by the first byte that says something, and gives back the bytes from there on."""
        self._head = head
        start = head if self._frames_said else head.lstrip(_BLANK)
        if len(start) < len(_BOM) and _BOM.startswith(start):
            return b""
        start = start.removeprefix(_BOM)
        start = start if self._frames_said else start.lstrip(_BLANK)
        if not start:
            return b""
        self._head = b""
        first = start[:1]
        if first == b"<":
            self._framing = _Page()
        elif first == b"[" or (first == b"{" and self._lines_said):
            self._framing = JsonValues()
        elif first == b"{":
            self._framing = _Document()
        elif self._frames_said or first in (b"\0", b"\1"):
            self._framing = Messages()
        else:
            self._framing = EventLines()
        return start

    def _cut(self, data: bytes) -> None:
        match self._framing:
            case EventLines() as lines:
                for name, text in lines.feed(data):
                    self._gathering.text(name, text)
            case JsonValues() as values:
                for raw in values.feed(data):
                    self._gathering.text("", raw)
            case Messages() as messages:
                for headers, payload in messages.feed(data):
                    self._gathering.message(headers, payload)
            case _Document() as document:
                document.pieces.append(data)
            case _:
                pass

    def _fields(self) -> dict[str, Any]:
        gathering, declared = self._gathering, self._stream_said
        match self._framing:
            case EventLines() as lines:
                rest = lines.rest()
                if rest is None:
                    return gathering.streamed(whole=True, declared=declared)
                if not _readable(rest[1]):
                    return gathering.streamed(whole=False, declared=declared)
                ahead = gathering.ahead()
                ahead.text(*rest)
                return ahead.streamed(whole=True, declared=declared)
            case JsonValues() as values:
                return gathering.streamed(whole=values.whole)
            case Messages() as messages:
                found = gathering.streamed(whole=messages.whole and messages.broken is None)
                return found if messages.broken is None else {**found, "unread": messages.broken, "unfinished": True}
            case _Document() as document:
                return self._document(document.join())
            case _Page():
                return gathering.unread("a page of markup")
            case None:
                return gathering.unread("an empty body")

    def _document(self, raw: bytes) -> dict[str, Any]:
        try:
            return self._gathering.whole_body(parsed(raw))
        except ValueError:  # cut, or several values where one was expected
            pass
        values, ahead = JsonValues(), self._gathering.ahead()
        items = list(values.feed(raw))
        if not items and not values.whole:
            return self._gathering.unread(None, {"unfinished": True})
        for item in items:
            ahead.text("", item)
        return ahead.streamed(whole=values.whole, declared=False)


def _readable(text: str) -> bool:
    try:
        return text == DONE or parsed(text) is not None
    except ValueError:
        return False


class _Document:
    """One JSON value, which can be read only once it is whole."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []

    def join(self) -> bytes:
        self.pieces = [b"".join(self.pieces)]
        return self.pieces[0]


class _Page:
    """Markup: a proxy's page, of which nothing is kept."""
