"""A placement: the application's own function that renders its pieces into the prompt.

Invariants:

- What is sent is what the function gave. It is asked for it once, and its errors are the application's own.
- Offsets come from the function itself: it is asked again with a **stand-in** for each text, as long as the text and
  like no other. What it gives then, with the texts put back, must be the prompt that it gave before, character by
  character. Only then is it said where a piece stands, and which pieces the function left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from otel_prompt_trace.core.events import Event
from otel_prompt_trace.core.pieces import Piece
from otel_prompt_trace.core.prompt import Prompt
from otel_prompt_trace.core.segments import Segment, split

Function: TypeAlias = "Callable[[tuple[Piece, ...]], Any]"
Place: TypeAlias = "tuple[int, int, int]"  # segment, start and end, in code points

# A stand-in is a run of one character of the private use area, a character of its own for each piece.
_FIRST = 0xE000
_MOST = 0x1900  # pieces
_STAND_IN = re.compile("[\ue000-\uf8ff]")
_BUDGET_NS = 2_000_000  # of the calling thread: a function that took longer is not asked again while a model waits


@dataclass(frozen=True, slots=True)
class Placement:
    """A registered function. ``name`` is ``module:function``; ``sha256`` is of its source, None where it has none."""

    name: str
    function: Function
    sha256: str | None

    @property
    def reference(self) -> Event:
        """What a request says of it."""
        return {"name": self.name} if self.sha256 is None else {"name": self.name, "sha256": self.sha256}


@dataclass(frozen=True, slots=True)
class Traced:
    """Where each piece stands, by its number: ``places`` of those that stand whole, and those ``left_out``."""

    places: Mapping[int, Place]
    left_out: frozenset[int]


_NOTHING = Traced({}, frozenset())


class Rendered:
    """What a placement made of its pieces: give it to ``q.call(prompt=…)``, and send its ``text`` or ``messages()``."""

    __slots__ = ("_elapsed_ns", "_traced", "given", "placement", "prompt")

    def __init__(self, placement: Placement, prompt: Any, given: tuple[Piece, ...], elapsed_ns: int = 0) -> None:
        self.placement = placement
        self.prompt = prompt
        self.given = given
        self._elapsed_ns = elapsed_ns
        self._traced: Traced | None = None

    @property
    def text(self) -> str:
        """The prompt as one string.

        Raises:
            ValueError: it is a list of messages: use :meth:`messages`.
        """
        if isinstance(self.prompt, Prompt):
            return self.prompt.text
        if isinstance(self.prompt, str):
            return self.prompt
        raise ValueError(f"the placement {self.placement.name} gave messages, which have no single text")

    def messages(self) -> list[Any]:
        """The messages, as model APIs take them; one string is a user message."""
        if isinstance(self.prompt, Prompt):
            return self.prompt.messages()
        if isinstance(self.prompt, str):
            return [{"role": "user", "content": self.prompt}]
        return list(self.prompt)

    @property
    def pieces(self) -> tuple[Piece, ...]:
        """Every piece with its segment and offsets where they are known; without those that were left out."""
        if isinstance(self.prompt, Prompt):
            return self.prompt.pieces
        traced = self._trace(whatever_it_takes=True)
        return tuple(placed_at(p, traced.places.get(n)) for n, p in enumerate(self.given) if n not in traced.left_out)

    @property
    def segments(self) -> tuple[Segment, ...]:
        """The segments of the prompt, as :func:`otel_prompt_trace.census` counts them."""
        return segments_of(self.prompt)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"Rendered({self.placement.name}, pieces={len(self.given)})"

    @property
    def placed(self) -> list[Event]:
        """The pieces as events without a call; placed ones without their text, which the prompt holds."""
        if isinstance(self.prompt, Prompt):
            return self._placed_in(self.prompt)
        traced = self._trace()
        return [_event(p, n, traced.places.get(n), n in traced.left_out) for n, p in enumerate(self.given)]

    @property
    def withheld(self) -> list[str]:
        """The texts of the pieces whose policy keeps no text."""
        own = self.prompt.withheld if isinstance(self.prompt, Prompt) else []
        return own + [piece.text for piece in self.given if piece.policy != "store" and piece.text]

    def _placed_in(self, prompt: Prompt) -> list[Event]:
        """The prompt's own pieces, each with the number of the given one that it is; then those it did without."""
        waiting: dict[tuple[str, str | None, int], list[int]] = {}
        for number, piece in enumerate(self.given):
            waiting.setdefault((piece.producer, piece.source_id, piece.length), []).append(number)
        events, used = [], set[int]()
        for placed, piece in zip(prompt.placed, prompt.pieces, strict=True):
            numbers = waiting.get((piece.producer, piece.source_id, piece.length), ())
            match = next((n for n in numbers if n not in used and self.given[n].text == piece.text), None)
            if match is None:
                events.append(placed)
                continue
            used.add(match)
            events.append({**placed, "given": match})
        return events + [_event(p, n, None, left_out=True) for n, p in enumerate(self.given) if n not in used]

    def _trace(self, *, whatever_it_takes: bool = False) -> Traced:
        if self._traced is None:
            if self._elapsed_ns > _BUDGET_NS and not whatever_it_takes:
                return _NOTHING
            self._traced = trace(self.placement.function, self.given, self.prompt) or _NOTHING
        return self._traced


def trace(function: Function, given: tuple[Piece, ...], prompt: Any) -> Traced | None:
    """Where the pieces stand in the text or the messages that ``function`` made of them. Raises nothing.

    None where that can't be shown: the function treats texts by what is in them, or gives something else each time.
    """
    if len(given) > _MOST:
        return None
    stand_ins = {n: _StandIn(n, piece.text) for n, piece in enumerate(given) if piece.text and not piece.text.isspace()}
    try:
        asked = tuple(_saying(p, stand_ins[n].text) if n in stand_ins else p for n, p in enumerate(given))
        real, skeleton = segments_of(prompt), segments_of(function(asked))
    except Exception:  # noqa: BLE001 - the prompt was rendered already: the pieces will be searched for
        return None
    if [segment.path for segment in real] != [segment.path for segment in skeleton]:
        return None
    places: dict[int, Place] = {}
    seen: set[int] = set()
    for number, (there, asked_again) in enumerate(zip(real, skeleton, strict=True)):
        reached = 0
        for found in _stand(asked_again.text, there.text, stand_ins):
            if found is None:
                return None
            piece, start, end = found
            if piece not in seen and start >= reached and there.text[start:end] == given[piece].text:
                places[piece] = number, start, end
                reached = end
            seen.add(piece)
    return Traced(places, frozenset(stand_ins.keys() - seen))


def segments_of(prompt: Any) -> tuple[Segment, ...]:
    """The segments of what a placement gave.

    Raises:
        TypeError: it is no prompt.
    """
    return prompt.segments if isinstance(prompt, Prompt) else split(prompt).segments


class _StandIn:
    """The stand-in of one text: its white space at both ends as it is, and a character of its own for each other.

    It keeps no other copies of either: memory that is new costs more than all the rest.
    """

    __slots__ = ("before", "instead_of", "number", "text")

    def __init__(self, number: int, text: str) -> None:
        self.number, self.instead_of = number, text
        self.before = len(text) - len(text.lstrip())
        core = len(text.strip())
        self.text = text[: self.before] + chr(_FIRST + number) * core + text[self.before + core :]


def _stand(skeleton: str, real: str, stand_ins: Mapping[int, _StandIn]) -> Iterator[Place | None]:
    """The number of each stand-in and where its text stands; a last None where the one is no image of the other.

    A text may be cut at its end: it is still known whose characters stand there, but it stands nowhere (-1).
    """
    position = 0
    while len(skeleton) == len(real):
        found = _STAND_IN.search(skeleton, position)
        at = len(skeleton) if found is None else found.start()
        if skeleton[position:at] != real[position:at]:
            break
        if found is None:
            return
        own = stand_ins.get(ord(found[0]) - _FIRST)
        if own is None:
            break
        run, core = own.text.strip(), own.instead_of.strip()
        whole = skeleton.startswith(run, at)
        if not whole:
            run = skeleton[at : at + len(run)]
            core = core[: len(run) - len(run.lstrip(found[0]))]
        if not real.startswith(core, at):
            break
        position = at + len(core)
        start = at - own.before if whole else -1
        yield own.number, start, start + len(own.text)
    yield None


def _saying(piece: Piece, text: str) -> Piece:
    """The piece with another text: what ``dataclasses.replace`` gives, at a quarter of its cost."""
    p = piece
    return Piece(p.producer, text, p.trust, p.policy, p.source_id, p.inline, value=p.value)


def placed_at(piece: Piece, place: Place | None, before: int = 0) -> Piece:
    """The piece at a place, with so many segments before the placement's own; None: nowhere that is known."""
    if place is None:
        return replace(piece, segment=None, start=None, end=None)
    segment, start, end = place
    return replace(piece, segment=segment + before, start=start, end=end)


def _event(piece: Piece, number: int, place: Place | None, left_out: bool) -> Event:
    event: Event = {"kind": "piece", "producer": piece.producer, "trust": piece.trust, "given": number}
    if piece.source_id is not None:
        event["source_id"] = piece.source_id
    if piece.policy != "store":
        event["policy"] = piece.policy
    if piece.inline:
        event["inline"] = True
    if left_out:
        event["left_out"] = True
    if place is not None:
        event["segment"], event["start"], event["end"] = place
    elif piece.text is not None:
        event["text"] = piece.text
    else:
        event["value"] = piece.value
    return event
