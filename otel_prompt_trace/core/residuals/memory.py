"""What the guard against remainders keeps of the calls that it has seen: digests, counts and places, within bounds."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar

from otel_prompt_trace.core.residuals.sketch import Run, Zone
from otel_prompt_trace.core.residuals.suspicion import Evidence

KEYS = 4_096  # digests or names in one set
KEPT = 4_096  # zones, producers, conversations and texts, of each the latest

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


@dataclass(slots=True)
class Taken:
    """What a producer took in, in one zone; ``varying``: it is no text that stood there before."""

    evidence: Evidence
    solid: int
    varying: bool


@dataclass(slots=True)
class Text:
    """A text that a producer declared, by its units; ``counted`` are calls."""

    owner: Name
    keys: frozenset[int]
    counted: int = 0
    last: tuple[str, str] = ("", "")


@dataclass(slots=True)
class Producer:
    """What a producer did.

    ``calls`` are those in which it stands, ``counted`` those among them that count for what it always declares.
    ``beside`` are the producers that it stood beside, ``carries`` those whose text it held while they spoke,
    ``holders`` those that hold its own since it fell silent. ``zones`` and ``silent`` are what it took in, ``stands``
    its calls since then, and ``leaves`` those among them with a gap. ``caught``: that is enough by itself.
    """

    calls: int = 0
    counted: int = 0
    beside: set[str] = field(default_factory=set)
    carries: set[str] = field(default_factory=set)
    holders: set[str] = field(default_factory=set)
    zones: dict[Zone, Taken] = field(default_factory=dict)
    silent: dict[str, Evidence] = field(default_factory=dict)
    stands: list[Stand] = field(default_factory=list)
    leaves: int = 0
    caught: bool = False

    def take(self, run: Run, place: Place) -> None:
        """It stands where a gap stood."""
        varying = run.key not in place.texts
        known = self.zones.get(run.zone)
        if known is None or (varying, run.solid) > (known.varying, known.solid):
            self.zones[run.zone] = Taken(Evidence(None, *place.last, run.path, run.chars), run.solid, varying)


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
