"""Erasing a query: nothing of it is left, and a receipt never says so when something is."""

from __future__ import annotations

import json
from typing import Any

import pytest

from otel_prompt_trace.core.events import Event, decode
from otel_prompt_trace.exceptions import Erased, InvalidQid, StoreDenied, StoreUnreachable
from otel_prompt_trace.store import ErasureReceipt, FolderStore, ObjectStore, PayloadStore, Remaining
from tests.store.events import NOW, NOW_NS, W2, at, event, lines, run
from tests.store.memory import MemoryStore

SECRET = "a patient's letter"


def _fill(store: PayloadStore, qid: str = "q") -> list[str]:
    keys = []
    for number, days in enumerate((-40, 0, 3)):
        keys += store.write(lines(event(qid, number, prompt=SECRET)), qid, at(days))
    return keys


def test_erasing(objects: ObjectStore) -> None:
    """Every object of the qid on every day is gone, its neighbours stay, and the receipt says what was done."""
    store = PayloadStore(objects, clock=lambda: NOW_NS)
    keys = _fill(store)
    store.write(run("q-2", 1, 1), "q-2", NOW)
    receipt = store.erase("q", reason="request 17", by="privacy desk")
    assert receipt == ErasureReceipt("q", "erased/q", tuple(sorted(keys)), (), True, False)
    assert sorted(objects.versions("")) == ["erased/q", "payloads/dt=2026-11-30/q-2/" + keys[1].split("/")[-1]]
    with pytest.raises(Erased, match="2026-11-30T12:00:00"):
        store.events("q")
    assert [one["seq"] for one in store.events("q-2").events] == [1]


def test_the_tombstone_holds_no_content(objects: ObjectStore) -> None:
    """The tombstone is one erasure event: ids, time, and what the caller gave for the deed, nothing of the record."""
    store = PayloadStore(objects, clock=lambda: NOW_NS)
    _fill(store)
    store.erase("q", reason="request 17", by="privacy desk")
    [tombstone] = list(decode(objects.get("erased/q"), "erased/q"))
    assert isinstance(tombstone, dict)
    writer = tombstone.pop("writer")
    assert len(writer) == 26
    assert tombstone == {
        "v": "1.0",
        "kind": "erasure",
        "qid": "q",
        "ts": "2026-11-30T12:00:00.000000000Z",
        "seq": 0,
        "reason": "request 17",
        "by": "privacy desk",
    }
    assert b"patient" not in objects.get("erased/q")


def test_the_tombstone_comes_first(memory: MemoryStore) -> None:
    """If the tombstone can't be written nothing is deleted: a half-done erasure would not be repeated by a sweep."""
    store = PayloadStore(memory)
    keys = _fill(store)

    def refuse(key: str, data: bytes) -> bool:
        raise StoreDenied(f"memory: can't store {key}")

    memory.put = refuse  # type: ignore[method-assign]
    with pytest.raises(StoreDenied):
        store.erase("q")
    assert sorted(memory.objects) == sorted(keys)


def test_erasing_again(memory: MemoryStore) -> None:
    """A second erasure keeps the first tombstone and deletes what came meanwhile."""
    times = iter([NOW_NS, NOW_NS, NOW_NS + 10**9, NOW_NS + 10**9])
    store = PayloadStore(memory, clock=lambda: next(times))
    store.erase("q")
    tombstone = memory.objects["erased/q"]
    [late] = store.write(run("q", 5, 5), "q", NOW)
    receipt = store.erase("q")
    assert (receipt.already_erased, receipt.deleted, receipt.verified) == (True, (late,), True)
    assert memory.objects == {"erased/q": tombstone}


def test_erasing_what_was_never_stored(objects: ObjectStore) -> None:
    """An unknown qid gets a tombstone all the same: its events may still be on their way."""
    receipt = PayloadStore(objects).erase("unknown")
    assert (receipt.deleted, receipt.remaining, receipt.verified) == ((), (), True)
    assert [info.key for info in objects.list("")] == ["erased/unknown"]


def test_illegal_qids(memory: MemoryStore) -> None:
    """No tombstone is written for an illegal qid."""
    with pytest.raises(InvalidQid):
        PayloadStore(memory).erase("../q")
    assert memory.objects == {}


def test_old_versions_go_too(versioned: tuple[ObjectStore, Any]) -> None:
    """Overwritten versions and objects that are only marked as deleted are erased, also on days that look empty."""
    objects, client = versioned
    store = PayloadStore(objects)
    keys = _fill(store)
    base = objects.url.split("?")[0].removeprefix("s3://versioned/")
    client.put_object(Bucket="versioned", Key=f"{base}/{keys[0]}", Body=b"somebody overwrote it")
    for key in keys:
        client.delete_object(Bucket="versioned", Key=f"{base}/{key}")
    assert list(objects.folders("payloads/")) in ([], ["dt=2026-10-21", "dt=2026-11-30", "dt=2026-12-03"])
    receipt = store.erase("q")
    assert (receipt.deleted, receipt.verified) == (tuple(sorted(keys)), True)
    left = client.list_object_versions(Bucket="versioned", Prefix=base + "/")
    assert [item["Key"] for item in left.get("Versions", [])] == [f"{base}/erased/q"]
    assert left.get("DeleteMarkers", []) == []


def test_a_torn_write_goes_too(tmp_path: Any) -> None:
    """The hidden file that a killed writer left in the qid's folder holds content; it is erased."""
    store = PayloadStore(FolderStore(tmp_path / "store"))
    [key] = store.write(run("q", 1, 1), "q", NOW)
    path = tmp_path / "store" / key
    hidden = path.with_name(f".{path.name}.0123456789abcdef.tmp")
    hidden.write_bytes(b"half")
    path.unlink()
    receipt = store.erase("q")
    assert (receipt.deleted, receipt.verified) == ((key,), True)
    assert not hidden.exists()
    assert [path.name for path in (tmp_path / "store").rglob("*")] == ["erased", "q"]


def test_a_lock_is_named_in_the_receipt(locked: ObjectStore) -> None:
    """What an object lock keeps stands in the receipt with the reason, and the receipt is not verified."""
    store = PayloadStore(locked)
    keys = _fill(store)
    receipt = store.erase("q")
    assert (receipt.deleted, receipt.verified) == ((), False)
    assert [item.key for item in receipt.remaining] == sorted(keys)
    assert all("object lock" in item.reason for item in receipt.remaining)
    with pytest.raises(Erased):
        store.events("q")


def test_one_lock_does_not_keep_the_rest(memory: MemoryStore) -> None:
    """Everything else is deleted, and only what stays is named."""
    store = PayloadStore(memory)
    keys = _fill(store)
    memory.locked.add(keys[1])
    receipt = store.erase("q")
    assert receipt.deleted == (keys[0], keys[2])
    assert receipt.remaining == (Remaining(keys[1], f"memory: can't delete {keys[1]}: locked"),)
    assert not receipt.verified
    assert sorted(memory.objects) == ["erased/q", keys[1]]


def test_a_store_that_only_pretends_to_delete(memory: MemoryStore) -> None:
    """The second look finds what a delete did not delete: it is remaining, not deleted."""
    store = PayloadStore(memory)
    keys = _fill(store)
    memory.delete = lambda key: None  # type: ignore[method-assign]
    receipt = store.erase("q")
    assert (receipt.deleted, receipt.verified) == ((), False)
    assert [item.key for item in receipt.remaining] == sorted(keys)
    assert "still there" in receipt.remaining[0].reason


@pytest.mark.parametrize("operation", ["folders", "list", "versions"])
def test_what_can_not_be_looked_at_is_not_verified(memory: MemoryStore, operation: str) -> None:
    """A listing that fails after the tombstone stands in the receipt; the erasure does not claim success."""
    store = PayloadStore(memory)
    _fill(store)

    def fail(*_: object, **__: object) -> Any:
        raise StoreUnreachable("memory: can't list. Try again later")

    setattr(memory, operation, fail)
    receipt = store.erase("q")
    assert not receipt.verified
    assert receipt.remaining
    assert all("Try again later" in item.reason for item in receipt.remaining)


def test_to_dict(memory: MemoryStore) -> None:
    """A receipt is plain JSON."""
    store = PayloadStore(memory)
    keys = _fill(store)
    memory.locked.add(keys[1])
    plain = json.loads(json.dumps(store.erase("q").to_dict()))
    assert plain == {
        "qid": "q",
        "tombstone": "erased/q",
        "deleted": [keys[0], keys[2]],
        "remaining": [{"key": keys[1], "reason": f"memory: can't delete {keys[1]}: locked"}],
        "verified": False,
        "already_erased": False,
    }


def test_sweep(objects: ObjectStore) -> None:
    """What arrived after the erasures is deleted, what was not erased stays, each tombstone has a receipt."""
    store = PayloadStore(objects)
    for qid in ("a", "b"):
        store.erase(qid)
    late: list[Event] = [event("a", 1, prompt=SECRET), event("a", 1, W2, prompt=SECRET)]
    keys = store.write(lines(*late), "a", at(2))
    kept = store.write(run("a-2", 1, 1), "a-2", NOW)
    receipts = store.sweep()
    assert [(receipt.qid, receipt.deleted) for receipt in receipts] == [("a", tuple(sorted(keys))), ("b", ())]
    assert all(receipt.verified and receipt.already_erased for receipt in receipts)
    assert sorted(objects.versions("payloads/")) == kept
    assert [receipt.deleted for receipt in store.sweep()] == [(), ()]


def test_sweep_without_tombstones(objects: ObjectStore) -> None:
    """A sweep of a store without tombstones deletes nothing."""
    store = PayloadStore(objects)
    keys = _fill(store)
    assert store.sweep() == []
    assert sorted(objects.versions("")) == sorted(keys)
