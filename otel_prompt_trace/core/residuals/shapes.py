"""Shapes: how the gaps of many calls behave, and what that usually means.

===============  =================================================================================================
``constant``     the same text, in the first calls of conversations as well as in later ones
``continuing``   the same text, in later calls of conversations only
``growing``      what earlier turns declared, answered or left, and more of it with each turn
``one-off``      a text that stands in one call; of several calls, another one in each
===============  =================================================================================================

===============  =================================================================================================
history          it grows with the turn, or names two speakers in turn
cache path       it begins the prompts of calls that read from the provider's cache, or stands in those alone
new injector     it first stood when the window was under way and then in nearly every call, or in one call only
template         a few characters, a text with holes, or the name of the source beside it
fixed rider      any other text that stays the same
varying source   any other text that is another one in each call: a memory, a tool, a retrieval that nobody declared
===============  =================================================================================================

A cause is a likely one. The correlation with cached tokens is given beside it, so that a reader can judge.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from otel_prompt_trace.core.residuals.clusters import Cluster, Spot, Window, clusters
from otel_prompt_trace.core.residuals.parts import SHORT
from otel_prompt_trace.core.residuals.sketch import Sketch

ShapeName = Literal["constant", "continuing", "growing", "one-off"]
Cause = Literal["history", "cache path", "new injector", "template", "fixed rider", "varying source"]

_MOST, _FEW = 0.8, 0.2
_UNDER_WAY = 3  # calls before the first one with a text, for it to be new


@dataclass(frozen=True, slots=True)
class Cached:
    """Calls whose provider reports tokens from its cache, of those where it says: with the text, and without it."""

    with_it: int
    of_with: int
    without: int
    of_without: int

    def __str__(self) -> str:
        if not self.of_with and not self.of_without:
            return "not reported"
        return f"{self.with_it} of {self.of_with} calls with it, {self.without} of {self.of_without} without"


@dataclass(frozen=True, slots=True)
class Shape:
    """One cluster of gaps.

    Counts: ``calls`` with it, ``share`` of the window's; ``texts`` that differ; ``chars`` of one part, as most are
    long, ``least`` and ``most`` characters a call, ``total`` over all calls (code points). ``origin`` is where it
    first stood, ``example`` where its text can be read.
    """

    shape: ShapeName
    cause: Cause
    place: str
    paths: tuple[str, ...]
    calls: int
    share: float
    texts: int
    chars: int
    least: int
    most: int
    total: int
    holes: int
    messages: bool
    cached: Cached
    origin: Spot
    example: Spot

    def __str__(self) -> str:
        size = f"{self.most:,}" if self.least == self.most else f"{self.least:,} to {self.most:,}"
        where = self.paths[0] if len(self.paths) == 1 else f"{self.paths[0]} and {len(self.paths) - 1} more"
        other = f", {self.texts} texts" if self.shape == "one-off" and self.texts > 1 else ""
        return f"{size} characters, in {self.share:.0%} of calls, {where}, {self.place}{other}"

    def to_dict(self) -> dict[str, Any]:
        """As JSON carries it."""
        return {
            "shape": self.shape,
            "cause": self.cause,
            "place": self.place,
            "paths": list(self.paths),
            "calls": self.calls,
            "share": round(self.share, 4),
            "texts": self.texts,
            "chars": self.chars,
            "chars_per_call": [self.least, self.most],
            "total_chars": self.total,
            "holes": self.holes,
            "cached": {
                "with": [self.cached.with_it, self.cached.of_with],
                "without": [self.cached.without, self.cached.of_without],
            },
            "first": self.origin.qid,
            "example": self.example._asdict(),
        }


@dataclass(frozen=True, slots=True)
class Shapes:
    """The shapes of a window of calls; ``partial`` says that it held more texts than are compared."""

    calls: int
    gapped: int
    found: tuple[Shape, ...]
    partial: bool = False


def shapes(calls: Iterable[Sketch]) -> Shapes:
    """The shapes of the gaps of some calls, most characters first.

    Args:
        calls: in the order of time; they are gone through twice.

    Raises:
        TypeError: they can be gone through once only.
    """
    window = clusters(calls)
    return Shapes(
        window.calls, window.gapped, tuple(_shape(cluster, window) for cluster in window.clusters), window.partial
    )


def _shape(cluster: Cluster, window: Window) -> Shape:
    shape = _name(cluster, window)
    return Shape(
        shape=shape,
        cause=_cause(cluster, window, shape),
        place=_place(cluster),
        paths=tuple(cluster.paths),
        calls=cluster.calls,
        share=cluster.calls / window.calls,
        texts=len(cluster.texts),
        chars=cluster.usual,
        least=cluster.least,
        most=cluster.most,
        total=cluster.chars,
        holes=cluster.holes,
        messages=cluster.zone[1:] == ("talk", "^", "$"),
        cached=Cached(
            cluster.cached, cluster.reported, window.cached - cluster.cached, window.reported - cluster.reported
        ),
        origin=cluster.origin,
        example=cluster.example,
    )


def _name(cluster: Cluster, window: Window) -> ShapeName:
    if cluster.kind == "carried" and (cluster.declared or cluster.grew):
        return "growing"
    if cluster.kind == "new":
        return "one-off"
    later = cluster.opening == 0 and 0 < window.opening < window.calls and cluster.calls > 1
    return "continuing" if later else "constant"


def _cause(cluster: Cluster, window: Window, shape: ShapeName) -> Cause:
    if shape == "growing" or (shape == "one-off" and cluster.dialogue * 2 > cluster.parts):
        return "history"
    if cluster.framed * 2 > cluster.parts or cluster.solid < SHORT * cluster.parts:
        return "template"
    if shape == "one-off" and cluster.calls == 1:
        return "new injector" if window.calls > 1 else "varying source"
    if _is_new(cluster, window, shape):
        return "new injector"
    if _reads_cache(cluster, window, shape):
        return "cache path"
    if cluster.holes * 2 > cluster.calls:
        return "template"
    return "varying source" if shape == "one-off" else "fixed rider"


def _is_new(cluster: Cluster, window: Window, shape: ShapeName) -> bool:
    """Whether it began when calls went on without it: in several groups, or in the midst of one."""
    since = window.calls - cluster.first
    began = cluster.first >= _UNDER_WAY and cluster.calls >= max(2, _MOST * since)
    return began and (cluster.groups == 1 if shape == "continuing" else cluster.groups > 1)


def _reads_cache(cluster: Cluster, window: Window, shape: ShapeName) -> bool:
    """Whether prompts that begin with it are read from a cache, or it stands in calls that are, and in no other."""
    if not cluster.cached:
        return False
    if cluster.begins * 2 > cluster.calls and cluster.cached * 2 >= cluster.reported:
        return True
    without, of_without = window.cached - cluster.cached, window.reported - cluster.reported
    if shape == "continuing":
        return cluster.cached >= _MOST * cluster.reported and of_without > 0 and without <= _FEW * of_without
    return cluster.cached == cluster.reported > 1 and without == 0 and of_without > 1


def _place(cluster: Cluster) -> str:
    _, speaker, left, right = cluster.zone
    if (left, right) == ("^", "$"):
        return {"talk": "whole messages", "instructions": "the whole instructions"}.get(speaker, "the whole text")
    if left == "^":
        return f"before {right}"
    return f"after {left}" if right == "$" else f"between {left} and {right}"
