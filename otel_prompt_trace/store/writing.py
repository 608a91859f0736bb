"""Events into payload objects, so that shipping twice loses nothing.

A batch is stored under its first sequence number. If that key is taken (the same events were shipped before a crash,
perhaps grouped otherwise), what the existing object holds is left out, and the rest goes under its own first number,
until nothing is left. An object that can't be read whole counts as holding nothing: the batch then goes under the
next free number. One that no listing shows would be found by nobody: another one in its folder makes it show.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date
from itertools import chain
from typing import NamedTuple

from otel_prompt_trace.core.events import Identity, Problem, decode, identity
from otel_prompt_trace.core.keys import PayloadKey, blob_key, qid_prefix
from otel_prompt_trace.core.text import sha256_text
from otel_prompt_trace.exceptions import InvalidEvent, NotFound, StoreDenied, StoreUnreachable
from otel_prompt_trace.store.frames import pack, pack_all, unpack
from otel_prompt_trace.store.objects import ObjectStore

__all__ = ["BATCH_BYTES", "Line", "Packed", "pack_lines", "store_packed"]

Line = tuple[Identity, bytes]

BATCH_BYTES = 64 * 2**20  # uncompressed; a single event may be larger
_VANISHED = 10


class Packed(NamedTuple):
    """The lines of one query as they go into objects: of each object its lines in order, and their frame."""

    objects: list[tuple[list[Line], bytes]]


def pack_lines(queries: Sequence[Sequence[Line]], *, batch_bytes: int = BATCH_BYTES) -> list[Packed]:
    """What :func:`store_packed` stores of some queries, compressed in one go.

    Args:
        queries: for each its encoded events: identity and line (newline included), in any order; an identity given
            twice counts once.
        batch_bytes: how many bytes of lines go into one object at most, unless a single one is larger.

    Raises:
        InvalidEvent: bytes that are not one line.
    """
    for (writer, number), line in chain.from_iterable(queries):
        if line.find(b"\n") != len(line) - 1 or not line:
            raise InvalidEvent(f"event {number} of writer {writer} is not one line that ends in a newline")
    batches = [list(_batches(sorted(dict(lines).items()), batch_bytes)) for lines in queries]
    frames = iter(pack_all(_lines(batch) for query in batches for batch in query))
    return [Packed([(batch, next(frames)) for batch in query]) for query in batches]


def store_packed(objects: ObjectStore, day: date, qid: str, packed: Packed) -> list[str]:
    """Store events of one qid; the keys of the objects that hold them now, each once.

    Args:
        objects: where to.
        day: the day's folder.
        qid: the events' qid.
        packed: its lines, compressed.

    Raises:
        InvalidQid, InvalidEvent: a qid, writer or number that no key can carry.
        StoreUnreachable, StoreDenied: some events may be stored, others not; doing it all again is harmless.
    """
    keys: list[str] = []
    for batch, frame in packed.objects:
        keys += _store(objects, day, qid, batch, frame)
    return list(dict.fromkeys(keys))


def _lines(batch: Sequence[Line]) -> list[bytes]:
    return [line for _, line in batch]


def _batches(lines: Sequence[Line], limit: int) -> Iterator[list[Line]]:
    batch: list[Line] = []
    size = 0
    for line in lines:
        if batch and (line[0][0] != batch[0][0][0] or size + len(line[1]) > limit):
            yield batch
            batch, size = [], 0
        batch.append(line)
        size += len(line[1])
    if batch:
        yield batch


def _store(objects: ObjectStore, day: date, qid: str, batch: list[Line], frame: bytes) -> list[str]:
    writer, number = batch[0][0]
    keys: list[str] = []
    vanished = 0
    while batch:
        key = PayloadKey(day, qid, writer, number).key
        if objects.put(key, frame):
            return [*keys, key]
        held = _held(objects, key)
        if held is None:  # deleted between the two requests: its name is free again
            vanished += 1
            if vanished == _VANISHED:
                raise StoreUnreachable(f"{objects.url}: {key} exists for a put and not for a get. Try again later")
            continue
        rest = [line for line in batch if line[0] not in held]
        if len(rest) < len(batch):
            _show(objects, day, qid, key)
            keys.append(key)
            frame = pack(_lines(rest))
        batch = rest
        number = max(number + 1, batch[0][0][1]) if batch else number
    return keys


def _held(objects: ObjectStore, key: str) -> set[Identity] | None:
    """The identities in an object; none if it can't be read whole; None if there is no such object."""
    try:
        lines, fault = unpack(objects.get(key))
    except NotFound:
        return None
    return set() if fault else {identity(item) for item in decode(lines, key) if not isinstance(item, Problem)}


def _show(objects: ObjectStore, day: date, qid: str, key: str) -> None:
    """See to it that an object which was held already is found, as readers find it.

    SeaweedFS, killed between the entry of an object and that of its folder, gives it by its key and lists it nowhere.

    Raises:
        StoreUnreachable: it is still not listed.
    """

    def is_listed() -> bool:
        return any(info.key == key for info in objects.list(qid_prefix(day, qid)))

    try:
        if is_listed():
            return
        objects.put(blob_key(day, qid, sha256_text("")), b"")
        if is_listed():
            return
    except StoreDenied:  # who may write need not be allowed to list
        return
    raise StoreUnreachable(f"{objects.url}: {key} is held, and is in no listing. Try again later")
