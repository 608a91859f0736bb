"""The search: why texts that were declared for a prompt stand nowhere in it, for all of them at once.

Invariants:

- A reason is named only for what was compared: the whole text stands, but for changes that are known by name, or a
  large part of it stands to the character, or changed in one way that is known.
- A place explains one text. It is looked for first in what nobody owns; a part of a text is looked for nowhere else.
- The prompt is folded once. Each text costs one search of it, or a few dozen where only a part stands.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from otel_prompt_trace.core.intervals import Intervals
from otel_prompt_trace.core.missing import changes
from otel_prompt_trace.core.missing.cuts import find_parts
from otel_prompt_trace.core.missing.folding import Folded
from otel_prompt_trace.core.missing.haystack import Haystack, Place
from otel_prompt_trace.core.missing.hint import Hint, longer
from otel_prompt_trace.core.segments import Segment

TIGHT = 2  # folded characters that must stand, where one change explains all, and is more than white space or case
SHORT = 6  # where another explains it
LONG = 16  # and where it is owned by somebody, stands inside a word, or nothing explains it
TRIES = 16  # places looked at for one text


def why(
    segments: Sequence[Segment], texts: Sequence[str | None], owned: Iterable[Place] = ()
) -> tuple[Hint | None, ...]:
    """Why each of ``texts`` does not stand in ``segments``, None where nothing likely is found.

    Args:
        segments: the prompt.
        texts: what was declared and not found; None for a text that was not kept.
        owned: places (segment, start, end) that other texts own; they may overlap.
    """
    hints: list[Hint | None] = [None] * len(texts)
    by_length = sorted((n for n, text in enumerate(texts) if text), key=lambda n: -len(texts[n] or ""))
    if by_length:
        search = _Search(Haystack(segments, owned), len(segments))
        folded = {text: Folded(text) for text in {texts[n] or "" for n in by_length}}
        for n in by_length:
            hints[n] = search.changed(folded[texts[n] or ""])
        search.claim(hint for hint in hints if hint is not None)
        for n in by_length:
            hints[n] = hints[n] or search.cut(folded[texts[n] or ""])
    return tuple(hints)


class _Search:
    def __init__(self, haystack: Haystack, segments: int) -> None:
        self._haystack = haystack
        self._claimed = Intervals(segments)
        self._reached: dict[str, int] = {}  # by folded text: there is nothing for it before this place
        self._vain: set[tuple[str, str]] = set()  # texts that were looked for, as a whole or in parts, for nothing

    def changed(self, piece: Folded) -> Hint | None:
        """All of the text stands, changed."""
        needle = piece.text
        if len(needle) < TIGHT or (piece.original, "whole") in self._vain:
            return None
        for text in (self._haystack.free, self._haystack.text) if len(needle) >= LONG else (self._haystack.free,):
            for at in self._places(text, needle):
                hint = self._explain(piece, at)
                if hint is not None:
                    return hint
        self._vain.add((piece.original, "whole"))
        return None

    def cut(self, piece: Folded) -> Hint | None:
        """A part of the text stands, or two with something between them."""
        if (piece.original, "part") in self._vain:
            return None
        hint = find_parts(self._haystack, piece, self._claimed)
        if hint is None:
            self._vain.add((piece.original, "part"))
        return hint

    def claim(self, hints: Iterable[Hint]) -> None:
        """What explains one text explains no other."""
        self._haystack.take((hint.segment, hint.start, hint.end) for hint in hints)

    def _places(self, text: str, needle: str) -> Iterator[int]:
        free = text is self._haystack.free
        at = text.find(needle, self._reached.get(needle, 0) if free else 0)
        if free:
            self._reached[needle] = at if at >= 0 else len(text)
        for _ in range(TRIES):
            if at < 0:
                return
            yield at
            at = text.find(needle, at + 1)

    def _explain(self, piece: Folded, at: int) -> Hint | None:
        needle = piece.text
        place = self._haystack.place(at, len(needle))
        if place is None:
            return None
        segment, start, end = place
        taken = self._claimed.overlap(segment, start, end)
        if taken is not None or (len(needle) < LONG and self._haystack.cuts_word(at, len(needle))):
            return None
        core = piece.start(0) or 0, piece.stop(len(needle)) or 0
        body = self._haystack.bodies[segment]
        found = changes.explain(piece.original, core, body, (start, end), self._haystack.room(at, len(needle)))
        least = LONG if found.reason == "several_changes" else TIGHT if found.tight else SHORT
        if not found.reason or len(needle) < least:
            return None
        self._claimed.add(segment, start, end)
        self._reached[needle] = max(self._reached.get(needle, 0), at + len(needle))
        detail = longer(len(piece.original), found.end - found.start)
        return Hint(found.reason, segment, found.start, found.end, detail)
