"""``call()``: one model request, recorded before it goes out."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any

from otel_prompt_trace.capture.context import holding
from otel_prompt_trace.capture.guard import never_raises, not_captured, span_failed
from otel_prompt_trace.capture.spans import SpanScope
from otel_prompt_trace.core import attributes
from otel_prompt_trace.core.placement import Rendered
from otel_prompt_trace.core.prompt import Prompt
from otel_prompt_trace.core.secret_places import holds_secrets, without_secrets
from otel_prompt_trace.core.withheld import TELLING
from otel_prompt_trace.pipeline.flags import LINES, REQUEST

if TYPE_CHECKING:
    from typing_extensions import Self

    from otel_prompt_trace.capture.context import OpenQuery
    from otel_prompt_trace.capture.provisional import Provisional
    from otel_prompt_trace.core.events import Event
    from otel_prompt_trace.pipeline.accounting import Ticket
    from otel_prompt_trace.pipeline.frames import Frame


_MAY_HOLD = frozenset({"tools", "response_format", "parameters"})
_SHORT = 500  # characters; below 2,048 bytes hashing keeps the GIL
# A value of another type (a date, a UUID) would be packed as its text, and pass for a prompt that was one.
_PACKED = (str, Prompt, list, tuple, dict, bytes)


class Call:
    """An open call. The span is INTERNAL and named ``call``: dashboards of model calls do not count it twice."""

    def __init__(self, query: OpenQuery, prompt: Any, fields: Event) -> None:
        self._query = query
        self._rendered = prompt if isinstance(prompt, Rendered) else None
        self._prompt = prompt.prompt if isinstance(prompt, Rendered) else prompt
        self._fields = fields
        self.id = ""
        self.sent: Any = None
        self._scope = SpanScope()
        self._began = 0
        self._ticket: Ticket | None = None
        self._responded = False
        self._text: str | None = None  # the prompt where it is one string
        self._chars: int | None = None  # unknown here for a list of messages: adding it up can wait
        self._pieces = 0
        self._declared_late = False
        self._told: list[Event] | None = None  # while its span is open
        self._provisional: Provisional | None = None

    @property
    def abandoned(self) -> bool:
        """Whether the call ended where its context could not be left."""
        return self._scope.abandoned

    def __enter__(self) -> Self:
        try:
            self._enter()
        except Exception as error:  # noqa: BLE001 - see :mod:`.guard`
            not_captured("Call.__enter__", error)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        try:
            self._exit(error)
        except Exception as failure:  # noqa: BLE001 - as above
            not_captured("Call.__exit__", failure)

    @never_raises
    def respond(
        self,
        output: Any = None,
        *,
        finish_reason: str | None = None,
        usage: Any = None,
        model: str | None = None,
        response_id: str | None = None,
    ) -> None:
        """Record what came back.

        Args:
            output: the text, or any JSON value (tool calls, several choices).
            finish_reason, model, response_id: as the provider gave them.
            usage: the provider's usage: a mapping, or an object of its SDK.
        """
        response: Event = {}
        for name, value in (
            ("output", output),
            ("finish_reason", finish_reason),
            ("usage", _as_mapping(usage)),
            ("model", model),
            ("response_id", response_id),
        ):
            if value is not None:
                response[name] = value
        self._respond(response)

    def declare(self, piece: Event) -> None:
        """A piece that belongs to this call alone."""
        if "policy" in piece and self._query.runtime is not None:
            self._query.runtime.accounts.warn(
                "withheld late", "A text to be withheld was declared inside a call, whose request is recorded already"
            )
        self._pieces += 1
        self._declared_late = True
        self._query.note({**piece, "kind": "piece", "call": self.id}, self._scope)

    def _enter(self) -> None:
        runtime = self._query.runtime
        if runtime is None:
            return
        self.id = runtime.new_id()
        self._scope.open(runtime, "call")  # its attributes are all set at the end, in one go
        self._scope.enter(holding(self._query, self))
        self._began = runtime.sources.perf_ns()
        flags = REQUEST if isinstance(self._prompt, _PACKED) else REQUEST | LINES
        watcher = None
        if self._scope.recording:
            self._told, watcher = [], self._take_stock
        self._ticket = self._query.append(self._events(), flags, scope=self._scope, watcher=watcher)

    def _events(self) -> list[Event]:
        if not _MAY_HOLD.isdisjoint(self._fields):
            self._cut_credentials()
        prompt, call, query = self._prompt, self.id, self._query
        request: Event = {"kind": "request", "call": call, "evidence": "declared", **self._fields}
        events: list[Event] = []
        placed = self._rendered if self._rendered is not None else prompt if isinstance(prompt, Prompt) else None
        if placed is not None:
            # Without their texts, which the prompt in the same append holds.
            events = [{**piece, "call": call} for piece in placed.placed]
            query.withhold(placed.withheld)
        if self._rendered is not None:
            request["placement"] = self._rendered.placement.reference
        if isinstance(prompt, Prompt):
            self._chars = len(prompt)
            prompt = prompt.messages() if prompt.is_messages else prompt.text
        self._pieces = len(events) + len(query.offers)
        if query.policy != "store" or query.withheld:
            # Their texts are about to be cut out of the prompt, so each must be located in it now.
            events += [{**offer, "call": call, "offered": True} for offer in query.offers.events()]
        if isinstance(prompt, str):
            self._chars = len(prompt)
            self._text = request["prompt"] = prompt
        else:
            request["messages"] = _plain_messages(prompt)
        events.append(request)
        return events

    def _cut_credentials(self) -> None:
        """What tools and parameters carry for the host and not for the model reaches no record."""
        runtime = self._query.runtime
        given = {name: value for name, value in self._fields.items() if name in _MAY_HOLD}
        if runtime is not None and holds_secrets(given):
            digest, secrets = runtime.digest(), list[str]()

            def noted(secret: str) -> str:
                secrets.append(secret)
                return digest(secret)

            self._fields |= without_secrets(given, noted)
            self._query.withhold(secret for secret in secrets if len(secret) >= TELLING)  # wherever they are quoted

    def _respond(self, event: Event) -> None:
        runtime = self._query.runtime
        if runtime is None:
            return
        self._responded = True
        elapsed = runtime.sources.perf_ns() - self._began
        response: Event = {"kind": "response", "call": self.id, "ms": round(elapsed / 1e6), **event}
        self._query.append([response], scope=self._scope)

    def _exit(self, error: BaseException | None) -> None:
        if self._query.runtime is None:
            return
        try:
            if not self._responded and self.sent is None:  # what was sent has a response of its own
                failed = {} if error is None else {"error": type(error).__name__}
                self._respond({"unfinished": True, **failed})
        finally:
            try:
                self._describe()
            except Exception as failure:  # noqa: BLE001 - the span's alone
                span_failed("Call._describe", failure)
            self._scope.leave(error)

    def _describe(self) -> None:
        """Put the small attributes on the span, last, so that nothing set after them can push them out."""
        runtime, found, self._told = self._query.runtime, self._provisional, None
        if runtime is None or not self._scope.recording:
            return
        values: dict[str, Any] = {attributes.QID: self._query.qid, attributes.PIECES: self._pieces}
        chars = self._chars if found is None else found.chars
        if chars is not None:
            values[attributes.CHARS] = chars
        if self._ticket is not None:
            self._ticket.watcher = None  # it comes too late for this span
            if self._ticket.state != "lost":
                values[attributes.REF] = self._query.reference
        digest = self._short_digest() if found is None else found.digest
        if digest is not None:
            values[attributes.SHA256] = digest
        # What was declared and what left may differ: of a prompt that was sent, a census of what left alone counts.
        if found is not None and not self._declared_late and (found.as_sent or self.sent is None):
            values |= {attributes.UNACCOUNTED: found.unaccounted, attributes.VERDICT: found.verdict}
        self._scope.span.set_attributes(values)

    def _short_digest(self) -> str | None:
        """The digest of a short prompt whose call was over before the shipper looked: hashing it costs little."""
        if self._query.policy != "store" or self._query.withheld:  # a bare digest of a short text is soon guessed
            return None
        if self._text is None or len(self._text) > _SHORT:
            return None
        from otel_prompt_trace.core.text import sha256_text

        return sha256_text(self._text)

    def told(self, events: list[Event]) -> None:
        """Take stock of what was recorded of it, sealed. On the shipper's thread, while the model is answering."""
        from otel_prompt_trace.capture.provisional import take_stock

        told = self._told
        if told is not None:
            told += events
            self._provisional = take_stock(self._query.qid, told, self.id, self._query.offers.pieces())

    def _take_stock(self, frame: Frame, writer: str) -> None:
        from otel_prompt_trace.pipeline.shipping import sealed_events

        self.told(sealed_events(writer, frame, "spool")[0])


def _plain_messages(messages: Any) -> Any:
    """Messages with an SDK's own objects as the mappings that it sends in their place.

    An answer is often put back into the list as the object that it came in. The SDKs send only what was set on it.
    """
    if not isinstance(messages, list | tuple) or all(isinstance(message, dict) for message in messages):
        return messages
    return [
        message.model_dump(mode="json", exclude_unset=True) if hasattr(message, "model_dump") else message
        for message in messages
    ]


def _as_mapping(usage: Any) -> Any:
    """A provider's usage object as a mapping: its SDK's models know how to dump themselves."""
    if usage is None or isinstance(usage, Mapping):
        return usage
    try:
        dump = getattr(usage, "model_dump", None) or getattr(usage, "to_dict", None)
        return dump() if callable(dump) else {k: v for k, v in vars(usage).items() if not k.startswith("_")}
    except Exception:  # noqa: BLE001 - an odd usage object must not cost the output beside it
        return usage
