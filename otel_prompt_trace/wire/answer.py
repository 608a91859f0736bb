"""What comes back for one attempt, kept as it passes: references to bytes, which others read later.

An answer that is longer than most is read as it comes, so that only its text is held.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from otel_prompt_trace.core.events import Event
from otel_prompt_trace.core.replies import ReplyReader
from otel_prompt_trace.wire.open_answers import OPEN_ANSWERS

if TYPE_CHECKING:
    from otel_prompt_trace.runtime import Runtime

_MOST_RAW = 8 * 2**20  # bytes that are held as they came; beyond it they are read as they come
_MOST_ENCODED = 64 * 2**20  # the same of an answer that is compressed, and can be read only as a whole
_TAIL = 4096
_ENDS = (  # as they stand in a stream's own framing; within a model's text the same words are escaped
    b"\ndata: [DONE]", b"\ndata:[DONE]", b'"message_stop"', b'"stop_reason":"', b'"stop_reason": "',
    b'"response.completed"', b'"response.incomplete"', b'"finishReason"', b'"done":true', b'"done": true',
    b'"message-end"', b":event-type\x07\x00\x0bmessageStop",
)  # fmt: skip
_FULL = "Answers that are still open fill PROMPT_TRACE_MEMORY_MAX_BYTES: the largest are not kept to their end"


class Answer:
    """The answer to one attempt: its head, then what of its body the application is given."""

    __slots__ = ("__weakref__", "_api", "_content_type", "_encodings", "_raw", "_reader", "_size", "_unkept", "status")

    def __init__(self, api: str) -> None:
        self._api = api
        self.status: int | None = None
        self._content_type = ""
        self._encodings = ""
        self._raw: list[bytes] = []
        self._reader: ReplyReader | None = None
        self._size = 0
        self._unkept = 0

    def begun(self, status: int, content_type: str | None, encodings: str | None) -> None:
        """The head has come."""
        self.status = status
        self._content_type = content_type or ""
        self._encodings = encodings or ""

    def seen(self, data: bytes, runtime: Runtime) -> None:
        """A part of the body has passed."""
        kept = not self._unkept and self._may_keep(len(data), runtime)
        self._size += len(data)
        if not kept:
            self._unkept += len(data)
        elif self._reader is not None:
            self._reader.feed(data)
        else:
            self._raw.append(data)
            if self._size > _MOST_RAW and not self._encodings:
                self._read_on()

    @property
    def held(self) -> int:
        """Bytes that are held, as they came or read."""
        return self._size - self._unkept

    @property
    def ended(self) -> bool:
        """Whether a stream's own end is among the last bytes: clients close the connection when they have seen it."""
        if self._reader is not None:
            return self._reader.ended
        tail = b"".join(self._raw[-4:])[-_TAIL:]
        return any(mark in tail for mark in _ENDS)

    def give(self, *, complete: bool) -> Event:
        """The fields of a ``response`` event; nothing is held any more.

        Args:
            complete: whether the body was given to its end, whatever stood in it.
        """
        OPEN_ANSWERS.ended(self)
        if self.status is None:
            return {}
        event: dict[str, Any] = {"status": self.status}
        if self._reader is not None:
            whole = (complete or self._reader.ended) and not self._unkept
            event |= {**self._reader.fields(complete=whole), "bytes": self._size}
        else:
            event |= {"api": self._api, "content_type": self._content_type, "raw": b"".join(self._raw)}
            event["complete"] = complete and not self._unkept
            if self._encodings:
                event["encodings"] = self._encodings
        if self._unkept:
            event["unkept"] = self._unkept
        self._raw, self._reader = [], None
        return event

    def _may_keep(self, more: int, runtime: Runtime) -> bool:
        if self._encodings and self._size + more > _MOST_ENCODED:
            return False
        if OPEN_ANSWERS.may_keep(self, more, runtime.settings.memory_max_bytes):
            return True
        runtime.accounts.warn("answers", "%s", _FULL)
        return False

    def _read_on(self) -> None:
        reader = ReplyReader(self._api, self.status or 0, self._content_type)
        for data in self._raw:
            reader.feed(data)
        self._reader, self._raw = reader, []
