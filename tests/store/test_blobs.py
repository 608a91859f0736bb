"""Binary runs in the store: beside a qid's events, found on whichever day, hidden and deleted with them."""

from __future__ import annotations

import hashlib

import pytest

from otel_prompt_trace.core.keys import blob_key
from otel_prompt_trace.exceptions import Erased, InvalidQid, NotFound, ObjectCorrupt, StoreUnreachable
from otel_prompt_trace.store import ObjectStore, PayloadStore
from tests.store.events import NOW, at, dated_qid, run
from tests.store.memory import MemoryStore

DATA = bytes(range(256)) * 40
SHA256 = hashlib.sha256(DATA).hexdigest()
OTHER = b"other" * 1000
BLOBS = {SHA256: DATA, hashlib.sha256(OTHER).hexdigest(): OTHER}


def test_what_was_written_is_read(objects: ObjectStore) -> None:
    """From every kind of store; the events beside them are read as ever, and no blob is taken for events."""
    store = PayloadStore(objects)
    keys = store.write(run("q", 1, 3), "q", NOW, BLOBS)
    assert [store.blob("q", sha256) for sha256 in BLOBS] == list(BLOBS.values())
    found = store.events("q")
    assert ([event["seq"] for event in found.events], found.problems, found.keys) == ([1, 2, 3], [], keys)
    assert [qid for _, qid in store.qids()] == ["q"]


def test_a_blob_is_stored_once(memory: MemoryStore) -> None:
    """However often it is written; another query's is its own, since erasing one must not take the other's."""
    store = PayloadStore(memory)
    for first in (1, 2):
        store.write(run("q", first, first), "q", NOW, BLOBS)
    store.write(run("r", 1, 1), "r", NOW, {SHA256: DATA})
    assert sorted(key for key in memory.objects if "/blobs/" in key) == sorted(
        [*(blob_key(NOW.date(), "q", sha256) for sha256 in BLOBS), blob_key(NOW.date(), "r", SHA256)]
    )


def test_blobs_go_before_the_lines_that_name_them(memory: MemoryStore) -> None:
    """A reader that sees a line finds what it names."""
    PayloadStore(memory).write(run("q", 1, 1), "q", NOW, BLOBS)
    puts = [key for kind, key in memory.requests if kind == "put"]
    assert ["/blobs/" in key for key in puts] == [True, True, False]


def test_whichever_day(memory: MemoryStore) -> None:
    """A qid without a date may have been written on several; one with a date lies under it, or far from it."""
    store = PayloadStore(memory)
    store.write(run("q", 1, 1), "q", at(-3), {SHA256: DATA})
    store.write(run("q", 2, 2), "q", at(0))
    assert store.blob("q", SHA256) == DATA
    for days in (0, -9):
        qid = dated_qid(days)
        store.write(run(qid, 1, 1), qid, NOW, {SHA256: DATA})
        assert store.blob(qid, SHA256) == DATA


def test_a_dated_qid_is_looked_for_under_its_date_first(memory: MemoryStore) -> None:
    """One request is enough, however many days are kept."""
    store, qid = PayloadStore(memory), dated_qid()
    for day in range(-20, 0):
        store.write(run("q", 1, 1), "q", at(day))
    store.write(run(qid, 1, 1), qid, NOW, {SHA256: DATA})
    memory.requests.clear()
    store.blob(qid, SHA256)
    assert len([key for kind, key in memory.requests if kind == "get" and "/blobs/" in key]) == 1


@pytest.mark.parametrize("sha256", ["", "../../erased/q", SHA256.upper(), SHA256[:-1], "0" * 64, "x" * 64])
def test_what_is_not_stored(memory: MemoryStore, sha256: str) -> None:
    """Also what could be no digest: a record from outside names what it likes."""
    store = PayloadStore(memory)
    store.write(run("q", 1, 1), "q", NOW, BLOBS)
    with pytest.raises(NotFound):
        store.blob("q", sha256)
    with pytest.raises(NotFound):
        store.blob("unknown", SHA256)


def test_what_is_not_what_its_name_says(memory: MemoryStore) -> None:
    """Bytes with another digest are never handed out for those that were sent; a sound copy elsewhere is."""
    store = PayloadStore(memory)
    store.write(run("q", 1, 1), "q", NOW, {SHA256: DATA})
    memory.objects[blob_key(NOW.date(), "q", SHA256)] = DATA[:-1]
    with pytest.raises(ObjectCorrupt, match="digest"):
        store.blob("q", SHA256)
    store.write(run("q", 2, 2), "q", at(-1), {SHA256: DATA})
    assert store.blob("q", SHA256) == DATA


def test_an_illegal_qid(memory: MemoryStore) -> None:
    """Is an error before anything is asked."""
    with pytest.raises(InvalidQid):
        PayloadStore(memory).blob("../q", SHA256)
    assert memory.requests == []


def test_a_store_that_does_not_answer(memory: MemoryStore) -> None:
    """It is said, and not that the blob is not there."""

    class Down(MemoryStore):
        def get(self, key: str) -> bytes:
            if "/blobs/" in key:
                raise StoreUnreachable("down. Try again later")
            return super().get(key)

    down = Down()
    store = PayloadStore(down)
    store.write(run("q", 1, 1), "q", NOW, BLOBS)
    with pytest.raises(StoreUnreachable):
        store.blob("q", SHA256)


def test_erasing_takes_them_too(objects: ObjectStore) -> None:
    """The receipt counts them, readers hide what arrives later, and the next sweep deletes it."""
    store = PayloadStore(objects)
    store.write(run("q", 1, 1), "q", NOW, BLOBS)
    store.write(run("r", 1, 1), "r", NOW, BLOBS)
    store.erase("q")
    assert not any("/q/" in info.key for info in objects.list("payloads/"))
    store.write(run("q", 2, 2), "q", NOW, BLOBS)
    with pytest.raises(Erased):
        store.blob("q", SHA256)
    store.sweep()
    assert not any("/q/" in info.key for info in objects.list("payloads/"))
    assert store.blob("r", SHA256) == DATA
