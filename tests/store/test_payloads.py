"""The view by qid: what is written is read again, once each, from wherever it lies."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_prompt_trace.core.events import Identity, identity
from otel_prompt_trace.core.keys import PayloadKey, qid_prefix
from otel_prompt_trace.exceptions import Erased, InvalidEvent, InvalidQid, NotFound, StoreDenied, StoreUnreachable
from otel_prompt_trace.store import FolderStore, ObjectInfo, ObjectStore, PayloadStore
from otel_prompt_trace.store.frames import pack, unpack
from otel_prompt_trace.store.writing import BATCH_BYTES, Line, pack_lines, store_packed
from tests.store.events import NOW, W1, W2, at, dated_qid, event, lines, run
from tests.store.memory import MemoryStore

DAY = NOW.date()

PROMPTS = [
    "plain",
    "line\r\nbreaks\rof\nall kinds\r\n\r\n",
    "NUL \x00 and \x1f and \x7f inside",
    "family \U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466, flag \U0001f3f3\ufe0f\u200d\U0001f308",
    "separators \u2028 and \u2029 and \x85 and \x0b\x0c",
    "right to left \u202eabc\u202c \u200f\u05e9\u05dc\u05d5\u05dd\u200e \u2066x\u2069",
    "lone surrogates \ud83d and \udc00 alone",
    "combining e\u0301 \u1100\u1161 \ufeff at the end \ufeff",
    'quotes " \' \\ \\n \\u2028 </script> {"base64": "x"}',
    "\U0010ffff" * 50_000,
    "",
]


def _identities(store: PayloadStore, qid: str, **options: Any) -> list[Identity]:
    return [identity(one) for one in store.events(qid, **options).events]


def _numbers(store: PayloadStore, qid: str, **options: Any) -> list[int]:
    return [seq for _, seq in _identities(store, qid, **options)]


def _store(memory: MemoryStore, batch: list[Line], *, batch_bytes: int = BATCH_BYTES) -> list[str]:
    """Write to ``q``, in objects of a given size."""
    return store_packed(memory, DAY, "q", pack_lines([batch], batch_bytes=batch_bytes)[0])


def test_round_trip_of_hard_texts(objects: ObjectStore) -> None:
    """Prompts with every character that some format eats come back equal, from every kind of store."""
    store = PayloadStore(objects)
    written = [event("q", number, prompt=prompt) for number, prompt in enumerate(PROMPTS)]
    keys = store.write(lines(*written), "q", NOW)
    found = PayloadStore(objects).events("q")
    assert found.events == written
    assert [one["prompt"] for one in found.events] == PROMPTS
    assert found.problems == []
    assert found.keys == keys == [f"payloads/dt=2026-11-30/q/{W1}-000000000000.jsonl.zst"]


@given(st.lists(st.text() | st.text(st.characters(categories=["Cs", "Cc", "Cf", "Co"])), min_size=1, max_size=5))
def test_round_trip_of_any_text(texts: list[str]) -> None:
    """Any text whatever comes back equal."""
    store = PayloadStore(MemoryStore())
    store.write(lines(*(event("q", number, prompt=text) for number, text in enumerate(texts))), "q", NOW)
    assert [one["prompt"] for one in store.events("q").events] == texts


def test_sorted_by_time_then_writer_then_number(memory: MemoryStore) -> None:
    """Events come in the order of time, whatever the order of writing."""
    store = PayloadStore(memory)
    store.write(lines(event("q", 5), event("q", 1)), "q", NOW)
    store.write(lines(event("q", 3, W2), event("q", 1, W2)), "q", NOW)
    assert _identities(store, "q") == [(W1, 1), (W2, 1), (W2, 3), (W1, 5)]


def test_one_object_a_writer(memory: MemoryStore) -> None:
    """Several writers in one call get an object each, named by its first number."""
    store = PayloadStore(memory)
    keys = store.write([*run("q", 4, 6, W2), *run("q", 2, 3, W1)], "q", NOW)
    assert keys == [PayloadKey(DAY, "q", W1, 2).key, PayloadKey(DAY, "q", W2, 4).key]
    assert store.write([], "q", NOW) == []


def test_large_batches_are_split(memory: MemoryStore) -> None:
    """No object holds more bytes of lines than allowed, save one event that alone is larger."""
    small = lines(*(event("q", seq, text="x" * 1000) for seq in range(1, 8)))
    large = lines(event("q", 8, text="x" * 9000))
    keys = _store(memory, [*small, *large], batch_bytes=4000)
    sizes = [len(unpack(memory.get(key))[0]) for key in keys]
    assert [PayloadKey.parse(key).first_seq for key in keys] == [1, 4, 7, 8]  # type: ignore[union-attr]
    assert all(size <= 4000 for size in sizes[:-1])
    assert _numbers(PayloadStore(memory), "q") == list(range(1, 9))


@pytest.mark.parametrize("line", [b"", b"{}", b"{}\n{}\n", b"{}\n{}", b"\n{}"])
def test_only_whole_lines_are_stored(memory: MemoryStore, line: bytes) -> None:
    """Bytes that are not exactly one line would corrupt their neighbours: refused before anything is stored."""
    with pytest.raises(InvalidEvent, match="is not one line"):
        PayloadStore(memory).write([*run("q", 1, 1), ((W1, 2), line)], "q", NOW)
    assert memory.objects == {}


def test_illegal_ids_are_refused(memory: MemoryStore) -> None:
    """Neither an illegal qid nor an illegal writer makes a key."""
    store = PayloadStore(memory)
    with pytest.raises(InvalidQid):
        store.write(run("q", 1, 1), "../q", NOW)
    with pytest.raises(InvalidQid):
        store.events("a/b")
    with pytest.raises(InvalidEvent):
        store.write([(("../w", 1), b"{}\n")], "q", NOW)
    assert memory.objects == {}


# Shipping again


def test_shipping_again_in_other_groups(objects: ObjectStore) -> None:
    """[1..3], then [1..5], then [4..6]: each event is stored once, and the answer names where all of them are."""
    store = PayloadStore(objects)
    first, fourth, sixth = (PayloadKey(DAY, "q", W1, number).key for number in (1, 4, 6))
    assert store.write(run("q", 1, 3), "q", NOW) == [first]
    assert store.write(run("q", 1, 3), "q", NOW) == [first]
    assert store.write(run("q", 1, 5), "q", NOW) == [first, fourth]
    assert store.write(run("q", 4, 6), "q", NOW) == [fourth, sixth]
    assert store.write(run("q", 1, 6), "q", NOW) == [first, fourth, sixth]
    found = store.events("q")
    assert [one["seq"] for one in found.events] == [1, 2, 3, 4, 5, 6]
    assert found.keys == [first, fourth, sixth]
    assert [unpack(objects.get(key))[0].count(b"\n") for key in found.keys] == [3, 2, 1]


def test_what_lies_in_another_object_is_left_out(objects: ObjectStore) -> None:
    """Where it may: [1..6] is stored, then [4..8] by somebody who has not got 1 to 3; without looking, 4 to 6 twice."""
    store = PayloadStore(objects)
    whole, rest = (PayloadKey(DAY, "q", W1, number).key for number in (1, 7))
    assert store.write(run("q", 1, 6), "q", NOW) == [whole]
    assert store.write(run("q", 4, 6), "q", NOW, elsewhere=DAY) == []
    assert store.write(run("q", 4, 8), "q", NOW, elsewhere=DAY) == [rest]
    held = b"".join(unpack(objects.get(key))[0] for key in store.events("q").keys)
    assert sorted(one["seq"] for one in map(orjson.loads, held.splitlines())) == [1, 2, 3, 4, 5, 6, 7, 8]
    assert store.write(run("new", 4, 8), "new", NOW, elsewhere=DAY) == [PayloadKey(DAY, "new", W1, 4).key]


def test_several_are_packed_in_one_go(objects: ObjectStore) -> None:
    """The objects are the same, byte for byte, as of each written by itself; also of one that takes several."""
    store = PayloadStore(objects)
    queries = [run(f"q{number}", number, number + 3) for number in range(1, 9)] + [[]]
    for number, packed in enumerate(store.pack(queries), 1):
        keys = store.write(packed, f"q{number}", NOW)
        alone = MemoryStore()
        assert PayloadStore(alone).write(queries[number - 1], f"q{number}", NOW) == keys
        assert [objects.get(key) for key in keys] == [alone.get(key) for key in keys]


GROUPS = st.lists(st.sets(st.integers(0, 12), min_size=1), min_size=1, max_size=8)


@given(GROUPS, st.integers(60, 1000), st.randoms(use_true_random=False))
def test_no_grouping_loses_an_event(groups: list[set[int]], limit: int, chance: random.Random) -> None:
    """However events are grouped, repeated and split: each is there, once, and is in the objects that were named."""
    memory = MemoryStore()
    store = PayloadStore(memory)
    for group in groups:
        batch = lines(*(event("q", seq, pad="x" * (seq * 7)) for seq in group))
        chance.shuffle(batch)
        keys = _store(memory, batch, batch_bytes=limit)
        held = b"".join(unpack(memory.get(key))[0] for key in keys)
        assert all(line in held for _, line in batch)
    assert _numbers(store, "q") == sorted(set().union(*groups))
    assert store.events("q").problems == []


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(1, 6)), min_size=1, max_size=8))
def test_resuming_stores_nothing_twice(steps: list[tuple[int, int]]) -> None:
    """A shipper that resumes where any batch of its began, or after the last, stores each event exactly once."""
    memory = MemoryStore()
    starts, last = [1], 0
    for choice, count in steps:
        first = starts[choice % len(starts)]
        _store(memory, run("q", first, first + count - 1))
        last = max(last, first + count - 1)
        starts = sorted({*starts, last + 1})
    held = b"".join(unpack(data)[0] for data in memory.objects.values())
    assert sorted(one["seq"] for one in map(orjson.loads, held.splitlines())) == list(range(1, last + 1))


def test_a_torn_object_does_not_swallow_what_is_shipped_again(memory: MemoryStore) -> None:
    """Where the name is taken by an object that can't be read whole, the events go under the next free number."""
    store = PayloadStore(memory)
    torn = PayloadKey(DAY, "q", W1, 1).key
    memory.objects[torn] = pack([line for _, line in run("q", 1, 3)])[:-6]
    second = PayloadKey(DAY, "q", W1, 2).key
    assert store.write(run("q", 1, 3), "q", NOW) == [second]
    assert store.write(run("q", 1, 3), "q", NOW) == [second]
    assert store.write(run("q", 2, 4), "q", NOW) == [second, PayloadKey(DAY, "q", W1, 4).key]
    found = store.events("q")
    assert [one["seq"] for one in found.events] == [1, 2, 3, 4]
    assert [problem.source for problem in found.problems] == [torn]


def test_a_sound_copy_goes_before_a_damaged_one(memory: MemoryStore) -> None:
    """Lines of an object whose checksum fails count only where no sound object has the event."""
    store = PayloadStore(memory)
    [(_, line)] = lines(event("q", 1, prompt="a" * 500))
    damaged = bytearray(pack([line.replace(b"aaa", b"aXa"), *(one for _, one in run("q", 2, 2))]))
    damaged[-1] ^= 1  # the last byte of the checksum
    memory.objects[PayloadKey(DAY, "q", W1, 1).key] = bytes(damaged)
    memory.objects[PayloadKey(DAY, "q", W1, 2).key] = pack([line])
    found = store.events("q")
    assert [one["seq"] for one in found.events] == [1, 2]
    assert found.events[0]["prompt"] == "a" * 500
    assert [problem.reason for problem in found.problems] == [
        "the object is damaged (zstd decompressor error: Restored data doesn't match checksum)"
    ]


def test_lines_of_a_damaged_object_do_not_count_as_stored(memory: MemoryStore) -> None:
    """An object whose checksum fails holds readable lines that may be altered: shipped again, a sound copy goes in."""
    store = PayloadStore(memory)
    batch = run("q", 1, 2)
    damaged = bytearray(pack([line.replace(b"request", b"content") for _, line in batch]))
    damaged[-1] ^= 1  # the last byte of the checksum
    memory.objects[PayloadKey(DAY, "q", W1, 1).key] = bytes(damaged)
    assert [one["kind"] for one in store.events("q").events] == ["content", "content"]
    assert store.write(batch, "q", NOW) == [PayloadKey(DAY, "q", W1, 2).key]
    assert [one["kind"] for one in store.events("q").events] == ["request", "request"]


def test_an_object_that_only_puts_can_see(memory: MemoryStore) -> None:
    """A server that says «taken» and «not found» of one key for ever is unreachable, not an endless loop."""

    class Contradicting(MemoryStore):
        def put(self, key: str, data: bytes) -> bool:
            return False

    with pytest.raises(StoreUnreachable, match="exists for a put and not for a get"):
        PayloadStore(Contradicting()).write(run("q", 1, 1), "q", NOW)


class _Unlisting(MemoryStore):
    """A server that was killed while it took its first object: no listing shows it until another is in the folder."""

    def __init__(self, *, heals: bool = True) -> None:
        super().__init__()
        self._heals = heals

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        found = list(super().list(prefix))
        return iter(found if self._heals and len(found) > 1 else ())


def test_an_object_that_no_listing_shows_is_made_to_show() -> None:
    """Written again, as after the answer was lost: another object goes beside it, and each event is found, once."""
    memory, batch = _Unlisting(), run("q", 1, 2)
    store = PayloadStore(memory)
    (key,) = store.write(batch, "q", NOW)
    assert store.events("q").events == []
    assert store.write(batch, "q", NOW) == [key]
    assert [one["seq"] for one in store.events("q").events] == [1, 2]
    assert store.events("q").problems == []
    assert {info.key: info.size for info in memory.list("payloads/")}.pop(key) > 0
    put = len([request for request in memory.requests if request[0] == "put"])
    assert store.write(batch, "q", NOW) == [key]
    assert len([request for request in memory.requests if request[0] == "put"]) == put + 1


def test_what_stays_in_no_listing_is_not_stored() -> None:
    """Its events wait with whoever writes them."""
    store, batch = PayloadStore(_Unlisting(heals=False)), run("q", 1, 2)
    store.write(batch, "q", NOW)
    with pytest.raises(StoreUnreachable, match="in no listing"):
        store.write(batch, "q", NOW)


def test_who_may_not_list_may_write_again(memory: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """With credentials for puts and gets alone nobody can look, and nothing is held up."""

    def denied(_: str) -> Iterator[ObjectInfo]:
        raise StoreDenied("no listing")

    monkeypatch.setattr(memory, "list", denied)
    store, batch = PayloadStore(memory), run("q", 1, 2)
    assert store.write(batch, "q", NOW) == store.write(batch, "q", NOW)


# Reading


def test_two_frames_in_one_object(objects: ObjectStore) -> None:
    """Events of every frame are read, not of the first alone."""
    batches = [[line for _, line in run("q", first, first + 1)] for first in (1, 3)]
    objects.put(PayloadKey(DAY, "q", W1, 1).key, b"".join(map(pack, batches)))
    found = PayloadStore(objects).events("q")
    assert [one["seq"] for one in found.events] == [1, 2, 3, 4]
    assert found.problems == []


def test_a_torn_object_is_a_problem_and_no_exception(objects: ObjectStore) -> None:
    """What can be read of a torn object is kept, the tear is named, and the other objects are whole."""
    chance = random.Random(1)
    events = [event("q", seq, pad=chance.randbytes(600).hex()) for seq in range(1, 401)]
    key = PayloadKey(DAY, "q", W1, 1).key
    packed = pack([line for _, line in lines(*events)])
    objects.put(key, packed[: len(packed) * 2 // 3])
    store = PayloadStore(objects)
    store.write(run("q", 1000, 1001, W2), "q", NOW)
    found = store.events("q")
    survivors = [one for one in found.events if one["writer"] == W1]
    assert survivors == events[: len(survivors)]
    assert 100 < len(survivors) < 300
    assert [one["seq"] for one in found.events if one["writer"] == W2] == [1000, 1001]
    assert {problem.source for problem in found.problems} == {key}
    assert "the object is torn: it ends inside a frame" in {problem.reason for problem in found.problems}


@pytest.mark.parametrize(
    ("data", "reason"),
    [(b"", "the object is empty"), (b"no zstd", "the object is damaged"), (pack([b""]), "the object is empty")],
)
def test_an_object_without_events_is_a_problem(memory: MemoryStore, data: bytes, reason: str) -> None:
    """An object that gives nothing is named, never skipped in silence."""
    key = PayloadKey(DAY, "q", W1, 1).key
    memory.put(key, data)
    found = PayloadStore(memory).events("q")
    assert (found.events, found.keys) == ([], [key])
    assert [problem.reason.startswith(reason) for problem in found.problems] == [True]


def test_lines_that_are_no_events_of_this_query(memory: MemoryStore) -> None:
    """Another query's event, an unknown kind and plain rubbish are problems with the key and the line."""
    key = PayloadKey(DAY, "q", W1, 1).key
    unknown = b'{"v":"1.0","kind":"nonsense","qid":"q","ts":"x","writer":"w","seq":1}\n'
    other = lines(event("other", 2))[0][1]
    memory.put(key, pack([run("q", 1, 1)[0][1], other, unknown, b"rubbish\n", run("q", 5, 5)[0][1]]))
    found = PayloadStore(memory).events("q")
    assert [one["seq"] for one in found.events] == [1, 5]
    assert [(problem.source, problem.line) for problem in found.problems] == [(key, 2), (key, 3), (key, 4)]
    assert "another query, other" in found.problems[0].reason


def test_an_unknown_major_is_kept_raw(memory: MemoryStore) -> None:
    """An event of a later major version is shown as it stands, and sorts without being understood."""
    raw = b'{"v":"2.0","kind":"dream","qid":"q","writer":"w","seq":1,"x":{"base64":"AA==","encoding":"bytes"}}\n'
    memory.put(PayloadKey(DAY, "q", "w", 1).key, pack([raw]))
    [kept] = PayloadStore(memory).events("q").events
    assert kept["x"] == {"base64": "AA==", "encoding": "bytes"}


def test_a_foreign_object_below_a_qid(memory: MemoryStore) -> None:
    """An object whose name is none of ours is named and not read."""
    memory.put(qid_prefix(DAY, "q") + "notes.txt", b"x")
    found = PayloadStore(memory).events("q")
    assert [problem.reason for problem in found.problems] == ["not a payload object's name; not read"]


def test_deleted_while_being_read(memory: MemoryStore) -> None:
    """An object that vanishes between listing and reading is named."""
    store = PayloadStore(memory)
    [key] = store.write(run("q", 1, 1), "q", NOW)
    listing = memory.list

    def list_then_delete(prefix: str) -> Any:
        infos = list(listing(prefix))
        memory.objects.pop(key, None)
        return iter(infos)

    memory.list = list_then_delete  # type: ignore[method-assign]
    assert [problem.reason for problem in store.events("q").problems] == ["deleted while it was being read"]


def test_nothing_stored(objects: ObjectStore) -> None:
    """An unknown qid gives nothing, and no neighbour whose name begins alike."""
    store = PayloadStore(objects)
    store.write(run("query-1", 1, 1), "query-1", NOW)
    found = store.events("query")
    assert (found.qid, found.events, found.problems, found.keys) == ("query", [], [], [])


# Days


def test_an_undated_qid_is_joined_over_all_days(objects: ObjectStore) -> None:
    """Events of one qid that were written on three days come together; a date restricts to its neighbours."""
    store = PayloadStore(objects)
    for number, days in enumerate((-9, 0, 1, 30)):
        store.write(run("q", number, number), "q", at(days))
    assert _numbers(store, "q") == [0, 1, 2, 3]
    assert _numbers(store, "q", date=DAY) == [1, 2]
    assert _numbers(store, "q", date=DAY + timedelta(days=2)) == [2]
    assert _numbers(store, "q", date=DAY + timedelta(days=5)) == []
    assert _numbers(store, "q", date=date.min) == []
    assert _numbers(store, "q", date=date.max) == []


def test_a_dated_qid_lies_under_its_own_date(memory: MemoryStore) -> None:
    """However late within two days it is written, its folder is that of its date, and one listing finds it."""
    store = PayloadStore(memory)
    qid = dated_qid()
    for number, days in enumerate((-1, 0, 1.9)):
        store.write(run(qid, number, number), qid, at(days))
    assert {key.split("/")[1] for key in memory.objects} == {"dt=2026-11-30"}
    memory.requests.clear()
    assert _numbers(store, qid) == [0, 1, 2]
    assert [request for request in memory.requests if request[0] in {"list", "folders"}] == [
        ("list", qid_prefix(DAY, qid))
    ]


def test_late_events_join_what_is_there(memory: MemoryStore) -> None:
    """Feedback a month later goes to the folder where the query lies; elsewhere no lookup would see it."""
    store = PayloadStore(memory)
    qid = dated_qid()
    store.write(run(qid, 1, 2), qid, at(0))
    store.write(run(qid, 3, 3), qid, at(30))
    assert {key.split("/")[1] for key in memory.objects} == {"dt=2026-11-30"}
    assert _numbers(store, qid) == [1, 2, 3]


def test_a_dated_qid_that_was_shipped_late(memory: MemoryStore) -> None:
    """After a long outage it lies under the days of writing, and is found there."""
    store = PayloadStore(memory)
    qid = dated_qid()
    store.write(run(qid, 1, 1), qid, at(5))
    store.write(run(qid, 2, 2), qid, at(6))
    assert {key.split("/")[1] for key in memory.objects} == {"dt=2026-12-05", "dt=2026-12-06"}
    assert _numbers(store, qid) == [1, 2]


def test_foreign_days_do_not_disturb(memory: MemoryStore) -> None:
    """A folder beside the days that is none is passed over."""
    store = PayloadStore(memory)
    memory.put("payloads/notes/q/x", b"x")
    memory.put("payloads/dt=2026-99-99/q/x", b"x")
    store.write(run("q", 1, 1), "q", NOW)
    assert _numbers(store, "q") == [1]
    assert list(store.qids()) == [(DAY, "q")]


def test_qids(objects: ObjectStore) -> None:
    """Qids come by day, within the bounds, each once a day, without erased ones and foreign names."""
    store = PayloadStore(objects)
    for qid, days in (("a", -1), ("b", 0), ("b-x", 0), ("b", 1), ("gone", 0)):
        store.write([*run(qid, 1, 1), *run(qid, 1, 1, W2)], qid, at(days))
    store.erase("gone")
    objects.put("payloads/dt=2026-11-30/zz/notes.txt", b"x")
    before, after = DAY - timedelta(days=1), DAY + timedelta(days=1)
    assert sorted(store.qids()) == [(before, "a"), (DAY, "b"), (DAY, "b-x"), (after, "b")]
    assert sorted(store.qids(since=DAY)) == [(DAY, "b"), (DAY, "b-x"), (after, "b")]
    assert sorted(store.qids(until=DAY)) == [(before, "a"), (DAY, "b"), (DAY, "b-x")]
    assert sorted(store.qids(since=after, until=after)) == [(after, "b")]


def test_readers_hide_what_was_erased(memory: MemoryStore) -> None:
    """A tombstone hides events that are still there or came later, unless they are asked for."""
    store = PayloadStore(memory)
    store.erase("q")
    store.write(run("q", 1, 1), "q", NOW)
    with pytest.raises(Erased, match="q was erased at 20"):
        store.events("q")
    assert _numbers(store, "q", include_erased=True) == [1]
    assert list(store.qids()) == []


def test_a_tombstone_that_can_not_be_read_still_hides(memory: MemoryStore) -> None:
    """Rubbish under the tombstone's key counts as a tombstone."""
    memory.put("erased/q", b"rubbish")
    with pytest.raises(Erased, match="an unknown time"):
        PayloadStore(memory).events("q")


def test_an_unreachable_store_is_not_an_empty_record(memory: MemoryStore) -> None:
    """If a day can't be listed the lookup fails; it does not pass for «not found»."""
    store = PayloadStore(memory)
    store.write(run("q", 1, 1), "q", NOW)
    store.write(run("q", 2, 2), "q", at(1))
    memory.down = True
    with pytest.raises(StoreUnreachable):
        store.events("q")


def test_after_an_error_no_further_day_is_asked(memory: MemoryStore) -> None:
    """One day that can't be listed ends a lookup at once; the other days do not each wait for a time-out."""
    store = PayloadStore(memory)
    for days in range(120):
        store.write(run("q", days, days), "q", at(days))

    def fail_slowly(prefix: str) -> Any:
        memory.requests.append(("list", prefix))
        threading.Event().wait(0.05)
        raise StoreUnreachable("memory: can't list. Try again later")

    memory.list = fail_slowly  # type: ignore[method-assign]
    memory.requests.clear()
    with pytest.raises(StoreUnreachable):
        store.events("q")
    assert len(memory.requests) < 60


def test_duckdb_reads_a_folder_in_place(folder: FolderStore, tmp_path: Path) -> None:
    """The layout and the frames are what DuckDB reads as they lie, hard texts included."""
    duckdb = pytest.importorskip("duckdb")
    store = PayloadStore(folder)
    texts = [prompt for prompt in PROMPTS if "\ud83d" not in prompt]
    store.write(lines(*(event("q", number, prompt=text) for number, text in enumerate(texts))), "q", NOW)
    store.write(run("r", 1, 1), "r", at(1))
    query = "select prompt from read_json(?, format = 'newline_delimited') where qid = 'q' order by seq"
    with duckdb.connect() as connection:
        rows = connection.execute(query, [f"{tmp_path}/store/payloads/*/*/*.jsonl.zst"]).fetchall()
    assert [text for (text,) in rows] == texts


def test_threads_keep_the_callers_context(memory: MemoryStore) -> None:
    """What a caller set in its context holds in the threads that ask for it."""
    from contextvars import ContextVar

    quiet: ContextVar[bool] = ContextVar("quiet", default=False)
    seen: list[bool] = []
    listing = memory.list

    def watched(prefix: str) -> Any:
        seen.append(quiet.get())
        return listing(prefix)

    store = PayloadStore(memory)
    for days in range(4):
        store.write(run("q", days, days), "q", at(days))
    memory.list = watched  # type: ignore[method-assign]
    quiet.set(True)
    assert _numbers(store, "q") == [0, 1, 2, 3]
    assert seen == [True] * 4


# Trying out


def test_probe(objects: ObjectStore) -> None:
    """On a store that does what it should, every step passes and nothing is left."""
    steps = PayloadStore(objects).probe()
    assert [step.name for step in steps] == ["put", "append_only", "get", "get_range", "list", "delete"]
    assert [step for step in steps if not step.ok] == []
    assert list(objects.versions("")) == []


def test_probe_finds_a_store_that_overwrites(memory: MemoryStore) -> None:
    """A server that ignores If-None-Match is found out, and the probe object is deleted."""
    memory.forgetful = True
    steps = {step.name: step for step in PayloadStore(memory).probe()}
    assert not steps["append_only"].ok
    assert "records can be overwritten" in steps["append_only"].detail
    assert steps["delete"].ok
    assert memory.objects == {}


def test_probe_of_a_locked_bucket(locked: ObjectStore) -> None:
    """Where a lock keeps objects, the step that deletes fails with the reason and the others pass."""
    steps = PayloadStore(locked).probe()
    assert [step.name for step in steps if not step.ok] == ["delete"]
    assert "object lock" in steps[-1].detail


def test_probe_of_a_store_that_can_not_be_reached(tmp_path: Path) -> None:
    """A failing first step is reported, not raised, and the rest is not tried."""
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "probe").write_text("a file where a folder has to be")
    [step] = PayloadStore(FolderStore(tmp_path / "store")).probe()
    assert (step.name, step.ok) == ("put", False)
    assert "can't store probe/" in step.detail


def test_get_projects_what_is_stored(folder: FolderStore) -> None:
    """Get gives the record of the stored events; nothing stored is NotFound, an erased qid is Erased."""
    store = PayloadStore(folder)
    qid = dated_qid()
    with pytest.raises(NotFound, match=qid):
        store.get(qid)
    stored = event(qid, 1)
    store.write(lines(stored), qid, NOW)
    record = store.get(qid)
    assert (record.qid, record.events, record.problems) == (qid, (stored,), ())
    store.erase(qid)
    with pytest.raises(Erased):
        store.get(qid)
