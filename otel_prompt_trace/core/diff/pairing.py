"""Pairing: which piece of one prompt is which of the other."""

from __future__ import annotations

import zlib
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Container, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from otel_prompt_trace.core.census import Census
from otel_prompt_trace.core.pieces import Placed

_ALIKE = 0.3  # of the shingles of both; below that a text is another text
_SKETCH = 64
_HOLDERS = 50  # of one shingle; one that more texts have tells none of them apart
_WORDS = 3
_READ = 100_000  # characters of a text that its likeness is judged by

_SILENT = ("empty", "not_placed", "visible")
Identity = tuple[Literal["text", "digest", "none"], str]


@dataclass(frozen=True, slots=True)
class Item:
    """A piece in one of the two prompts; ``path``, ``start`` and ``end`` are None where it is not located."""

    producer: str
    source_id: str | None
    label: str
    identity: Identity
    text: str | None
    chars: int
    state: str
    path: str | None = None
    role: str | None = None
    segment: int | None = None
    start: int | None = None
    end: int | None = None

    @property
    def located(self) -> bool:
        """Whether it has a place."""
        return self.start is not None

    def comparable_with(self, other: Item) -> bool:
        """Whether both are kept in the same way."""
        return self.identity[0] == other.identity[0] != "none"


def items_of(census: Census | None) -> list[Item]:
    """The pieces of a prompt in the order in which they stand, then those that do not, as declared."""
    if census is None:
        return []
    placed = [p for p in census.pieces if p.state not in _SILENT]
    placed.sort(key=lambda p: (p.start is None, p.segment or 0, p.start or 0))
    return [_item(p, census) for p in placed]


def _item(placed: Placed, census: Census) -> Item:
    piece = placed.piece
    identity: Identity = ("none", "")
    if piece.text is not None:
        identity = ("text", piece.text)
    elif piece.hmac_sha256 is not None:
        identity = ("digest", piece.hmac_sha256)
    segment = None if placed.segment is None else census.segments[placed.segment]
    return Item(
        producer=piece.producer,
        source_id=piece.source_id,
        label=piece.label,
        identity=identity,
        text=piece.text,
        chars=piece.length,
        state=placed.state,
        path=None if segment is None else segment.path,
        role=None if segment is None else segment.role,
        segment=placed.segment,
        start=placed.start,
        end=placed.end,
    )


def pair(old: Sequence[Item], new: Sequence[Item]) -> dict[int, int]:
    """The number of each old item's counterpart among the new ones."""
    pairs: dict[int, int] = {}
    keys: tuple[Callable[[Item], Hashable], ...] = (
        lambda item: (item.producer, item.source_id, item.identity),
        lambda item: (item.producer, item.identity),
        lambda item: item.identity if item.text is None or item.text.strip() else None,  # glue is nobody's mark
        lambda item: (item.producer, item.source_id) if item.source_id is not None else None,
    )
    for key in keys:
        _match(old, new, key, pairs)
    _alike(old, new, pairs)
    return pairs


def largest_in_order(positions: Sequence[int]) -> list[int]:
    """The indexes of a longest increasing run of ``positions``, not necessarily of neighbours."""
    tails: list[int] = []  # the smallest last position of a run of each length, and the index that it has
    ends: list[int] = []
    before: list[int] = []
    for index, position in enumerate(positions):
        length = bisect_left(tails, position)
        before.append(ends[length - 1] if length else -1)
        if length == len(tails):
            tails.append(position)
            ends.append(index)
        else:
            tails[length], ends[length] = position, index
    found = []
    at = ends[-1] if ends else -1
    while at >= 0:
        found.append(at)
        at = before[at]
    return found[::-1]


def _match(old: Sequence[Item], new: Sequence[Item], key: Callable[[Item], Hashable], pairs: dict[int, int]) -> None:
    """Pair what has one key: first what is the only one on both sides, then equals between the same neighbours."""
    left, right = _by_key(old, key, pairs.keys()), _by_key(new, key, set(pairs.values()))
    for name, numbers in left.items():
        if len(numbers) == 1 == len(right.get(name, ())):
            pairs[numbers[0]] = right[name][0]
    ordered = sorted(pairs.items())
    anchors = [ordered[n] for n in largest_in_order([b for _, b in ordered])]
    before, after = [a for a, _ in anchors], [b for _, b in anchors]
    taken = set(pairs.values())
    for name, numbers in left.items():
        if len(numbers) == 1 == len(right.get(name, ())) or name not in right:
            continue
        regions: dict[int, list[int]] = defaultdict(list)
        for b in reversed(right[name]):
            regions[bisect_left(after, b)].append(b)
        rest = []
        for a in numbers:
            here = regions.get(bisect_left(before, a))
            if here:
                pairs[a] = here.pop()
                taken.add(pairs[a])
            else:
                rest.append(a)
        spare = (b for b in right[name] if b not in taken)
        pairs |= dict(zip(rest, spare, strict=False))


def _by_key(
    items: Sequence[Item], key: Callable[[Item], Hashable], paired: Container[int]
) -> dict[Hashable, list[int]]:
    found: dict[Hashable, list[int]] = defaultdict(list)
    for number, item in enumerate(items):
        name = key(item)
        if name is not None and number not in paired:
            found[name].append(number)
    return found


def _alike(old: Sequence[Item], new: Sequence[Item], pairs: dict[int, int]) -> None:
    """Pair what one producer wrote anew: its only text on both sides, or the one that is most like it."""
    left = _by_key(old, lambda item: item.producer, pairs.keys())
    right = _by_key(new, lambda item: item.producer, set(pairs.values()))
    for producer, before in left.items():
        after = right.get(producer, [])
        if len(before) == 1 == len(after) and old[before[0]].source_id is None is new[after[0]].source_id:
            pairs[before[0]] = after[0]
            continue
        taken: set[int] = set()
        for _, a, b in sorted(_likenesses(old, new, before, after)):
            if a not in pairs and b not in taken:
                pairs[a] = b
                taken.add(b)


def _likenesses(
    old: Sequence[Item], new: Sequence[Item], before: Sequence[int], after: Sequence[int]
) -> Iterator[tuple[float, int, int]]:
    """Pairs that are alike, the most alike first when sorted."""
    sketches = {b: _sketch(new[b].text) for b in after}
    holders: dict[int, list[int]] = defaultdict(list)
    for b, sketch in sketches.items():
        for shingle in sketch:
            holders[shingle].append(b)
    for a in before:
        sketch = _sketch(old[a].text)
        shared: dict[int, int] = defaultdict(int)
        for shingle in sketch:
            others = holders.get(shingle, ())
            for b in others if len(others) <= _HOLDERS else ():
                shared[b] += 1
        for b in sorted(shared, key=lambda b: (-shared[b], b))[:3]:
            smallest = set(sorted({*sketch, *sketches[b]})[:_SKETCH])
            likeness = len(smallest & set(sketch) & set(sketches[b])) / len(smallest)
            if likeness >= _ALIKE:
                yield -likeness, a, b


def _sketch(text: str | None) -> list[int]:
    """The smallest digests of a text's shingles: two texts share as many of them as they are alike (MinHash)."""
    if not text:
        return []
    words = text[:_READ].split()
    if len(words) < 2 * _WORDS:  # short, or of a script without spaces
        words, size = list("".join(words)), 2 * _WORDS
    else:
        size = _WORDS
    shingles = {" ".join(words[at : at + size]) for at in range(max(1, len(words) - size + 1))}
    return sorted({zlib.crc32(shingle.encode("utf-8", "surrogatepass")) for shingle in shingles})[:_SKETCH]
