"""Query ids: the grammar, the ids that we mint, and the dates that ids carry."""

from __future__ import annotations

import string
import uuid
from datetime import date, datetime, timedelta, timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otel_prompt_trace.core.qid import (
    carried_date,
    check_qid,
    entry_qid,
    is_qid,
    is_span_id,
    is_trace_id,
    partition_date,
    ulid,
    ulid_factory,
)
from otel_prompt_trace.exceptions import InvalidQid, PromptTraceError

ALPHABET = string.ascii_letters + string.digits
CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
NOW = datetime(2026, 11, 30, 23, 59, tzinfo=timezone.utc)


@given(st.sampled_from(ALPHABET), st.text(ALPHABET + "._~-", max_size=127))
@settings(deadline=None, max_examples=100)
def test_every_id_of_the_grammar_is_legal(first: str, rest: str) -> None:
    """A letter or a digit, then up to 127 characters that need no quoting in a key, a header or a path."""
    assert check_qid(first + rest) == first + rest
    assert is_qid(first + rest)


@pytest.mark.parametrize(
    "text",
    [
        "",
        ".a",
        "-a",
        "~a",
        "_a",
        "a/b",
        "a b",
        "a\n",
        "\na",
        "a\x00",
        "ä",
        "a" * 129,
        "a%2e",
        "٣",
        None,
        7,
        b"a",
        ["a"],
    ],
)
def test_anything_else_is_refused(text: object) -> None:
    """Nothing from outside becomes part of an object key unchecked, a trailing newline least of all."""
    assert not is_qid(text)
    with pytest.raises(InvalidQid) as caught:
        check_qid(text)
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, PromptTraceError)


def test_the_refusal_names_the_rule_and_the_value() -> None:
    """Whoever reads the error learns which value was wrong and what is allowed."""
    with pytest.raises(InvalidQid, match=r"^'no id' is not a query id: 1 to 128 of A-Z a-z 0-9 \. _ ~ -, beginning"):
        check_qid("no id")


def test_the_refusal_cuts_a_long_value() -> None:
    """An error message is no place for a megabyte that somebody sent as an id."""
    with pytest.raises(InvalidQid) as caught:
        check_qid("?" * 1_000_000)
    assert len(str(caught.value)) < 200
    assert "..." in str(caught.value)


@given(st.integers(0, 2**48 - 1), st.integers(0, 2**80 - 1))
@settings(deadline=None, max_examples=200)
def test_a_ulid_is_26_upper_case_characters_that_hold_its_bits(milliseconds: int, randomness: int) -> None:
    """Read digit by digit in Crockford's base 32 it gives back the time and the random bits."""
    minted = ulid(milliseconds, randomness)
    assert len(minted) == 26
    assert set(minted) <= set(CROCKFORD)
    value = 0
    for char in minted:
        value = value * 32 + CROCKFORD.index(char)
    assert (value >> 80, value & (2**80 - 1)) == (milliseconds, randomness)
    assert is_qid(minted)


@given(*[st.integers(0, 2**48 - 1)] * 2, *[st.integers(0, 2**80 - 1)] * 2)
@settings(deadline=None, max_examples=200)
def test_ulids_sort_by_time(one: int, other: int, random_one: int, random_other: int) -> None:
    """A listing by key is a listing by time, whatever the random bits are."""
    if one < other:
        assert ulid(one, random_one) < ulid(other, random_other)
    elif one > other:
        assert ulid(one, random_one) > ulid(other, random_other)


def test_the_ulid_of_the_specification() -> None:
    """The example of the ULID specification: 1469918176385 ms begins with 01ARYZ6S41."""
    assert ulid(1469918176385, 0) == "01ARYZ6S410000000000000000"


def test_the_factory_takes_clock_and_chance_from_its_caller() -> None:
    """Both are injected, so that a test can fake them; the nanoseconds go before 60 random bits."""
    asked = []

    def random_bits(bits: int) -> int:
        asked.append(bits)
        return 5

    mint = ulid_factory(lambda: 1_700_000_000_123_999_999, random_bits)
    assert mint() == ulid(1_700_000_000_123, 999_999 << 60 | 5)
    assert asked == [60]


@given(*[st.integers(0, 2**63)] * 2, *[st.integers(0, 2**60 - 1)] * 2)
@settings(deadline=None, max_examples=200)
def test_ids_of_one_process_sort_by_the_nanosecond(one: int, other: int, random_one: int, random_other: int) -> None:
    """Two ids that were minted within one millisecond still stand in the order in which they were."""
    first = ulid_factory(lambda: one, lambda _: random_one)()
    second = ulid_factory(lambda: other, lambda _: random_other)()
    if one != other:
        assert (first < second) == (one < other)


@given(st.datetimes(datetime(1970, 1, 1), datetime(9999, 12, 31), timezones=st.just(timezone.utc)))
@settings(deadline=None, max_examples=200)
def test_a_ulid_carries_its_date(moment: datetime) -> None:
    """The day that was minted into an id is the day that is read from it, to the last millisecond."""
    epoch = datetime(1970, 1, 1, tzinfo=timezone.utc)
    assert carried_date(ulid((moment - epoch) // timedelta(milliseconds=1), 2**80 - 1)) == moment.date()


def test_a_uuid7_carries_its_date_in_either_case() -> None:
    """A dashed UUIDv7 is dated by its first 48 bits."""
    milliseconds = int(datetime(2026, 11, 30, 12, tzinfo=timezone.utc).timestamp() * 1000)
    digits = f"{milliseconds:012x}7abc8def0123456789ab"
    dashed = "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
    assert carried_date(dashed) == date(2026, 11, 30)
    assert carried_date(dashed.upper()) == date(2026, 11, 30)
    assert carried_date(digits) is None


@pytest.mark.parametrize(
    "qid",
    [
        str(uuid.UUID("12345678-1234-4234-8234-123456789abc")),  # version 4
        "01arYZ6S410000000000000000",  # not upper case
        "81ARYZ6S410000000000000000",  # more than 128 bits
        "01ARYZ6S41000000000000000I",  # I is no digit of it
        "01ARYZ6S4100000000000000000",  # 27 characters
        "ticket-4711",
        "0" * 32 + "-" + "0" * 16,
        "7" + "Z" * 25,  # of the right shape, but a time far beyond any calendar
    ],
)
def test_other_ids_carry_no_date(qid: str) -> None:
    """Only an id whose digits are a date of ours says where its events lie."""
    assert carried_date(qid) is None


@pytest.mark.parametrize(
    ("days", "adopted"), [(-3, False), (-2, True), (-1, True), (0, True), (1, True), (2, True), (3, False)]
)
def test_a_carried_date_counts_within_two_days_of_the_clock(days: int, adopted: bool) -> None:
    """One query is one folder past midnight, and an id from last year does not write into last year."""
    carried = NOW + timedelta(days=days)
    qid = ulid(int(carried.timestamp() * 1000), 1)
    assert partition_date(qid, NOW) == (carried if adopted else NOW).date()


def test_an_id_without_a_date_goes_under_the_day_of_writing_in_utc() -> None:
    """Two minutes past midnight in Tokyo it is still yesterday in UTC."""
    tokyo = timezone(timedelta(hours=9))
    assert partition_date("ticket-4711", datetime(2026, 12, 1, 0, 2, tzinfo=tokyo)) == date(2026, 11, 30)


@given(st.integers(1, 2**128 - 1), st.integers(1, 2**64 - 1))
@settings(deadline=None, max_examples=50)
def test_an_entry_qid_begins_with_its_trace_id(trace_id: int, span_id: int) -> None:
    """A trace id finds all its queries by prefix, because both ids stand at full width."""
    qid = entry_qid(trace_id, span_id)
    assert is_qid(qid)
    trace, _, span = qid.partition("-")
    assert (len(trace), len(span)) == (32, 16)
    assert (int(trace, 16), int(span, 16)) == (trace_id, span_id)


@pytest.mark.parametrize(
    ("text", "trace", "span"),
    [
        ("0af7651916cd43dd8448eb211c80319c", True, False),
        ("b7ad6b7169203331", False, True),
        ("0AF7651916CD43DD8448EB211C80319C", False, False),
        ("0" * 32, False, False),
        ("0" * 16, False, False),
        ("0af7651916cd43dd8448eb211c80319c\n", False, False),
        ("", False, False),
    ],
)
def test_ids_of_traces_and_spans(text: str, trace: bool, span: bool) -> None:
    """In lower case, whole, and not all zeros: that one is invalid."""
    assert (is_trace_id(text), is_span_id(text)) == (trace, span)
