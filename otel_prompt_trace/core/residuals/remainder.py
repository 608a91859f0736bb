"""The guard across calls: a producer that takes in whatever nobody else declared.

Within one call a remainder (the prompt less what the others declared) can't be told from a producer that knows its
text. Over calls it can: what stood apart, as gaps in several places or as the texts of several producers, comes to
stand under one name. The calls are given in the order of time. A producer is **suspected**

1. if it came to stand in two or more zones (see ``sketch``) in which gaps stood before, and not it beside them:
   because its text there is what stood as a gap, or because that zone had a gap in most calls so far. One of the
   texts must be another than any gap there was and have :data:`VARYING` characters, the other :data:`FIXED`; or both
   have :data:`LONG` ones, where all are texts that stood there before;
2. if it stood beside another producer, and now holds the text which that one always declared, while that one is
   silent;
3. if it holds what two or more producers always declared and from then on do not, or one of these and a gap's zone.

Names that stand in one call only are taken together (from :data:`NAMES` calls on): a new name for each call hides
nothing. What is suspected is each call in which such a producer stands, from the first in which it took something in.

Not suspected, since it is what an honest step looks like:

- a new producer for what stood as a gap in one zone, whether it is always the same text or grows: what ``suggest``
  tells an engineer to declare. Several messages of a dialogue are one zone;
- a template's fragments, which stand in many zones and are short: names of sources beside them do not count;
- a history, which holds the questions, chunks and answers of earlier turns: their producers still speak, or never
  declared the same text in most of their calls, or the history held it while they still did;
- a new name for one producer's text.

What this can't see: a remainder that took the same places from the first call on, until a producer falls silent; one
that takes in one zone only, which is the declaration of what stands there; one that takes two short fixed texts, which
is a template; texts that touch those around them within a sentence. And it names a merger of two producers, or one
name for several undeclared texts, which is the same thing by its looks: give each its own name.

Memory is bounded by :data:`KEYS`, :data:`TEXTS` and the number of calls that a producer with takings stands in.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from otel_prompt_trace.core.residuals.sketch import Run, Sketch, Zone
from otel_prompt_trace.core.residuals.units import BLANK

FIXED, VARYING, LONG = 20, 40, 60  # characters that are no white space
NAMES = 3  # names that stand in one call each
KEYS = 4_096  # digests kept of the gaps of one zone
TEXTS = 4_096  # texts of producers, and zones, that are kept at a time
_PRODUCERS = 256  # that are remembered beside one
_CANDIDATES = 8  # texts that are looked for at one unit
_ALWAYS = 0.8  # of a producer's calls

_Name = tuple[str, str]  # service and producer


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a producer took in: a gap, or what ``producer`` declared, as it last stood before.

    ``chars`` are those of the text that holds it now, at ``path``.
    """

    producer: str | None
    qid: str
    call: str
    path: str
    chars: int

    def __str__(self) -> str:
        what = "a gap" if self.producer is None else f"what {self.producer} declared"
        return f"{self.chars:,} characters at {self.path}: {what} before, in {self.qid}"


@dataclass(frozen=True, slots=True)
class Suspicion:
    """One call in which a suspected producer stands, with what it took in over the calls."""

    qid: str
    call: str
    number: int
    producer: str
    evidence: tuple[Evidence, ...]


@dataclass(slots=True)
class _Place:
    """What stood in a zone: in how many calls a gap, in how many none."""

    gaps: int = 0
    others: int = 0
    last: tuple[str, str] = ("", "")
    texts: set[int] = field(default_factory=set)
    keys: set[int] = field(default_factory=set)
    beside: set[str] = field(default_factory=set)


@dataclass(slots=True)
class _Taken:
    """What a producer took in, in one zone."""

    evidence: Evidence
    solid: int
    varying: bool


@dataclass(slots=True)
class _Text:
    """A text that a producer declared, by its units."""

    owner: _Name
    keys: frozenset[int]
    counted: int = 0
    last: tuple[str, str] = ("", "")


@dataclass(slots=True)
class _Producer:
    calls: int = 0
    counted: int = 0  # of them those that count for what it always declares
    beside: set[str] = field(default_factory=set)
    carries: set[str] = field(default_factory=set)  # producers whose texts it held while they spoke
    zones: dict[Zone, _Taken] = field(default_factory=dict)
    silent: dict[str, Evidence] = field(default_factory=dict)
    holders: set[str] = field(default_factory=set)  # producers that hold its text since it fell silent
    caught: bool = False
    stands: list[tuple[str, str, int]] = field(default_factory=list)


class Remainders:
    """Watches calls in the order of time, and says which producers took in what others left."""

    def __init__(self) -> None:
        self._places: OrderedDict[tuple[str, Zone], _Place] = OrderedDict()
        self._producers: OrderedDict[_Name, _Producer] = OrderedDict()
        self._texts: OrderedDict[tuple[_Name, int], _Text] = OrderedDict()
        self._at: dict[int, list[_Text]] = {}  # texts by their most telling unit
        self._groups: OrderedDict[str, None] = OrderedDict()

    def see(self, call: Sketch) -> None:
        """Take in one call; calls come in the order of time."""
        own = [run for run in call.runs if run.producer is not None and not run.inferred]
        for producer in call.heard:
            self._speaks_again(call.service, producer)
        for run in own:
            self._look(call, run)
        self._learn_gaps(call)
        self._learn_texts(call, own)

    def suspicions(self) -> Iterator[Suspicion]:
        """Each call in which a suspected producer stands, by producer and time."""
        once = {name: found for name, found in self._producers.items() if found.calls == 1 and found.stands}
        services = {service for service, _ in once}
        pooled: dict[str, tuple[Evidence, ...]] = {}
        for service in sorted(services):
            several = [found for (of, _), found in once.items() if of == service]
            if len({found.stands[0] for found in several}) >= NAMES and _suspect(several):
                pooled[service] = tuple(_evidence(several))
        for name, found in self._producers.items():
            evidence = tuple(_evidence([found])) if _suspect([found]) else ()
            if not evidence and name in once:
                evidence = pooled.get(name[0], ())
            if evidence:
                yield from (Suspicion(*stand, name[1], evidence) for stand in found.stands)

    def _look(self, call: Sketch, run: Run) -> None:
        """What this run takes in of what stood before."""
        producer = run.producer or ""
        name = (call.service, producer)
        found = self._producer(name)
        place = self._places.get((call.service, run.zone))
        if place is not None and place.gaps and producer not in place.beside and run.solid >= FIXED:
            shared = sum(unit.solid for unit in run.units if unit.key in place.keys)
            if shared * 2 >= run.solid or (place.gaps >= place.others):
                _take(found, run, place)
        for text in self._held(run, name):
            other = text.owner[1]
            if other in call.heard:
                _add(found.carries, other)
            elif self._always(text) and other not in found.carries:
                found.silent.setdefault(other, Evidence(other, *text.last, run.path, run.chars))
                found.caught = found.caught or other in found.beside
                _add(self._producer(text.owner).holders, producer)
        stand = (call.qid, call.call, call.number)
        if (found.zones or found.silent) and found.stands[-1:] != [stand]:
            found.stands.append(stand)

    def _speaks_again(self, service: str, producer: str) -> None:
        """It was another kind of call that held its text: a summary, say, or a judge's."""
        known = self._producers.get((service, producer))
        for holder in () if known is None else known.holders:
            found = self._producers.get((service, holder))
            if found is not None and producer not in found.beside:
                found.silent.pop(producer, None)
                _add(found.carries, producer)
        if known is not None:
            known.holders.clear()

    def _held(self, run: Run, name: _Name) -> Iterator[_Text]:
        """The known texts of other producers that stand inside a run."""
        keys: set[int] | None = None
        for unit in run.units:
            for text in self._at.get(unit.key, ()):
                if text.owner[0] != name[0] or text.owner == name:
                    continue
                keys = {u.key for u in run.units} if keys is None else keys
                if text.keys <= keys:
                    yield text

    def _always(self, text: _Text) -> bool:
        owner = self._producers.get(text.owner)
        return owner is not None and text.counted > 1 and text.counted >= _ALWAYS * owner.counted

    def _learn_gaps(self, call: Sketch) -> None:
        gaps: dict[Zone, list[Run]] = {}
        pieces: dict[Zone, set[str]] = {}
        for run in call.runs:
            if run.solid < FIXED:
                continue
            if run.producer is None:
                gaps.setdefault(run.zone, []).append(run)
            else:
                pieces.setdefault(run.zone, set()).add(run.producer)
        for zone in {**gaps, **pieces}:
            key = (call.service, zone)
            if zone not in gaps:
                if key in self._places:
                    self._places[key].others += 1
                continue
            place = _kept(self._places, key, _Place)
            place.gaps += 1
            place.last = (call.qid, call.call)
            for gap in gaps[zone]:
                _add(place.texts, gap.key)
                for unit in gap.units:
                    if unit.key != BLANK:
                        _add(place.keys, unit.key)
            for producer in pieces.get(zone, ()):
                _add(place.beside, producer)

    def _learn_texts(self, call: Sketch, own: list[Run]) -> None:
        """What producers declare, and beside whom. A conversation's first turn is carried on by its history."""
        opening = call.group != call.qid and call.group not in self._groups
        self._groups[call.group] = None
        if len(self._groups) > TEXTS:
            self._groups.popitem(last=False)
        producers = list(dict.fromkeys(run.producer or "" for run in own))
        for producer in producers:
            found = self._producer((call.service, producer))
            found.calls += 1
            found.counted += not opening
            for other in producers[:_PRODUCERS]:
                if other != producer:
                    _add(found.beside, other)
        seen: set[tuple[_Name, int]] = set()
        for run in own:
            key = ((call.service, run.producer or ""), run.key)
            if run.solid >= FIXED // 3 and key not in seen:
                seen.add(key)
                text = self._text(key, run)
                text.last = (call.qid, call.call)
                text.counted += not opening

    def _producer(self, name: _Name) -> _Producer:
        return _kept(self._producers, name, _Producer)

    def _text(self, key: tuple[_Name, int], run: Run) -> _Text:
        known = self._texts.get(key)
        if known is not None:
            self._texts.move_to_end(key)
            return known
        telling = max(run.units, key=lambda unit: unit.solid)
        text = _Text(key[0], frozenset(unit.key for unit in run.units if unit.key != BLANK))
        self._texts[key] = text
        at = self._at.setdefault(telling.key, [])
        at.append(text)
        del at[:-_CANDIDATES]
        if len(self._texts) > TEXTS:
            _, gone = self._texts.popitem(last=False)
            for unit in gone.keys & self._at.keys():
                self._at[unit] = [text for text in self._at[unit] if text is not gone]
                if not self._at[unit]:
                    del self._at[unit]
        return text


def suspicions(calls: Iterable[Sketch]) -> list[Suspicion]:
    """What is suspected over some calls, in any order."""
    watch = Remainders()
    for call in sorted(calls, key=lambda call: call.order):
        watch.see(call)
    return list(watch.suspicions())


def _take(found: _Producer, run: Run, place: _Place) -> None:
    varying = run.key not in place.texts
    known = found.zones.get(run.zone)
    if known is None or (varying, run.solid) > (known.varying, known.solid):
        evidence = Evidence(None, *place.last, run.path, run.chars)
        found.zones[run.zone] = _Taken(evidence, run.solid, varying)


def _suspect(several: list[_Producer]) -> bool:
    """Whether what these took in, as if they were one, is what a remainder takes."""
    if any(found.caught for found in several):
        return True
    zones: dict[Zone, list[_Taken]] = {}
    for found in several:
        for zone, taken in found.zones.items():
            zones.setdefault(zone, []).append(taken)
    silent = {other for found in several for other in found.silent}
    if len(silent) > 1 or (silent and zones):
        return True
    varying = sum(any(taken.varying and taken.solid >= VARYING for taken in found) for found in zones.values())
    long = sum(any(taken.solid >= LONG for taken in found) for found in zones.values())
    return len(zones) > 1 and (varying > 0 or long > 1)


def _evidence(several: list[_Producer]) -> Iterator[Evidence]:
    seen: set[Zone | str] = set()
    for found in several:
        for zone, taken in found.zones.items():
            if zone not in seen:
                seen.add(zone)
                yield taken.evidence
        for other, evidence in found.silent.items():
            if other not in seen:
                seen.add(other)
                yield evidence


def _kept(known: OrderedDict, key, new):  # type: ignore[no-untyped-def, type-arg]
    """The value of a key, made where there is none; the one that was used least recently goes."""
    if key not in known:
        known[key] = new()
        if len(known) > TEXTS:
            known.popitem(last=False)
    known.move_to_end(key)
    return known[key]


def _add(known: set, item) -> None:  # type: ignore[no-untyped-def, type-arg]
    if len(known) < KEYS:
        known.add(item)
