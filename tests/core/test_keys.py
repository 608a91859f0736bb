"""Keys: what is built parses back, and nothing else parses."""

from __future__ import annotations

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_prompt_trace.core.keys import (
    PayloadKey,
    check_key,
    check_prefix,
    day_prefix,
    day_segment,
    parse_day,
    parse_tombstone,
    qid_prefix,
    tombstone_key,
)
from otel_prompt_trace.exceptions import InvalidEvent, InvalidQid

QIDS = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._~-]{0,127}", fullmatch=True)
KEYS = st.builds(PayloadKey, st.dates(), QIDS, QIDS, st.integers(0, 2**63))


@given(KEYS)
def test_round_trip(parts: PayloadKey) -> None:
    """A built key is legal, lies below its day and qid, and parses back to the same parts."""
    assert PayloadKey.parse(parts.key) == parts
    assert check_key(parts.key) == parts.key
    assert parts.key.startswith(qid_prefix(parts.date, parts.qid))
    assert parts.key.startswith(day_prefix(parts.date))
    assert parse_day(day_segment(parts.date)) == parts.date


@given(QIDS)
def test_tombstone_round_trip(qid: str) -> None:
    """A tombstone's key gives its qid back."""
    assert parse_tombstone(tombstone_key(qid)) == qid


@given(st.lists(st.integers(0, 10**12 - 1), min_size=2, unique=True))
def test_names_sort_by_number(numbers: list[int]) -> None:
    """Below a qid, one writer's names are in the order of its numbers."""
    keys = [PayloadKey(date(2026, 11, 30), "q", "w", number).key for number in sorted(numbers)]
    assert keys == sorted(keys)


@given(st.text(max_size=60) | KEYS.map(lambda parts: parts.key.replace("0", "00", 1)))
def test_only_built_keys_parse(text: str) -> None:
    """Whatever parses is exactly what building gives: no second spelling of a key."""
    parsed = PayloadKey.parse(text)
    assert parsed is None or parsed.key == text


@pytest.mark.parametrize(
    "key",
    [
        "payloads/dt=2026-11-30/q/w-000000000001.jsonl",
        "payloads/dt=2026-11-30/q/w-1.jsonl.zst",
        "payloads/dt=2026-11-30/q/w-0000000000001.jsonl.zst",
        "payloads/dt=2026-11-30/q/-000000000001.jsonl.zst",
        "payloads/dt=2026-11-30/q/w-00000000000\u0661.jsonl.zst",
        "payloads/dt=2026-11-30/.q/w-000000000001.jsonl.zst",
        "payloads/dt=20261130/q/w-000000000001.jsonl.zst",
        "payloads/dt=2026-02-30/q/w-000000000001.jsonl.zst",
        "payloads/2026-11-30/q/w-000000000001.jsonl.zst",
        "payloads/dt=2026-11-30/q/x/w-000000000001.jsonl.zst",
        "other/dt=2026-11-30/q/w-000000000001.jsonl.zst",
        "",
    ],
)
def test_foreign_keys_do_not_parse(key: str) -> None:
    """A key of another shape is None, not an error and not a guess."""
    assert PayloadKey.parse(key) is None


@pytest.mark.parametrize("qid", ["", ".", "..", "../x", "a/b", "a b", "a\n", "ä", "-a", "a" * 129])
def test_illegal_qids_are_refused(qid: str) -> None:
    """No key is built from an illegal qid."""
    for build in (tombstone_key, lambda text: qid_prefix(date(2026, 1, 1), text)):
        with pytest.raises(InvalidQid):
            build(qid)
    with pytest.raises(InvalidQid):
        PayloadKey(date(2026, 1, 1), qid, "w", 1)


@pytest.mark.parametrize(("writer", "seq"), [("", 1), ("a/b", 1), ("..", 1), ("w", -1)])
def test_illegal_identities_are_refused(writer: str, seq: int) -> None:
    """No key is built from a writer or number that would not parse back."""
    with pytest.raises(InvalidEvent):
        PayloadKey(date(2026, 1, 1), "q", writer, seq)


@pytest.mark.parametrize(
    "key", ["", "/", "/a", "a/", "a//b", "..", "a/../b", "a/.b", "a/./b", "a\0b", "a b", "a" * 201]
)
def test_keys_that_could_leave_the_store_are_refused(key: str) -> None:
    """Empty, hidden, parent and overlong segments are no keys."""
    with pytest.raises(ValueError, match="is no object key"):
        check_key(key)


def test_prefixes() -> None:
    """A prefix may be empty, end in a slash, or end inside a segment; otherwise the rule is that of keys."""
    for prefix in ("", "payloads/", "payloads/dt=2026"):
        assert check_prefix(prefix) == prefix
    for prefix in ("/", "../", "a/..", "a//"):
        with pytest.raises(ValueError, match="is no object key"):
            check_prefix(prefix)
