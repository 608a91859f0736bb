"""Records from outside: a page shows whatever stands in an event, and a browser obeys none of it."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otel_prompt_trace.core.grade import grade
from otel_prompt_trace.core.record import project
from otel_prompt_trace.core.text import Cut, CutText, Foreign
from otel_prompt_trace.viewer.finding import Shown
from otel_prompt_trace.viewer.html import document, link, tag
from otel_prompt_trace.viewer.pages import PAGE, record_page
from tests.cli.test_hostile import HUGE, IN_WORDS, ODD, SHOWN, event, stored
from tests.viewer.conftest import Page, Places

_MARKUP = "<script>alert(1)</script><img src=x onerror=alert(1)>\"'>&lt; </pre></title></style> \x1b[2J\x00 \u202e"
_OURS = {"html", "head", "meta", "title", "style", "body", "h1", "h2", "h3", "p", "a", "b", "span", "pre", "table",
         "caption", "tr", "th", "td", "ul", "li", "code", "br"}  # fmt: skip
_ATTRIBUTES = {"lang", "charset", "name", "content", "href", "class"}
_KINDS = ["query", "retrieval", "piece", "request", "response", "tool_call", "content", "end", "feedback"]


def _harmless(markup: str) -> Page:
    """Nothing but our own elements and attributes, links to our own pages, and no character that does not print."""
    page = Page(markup)
    assert page.tags <= _OURS
    assert page.attributes <= _ATTRIBUTES
    assert all(address.startswith(("/q/", "/t/")) or address == "/" for address in page.links)
    assert all(char.isprintable() or char in "\n\t" for char in markup)
    return page


def test_no_markup_of_a_record_is_obeyed(places: Places) -> None:
    """Markup and control characters in every field that is shown: they stand there as text."""
    lines = [
        {**event(n, kind, call="c"), **dict.fromkeys((*SHOWN, "user", "session", "rank"), _MARKUP)}
        for n, kind in enumerate(_KINDS, 1)
    ]
    lines += [event(20, "retrieval", hits=[{"rank": _MARKUP, "chunk_id": _MARKUP, "score": _MARKUP}])]
    lines += [{**event(21, _MARKUP), "v": "9.0"}, event(22, _MARKUP), event(23, "end", ms={_MARKUP: 5})]
    lines += [event(24, "request", call=_MARKUP, messages=[{"role": _MARKUP, "content": _MARKUP, _MARKUP: _MARKUP}])]
    stored(places.store, lines)
    answer = places.client().get("/q/q1", params={"trace": _MARKUP})
    assert answer.status_code == 200
    page = _harmless(answer.text)
    assert page.text.count("<script>alert(1)</script>") > 20
    assert "\\x1b[2J\\x00 \\u202e" in page.text
    assert places.client().get("/q/q1.json").json()["question"] == _MARKUP
    listed = places.client().get("/t/" + "a" * 32)
    _harmless(listed.text)


@pytest.mark.parametrize("version", ["1.0", "9.1"])
@pytest.mark.parametrize("field", SHOWN)
def test_a_field_of_any_type_is_shown(places: Places, field: str, version: str) -> None:
    """Every field may hold anything, interpreted or not."""
    odd = [value for value in ODD if value is not HUGE or field not in IN_WORDS]
    events = [
        {**event(9 * n + k + 1, kind, call="c"), "v": version, field: value}
        for n, value in enumerate(odd)
        for k, kind in enumerate(_KINDS)
    ]
    stored(places.store, events)
    answer = places.client().get("/q/q1")
    assert answer.status_code == 200
    _harmless(answer.text)
    assert places.client().get("/q/q1.json").status_code == 200


def test_a_lone_surrogate_is_spelled_out(places: Places) -> None:
    """What UTF-8 can't carry stands in the page as its escape, and in the JSON as the store has it."""
    broken = {"base64": "7aC9", "encoding": "utf-8/surrogatepass"}
    stored(places.store, [event(1, "query", question=broken), event(2, "request", call="c", prompt=broken)])
    page = _harmless(places.client().get("/q/q1").text)
    assert page.text.count("\\ud83d") >= 2
    assert places.client().get("/q/q1.json").json()["prompt"] == broken


_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=40) | st.binary(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(_KINDS), st.dictionaries(st.sampled_from(SHOWN), _values)), max_size=6))
def test_any_record_has_a_harmless_page(given_events: list[tuple[str, dict[str, Any]]]) -> None:
    """Whatever the fields hold, the page is made, encodes, and has no element but ours."""
    events = [{**event(n, kind, call="c"), **fields} for n, (kind, fields) in enumerate(given_events)]
    record = project("q1", events)
    _harmless(record_page(Shown(record, grade(record)), jaeger=None).decode())


@given(_values | st.builds(Foreign, st.text(), st.text()) | st.just(math.nan))
def test_a_value_is_escaped_wherever_it_stands(value: Any) -> None:
    """As content of an element, in an attribute and in a link."""
    page = Page(document("t", tag("p", value), tag("span", class_=str(value)), link(f"/q/{value}")).decode())
    assert page.tags <= _OURS
    assert page.attributes <= _ATTRIBUTES


@given(st.text())
def test_a_text_keeps_every_character_that_prints(text: str) -> None:
    """Newlines at the beginning included, which a parser takes for the markup's own."""
    expected = "".join(c for c in text if c.isprintable() or c in "\n\t")
    if expected == text:
        page = Page(tag("pre", text))
        assert page.text == "\n" + text  # the first newline is dropped by a browser, not by this parser


def test_a_withheld_text_says_how_much(places: Places) -> None:
    """Characters that a policy took stand as fillers, and are counted."""
    cut = CutText(("before ", Cut(5, "hash"), " after"))
    record = project("q1", [event(1, "query"), event(2, "request", call="c", prompt=cut)])
    page = Page(record_page(Shown(record, grade(record))).decode())
    assert "before \ufffc\ufffc\ufffc\ufffc\ufffc after" in page.text
    assert "5 of 18 characters were withheld by policy" in page.text


def test_all_texts_of_a_page_share_one_room() -> None:
    """A hundred texts of 20,000 characters: the page's room is spent once."""
    messages = [{"role": "user", "content": "x" * 20_000} for _ in range(100)]
    record = project("q1", [event(1, "query"), event(2, "request", call="c", messages=messages)])
    page = record_page(Shown(record, grade(record)))
    assert PAGE <= len(page) < PAGE + 100_000
    assert b"the first 0 of 20,000 characters" in page
