"""One attempt on the wire: its request and its response, recorded as they pass.

The application's thread keeps references to bytes and copies them into the spool; reading them is left to whoever
seals the events. Nothing here raises. What a layer tells in the finalizer of an object of its own may come at any
moment, within any lock: it is only noted there, and recorded by another.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from otel_prompt_trace.capture.guard import never_raises
from otel_prompt_trace.core.bodies.apis import Api
from otel_prompt_trace.core.events import Event
from otel_prompt_trace.core.secret_places import holds_secrets
from otel_prompt_trace.current import current
from otel_prompt_trace.pipeline.flags import END, LINES, REQUEST
from otel_prompt_trace.wire.answer import Answer
from otel_prompt_trace.wire.outermost import exchange_above
from otel_prompt_trace.wire.place import Place, place_here
from otel_prompt_trace.wire.rules import body_of
from otel_prompt_trace.wire.sent import SentCall, target_of

if TYPE_CHECKING:
    from otel_prompt_trace.pipeline.frames import Frame


class Hop(NamedTuple):
    """One request of those that a single ``send`` of a client made, and the status that it was answered with."""

    host: str
    path: str
    body: Any
    status: int | None


class Exchange:
    """One attempt. ``sent`` with the request's body; then ``answered``, ``seen`` and ``over`` with the response."""

    __slots__ = (
        "_answer", "_api", "_attempt", "_body", "_call", "_host", "_over", "_path", "_place", "_started", "tried",
    )  # fmt: skip

    def __init__(self, api: Api, host: str, path: str, place: Place) -> None:
        self._api = api
        self._host = host
        self._path = path
        self._place = place
        self._body: list[bytes] = []
        self._call: SentCall | None = None
        self._attempt = 0
        self._started = 0
        self._answer = Answer(api.name)
        self._over = False
        self.tried = 0  # how often a layer below has tried again

    @never_raises
    def sending(self, chunk: Any) -> None:
        """A part of a body that is streamed; :meth:`sent` without a body tells that it was the last."""
        if isinstance(chunk, bytes | bytearray | memoryview):
            self._body.append(bytes(chunk))
        elif isinstance(chunk, str):
            self._body.append(chunk.encode())

    @never_raises
    def sent(self, body: bytes | None = None) -> None:
        """Record the request, if its body is one of the API's."""
        if body is None:
            body, self._body = b"".join(self._body), []
        if self._call is not None or self._over:
            return
        value = body_of(self._api, body)
        if value is None:
            self._over = True
            return
        place = self._place
        self._call, again = place.calls().next(target_of(body, self._host, self._path), place.runtime.new_id())
        self._attempt = self._call.attempts
        place.name(self._call.id)
        event: Event = {"same_body": True} if again else {"body": body}  # the first attempt holds it for all
        if not again and holds_secrets(value):
            event["secrets"] = True
        self._send(event)

    def covers(self, host: str, path: str, body: Any) -> bool:
        """Whether a request that a layer below sends is the one told of here."""
        if (host, path) == (self._host, self._path):
            return True
        body = body.encode() if isinstance(body, str) else body
        call = self._call
        return isinstance(body, bytes) and call is not None and call.target.body == target_of(body, host, path).body

    @never_raises
    def went_out(self, hops: Sequence[Hop]) -> None:
        """What left in the end, where hooks may change a request, and auth flows and redirects send it again."""
        first, *further = hops
        if self._call is not None and not self._over and self._is_changed(first.body):
            self._send(self._told(first.body, changed=True))
        for before, hop in zip(hops, further, strict=False):
            self._host, self._path = hop.host, hop.path
            self.again(before.status, None, hop.body)

    @never_raises
    def again(self, status: int | None, error: BaseException | None, body: Any = None) -> None:
        """The same call is tried again: this attempt is over, and another begins."""
        call = self._call
        if call is None or self._over:
            return
        if status is not None:
            self.answered(status, None, None)
        self.over(complete=False, error=error)
        call.attempts += 1
        call.open = True
        self._attempt = call.attempts
        self._answer, self._over = Answer(self._api.name), False
        self._send(self._told(body) if self._is_changed(body) else {"same_body": True})

    @never_raises
    def answered(self, status: int, content_type: str | None, encodings: str | None) -> None:
        """The response's head has come."""
        self._answer.begun(status, content_type, encodings)

    @never_raises
    def seen(self, data: bytes) -> None:
        """A part of the response's body that the application has been given."""
        if data and not self._over:
            self._answer.seen(data, self._place.runtime)

    @never_raises
    def over(self, *, complete: bool, error: BaseException | None = None) -> None:
        """The response's body has ended, was closed before its end, or never came."""
        if self._over:
            return
        self._over = True
        call = self._call
        if call is None:
            return
        call.open = False
        answer = self._answer
        whole = (complete and error is None) or answer.ended
        call.complete = whole and answer.status is not None and 200 <= answer.status < 300
        place = self._place
        event = self._event("response")
        event["evidence"] = "wire"
        event["ms"] = round((place.runtime.sources.perf_ns() - self._started) / 1e6)
        event |= answer.give(complete=complete)
        if answer.status is None or (error is not None and not whole):
            event["unfinished"] = True
        if error is not None and not whole:
            event["error"] = type(error).__name__
        events = [event]
        flags = 0
        if place.minted and call.complete:
            events.append({"kind": "end"})
            flags = END
        place.record(events, flags=flags)

    def abandoned(self) -> None:
        """The object that gave the response's body is gone. Only noted: see the module docstring."""
        if not self._over:
            self._place.runtime.later(lambda: self.over(complete=False))

    def _is_changed(self, body: Any) -> bool:
        call = self._call
        return isinstance(body, bytes) and call is not None and target_of(body, "", "").body != call.target.body

    def _told(self, body: Any, *, changed: bool = False) -> Event:
        """A body that is another one than the call began with; not kept where it is no request of the API any more."""
        value = body_of(self._api, body)
        event: Event = {"unread": "no request of this API"} if value is None else {"body": body}
        if value is not None and holds_secrets(value):
            event["secrets"] = True
        return event | ({"changed": True} if changed else {})

    def _send(self, event: Event) -> None:
        self._started = self._place.runtime.sources.perf_ns()
        whole = self._event("request") | {"evidence": "wire", "api": self._api.name, "host": self._host}
        place = self._place
        if place.query is not None and place.query.over:
            whole["after_end"] = True
        waited_for = "body" in event and (place.call is not None or place.model is not None)
        watcher = self._take_stock if waited_for else None
        place.record([whole | {"path": self._path} | event], flags=REQUEST, watcher=watcher)

    def _take_stock(self, frame: Frame, writer: str) -> None:
        """Runs on the shipper's thread while the model is answering."""
        from otel_prompt_trace.pipeline.shipping import sealed_events

        events, _problems = sealed_events(writer, frame, "spool")
        self._place.take_stock(events, digests=not frame.flags & LINES)

    def _event(self, kind: str) -> Event:
        assert self._call is not None
        return {"kind": kind, "call": self._call.id, "attempt": self._attempt}


@never_raises
def begin(method: str, host: str, path: str, body: Any = None, *, retry: bool = False) -> Exchange | None:
    """An exchange for a request that may be for a model; None for any other, which is left alone.

    None too for a request that a layer above tells of. One that is sent within another and is not the same, as by a
    gateway in this process, is a request of its own.

    Args:
        method: of the request, in capitals.
        host: name and, where it is not the scheme's own, port of the host that receives it.
        path: of the URL, without its query, which is never kept.
        body: where it is known already.
        retry: the layer above is the same one, and tries again.
    """
    runtime = current()
    rules = None if runtime is None else runtime.wire
    if runtime is None or rules is None:
        return None
    above = exchange_above()
    if above is not None and not retry and above.covers(host, path, body):
        return None

    def route() -> str:
        found = place_here(runtime).entry.route
        if not found:
            runtime.accounts.warn("route", "A model request's route is not known: no rule for routes can allow it")
        return found

    api = rules.api(method, host, path, route)
    return None if api is None else Exchange(api, host, path, place_here(runtime))
