"""An open query: one question's journey, named by its qid.

What happens in a query is kept with it until a call goes out or the query ends, so that a call costs at most three
appends: with the request, with the response, and at the end.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Any

from opentelemetry import baggage

from otel_prompt_trace.capture.call import Call
from otel_prompt_trace.capture.context import OpenQuery, current_slot, holding
from otel_prompt_trace.capture.guard import never_raises
from otel_prompt_trace.capture.hits import as_hits, as_ids
from otel_prompt_trace.capture.offers import Offers
from otel_prompt_trace.capture.spans import SpanScope
from otel_prompt_trace.capture.stage import Stage
from otel_prompt_trace.core import attributes
from otel_prompt_trace.core.keys import qid_prefix
from otel_prompt_trace.core.qid import partition_date
from otel_prompt_trace.pipeline.accounting import Receipt, Ticket, Watcher, receipt
from otel_prompt_trace.pipeline.flags import END
from otel_prompt_trace.sources import Sources

if TYPE_CHECKING:
    from typing_extensions import Self

    from otel_prompt_trace.core.events import Event
    from otel_prompt_trace.runtime import Runtime


class Query:
    """An open query. Every method may be called from any thread, and none of them raises or blocks."""

    def __init__(
        self,
        qid: str,
        runtime: Runtime | None,
        opening: Event,
        policy: str | None,
        *,
        joined: bool,
        outer: OpenQuery | None = None,
    ) -> None:
        self.qid = qid
        self._runtime = runtime
        self.policy = policy or (runtime.settings.policy if runtime is not None else "store")
        self._joined = {"joined": True} if joined else {}
        self._waiting: deque[Event] = deque()
        self._tickets: list[Ticket] = []
        self._ms: dict[str, int] = {}
        self.offers = Offers()
        self.sent: Any = None
        self.outer = outer
        self.withheld: list[str] = [] if outer is None else outer.withheld
        self._scope = SpanScope()
        self._began = 0
        self._entered = 0
        self._over = False
        self._reference: str | None = None
        self._opening = {"kind": "query", "policy": self.policy, **opening, **self._joined}

    @property
    def receipt(self) -> Receipt:
        """What became of this query's events so far: stored, spooled or lost (``off`` where nothing records)."""
        return receipt(self.qid, self._tickets)

    @property
    def over(self) -> bool:
        """Whether the query has ended."""
        return self._over

    @property
    def runtime(self) -> Runtime | None:
        """The runtime that records; None where nothing does."""
        return self._runtime

    @property
    def abandoned(self) -> bool:
        """Whether the query ended where its context could not be left, as in a generator closed by another."""
        return self._scope.abandoned

    @property
    def reference(self) -> str:
        """The folder in the store under which the query's payload is, or will be."""
        if self._reference is None:
            now = (self._runtime.sources if self._runtime is not None else Sources()).now()
            self._reference = qid_prefix(partition_date(self.qid, now), self.qid)
        return self._reference

    def __enter__(self) -> Self:
        self._enter()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._exit(error)

    def stage(self, name: str) -> Stage:
        """A step of the query, for use in a ``with`` statement: a span, and its milliseconds in the record."""
        return Stage(self, name)

    def call(
        self,
        *,
        prompt: Any,
        model: str | None = None,
        temperature: float | None = None,
        tools: Any = None,
        response_format: Any = None,
        prompt_tokens: int | None = None,
        encoding: str | None = None,
        **parameters: Any,
    ) -> Call:
        """One model request, for use in a ``with`` statement; what is recorded goes to the spool on entering.

        Args:
            prompt: a :class:`Prompt`, what :func:`place` gave, a str, or a list of messages: exactly what is sent.
            model, temperature, parameters: as sent.
            tools, response_format: JSON values the model may see beside the prompt.
            prompt_tokens: your own count; by default it is counted when the record is read.
            encoding: the tokenizer to count with, for a model that no public table knows.
        """
        given: Event = {} if model is None else {"model": model}
        for name, value in (
            ("temperature", temperature),
            ("tools", tools),
            ("response_format", response_format),
            ("prompt_tokens", prompt_tokens),
            ("encoding", encoding),
            ("parameters", parameters or None),
        ):
            if value is not None:
                given[name] = value
        return Call(self, prompt, given)

    @never_raises
    def retrieved(
        self,
        hits: Iterable[Any],
        *,
        top_k: int | None = None,
        index_version: str | None = None,
        embed_model: str | None = None,
        dropped: Iterable[str] | None = None,
        rule: str | None = None,
        chunk_tokens: int | tuple[int, int] | None = None,
        template_tokens: int | tuple[int, int] | None = None,
    ) -> None:
        """Record what a retriever returned.

        Args:
            hits: in the order of their rank: mappings or objects with ``chunk_id`` (or ``id``) and ``score``, or
                (chunk_id, score) pairs, a mapping of ids to scores, or plain ids. A list, or anything else that
                can be gone through twice: an iterator is the application's to consume, and is not recorded.
            top_k, index_version, embed_model: of the retrieval.
            dropped, rule: as :meth:`dropped` takes them, where they are known already.
            chunk_tokens: how large a chunk may be, or (smallest, largest): what the index was built with.
            template_tokens: how many tokens a prompt takes beyond its chunks, or (least, most); by default they are
                counted. With ``top_k`` and ``chunk_tokens`` that is what the check ``expected_tokens`` expects.
        """
        named: Event = {"top_k": top_k, "index_version": index_version, "embed_model": embed_model, "rule": rule}
        named |= {"chunk_tokens": chunk_tokens, "template_tokens": template_tokens}
        event: Event = {"kind": "retrieval", "hits": as_hits(hits)}
        if dropped is not None:
            event["dropped"] = as_ids(dropped)
        self.note(event | {name: value for name, value in named.items() if value is not None})

    @never_raises
    def dropped(self, chunk_ids: Iterable[str], *, rule: str | None = None) -> None:
        """Record which retrieved chunks were left out of the prompt, and by which rule (``continue``, ``break``)."""
        event: Event = {"kind": "retrieval", "dropped": as_ids(chunk_ids)}
        self.note(event if rule is None else {**event, "rule": rule})

    @never_raises
    def tool_call(
        self,
        name: str,
        *,
        arguments: Any = None,
        result: str | None = None,
        world: str | None = None,
        keep_arguments: bool = False,
    ) -> None:
        """Record a tool's run; by default its arguments are kept as a keyed digest, not as they are.

        Args:
            name: of the tool.
            arguments: what it ran with.
            result: the text it gave back; offered to later calls of the query as an inferred piece.
            world: what it ran against (``production``, ``sandbox``, a snapshot's name).
            keep_arguments: keep the arguments themselves.
        """
        if self._runtime is None:
            return
        event: Event = {"kind": "tool_call", "name": name}
        if arguments is not None and keep_arguments:
            event["arguments"] = arguments
        elif arguments is not None:
            event["arguments_hmac_sha256"] = self._runtime.digest()(repr(arguments))
        for key, value in (("result", result), ("world", world)):
            if value is not None:
                event[key] = value
        self.note(event)
        self.append([])

    def note(self, event: Event, scope: SpanScope | None = None) -> None:
        """Keep an event until the next append of this query. ``scope`` is the span that it belongs to."""
        if self._runtime is None:
            return
        event["ts"] = self._runtime.sources.now_ns()
        event.update((scope or self._scope).ids)
        self._waiting.append(event)
        if self._over:
            self.append([])

    def append(
        self, events: list[Event], flags: int = 0, scope: SpanScope | None = None, watcher: Watcher | None = None
    ) -> Ticket | None:
        """Append what was kept, and ``events`` of the span of ``scope`` after it, in one go."""
        runtime = self._runtime
        if runtime is None:
            return None
        batch = events
        if self._waiting:
            batch = []
            with contextlib.suppress(IndexError):  # another thread may take what was there a moment ago
                while True:
                    batch.append(self._waiting.popleft())
            batch += events
        if not batch:
            return None
        try:
            ids, withheld = (scope or self._scope).ids, tuple(self.withheld)
            ticket = runtime.append(
                self.qid, batch, flags=flags, policy=self.policy, withheld=withheld, watcher=watcher, **ids
            )
        except Exception as error:  # noqa: BLE001 - counted with the events that were waiting, which are gone as well
            runtime.accounts.miss(len(batch), "not_captured", f"append failed: {type(error).__name__}.")
            ticket = Ticket("lost", len(batch))
        self._tickets.append(ticket)
        return ticket

    def withhold(self, texts: Iterable[str]) -> None:
        """Cut these texts out of whatever is recorded from now on, here and in queries within."""
        for text in texts:
            if text and text not in self.withheld:
                self.withheld.append(text)

    def add_ms(self, stage: str, milliseconds: int) -> None:
        """Add a measured stage; of several of one name the sum is kept."""
        self._ms[stage] = self._ms.get(stage, 0) + milliseconds

    @never_raises
    def _enter(self) -> None:
        self._entered += 1
        if self._runtime is None or self._over or self._entered > 1:  # entered again: the first time is the one
            return
        slot = current_slot()
        if slot is not None and slot.qid is None:
            slot.qid = self.qid
        self._scope.open(self._runtime, "query", {attributes.QID: self.qid})
        carried = baggage.set_baggage(attributes.QID, self.qid) if self._runtime.settings.propagate else {}
        self._scope.enter({**carried, **holding(self)})
        self._began = self._runtime.sources.perf_ns()
        if self.policy != "store":
            self._runtime.withhold(self.qid)
        self.note(self._opening)

    @never_raises
    def _exit(self, error: BaseException | None) -> None:
        self._entered -= 1
        if self._runtime is None or self._over or self._entered > 0:
            return
        try:
            elapsed = self._runtime.sources.perf_ns() - self._began
            end: Event = {"kind": "end", "ms": self._ms, "total_ms": round(elapsed / 1e6), **self._joined}
            if error is not None:
                end["error"] = type(error).__name__
            self.note(end)
            self._over = True
            self.append([], flags=END)
        finally:
            self._scope.leave(error)
