"""JSON with places: the value that the standard library reads, every string where it stood, nothing repaired."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from time import perf_counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_prompt_trace.core.bodies.scan import SHADOWED, At, Fields, Items, NotJson, raw_place, scan

_CHARACTERS = st.characters() | st.sampled_from('"\\/\b\n\u0000\u2028\ud83d\ude00\U0001f600é日')
_TEXTS = st.text(_CHARACTERS, max_size=8)
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | _TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_TEXTS, inner, max_size=4),
    max_leaves=25,
)
_SPACES = st.text(st.sampled_from(" \t\r\n"), max_size=2)


def _escaped(draw: st.DrawFn, text: str) -> str:
    """The inside of a JSON string: each character as it is, or by any escape that JSON has for it."""
    parts = []
    for character in text:
        units = character.encode("utf-16-be", "surrogatepass")
        long = "".join(f"\\u{units[n]:02x}{units[n + 1]:02x}" for n in range(0, len(units), 2))
        short = json.dumps(character)[1:-1]
        plain = character if character not in '"\\' and not "\ud800" <= character <= "\udfff" else short
        parts.append(draw(st.sampled_from([plain, short, long, long.upper().replace("\\U", "\\u")])))
    return "".join(parts)


@st.composite
def written(draw: st.DrawFn, value: Any = ...) -> str:
    """A value as some client may write it: any white space, any escapes."""
    given_value = draw(_VALUES) if value is ... else value
    before, after = draw(_SPACES), draw(_SPACES)
    if isinstance(given_value, str):
        text = f'"{_escaped(draw, given_value)}"'
    elif isinstance(given_value, list):
        text = f"[{before}{','.join(draw(written(item)) for item in given_value)}]"
    elif isinstance(given_value, dict):
        fields = (f"{draw(written(name))}:{draw(written(item))}" for name, item in given_value.items())
        text = f"{{{before}{','.join(fields)}}}"
    else:
        text = json.dumps(given_value)
    return f"{before}{text}{after}"


def _below(value: Any) -> Iterator[Any]:
    """A value, its names and everything below it."""
    yield value
    if isinstance(value, Mapping):
        for name, item in value.items():
            yield name
            yield from _below(item)
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for item in value:
            yield from _below(item)


def _decoded(raw: str) -> Any:
    return json.loads(f'"{raw}"', strict=False)


@given(written())
def test_a_value_is_what_the_standard_library_reads(text: str) -> None:
    """White space, escapes and surrogates included; an object's names come in the order in which they stood."""
    expected = json.loads(text, strict=False)
    found = scan(text)
    if not any(SHADOWED in item for item in _below(found) if isinstance(item, str)):
        assert found == expected
        assert json.dumps(found) == json.dumps(expected)


@given(written())
def test_every_string_knows_its_place(text: str) -> None:
    """What stands between its quotes decodes to it; an object's or list's place reads as the object or list."""
    for item in _below(scan(text)):
        if isinstance(item, At):
            assert text[item.start - 1] == text[item.end] == '"'
            assert _decoded(text[item.start : item.end]) == item.partition(SHADOWED)[0] or SHADOWED in item
        elif isinstance(item, Fields | Items):
            assert scan(text[item.start : item.end]) == item


@given(st.data())
def test_every_stretch_of_a_string_has_a_place(data: st.DataObject) -> None:
    """Any start and end, escapes and pairs of surrogates in between: the raw stretch decodes to the stretch."""
    value = data.draw(_TEXTS)
    text = data.draw(written([value]))
    (string,) = scan(text)
    for start in range(len(string) + 1):
        for end in range(start, len(string) + 1):
            first, last = raw_place(text, string, start, end)
            assert _decoded(text[first:last]) == string[start:end]
            assert _decoded(text[string.start : first]) + string[start:] == string


@given(st.text(st.sampled_from('{}[]:," \n\\0123.-+eEtrufalsn\tu'), max_size=14))
def test_what_the_standard_library_refuses_is_refused(text: str) -> None:
    """And what it takes is taken, but for words that no JSON has (NaN, Infinity)."""
    try:
        expected = json.loads(text, strict=False)
    except ValueError:
        with pytest.raises(NotJson):
            scan(text)
    else:
        if not isinstance(expected, dict):
            assert scan(text) == expected


@pytest.mark.parametrize(
    "text",
    ["", " ", "[", "{", '"', '"\\', '"\\u12', "[1,]", '{"a":1,}', "[,1]", "{,}", '{"a"}', '{"a":}', "{1:2}", '{"a" 1}',
     "1 2", "[1 2]", "]", "[}", "{]", "01", "1.", ".5", "-", "+1", "1e", "NaN", "[Infinity]", "-Infinity", "nul",
     "True", "'a'", "\ufeff{}", "[1]x", '"a":1', ",", ":", "[1:2]", '{"a",1}', "// no\n1", '{"a":1,,"b":2}', "\x0c1",
     "\u00a01"],
)  # fmt: skip
def test_no_json(text: str) -> None:
    """Refused, and never repaired."""
    with pytest.raises(NotJson):
        scan(text)


def test_a_name_that_stands_twice_keeps_all_its_values() -> None:
    """Hosts differ in which of them they read; each knows its own place."""
    text = '{"a": "first", "a": "second", "b": 1, "a": "third"}'
    found = scan(text)
    assert found["a"] == "first"
    assert [item for name, item in found.items() if name.startswith("a")] == ["first", "second", "third"]
    assert [text[name.start : name.end] for name in found] == ["a", "a", "b", "a"]
    assert len(scan('{"a\\u00002": 1, "a": 2, "a": 3, "a\\u00002": 4}')) == 4


def test_a_name_that_stands_very_often_costs_no_more_than_once_each() -> None:
    """A hundred thousand fields of one name are read in the time of a hundred thousand fields."""
    started = perf_counter()
    scan("{" + ",".join(f'"{n:06}":1' for n in range(100_000)) + "}")
    distinct = perf_counter() - started
    started = perf_counter()
    assert len(scan("{" + ",".join(['"000000":1'] * 100_000) + "}")) == 100_000
    assert perf_counter() - started < 20 * distinct + 1


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")])
def test_depth_costs_no_recursion(opening: str, closing: str) -> None:
    """A hundred thousand levels are read, and a string at the bottom knows its place."""
    levels = 100_000
    text = opening * levels + '"bottom"' + closing * levels
    item = scan(text)
    while isinstance(item, Fields | Items):
        item = item["a"] if isinstance(item, Fields) else item[0]
    assert item == "bottom"
    assert text[item.start : item.end] == "bottom"


def test_huge_numbers() -> None:
    """More digits than the interpreter converts are no reason to lose the rest of a body."""
    assert scan("123456789012345678901234567890") == 123456789012345678901234567890
    assert scan(f'[{"9" * 5000}, "after"]') == [float("inf"), "after"]
    assert scan("[1e400, -0.0, -0, 1E+2]") == [float("inf"), -0.0, 0, 100.0]
