"""What the guard against remainders keeps of the calls that it has seen: digests, counts and places, within bounds."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from itertools import islice
from typing import TypeAlias, TypeVar

from otel_prompt_trace.core.residuals.sketch import Run, Zone
from otel_prompt_trace.core.residuals.suspicion import Evidence
from otel_prompt_trace.core.residuals.units import BLANK

ENDS = 64  # units at either end of a text, by which it is known again
UNITS = 65_536  # of all gaps
KEYS = 4_096  # digests or names in one set
_GROUPS = _ZONES = 64  # of one producer
KEPT = 1_024  # zones, producers, conversations and texts, of each the latest

Name: TypeAlias = "tuple[str, str]"  # service and producer
Stand: TypeAlias = "tuple[str, str, int]"  # qid, call and number

_Key = TypeVar("_Key", bound=Hashable)
_Value = TypeVar("_Value")


@dataclass(slots=True)
class Place:
    """What stood in a zone: in how many calls a gap, in how many none, and who was heard in the calls with a gap."""

    gaps: int = 0
    others: int = 0
    last: tuple[str, str] = ("", "")
    texts: set[int] = field(default_factory=set)
    keys: set[int] = field(default_factory=set)
    heard: set[str] = field(default_factory=set)

    def learn(self, gap: Run) -> None:
        """A gap stood there."""
        add(self.texts, gap.key)
        for unit in gap.units:
            if unit.key != BLANK:
                add(self.keys, unit.key)


@dataclass(slots=True)
class Taken:
    """What a producer took in, in one zone; ``varying``: it is no text that stood there before."""

    evidence: Evidence
    solid: int
    varying: bool
    latest: Stand
    texts: set[int] = field(default_factory=set)


@dataclass(slots=True)
class Text:
    """A text that a producer declared, by its digest and the units at its ends; ``counted`` are calls."""

    owner: Name
    key: int
    keys: frozenset[int]
    counted: int = 0
    last: tuple[str, str] = ("", "")


@dataclass(slots=True)
class Producer:
    """What a producer did.

    ``calls`` are those in which it stands, ``counted`` those among them that count for what it always declares, and
    ``steady`` those with the text that it declared most often.
    ``beside`` are the producers that it stood beside, ``carries`` those whose text it held while they spoke,
    ``holders`` those that hold its own since it fell silent. ``zones`` and ``silent`` are what it took in (under no
    name: what stood as a gap), ``together`` zones that it took in one call, ``stands`` its calls since then, and
    ``leaves`` those among them with a gap. ``caught``: that is enough by itself. ``runs`` has, for each group, the
    texts of its latest call there, and in how many calls in a row it declared each.
    """

    calls: int = 0
    counted: int = 0
    steady: int = 0
    beside: set[str] = field(default_factory=set)
    carries: set[str] = field(default_factory=set)
    holders: set[str] = field(default_factory=set)
    zones: dict[Zone, Taken] = field(default_factory=dict)
    silent: dict[str, Evidence] = field(default_factory=dict)
    together: set[tuple[Zone, Zone]] = field(default_factory=set)
    stands: list[Stand] = field(default_factory=list)
    leaves: int = 0
    caught: bool = False
    runs: OrderedDict[str, dict[int, int]] = field(default_factory=OrderedDict)

    def declare(self, group: str, texts: set[int]) -> None:
        """It declared these texts in one more call of a group."""
        before = self.runs.pop(group, {})
        self.runs[group] = {key: before.get(key, 0) + 1 for key in islice(texts, KEYS)}
        if len(self.runs) > _GROUPS:
            self.runs.popitem(last=False)

    def take(self, run: Run, place: Place, stand: Stand) -> None:
        """It stands where a gap stood."""
        known = self.zones.get(run.zone)
        varying = run.key not in place.texts
        if known is None:
            if len(self.zones) >= _ZONES:
                return
            known = self.zones[run.zone] = Taken(_gap(run, place), run.solid, varying, stand)
        elif (varying, run.solid) > (known.varying, known.solid):
            known.evidence, known.solid, known.varying = _gap(run, place), run.solid, varying
        known.latest = stand
        add(known.texts, run.key)
        for zone, taken in self.zones.items():
            if taken.latest == stand and zone != run.zone:
                self.together |= {(zone, run.zone), (run.zone, zone)}


def _gap(run: Run, place: Place) -> Evidence:
    return Evidence(None, *place.last, run.path, run.chars)


def kept(known: OrderedDict[_Key, _Value], key: _Key, new: Callable[[], _Value]) -> _Value:
    """The value of a key, made where there is none; the one that was used least recently goes."""
    if key not in known:
        known[key] = new()
        if len(known) > KEPT:
            known.popitem(last=False)
    known.move_to_end(key)
    return known[key]


def add(known: set[_Key], item: _Key) -> None:
    """Add to a set, unless it is full."""
    if len(known) < KEYS:
        known.add(item)


def join(known: set[_Key], items: set[_Key]) -> None:
    """Add some to a set, unless it is full."""
    if len(known) < KEYS:
        known |= items
