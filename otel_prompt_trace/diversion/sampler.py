"""The sampler: the one public hook that sees start attributes before a limit cuts them.

Content among them is parked here under a number, which the started span redeems: the number is an integer attribute,
and no length limit cuts an integer. A thread-local would not do, since ``on_start`` may run on another thread.

A model call that would be dropped is recorded and not exported, so that its payload is kept whatever the sampling.
"""

from __future__ import annotations

import contextlib
import itertools
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from opentelemetry.context import Context
from opentelemetry.sdk.trace.sampling import (
    ALWAYS_OFF,
    ALWAYS_ON,
    Decision,
    ParentBased,
    Sampler,
    SamplingResult,
    TraceIdRatioBased,
)
from opentelemetry.trace import Link, SpanKind

from otel_prompt_trace.core.conventions import is_model_call
from otel_prompt_trace.current import current
from otel_prompt_trace.diversion.doors import split_attributes
from otel_prompt_trace.diversion.kinds import all_ordinary, nothing_to_take
from otel_prompt_trace.pipeline.forks import RenewedLock

PARKED = "prompt_trace.parked"
_DROP = Decision.DROP  # a look at an enumeration costs as much as all the rest
_LONGEST_LOT = 10_000  # of spans that were never started: a sampler asked by somebody else
_MODEL_SPANS = ("chat ", "text_completion ", "generate_content ")
_MODEL_SPAN_NAMES = frozenset({
    "ChatCompletion", "Completion", "Response", "Messages", "AsyncMessages", "MessagesStream",
    "openai.chat", "openai.completion", "openai.response", "anthropic.chat", "anthropic.completion",
})  # fmt: skip


class Parked(NamedTuple):
    """What was taken aside of a span's start attributes: content, and the facts that say what it is about."""

    values: list[tuple[str, Any]]
    facts: dict[str, Any]


class ParkingLot:
    """Start attributes between the sampler and the start of the span. Bounded; the oldest goes first.

    ``parked`` is for others to see whether there is anything: every span that starts asks.
    """

    def __init__(self) -> None:
        self.parked: OrderedDict[int, Parked] = OrderedDict()
        self._numbers = itertools.count(1)
        self._lock = RenewedLock()

    def park(self, parked: Parked) -> int:
        """Keep them; the number that redeems them."""
        with self._lock():
            number = next(self._numbers)
            self.parked[number] = parked
            if len(self.parked) > _LONGEST_LOT:
                self.parked.popitem(last=False)
        return number

    def redeem(self, number: object) -> Parked | None:
        """What is parked under a number, once."""
        with self._lock():
            return self.parked.pop(number, None) if isinstance(number, int) else None


LOT = ParkingLot()  # of the process: samplers and processors of every provider meet here


class DivertingSampler(Sampler):
    """Another sampler's decisions, with content taken out of what spans start with."""

    def __init__(self, inner: Sampler, lot: ParkingLot, *, keep: bool) -> None:
        self.inner = inner
        self.active = True
        self._lot = lot
        self._keep = keep

    def should_sample(
        self,
        parent_context: Context | None,
        trace_id: int,
        name: str,
        kind: SpanKind | None = None,
        attributes: Any = None,
        links: Sequence[Link] | None = None,
        trace_state: Any = None,
    ) -> SamplingResult:
        """The inner sampler's decision; see the module docstring."""
        if trace_state is None:
            result = self.inner.should_sample(parent_context, trace_id, name, kind, attributes, links)
        else:
            result = self.inner.should_sample(parent_context, trace_id, name, kind, attributes, links, trace_state)
        if not self.active or current() is None:  # by name it is there before we are installed, and without
            return result
        decision: Decision = result.decision
        found: Mapping[str, Any] | None = result.attributes
        if decision is _DROP:
            if not _is_model_call(name, attributes):
                return result
            decision, found = Decision.RECORD_ONLY, {**(attributes or {}), **(found or {})}
            if nothing_to_take(found):
                return SamplingResult(decision, found, result.trace_state)
        elif not found or nothing_to_take(found):
            return result
        return SamplingResult(decision, self._take_out(found), result.trace_state)

    def get_description(self) -> str:
        """The inner sampler's, marked as wrapped."""
        return f"PromptTrace{{{self.inner.get_description()}}}"

    def _take_out(self, attributes: Mapping[str, Any]) -> dict[str, Any]:
        """The attributes without their content and with its number."""
        values, facts, rest = split_attributes(attributes)
        return {PARKED: self._lot.park(Parked(values, facts)), **(attributes if self._keep else rest)}


def _is_model_call(name: str, attributes: Mapping[str, Any] | None) -> bool:
    """By its start attributes, or where those say nothing by its name."""
    if attributes and not all_ordinary(attributes) and is_model_call(attributes, attributes):
        return True
    return name in _MODEL_SPAN_NAMES or name.startswith(_MODEL_SPANS)


def sampler_by_name(argument: str | None = None) -> DivertingSampler:
    """The sampler of the entry points: for set-ups that take a sampler by name and let none be wrapped later.

    Args:
        argument: whose decisions are followed, as ``name`` or ``name=ratio``: ``always_on``, ``always_off``,
            ``traceidratio=0.1``, or one of these with ``parentbased_`` before it. By default
            ``parentbased_always_on``, and so for anything that can't be read.
    """
    name, _, ratio = (argument or "parentbased_always_on").strip().partition("=")
    plain = name.removeprefix("parentbased_")
    root: Sampler = ALWAYS_OFF if plain == "always_off" else ALWAYS_ON
    if plain == "traceidratio":
        with contextlib.suppress(ValueError):
            root = TraceIdRatioBased(float(ratio or 1.0))
    return DivertingSampler(ParentBased(root) if name != plain else root, LOT, keep=False)
