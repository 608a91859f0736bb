"""From what a person pastes to one qid."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_prompt_trace.exceptions import Ambiguous, InvalidQid, NotFound
from otel_prompt_trace.store import ObjectStore, PayloadStore
from otel_prompt_trace.store.resolving import read_reference
from tests.store.events import NOW, at, dated_qid, run
from tests.store.memory import MemoryStore

TRACE, OTHER = "4bf92f3577b34da6a3ce929d0e0e4736", "00000000000000001234567890abcdef"
SPAN, SPAN2 = "00f067aa0ba902b7", "b7ad6b7169203331"


def _filled(objects: ObjectStore, *qids: str) -> PayloadStore:
    store = PayloadStore(objects)
    for number, qid in enumerate(qids):
        store.write(run(qid, 1, 1), qid, at(number % 3))
    return store


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("order-77", "order-77"),
        ("order-7", "order-7"),
        ("  order-77\n", "order-77"),
        ("invoice", "invoice-1"),
        (TRACE, f"{TRACE}-{SPAN}"),
        (TRACE.upper(), f"{TRACE}-{SPAN}"),
        (TRACE[:9], f"{TRACE}-{SPAN}"),
        (f"00-{TRACE}-{SPAN}-01", f"{TRACE}-{SPAN}"),
        (f"00-{TRACE}-{SPAN2}-00", f"{TRACE}-{SPAN}"),
        (f"http://127.0.0.1:8765/q/order-77?trace={OTHER}", "order-77"),
        ("http://127.0.0.1:8765/q/invoice", "invoice-1"),
        ("https://viewer.example/base/q/til%7Ede#top", "til~de"),
        (f"http://127.0.0.1:8765/t/{TRACE}", f"{TRACE}-{SPAN}"),
        (f"http://jaeger.example:16686/jaeger/ui/trace/{TRACE}?uiFind=x", f"{TRACE}-{SPAN}"),
        ("http://jaeger.example/trace/1234567890abcdef", f"{OTHER}-{SPAN2}"),
    ],
)
def test_forms(objects: ObjectStore, text: str, expected: str) -> None:
    """Every form that is documented finds its query, on whatever day it lies."""
    store = _filled(
        objects, "order-7", "order-77", "invoice-1", "til~de", f"{TRACE}-{SPAN}", f"{OTHER}-{SPAN2}", "order-770"
    )
    assert store.resolve(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a b",
        "../x",
        "qid/with/slash",
        "ä",
        "http://127.0.0.1/other/order-77",
        "http://127.0.0.1/q/",
        "http://127.0.0.1/q/a%2Fb",
        "http://127.0.0.1/q/%2e%2e",
        "http://127.0.0.1/t/not-hex",
        f"http://127.0.0.1/trace/{TRACE}0",
        "http://[::1/q/x",
        "x" * 129,
    ],
)
def test_what_is_no_reference(memory: MemoryStore, text: str) -> None:
    """Anything else is an illegal qid, and the store is not asked."""
    with pytest.raises(InvalidQid):
        PayloadStore(memory).resolve(text)
    assert memory.requests == []


def test_several_fit(memory: MemoryStore) -> None:
    """A beginning or a trace of several queries is ambiguous, and some of them are named."""
    store = _filled(memory, f"{TRACE}-{SPAN}", f"{TRACE}-{SPAN2}", "order-1", "order-2", "order-3")
    with pytest.raises(Ambiguous) as caught:
        store.resolve("order-")
    assert caught.value.candidates == ["order-1", "order-2", "order-3"]
    for text in (TRACE, TRACE.upper(), f"http://127.0.0.1/t/{TRACE}", f"00-{TRACE}-{'9' * 16}-01"):
        with pytest.raises(Ambiguous) as caught:
            store.resolve(text)
        assert caught.value.candidates == [f"{TRACE}-{SPAN}", f"{TRACE}-{SPAN2}"]


def test_nothing_fits(objects: ObjectStore) -> None:
    """A legal id of which nothing is stored is not found, by a message that names it and the store."""
    store = _filled(objects, "order-1")
    for text in ("order-2", dated_qid(), OTHER, f"00-{TRACE}-{SPAN}-01", f"http://127.0.0.1/t/{TRACE}"):
        with pytest.raises(NotFound, match="is stored in"):
            store.resolve(text)


def test_a_beginning_of_very_many(memory: MemoryStore) -> None:
    """A short beginning of many qids is ambiguous without listing them all."""
    store = PayloadStore(memory)
    for number in range(200):
        store.write(run(f"q{number}", 1, 1), f"q{number}", NOW)
    with pytest.raises(Ambiguous) as caught:
        store.resolve("q")
    assert 2 <= len(caught.value.candidates) <= 20


def test_a_trace_id_that_is_a_qid(memory: MemoryStore) -> None:
    """An application's own qid of 32 hexadecimal digits goes before the trace of that id."""
    store = _filled(memory, TRACE, f"{TRACE}-{SPAN}")
    assert store.resolve(TRACE) == TRACE


def test_candidates_from_elsewhere(memory: MemoryStore) -> None:
    """What waits in a spool is found like what is stored, and makes a beginning ambiguous like it."""
    store = _filled(memory, "order-1")
    assert store.resolve("fresh-1", extra=iter(["fresh-1"])) == "fresh-1"
    assert store.resolve("fresh", extra=["fresh-1"]) == "fresh-1"
    assert store.resolve(TRACE, extra=[f"{TRACE}-{SPAN}"]) == f"{TRACE}-{SPAN}"
    assert store.resolve("order", extra=["order-1"]) == "order-1"
    with pytest.raises(Ambiguous):
        store.resolve("order", extra=["order-2"])


def test_erased_qids_are_found(objects: ObjectStore) -> None:
    """An erased query is found by its id and by a beginning, so that the answer is «erased»."""
    store = _filled(objects, "order-1", "invoice-1")
    store.erase("order-1")
    assert store.resolve("order-1") == "order-1"
    assert store.resolve("ord") == "order-1"
    store.write(run("order-10", 1, 1), "order-10", NOW)
    assert store.resolve("order-1") == "order-1"
    with pytest.raises(Ambiguous):
        store.resolve("order-")


def test_a_whole_dated_qid_takes_no_search(memory: MemoryStore) -> None:
    """A ULID that is stored under its date is found without listing the other days."""
    qid = dated_qid()
    store = _filled(memory, qid, "order-1", "order-2")
    memory.requests.clear()
    assert store.resolve(qid) == qid
    assert ("folders", "payloads/") not in memory.requests


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused(text: str) -> None:
    """Reading a reference ends in legal qids or in the one error."""
    try:
        wanted = read_reference(text)
    except InvalidQid:
        return
    assert all(len(qid) <= 128 for qid in (*wanted.whole, *wanted.beginnings))
