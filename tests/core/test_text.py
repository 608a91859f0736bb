"""Texts and values in JSON: what goes in comes out, and every line is JSON that any reader takes."""

from __future__ import annotations

import base64
import enum
import hashlib
import math
from http import HTTPStatus
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otel_prompt_trace.core.text import FILLER, Cut, CutText, Foreign, sha256_bytes, sha256_text, unwrap, utf8, wrap

anything = st.characters(exclude_categories=())  # lone surrogates included
texts = st.text(anything, max_size=20)
runs = st.one_of(texts, st.builds(Cut, st.integers(0, 50), st.just("hash"), st.none() | st.text("0123456789abcdef")))
scalars = st.one_of(
    st.none(),
    st.booleans(),
    texts,
    st.integers(),
    st.integers(2**63, 2**200),
    st.floats(),
    st.binary(max_size=20),
    st.builds(CutText, st.lists(runs, max_size=4).map(tuple)),
    st.builds(Foreign, st.text(max_size=9), st.text(max_size=9)),
)
names = st.one_of(
    st.text(max_size=5),
    st.sampled_from(["base64", "encoding", "integer", "float", "object", "repr", "runs", "escaped", "cut"]),
)


def reserved(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """An application's own objects that look just like what stands for something else."""
    sets = [["base64", "encoding"], ["integer"], ["float"], ["object", "repr"], ["runs"], ["escaped"]]
    return st.sampled_from(sets).flatmap(lambda keys: st.fixed_dictionaries(dict.fromkeys(keys, inner)))


values = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(names, inner, max_size=4), reserved(inner)),
    max_leaves=20,
)


def same(one: Any, other: Any) -> bool:
    """Equal, of the same type, and a nan equal to a nan."""
    if type(one) is not type(other):
        return False
    if isinstance(one, float):
        return repr(one) == repr(other)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    return bool(one == other)


@given(values)
@settings(deadline=None, max_examples=400)
def test_what_is_wrapped_is_unwrapped_to_the_same(value: Any) -> None:
    """Through the bytes of a line and back: nothing is lost, nothing changes its type, nothing is guessed."""
    line = orjson.dumps(wrap(value))
    assert same(unwrap(orjson.loads(line)), value)


@given(values)
@settings(deadline=None, max_examples=200)
def test_no_line_carries_a_surrogate_escape(value: Any) -> None:
    """One such escape makes other readers refuse the whole file."""
    line = orjson.dumps(wrap(value))
    assert line.decode("utf-8").encode("utf-8") == line
    assert b"\\ud8" not in line.replace(b"\\\\", b"").lower()


@pytest.mark.parametrize(
    ("value", "wrapped"),
    [
        ("plain \u2028 \x00 \r\n 👩‍👩‍👧", "plain \u2028 \x00 \r\n 👩‍👩‍👧"),
        ("half \ud83d", {"base64": base64.b64encode(b"half \xed\xa0\xbd").decode(), "encoding": "utf-8/surrogatepass"}),
        (b"\xff\xfe", {"base64": "//4=", "encoding": "bytes"}),
        (bytearray(b"a"), {"base64": "YQ==", "encoding": "bytes"}),
        (memoryview(b"abcd")[::2], {"base64": "YWM=", "encoding": "bytes"}),
        (2**64 - 1, 2**64 - 1),
        (2**64, {"integer": "18446744073709551616"}),
        (-(2**63), -(2**63)),
        (-(2**63) - 1, {"integer": "-9223372036854775809"}),
        (math.inf, {"float": "inf"}),
        (-math.inf, {"float": "-inf"}),
        (math.nan, {"float": "nan"}),
        ((1, 2), [1, 2]),
        ({"integer": "5"}, {"escaped": {"integer": "5"}}),
        ({"escaped": {}}, {"escaped": {"escaped": {}}}),
        ({"integer": "5", "and": "more"}, {"integer": "5", "and": "more"}),
        (Foreign("a.B", "B()"), {"object": "a.B", "repr": "B()"}),
        (CutText(("a", Cut(3, "hash", "ff"))), {"runs": ["a", {"cut": 3, "policy": "hash", "hmac_sha256": "ff"}]}),
    ],
)
def test_the_forms_of_the_format(value: Any, wrapped: Any) -> None:
    """The byte format is fixed: each form as it stands in the module's table."""
    assert same(wrap(value), wrapped)


class Color(str, enum.Enum):
    """A text that is an enumeration's member, as many SDKs have them."""

    RED = "red"


def test_a_member_of_an_enumeration_is_its_value() -> None:
    """``str(Color.RED)`` is its name; what the application sent is its characters, as a value and as a name."""
    assert same(wrap({Color.RED: Color.RED}), {"red": "red"})
    assert orjson.dumps(wrap({Color.RED: 1})) == b'{"red":1}'


def test_a_number_that_is_an_enumeration_costs_no_time() -> None:
    """An ``IntEnum`` is stored as its number, at once."""
    assert same(wrap(HTTPStatus.OK), 200)


@pytest.mark.parametrize("sign", [1, -1])
def test_an_integer_beyond_the_interpreter_s_limit_comes_back(sign: int) -> None:
    """Python refuses to print more than some thousand decimal digits; the number is stored all the same."""
    value = sign * 10**5000
    assert unwrap(orjson.loads(orjson.dumps(wrap(value)))) == value


def test_nested_lookalikes_stay_small() -> None:
    """Whoever nests reserved-looking objects must not make a line grow by a third at each level."""
    value: Any = {"integer": "x"}
    for _ in range(90):
        value = {"integer": value}
    line = orjson.dumps(wrap(value))
    assert len(line) < 5_000
    assert unwrap(orjson.loads(line)) == value


def test_a_value_that_holds_itself_is_stored_up_to_a_depth() -> None:
    """A cycle ends in the name of its class, not in a stack that overflows."""
    value: dict[str, Any] = {}
    value["again"] = value
    wrapped = wrap(value)
    orjson.dumps(wrapped)
    depth = 0
    while "again" in wrapped:
        wrapped, depth = wrapped["again"], depth + 1
    assert wrapped["object"] == "builtins.dict"
    assert depth == 100


def test_a_value_of_another_type_is_named_and_never_taken_for_a_text() -> None:
    """Neither ``str()`` nor ``repr()`` of an object passes for what the model was told."""

    class Odd:
        def __str__(self) -> str:
            return "I am the prompt"

        def __repr__(self) -> str:
            return "<Odd \ud800>"

    wrapped = wrap({"content": Odd()})
    orjson.dumps(wrapped)
    foreign = unwrap(wrapped)["content"]
    assert isinstance(foreign, Foreign)
    assert foreign.kind.endswith("Odd")
    assert foreign.repr == "<Odd \\ud800>"


def test_what_names_a_foreign_value_is_shown_escaped() -> None:
    """However it was come by, its line is JSON."""
    line = orjson.dumps(wrap(Foreign("é\ud800", "é\udfff")))
    assert unwrap(orjson.loads(line)) == Foreign("é\\ud800", "é\\udfff")


def test_a_repr_that_raises_does_not_take_the_record_with_it() -> None:
    """Somebody else's code runs in a repr."""

    class Broken:
        def __repr__(self) -> str:
            raise RuntimeError

    assert unwrap(wrap(Broken())).repr == ""


def test_two_names_that_become_one_lose_nothing() -> None:
    """JSON has one name for 1 and "1": such an object is kept by its repr instead of by half."""
    assert wrap({1: "a", "1": "b"}) == {"object": "builtins.dict", "repr": "{1: 'a', '1': 'b'}"}


def test_a_name_with_a_lone_surrogate_is_shown_escaped() -> None:
    """A name has no other place in JSON; its value is whole."""
    assert orjson.loads(orjson.dumps(wrap({"a\ud800": "b\ud800"}))).keys() == {"a\\ud800"}
    assert unwrap(wrap({"a\ud800": "b\ud800"})) == {"a\\ud800": "b\ud800"}


@pytest.mark.parametrize(
    "value",
    [
        {"integer": "many"},
        {"integer": "9" * 5000},
        {"float": "much"},
        {"base64": "not base64!", "encoding": "bytes"},
        {"base64": "YWI", "encoding": "bytes"},
        {"base64": "YQ==", "encoding": "rot13"},
        {"base64": "/w==", "encoding": "utf-8/surrogatepass"},
        {"base64": "YQ==", "encoding": 5},
        {"runs": [5]},
        {"runs": [{"cut": "many"}]},
        {"runs": [{"cut": -1}]},
    ],
)
def test_what_we_never_write_is_refused(value: Any) -> None:
    """A reserved form with something else in it was tampered with; it is not guessed at."""
    with pytest.raises(ValueError, match=r"."):
        unwrap(value)


def test_the_digest_is_over_utf8_with_surrogates_passed() -> None:
    """Every text has bytes, so every text has a sha256."""
    assert utf8("é\ud83d") == b"\xc3\xa9\xed\xa0\xbd"
    assert sha256_text("é") == hashlib.sha256("é".encode()).hexdigest()
    assert len({sha256_text("\ud83d"), sha256_text("\ude00"), sha256_text("?")}) == 3


@given(st.lists(runs, max_size=6))
@settings(deadline=None, max_examples=100)
def test_a_cut_text_keeps_the_place_and_length_of_each_part(parts: list[str | Cut]) -> None:
    """Offsets in the original hold in what is left: kept characters stand where they stood, fillers in between."""
    cut = CutText(tuple(parts))
    assert len(cut.filled) == len(cut)
    position = 0
    found = list(cut.cuts())
    for part in parts:
        length = len(part) if isinstance(part, str) else part.chars
        stands = cut.filled[position : position + length]
        if isinstance(part, str):
            assert stands == part
        else:
            assert stands == FILLER * length
            assert (position, position + length, part) in found
        position += length
    assert len(found) == sum(isinstance(part, Cut) for part in parts)


@pytest.mark.parametrize("length", [0, 1, 2047, 2048, 2 * 2047, 66_000, 2**20, 2**20 + 1])
def test_a_digest_taken_in_steps_is_that_of_the_whole(length: int) -> None:
    """Whatever the length is to the step."""
    data = bytes(number % 251 for number in range(length))
    assert sha256_bytes(data) == hashlib.sha256(data).hexdigest()
