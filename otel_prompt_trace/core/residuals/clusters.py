"""Clusters: the parts of gaps that belong together, over many calls.

Fixed parts belong together by their text, carried and new ones by where they stand (see ``sketch``). A short new part
that touches a fixed one is a **hole** in it: the fixed text is a template, and so is the one on the other side.

Two passes over the calls in the order of time: how often does each unit stand, and which part is it of.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from otel_prompt_trace.core.residuals.parts import Kind, Part, Parts, UnitCounts
from otel_prompt_trace.core.residuals.sketch import Sketch, Zone

HOLE = 200  # characters: a longer text is no filling of a template
_PATHS = 64  # that are kept of a cluster
_TEXTS = 4_096  # and of its texts, lengths and conversations
_FRAME = 8  # characters beside the name of a source


class Spot(NamedTuple):
    """Where a part stands: ``segment[start:end]`` of a call's prompt."""

    qid: str
    number: int
    path: str
    segment: int
    start: int
    end: int


@dataclass(slots=True)
class Cluster:
    """Parts that belong together.

    Counts are calls unless said otherwise: ``opening`` are those that are the first of their group, ``begins`` those
    whose prompt begins with a gap that holds it (before anything that is carried), ``cached`` those whose provider
    reports tokens from its cache, ``reported`` those where it says, ``grew`` those with more characters of it than
    their group's call before. ``least`` and ``most`` are characters a call, ``usual`` those of one part, ``chars`` and
    ``solid`` of all parts. ``dialogue``, ``declared`` (earlier turns declared or answered some of it), ``framed`` (the
    name of a source and little else) and ``holes`` count parts. ``first`` and ``last`` count the calls of the window
    from 0. ``example`` is the latest part of the usual length, or the longest of a text that grows.
    """

    kind: Kind
    zone: Zone
    service: str
    origin: Spot
    example: Spot
    first: int
    last: int = -1
    calls: int = 0
    parts: int = 0
    chars: int = 0
    opening: int = 0
    begins: int = 0
    cached: int = 0
    reported: int = 0
    dialogue: int = 0
    framed: int = 0
    solid: int = 0
    least: int = 0
    most: int = 0
    holes: int = 0
    groups: int = 0
    paths: Counter[str] = field(default_factory=Counter)
    texts: set[int] = field(default_factory=set)
    lengths: Counter[int] = field(default_factory=Counter)
    usual: int = 0
    declared: int = 0
    grew: int = 0
    sizes: dict[str, int] = field(default_factory=dict)

    @property
    def message(self) -> bool:
        """Whether its parts are whole messages of a dialogue."""
        return self.zone[1:] == ("talk", "^", "$")

    def count(self, call: Sketch, number: int, *, opening: bool) -> None:
        """Count a call once, however many parts of it belong here."""
        if self.last == number:
            return
        self.last = number
        self.calls += 1
        self.opening += opening
        self.reported += call.cached is not None
        self.cached += bool(call.cached)

    def take(self, part: Part, key: int) -> None:
        """Take in one part of the call that was counted last."""
        self.parts += 1
        self.chars += part.chars
        self.solid += min(part.solid, part.run.solid)
        self.dialogue += part.run.dialogue
        self.declared += part.declared
        self.framed += part.run.solid < min(part.solid, _FRAME)
        if len(self.texts) < _TEXTS:
            self.texts.add(key)
        if len(self.lengths) < _TEXTS or part.chars in self.lengths:
            self.lengths[part.chars] += 1
            if self.lengths[part.chars] > self.lengths[self.usual]:
                self.usual = part.chars

    def join(self, other: Cluster) -> None:
        """Take in the cluster of what was new where this one goes on."""
        self.parts += other.parts
        self.chars += other.chars
        self.paths += other.paths
        if not self.message:  # a dialogue's first message is a question, not yet a history
            self.calls += other.calls
            self.opening += other.opening
            self.cached += other.cached
            self.reported += other.reported
        if other.first < self.first:
            self.first, self.origin = other.first, other.origin

    def measure(self, group: str, size: int) -> None:
        """Note the characters of one call's parts, and whether they are more than in the call before it."""
        self.least = size if self.least == 0 else min(self.least, size)
        self.most = max(self.most, size)
        before = self.sizes.pop(group, None)
        if before is not None:
            self.grew += size > before
        self.sizes[group] = size
        if len(self.sizes) > _TEXTS:
            del self.sizes[next(iter(self.sizes))]
        self.groups += before is None


@dataclass(slots=True)
class Window:
    """The calls that were looked at: how many, how many are the first of their group, how many read from a cache."""

    calls: int = 0
    gapped: int = 0
    opening: int = 0
    cached: int = 0
    reported: int = 0
    partial: bool = False
    clusters: list[Cluster] = field(default_factory=list)


def clusters(calls: Iterable[Sketch]) -> Window:
    """The clusters of a window of calls in the order of time, which are gone through twice.

    Raises:
        TypeError: they can be gone through once only.
    """
    if isinstance(calls, Iterator):
        raise TypeError("the calls are gone through twice: give a sequence of sketches, not an iterator")
    counted = UnitCounts()
    for call in calls:
        counted.see(call)
    cutter, window, found = Parts(counted), Window(partial=counted.partial), _Found()
    for call in calls:
        opening, gaps = cutter.cut(call)
        found.add(call, window.calls, gaps, opening=opening)
        window.calls += 1
        window.gapped += bool(gaps)
        window.opening += opening
        window.reported += call.cached is not None
        window.cached += bool(call.cached)
    window.clusters = found.joined()
    return window


_Key = tuple[str, str, object]  # the kind, the service, and the text or the zone


def _keyed(call: Sketch, parts: list[Part]) -> Iterator[tuple[Part, _Key, bool]]:
    """Each part with what it belongs to, and whether it is a hole in that."""
    for n, part in enumerate(parts):
        if part.kind == "fixed":
            yield part, ("fixed", "", part.key), False
            continue
        beside = [other for other in (parts[n - 1 : n] if n else []) + parts[n + 1 : n + 2] if other.kind == "fixed"]
        if part.kind == "new" and beside and part.chars <= HOLE:
            for other in beside:
                yield part, ("fixed", "", other.key), True
        else:
            yield part, (part.kind, call.service, part.run.zone), False


class _Found:
    def __init__(self) -> None:
        self._clusters: dict[_Key, Cluster] = {}

    def add(self, call: Sketch, number: int, gaps: list[list[Part]], *, opening: bool) -> None:
        """The parts of one call, each to its cluster."""
        sizes: dict[_Key, int] = {}
        for parts in gaps:
            carried = next((part.start for part in parts if part.kind == "carried"), None)
            for part, key, hole in _keyed(call, parts):
                known = self._clusters.get(("carried", *key[1:]))
                if key[0] == "new" and known is not None and call.group in known.sizes:
                    key = ("carried", *key[1:])  # noqa: PLW2901 - the newest of what goes on there
                run = part.run
                spot = Spot(call.qid, call.number, run.path, run.segment, part.start, part.end)
                cluster = self._clusters.get(key)
                if cluster is None:
                    cluster = Cluster("fixed" if hole else part.kind, run.zone, call.service, spot, spot, number)
                    self._clusters[key] = cluster
                cluster.count(call, number, opening=opening)
                if hole:
                    cluster.holes += 1
                    continue
                if key not in sizes:
                    cluster.begins += run.opens and (carried is None or part.start < carried)
                sizes[key] = sizes.get(key, 0) + part.chars
                if len(cluster.paths) < _PATHS or run.path in cluster.paths:
                    cluster.paths[run.path] += 1
                whole = part.chars == run.chars
                cluster.take(part, run.key if whole else hash(part.units))
                example = cluster.example.end - cluster.example.start
                if part.chars == cluster.usual if cluster.kind == "fixed" else part.chars >= example:
                    cluster.example = spot
        for key, size in sizes.items():
            self._clusters[key].measure(call.group, size)

    def joined(self) -> list[Cluster]:
        """The clusters, most characters first; where a text goes on, what was new in its first call is part of it."""
        for key, cluster in list(self._clusters.items()):
            known = self._clusters.get(("carried", *key[1:]))
            if key[0] == "new" and known is not None and (cluster.message or cluster.calls <= known.groups):
                known.join(cluster)
                del self._clusters[key]
        with_text = (cluster for cluster in self._clusters.values() if cluster.parts)
        return sorted(with_text, key=lambda cluster: (-cluster.chars, cluster.first, cluster.origin))
