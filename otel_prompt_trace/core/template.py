"""The template's tokens over many calls: constant, or changed, and where.

A template that grows without anybody's having changed it is how a new rider, a longer house rule or a forgotten debug
text shows itself in the counts, before anybody reads a prompt.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from otel_prompt_trace.core.counting import TokenCounts

_OFTEN = 3  # changes; with more of them the template has no one size


@dataclass(frozen=True, slots=True)
class Change:
    """The first call with another template than the call before it. Both are in tokens."""

    qid: str
    call: int
    before: int
    after: int


@dataclass(slots=True)
class TemplateTrack:
    """The template of the calls of one model, in the order in which they went out.

    ``sizes`` holds the number of calls by the template's tokens. Calls whose template could not be counted, or that
    held no chunk, are not among them.
    """

    model: str
    calls: int = 0
    sizes: dict[int, int] = field(default_factory=dict)
    changes: list[Change] = field(default_factory=list)
    _around: int | None = None
    _between: int | None = None

    @property
    def constant(self) -> bool:
        """Whether every call had the same template."""
        return not self.changes

    @property
    def sentence(self) -> str:
        """What is to be said of it, in one line."""
        named = f"{self.model}: the template"
        sizes = sorted(self.sizes)
        if self.constant:
            return f"{named} has {sizes[-1]} tokens, constant over {self.calls} calls with chunks"
        if len(self.changes) <= _OFTEN:
            at = ", then ".join(f"{c.before} tokens to {c.after} at {c.qid} call {c.call}" for c in self.changes)
            return f"{named} changed from {at}; {self.calls} calls with chunks"
        span = f"{sizes[0]} to {sizes[-1]} tokens"
        return f"{named} has {span}, changed {len(self.changes)} times over {self.calls} calls with chunks"

    def add(self, qid: str, call: int, counts: TokenCounts) -> None:
        """The next call."""
        around, between = counts.around, counts.between
        if around is None:
            return
        if between is None:  # a single chunk has nothing between it and another: as it was, as far as anybody knows
            between = self._between
        before, size = _size(self._around, self._between), _size(around, between)
        known = self._between is not None or between is None
        moved = self._around is not None and (around != self._around or (known and between != self._between))
        self.calls += 1
        self.sizes[size] = self.sizes.get(size, 0) + 1
        if moved:
            self.changes.append(Change(qid, call, before, size))
        self._around, self._between = around, between


def track(calls: Iterable[tuple[str, int, TokenCounts]]) -> Iterator[TemplateTrack]:
    """The tracks of some calls, one for each model.

    Args:
        calls: qid, number of the call and its counts, in the order in which the calls went out.
    """
    found: dict[str, TemplateTrack] = {}
    for qid, number, counts in calls:
        if counts.around is not None and counts.model is not None:
            found.setdefault(counts.model, TemplateTrack(counts.model)).add(qid, number, counts)
    yield from found.values()


def _size(around: int | None, between: int | None) -> int:
    return (around or 0) + (between or 0)
