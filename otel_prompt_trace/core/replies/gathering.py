"""Messages of a reply as the framing cuts them, gathered for the API that they belong to."""

from __future__ import annotations

import base64
import copy
from typing import Any

from otel_prompt_trace.core.replies.apis import READERS, STREAMS, USAGE_LAST
from otel_prompt_trace.core.replies.errors import error_of
from otel_prompt_trace.core.replies.event_stream import Headers
from otel_prompt_trace.core.replies.values import fields_of, objects_in, parsed

DONE = "[DONE]"


class Gathering:
    """What the messages so far come to. One that cannot be read costs the others nothing."""

    def __init__(self, api: str, status: int) -> None:
        self._reader = READERS.get(api)
        self._stream = STREAMS[api]() if api in STREAMS else None
        self._failed = not 200 <= status < 300
        self._unnamed = f"http {status}" if self._failed else "error"
        self._error: dict[str, str] = {}
        self._usage_last = api in USAGE_LAST
        self._done = False
        self._bad = 0

    @property
    def marked(self) -> bool:
        """The end mark of a stream was seen, after which nothing comes."""
        return self._done or (self._stream is not None and self._stream.ended and not self._usage_last)

    @property
    def ended(self) -> bool:
        """A stream that was transmitted whole had come to its end."""
        return self._done or (self._stream is not None and self._stream.ended)

    def ahead(self) -> Gathering:
        """A copy that may take further messages without this one knowing of them."""
        return copy.deepcopy(self)

    def text(self, name: str, text: str | bytes) -> None:
        """A message that is JSON text, or the mark that ends a stream."""
        if text == DONE:
            self._done = True
            return
        try:
            value = parsed(text)
        except ValueError:
            self._bad += 1
            return
        if isinstance(value, dict):
            self._value(name, value)
            return
        for item in objects_in(value):
            self._value(name, item)

    def message(self, headers: Headers, payload: bytes) -> None:
        """A message of an AWS event stream."""
        value: dict[str, Any] = {}
        try:
            value = fields_of(parsed(payload)) if payload else {}
            if isinstance(value.get("bytes"), str):  # a model's own form, wrapped
                value = fields_of(parsed(base64.b64decode(value["bytes"], validate=True)))
        except ValueError:
            self._bad += 1
        if headers.get(":message-type", "event") == "event":
            self._value(headers.get(":event-type", ""), value)
            return
        kind = headers.get(":exception-type") or headers.get(":error-code")
        said = headers.get(":error-message") or value.get("message") or value.get("Message")
        self._error = self._error or error_of({"code": kind, "message": said}, failed=True)

    def _value(self, name: str, value: dict[str, Any]) -> None:
        if not self._error:
            self._error = error_of(value, failed=self._failed or name == "error", unnamed=self._unnamed)
        if self._stream is None:
            return
        try:
            self._stream.add(name, value)
        except Exception:  # noqa: BLE001 - a message of an unknown form must not cost the others
            self._bad += 1

    def whole_body(self, value: Any) -> dict[str, Any]:
        """The fields of a body that is one JSON value."""
        found = self._reader(value) if self._reader is not None and isinstance(value, dict) else None
        error = error_of(value, failed=self._failed, unnamed=self._unnamed)
        fields = {**(found or {}), **error}
        return fields or self.unread("JSON of no known form")

    def streamed(self, *, whole: bool, declared: bool = True) -> dict[str, Any]:
        """The fields of what was streamed.

        Args:
            whole: the last message was not cut.
            declared: the header announced a stream, so that one without messages was cut.
        """
        body = self._stream.body() if self._stream is not None else None
        found = self._reader(body) if self._reader is not None and body is not None else None
        fields = {**(found or {}), **self._error}
        if not fields:
            reason = "messages that cannot be read" if self._bad else "text of no known form"
            fields = {"unfinished": True} if declared and not whole else self.unread(reason)
        elif self._bad:
            fields["unread"] = f"messages that cannot be read: {self._bad}"
        if not (whole and self.ended) and (found is not None or not whole or (declared and not self._error)):
            fields["unfinished"] = True
        return self.unread(None, fields)

    def unread(self, reason: str | None, fields: dict[str, Any] | None = None) -> dict[str, Any]:
        """Fields to which is added why there are no others, and that the status told of an error, if it did."""
        told = dict(fields or {})
        if reason is not None:
            known = self._reader is not None or self._failed
            told["unread"] = reason if known else "an API that is not known"
        if self._failed:
            told.setdefault("error", self._unnamed)
        return told
