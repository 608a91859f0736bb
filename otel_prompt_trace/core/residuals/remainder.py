"""The guard across calls: a producer that takes in whatever nobody else declared.

Within one call a remainder (the prompt less what the others declared) can't be told from a producer that knows its
text. Over calls it can: what stood apart, as gaps in several places or as the texts of several producers, comes to
stand under one name. The calls are given in the order of time. A producer is **suspected**

1. if it came to stand in two zones (see ``sketch``) in which gaps stood while it was not heard: because its text there
   is what stood as a gap, or because that zone had a gap in most calls so far. It stands in both in one call, or they
   lie apart. One of the texts must be another than any gap there was and have :data:`VARYING` characters, the other
   :data:`FIXED`; or both have :data:`LONG` ones, where all are texts that stood there before. And in most of its
   calls no gap is left;
2. if it stood beside another producer, and now holds the text which that one always declared, while that one is
   silent;
3. if it holds what two or more producers always declared and from then on do not, or one of these and what stood as a
   gap.

Names that stand in one call only are taken together (from :data:`NAMES` calls on): a new name for each call hides
nothing. What is suspected is each call in which such a producer stands, from the first in which it took something in.

Not suspected, since it is what an honest step looks like:

- a producer that was heard beside the gaps, unless it always said one text until then; or one that leaves others: a
  remainder leaves none;
- a new producer for what stood as a gap in one zone, whether it is always the same text or grows: what ``suggest``
  tells an engineer to declare. Several messages of a dialogue are one zone;
- a template's fragments, which stand in many zones and are short: names of sources beside them do not count. Those
  of :class:`Prompt` (``literal``) may be long, since they have no other name, as long as they do not vary;
- a history, which holds the questions, chunks and answers of earlier turns: their producers still speak, or never
  declared the same text in most of their calls, or the history held it while they still did;
- a new name for one producer's text.

What this can't see: a remainder that took the same places from the first call on, until a producer falls silent; one
that takes in one zone only, which is the declaration of what stands there; one that takes two short fixed texts, which
is a template; texts that touch those around them within a sentence; and a producer's text that was another one in each
call. What it takes for a remainder though it is none: a merger of two producers, one name for several undeclared texts
(give each its own), and a text that is another one in each call and moves past its neighbours.

Memory is bounded (see ``memory``), but for the list of calls in which a producer with takings stands.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator

from otel_prompt_trace.core.prompt import LITERAL
from otel_prompt_trace.core.residuals.memory import ENDS, KEPT, UNITS, Name, Place, Producer, Text, add, join, kept
from otel_prompt_trace.core.residuals.sketch import Run, Sketch, Zone
from otel_prompt_trace.core.residuals.suspicion import Evidence, Suspicion
from otel_prompt_trace.core.residuals.units import BLANK, solid

FIXED, VARYING, LONG = 20, 40, 60  # characters that are no white space
NAMES = 3  # names that stand in one call each
_PRODUCERS = 128  # of one call that are remembered together
_CANDIDATES = 8  # texts that are looked for at one unit
_ALWAYS = 0.8  # of a producer's calls


class Remainders:
    """Watches calls in the order of time, and says which producers took in what others left."""

    def __init__(self) -> None:
        self._places: OrderedDict[tuple[str, Zone], Place] = OrderedDict()
        self._beside: OrderedDict[tuple[Name, Zone], Place] = OrderedDict()  # for who stood next to a gap himself
        self._producers: OrderedDict[Name, Producer] = OrderedDict()
        self._texts: OrderedDict[tuple[Name, int], Text] = OrderedDict()
        self._at: dict[int, list[Text]] = {}  # texts by their most telling unit
        self._groups: OrderedDict[str, None] = OrderedDict()
        self._gaps: OrderedDict[int, tuple[str, str]] = OrderedDict()  # units of all gaps, and where they stood last

    def see(self, call: Sketch) -> None:
        """Take in one call; calls come in the order of time."""
        own = [run for run in call.runs if run.producer is not None and not run.inferred]
        for producer in call.heard:
            self._speaks_again(call.service, producer)
        stood = (run for run in call.runs if run.solid >= FIXED)
        others = {key for run in stood for key in _without_neighbours(call.service, run)}
        for run in own:
            self._look(call, run, others)
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
            suspect = _suspect([found], template=name[1] == LITERAL)
            evidence = tuple(_evidence([found])) if suspect else ()
            if not evidence and name in once:
                evidence = pooled.get(name[0], ())
            if evidence:
                yield from (Suspicion(*stand, name[1], evidence) for stand in found.stands)

    def _look(self, call: Sketch, run: Run, others: set[tuple[Name, Zone]]) -> None:
        """What this run takes in of what stood before; ``others`` are the places beside a producer that are taken."""
        producer = run.producer or ""
        name = (call.service, producer)
        found = self._producer(name)
        stand = (call.qid, call.call, call.number)
        place = self._place(run, name, others)
        if place is not None and place.gaps and run.solid >= FIXED:
            shared = sum(unit.solid for unit in run.units if unit.key in place.keys)
            if shared * 2 >= run.solid or (place.gaps >= place.others):
                found.take(run, place, stand)
        for text in self._held(run, name):
            other = text.owner[1]
            if other in call.heard:
                add(found.carries, other)
            elif self._always(text, call.group) and other not in found.carries:
                found.silent.setdefault(other, Evidence(other, *text.last, run.path, run.chars))
                found.caught = found.caught or other in found.beside
                add(self._producer(text.owner).holders, producer)
                beyond = [unit for unit in run.units if unit.key not in text.keys and unit.key in self._gaps]
                if solid(beyond) >= FIXED:
                    where = self._gaps[beyond[0].key]
                    found.silent.setdefault("", Evidence(None, *where, run.path, solid(beyond)))
        if (found.zones or found.silent) and found.stands[-1:] != [stand]:
            found.stands.append(stand)
            found.leaves += any(gap.solid >= FIXED for gap in call.gaps)

    def _place(self, run: Run, name: Name, others: set[tuple[Name, Zone]]) -> Place | None:
        """What stood where this run stands; of who was heard beside it, only if he always said one thing until now."""
        place = self._places.get((name[0], run.zone))
        if place is not None and name[1] not in place.heard:
            return place
        known = self._producers[name]
        steady = known.steady > 1 and known.steady >= _ALWAYS * known.counted
        if not steady or (name, run.key) in self._texts or name[1] == LITERAL:
            return None
        return place or (None if (name, run.zone) in others else self._beside.get((name, run.zone)))

    def _speaks_again(self, service: str, producer: str) -> None:
        """It was another kind of call that held its text: a summary, say, or a judge's."""
        known = self._producers.get((service, producer))
        for holder in () if known is None else known.holders:
            found = self._producers.get((service, holder))
            if found is not None and producer not in found.beside:
                found.silent.pop(producer, None)
                add(found.carries, producer)
        if known is not None:
            known.holders.clear()

    def _held(self, run: Run, name: Name) -> Iterator[Text]:
        """The known texts of other producers that stand inside a run."""
        keys = {unit.key for unit in run.units}
        for key in dict.fromkeys(unit.key for unit in run.units):
            for text in self._at.get(key, ()):
                if text.owner[0] == name[0] and text.owner != name and text.keys <= keys:
                    yield text

    def _always(self, text: Text, group: str) -> bool:
        """Whether its owner declared it time and again: in the calls of this group, or in most of all."""
        owner = self._producers.get(text.owner)
        if owner is None:
            return False
        here = owner.runs.get(group, {}).get(text.key, 0) > 1
        return here or (text.counted > 1 and text.counted >= _ALWAYS * owner.counted)

    def _learn_gaps(self, call: Sketch) -> None:
        gaps: dict[Zone, list[Run]] = {}
        pieces: set[Zone] = set()
        for run in call.runs:
            if run.solid < FIXED:
                continue
            if run.producer is None:
                gaps.setdefault(run.zone, []).append(run)
            else:
                pieces.add(run.zone)
        heard = set(sorted(call.heard)[:_PRODUCERS])
        for zone in [*gaps, *sorted(pieces - gaps.keys())]:
            key = (call.service, zone)
            if zone not in gaps:
                if key in self._places:
                    self._places[key].others += 1
                continue
            place = kept(self._places, key, Place)
            place.gaps += 1
            place.last = (call.qid, call.call)
            for gap in gaps[zone]:
                place.learn(gap)
                self._gaps.update((unit.key, place.last) for unit in gap.units if unit.key != BLANK)
            while len(self._gaps) > UNITS:
                self._gaps.popitem(last=False)
            join(place.heard, heard)
        self._learn_beside(call, gaps)

    def _learn_beside(self, call: Sketch, gaps: dict[Zone, list[Run]]) -> None:
        """The same for each producer next to a gap: where that gap stands if his own text is left out of account."""
        found: set[tuple[Name, Zone]] = set()
        for gap in (gap for row in gaps.values() for gap in row):
            for key in _without_neighbours(call.service, gap):
                place = kept(self._beside, key, Place)
                place.learn(gap)
                place.last = (call.qid, call.call)
                place.gaps += key not in found
                found.add(key)
        for run in call.runs:
            key = ((call.service, run.producer or ""), run.zone)
            if run.producer is not None and key not in found and key in self._beside:
                self._beside[key].others += 1
                found.add(key)

    def _learn_texts(self, call: Sketch, own: list[Run]) -> None:
        """What producers declare, and beside whom. A conversation's first turn is carried on by its history."""
        opening = call.group != call.qid and call.group not in self._groups
        self._groups[call.group] = None
        if len(self._groups) > KEPT:
            self._groups.popitem(last=False)
        producers = list(dict.fromkeys(run.producer or "" for run in own))
        near = set(producers[:_PRODUCERS])
        for producer in producers:
            found = self._producer((call.service, producer))
            found.calls += 1
            found.counted += not opening
            join(found.beside, near)
        declared: dict[Name, set[int]] = {}
        for run in own:
            name = (call.service, run.producer or "")
            if run.solid >= FIXED // 3 and run.key not in declared.setdefault(name, set()):
                declared[name].add(run.key)
                text = self._text((name, run.key), run)
                text.last = (call.qid, call.call)
                text.counted += not opening
                found = self._producer(name)
                found.steady = max(found.steady, text.counted)
        for name, texts in declared.items():
            self._producer(name).declare(call.group, texts)

    def _producer(self, name: Name) -> Producer:
        return kept(self._producers, name, Producer)

    def _text(self, key: tuple[Name, int], run: Run) -> Text:
        known = self._texts.get(key)
        if known is not None:
            self._texts.move_to_end(key)
            return known
        telling = max(run.units, key=lambda unit: unit.solid)
        own = list(dict.fromkeys(unit.key for unit in run.units if unit.key != BLANK))
        text = Text(*key, frozenset([telling.key, *own[:ENDS], *own[-ENDS:]]))
        self._texts[key] = text
        at = self._at.setdefault(telling.key, [])
        at.append(text)
        del at[:-_CANDIDATES]
        if len(self._texts) > KEPT:
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


def _suspect(several: list[Producer], *, template: bool = False) -> bool:
    """Whether what these took in, as if they were one, is what a remainder takes.

    A template's texts may be long, and none of its own has another name: it is suspected for what varies alone.
    """
    if any(found.caught for found in several):
        return True
    zones = {zone for found in several for zone in found.zones}
    silent = {other for found in several for other in found.silent}
    if len(silent) > 1 or (silent and zones):
        return True
    if sum(found.leaves for found in several) * 2 > sum(len(found.stands) for found in several):
        return False
    varying = {z for found in several for z, taken in found.zones.items() if taken.varying and taken.solid >= VARYING}
    if template:
        varying = {
            z for found in several for z in varying if len(found.zones[z].texts) >= max(3, len(found.stands) // 2)
        }
    longest = () if template else several
    long = {z for found in longest for z, taken in found.zones.items() if taken.solid >= LONG}
    together = {pair for found in several for pair in found.together}
    texts: dict[Zone, set[int]] = {}
    for found in several:
        for zone, taken in found.zones.items():
            texts.setdefault(zone, set()).update(taken.texts)

    def two(one: Zone, other: Zone) -> bool:
        """Whether these are two things: not one text that stands here or there, nor one zone by other neighbours."""
        return (one, other) in together or (texts[one] != texts[other] and _apart(one, other))

    return any(
        (one in varying or (one in long and other in long)) and two(one, other)
        for one in varying | long
        for other in zones
        if one != other
    )


def _without_neighbours(service: str, gap: Run) -> Iterator[tuple[Name, Zone]]:
    """The producers next to a gap, and for each the zone of the gap if he were not there."""
    field, speaker, left, right = gap.zone
    for producer in {left, right} - {"^", "$"}:
        before = gap.beyond[0] if producer == left else left
        behind = gap.beyond[1] if producer == right else right
        yield (service, producer), (field, speaker, before, behind)


def _apart(one: Zone, other: Zone) -> bool:
    """Whether they are of two fields, or one ends where the other begins."""
    return one[:2] != other[:2] or one[3] == other[2] or other[3] == one[2]


def _evidence(several: list[Producer]) -> Iterator[Evidence]:
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
