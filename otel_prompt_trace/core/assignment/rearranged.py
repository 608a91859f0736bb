"""Room for one more: a few pieces change places, or one gives way to others, so that more is covered.

Longer before shorter guesses, and may guess wrong: a text takes the one place of another, although it stands elsewhere
as well. Where pieces got no place and all that can move are few, every way of placing them is tried, and the one that
covers most is taken: then no other covers more. Where there are more of them, those alone are moved that stand in the
way of one that got no place, and those in their way in turn, up to a few; what is found so is better, not the best.
Nor is it where the steps run out. But longer before shorter alone covers at least a quarter of what can be covered: a
piece keeps out only what is no longer than itself, and of that what overlaps its ends and what lies within, less than
three times its length together.

Invariants: nothing that is recorded moves. What is declared goes before what is inferred, and nothing moves unless more
is covered. Without an order the result does not depend on the order of the pieces.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate, islice

from otel_prompt_trace.core.assignment.board import Board, Place
from otel_prompt_trace.core.words import is_word

PIECES = 8  # that are moved at once
SPOTS = 12  # occurrences of each that are tried, where there are more pieces than these
ALL_SPOTS = 40  # where there are not
TRIES = 30  # texts that got no place and are made room for, one after another
STEPS = 6_000  # pieces put somewhere, in one assignment


class Rearrangement:
    """Moves pieces on a board on which no other search finds anything more."""

    def __init__(self, board: Board, ordinary: list[int], absent: set[str]) -> None:
        self._board = board
        movable = (n for n in ordinary if n not in board.fixed)
        self._ordinary = [n for n in movable if (text := board.pieces[n].text) is not None and text not in absent]
        self._spots: dict[str, list[Place]] = {}
        self._steps = STEPS

    def run(self) -> None:
        """Place what can be placed by moving others."""
        board, tried = self._board, set[str]()
        if all(board.placed[n] is not None for n in self._ordinary):
            return
        if len(self._ordinary) <= PIECES and all(len(self._all_spots(n)) <= ALL_SPOTS for n in self._ordinary):
            self._improve(self._ordinary, ALL_SPOTS)
            return
        owners = {(p.segment, p.start): n for n in self._ordinary if (p := board.placed[n]) is not None}
        for index in self._ordinary:
            text = board.pieces[index].text
            if board.placed[index] is None and text and text not in tried and len(tried) < TRIES:
                tried.add(text)
                if self._improve(self._in_the_way(index, owners), SPOTS):
                    owners = {(p.segment, p.start): n for n in self._ordinary if (p := board.placed[n]) is not None}

    def _all_spots(self, index: int) -> list[Place]:
        """The first places of a piece's text, one more than are tried at most."""
        text = self._board.pieces[index].text or ""
        if text not in self._spots:
            places = self._board.occurrences(text)
            self._spots[text] = list(islice(places, ALL_SPOTS + 1))
        return self._spots[text]

    def _in_the_way(self, index: int, owners: dict[tuple[int | None, int | None], int]) -> list[int]:
        """The piece, those that stand where it could, those that stand where these could, and so on, by rank."""
        board = self._board
        group = {index: None}
        for one in group_in_turn(group):
            text = board.pieces[one].text or ""
            for segment, start in self._all_spots(one)[:SPOTS]:
                others = [owners.get((segment, at)) for at in board.taken.starts(segment, start, start + len(text))]
                if None in others or any(board.pieces[n].text == text for n in others if n is not None):
                    continue  # what is recorded does not move, and its like is no better off
                if len(group.keys() | set(others)) <= PIECES:
                    group.update(dict.fromkeys(n for n in others if n is not None))
        return [n for n in self._ordinary if n in group]

    def _improve(self, group: list[int], spots: int) -> bool:
        """Place these anew if they cover more so."""
        board = self._board
        before = {n: (p.segment or 0, p.start or 0) for n in group if (p := board.placed[n]) is not None}
        for n, place in before.items():
            board.give_back(n, *place)
        trial = _Trial(board, group, before, [self._all_spots(n)[:spots] for n in group], self._steps)
        found = trial.best()
        self._steps = trial.steps
        after = before if found is None else found
        for n, place in after.items():
            board.take(n, *place)
        if found is not None and not self._all_may_stand(before.items()):
            for n, place in after.items():
                board.give_back(n, *place)
            for n, place in before.items():
                board.take(n, *place)
            return False
        return found is not None

    def _all_may_stand(self, left: Iterable[tuple[int, Place]]) -> bool:
        """Whether no bare word beside a place that was left stands there as a part of a longer word, all alone."""
        board = self._board
        for index, (segment, start) in left:
            end = start + board.pieces[index].length
            for a, b in board.taken.beside(segment, start, end):
                if board.splits_word(segment, a, b) and not board.taken.touches(segment, a, b):
                    return False
        return True


def group_in_turn(group: dict[int, None]) -> Iterable[int]:
    """The members, also those that join while they are gone through."""
    done = 0
    while done < len(group):
        yield list(group)[done]
        done += 1


class _Trial:
    """Every way to place a few pieces among those that stay, by branch and bound."""

    def __init__(
        self, board: Board, group: list[int], before: dict[int, Place], spots: list[list[Place]], steps: int
    ) -> None:
        self._board = board
        self._group = group
        self._before = before
        self.steps = steps
        self._lengths = [board.pieces[n].length for n in group]
        self._texts = [board.pieces[n].text or "" for n in group]
        self._words = [is_word(text) for text in self._texts]
        self._spots = [
            [at for at in places if board.taken.overlap(at[0], at[1], at[1] + length) is None]
            for places, length in zip(spots, self._lengths, strict=True)
        ]
        self._begins: set[Place] = set()
        self._ends: set[Place] = set()
        self._leave_out_fragments_that_nothing_touches()
        worth = [self._worth(n, self._before.get(index)) for n, index in enumerate(group)]
        self._left = [*accumulate(reversed(worth), initial=0)][::-1]  # from each on, all that could be had
        self._least = sum(self._worth(group.index(n), place) for n, place in before.items())
        self._chosen: list[Place | None] = []
        self._best: list[Place | None] | None = None

    def best(self) -> dict[int, Place] | None:
        """Where each goes that gets a place; None where nothing covers more than what was."""
        least = self._least
        self._least += 1 << _COVERED  # by a character at least
        self._least -= least % (1 << _COVERED)
        self._least -= 1
        self._put(0, 0)
        if self._best is None:
            return None
        return {n: place for n, place in zip(self._group, self._best, strict=True) if place is not None}

    def _worth(self, number: int, place: Place | None) -> int:
        """Characters first, those of what is declared before all; then pieces of this call; then staying."""
        index = self._group[number]
        piece = self._board.pieces[index]
        stays = place is not None and self._before.get(index) == place
        covered = self._lengths[number] << (_COVERED if piece.inferred else 2 * _COVERED)
        return covered + (0 if piece.offered else 1 << _OWN) + stays

    def _put(self, number: int, worth: int) -> None:
        if worth + self._left[number] <= self._least or self.steps <= 0:
            return
        if number == len(self._group):
            if self._all_may_stand():
                self._best, self._least = list(self._chosen), worth
            return
        self.steps -= 1
        alike = number > 0 and self._texts[number] == self._texts[number - 1]
        low = self._chosen[number - 1] if alike else (-1, -1)
        if low is not None:
            length = self._lengths[number]
            for segment, start in self._beside_others_first(number):
                if (segment, start) > low and self._is_free(segment, start, start + length):
                    self._chosen.append((segment, start))
                    self._begins.add((segment, start))
                    self._ends.add((segment, start + length))
                    self._put(number + 1, worth + self._worth(number, (segment, start)))
                    self._begins.remove((segment, start))
                    self._ends.remove((segment, start + length))
                    self._chosen.pop()
        self._chosen.append(None)
        self._put(number + 1, worth)
        self._chosen.pop()

    def _beside_others_first(self, number: int) -> list[Place]:
        """The spots of a piece; of a bare word first those where it touches what is placed, and so may stand."""
        if not self._words[number]:
            return self._spots[number]
        length = self._lengths[number]
        return sorted(self._spots[number], key=lambda at: not self._touches(at[0], at[1], at[1] + length))

    def _touches(self, segment: int, start: int, end: int) -> bool:
        if (segment, end) in self._begins or (segment, start) in self._ends:
            return True
        return self._board.taken.touches(segment, start, end)

    def _leave_out_fragments_that_nothing_touches(self) -> None:
        """A bare word may stand in a longer one only beside a piece: here, beside a place where another may stand."""
        for _ in range(2):  # what is left out may have been all that another touched
            begins = [set(places) for places in self._spots]
            ends = [
                {(segment, start + length) for segment, start in places}
                for places, length in zip(self._spots, self._lengths, strict=True)
            ]
            for number, length in enumerate(self._lengths):
                if self._words[number]:
                    self._spots[number] = [
                        (segment, start)
                        for segment, start in self._spots[number]
                        if not self._board.splits_word(segment, start, start + length)
                        or self._board.taken.touches(segment, start, start + length)
                        or any((segment, start + length) in b for n, b in enumerate(begins) if n != number)
                        or any((segment, start) in e for n, e in enumerate(ends) if n != number)
                    ]

    def _is_free(self, segment: int, start: int, end: int) -> bool:
        return not any(
            place is not None and place[0] == segment and place[1] < end and start < place[1] + length
            for place, length in zip(self._chosen, self._lengths, strict=False)
        )

    def _all_may_stand(self) -> bool:
        """Whether every bare word that was put inside a longer one touches another piece."""
        return all(
            at is None
            or not word
            or self._touches(at[0], at[1], at[1] + length)
            or not self._board.splits_word(at[0], at[1], at[1] + length)
            for at, length, word in zip(self._chosen, self._lengths, self._words, strict=True)
        )


_COVERED, _OWN = 48, 24  # bits: what covers more is worth more, whatever else
