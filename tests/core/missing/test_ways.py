"""Whatever was done to a text on its way: the reason is named right, and the place is where the text stands."""

from __future__ import annotations

import random
from unicodedata import combining

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from otel_prompt_trace.core.missing import escapes
from otel_prompt_trace.core.missing.explain import why
from otel_prompt_trace.core.missing.folding import Folded
from otel_prompt_trace.core.missing.hint import WORDS, Hint
from otel_prompt_trace.core.segments import Segment
from tests.core.missing.ways import WAYS, texts, to_crlf

SAMPLE = (
    ' Cafe\u0301 ﬁle, "Árvíz" & <b>its notes</b>:\r\n  50% of *all*  _rows_\n\n日本語 / don\'t\u200b ½ \U0001f642.\n\n'
)


def hint_for(text: str, *bodies: str) -> Hint | None:
    """The hint for one text in a prompt of some segments."""
    return why([Segment(f"messages[{n}].content", body) for n, body in enumerate(bodies)], [text])[0]


def shown(hint: Hint | None, *bodies: str) -> str | None:
    """What stands at the hint's place."""
    return None if hint is None else bodies[hint.segment][hint.start : hint.end]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("around", ["[{}]", "Context:\n\n{}|\n\nQuestion", "{}", "日本{}語"])
def test_every_way_by_name_and_place(way: str, around: str) -> None:
    """One text with everything in it, between different neighbours, in the second of three segments."""
    reason, change = WAYS[way]
    changed = change(SAMPLE)
    assert changed != SAMPLE
    bodies = ("You are brief.", around.format(changed), "Why?")
    found = hint_for(SAMPLE, *bodies)
    assert found is not None
    assert (found.reason, found.segment) == (reason, 1)
    assert shown(found, *bodies) == changed
    assert found.reason in WORDS


@pytest.mark.parametrize("way", WAYS)
@given(text=texts(), before=texts(1), after=texts(1))
@settings(deadline=None, max_examples=30)
def test_random_texts(way: str, text: str, before: str, after: str) -> None:
    """Of any text the way is named, and the place is that of the changed text; an equal change may give its name."""
    reason, change = WAYS[way]
    changed = change(text)
    assume("whitespace" not in reason or change(text.strip()) != text.strip())  # else it is only trimmed
    assume(way != "indented" or not text[0].isspace())  # and how far it was is anybody's guess
    body = f"{before}\u241f[{changed}]\u241f{after}"
    assume(text not in body and Folded(text).text not in Folded(before + "|" + after).text)
    found = hint_for(text, "first", body)
    assert found is not None
    assert found.segment == 1
    assert shown(found, "first", body) == changed
    if found.reason != reason:
        undone = {"json_escaped": escapes.json, "html_escaped": escapes.html}.get(found.reason, lambda text: text)
        same = any(other(text) == changed for name, other in WAYS.values() if name == found.reason)
        assert same or undone(changed) == text or reason in found.reason.split("+")


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("CRLF", "strip"),
        ("HTML", "strip"),
        ("strip", "JSON"),
        ("NFD", "one space for each run"),
        ("NFD", "strip"),
        ("NFKC", "CRLF"),
        ("CRLF", "HTML"),
        ("NFD", "HTML"),
        ("CRLF", "JSON"),
        ("NFC", "JSON"),
        ("HTML", "JSON"),
        ("HTML", "upper case"),
        ("strip", "URL"),
        ("one space for each run", "Markdown"),
        ("upper case", "one newline for two"),
    ],
)
def test_two_ways_one_after_the_other(first: str, second: str) -> None:
    """Both are named."""
    if (first, second) == ("HTML", "upper case"):
        first, second = second, first  # an entity in capitals is another one, or none
    (one, change), (other, then) = WAYS[first], WAYS[second]
    text = SAMPLE.replace("\u200b", "")
    changed = then(change(text))
    body = f"({changed})"
    found = hint_for(text, body)
    assert found is not None
    assert {one, other} <= {*found.reason.split("+")}
    assert shown(found, body) == changed


@pytest.mark.parametrize("way", ["HTML", "JSON", "JSON in UTF-8", "URL", "Markdown"])
def test_the_escaped_form_was_declared(way: str) -> None:
    """The other way round: what was declared has the escapes, and the model was given the text itself."""
    reason, change = WAYS[way]
    reason = reason.replace("_escaped", "_unescaped").replace("url_encoded", "url_decoded")
    found = hint_for(change(SAMPLE), f"<{SAMPLE}>")
    assert found is not None
    assert found.reason == reason
    assert shown(found, f"<{SAMPLE}>") == SAMPLE


@given(text=texts(12), data=st.data())
@settings(deadline=None, max_examples=100)
def test_a_text_that_was_cut(text: str, data: st.DataObject) -> None:
    """Its beginning or its end stands: the place is to the character, and so is the count of what is missing."""
    at = data.draw(st.integers(30, max(30, len(text) - 10)))
    from_end = data.draw(st.booleans())
    part, rest = (text[at:], text[:at]) if from_end else (text[:at], text[at:])
    assume(len(Folded(part).text) >= 16 and Folded(rest).text)
    assume(not combining(Folded(text[at:]).text[0]))
    body = f"Context:\n[{part}]…"
    found = hint_for(text, body)
    assert found is not None
    assert found.reason == "truncated"
    assert shown(found, body) == part
    which = "last" if from_end else "first"
    counts = f"its {which} {len(part):,} of {len(text):,} characters stand, {len(rest):,} are missing"
    assert found.detail == counts


@pytest.mark.parametrize(
    "mark", ["…", "...", " …", "\n[...]", " [truncated 120 chars]", "(truncated)", "<snip>", "[cut]"]
)
def test_a_mark_of_the_cut_is_told(mark: str) -> None:
    """Whoever cuts on purpose mostly says so."""
    found = hint_for("Invoices are kept for ten years, then shredded.", f"Invoices are kept for ten{mark}\n\nWhy?")
    assert found is not None
    assert found.detail.endswith("; a mark of the cut follows")


@given(text=texts(16), inserted=st.text("=#-\n", min_size=1, max_size=90), data=st.data())
@settings(deadline=None, max_examples=100)
def test_a_text_that_was_split(text: str, inserted: str, data: st.DataObject) -> None:
    """Something was put into it: from where it begins to where it ends, and where that is."""
    at = data.draw(st.integers(20, max(20, len(text) - 20)))
    head, tail = text[:at], text[at:]
    assume(len(Folded(head).text) >= 16 and len(Folded(tail).text) >= 8)
    assume(Folded(inserted).text and not combining(Folded(tail).text[0]))
    body = f"[{head}{inserted}{tail}]"
    found = hint_for(text, body)
    assert found is not None
    assert found.reason == "split"
    assert shown(found, body) == head + inserted + tail
    assert f"its first {len(head):,} and its last {len(tail):,} of {len(text):,}" in found.detail or (
        head[-1].isspace() or tail[0].isspace() or inserted[0].isspace() or inserted[-1].isspace()
    )


def test_a_text_that_lost_its_middle() -> None:
    """Both ends stand, and not what was between them."""
    text = "The first sentence is this one. The second is not wanted. The third sentence ends it."
    body = "<The first sentence is this one. [...] The third sentence ends it.>"
    found = hint_for(text, body)
    assert found is not None
    assert found.reason == "truncated"
    assert shown(found, body) == body[1:-1]
    assert "26 are missing" in found.detail or "25 are missing" in found.detail


def test_a_cut_text_in_another_form() -> None:
    """Escaped and cut: both are named."""
    text = 'Say "yes" & <b>nothing</b> else, and then "stop", until somebody asks again.'
    body = "[" + WAYS["HTML"][1](text)[:60]
    found = hint_for(text, body)
    assert found is not None
    assert found.reason == "html_escaped+truncated"
    assert shown(found, body) == body[1:]


def test_changes_without_a_name() -> None:
    """Three changes at once: it stands, and how it was changed is not said."""
    text = SAMPLE.replace("\u200b", "")
    body = f"[{WAYS['HTML'][1](to_crlf(text).upper())}]"
    found = hint_for(text, body)
    assert found is not None
    assert (found.reason, shown(found, body)) == ("several_changes", body[1:-1].rstrip())


def test_unrelated_texts_have_no_reason() -> None:
    """Random prose over one vocabulary: of 4,000 texts that are not there none is explained."""
    draw = random.Random(20)
    words = ["".join(draw.choices("etaoinshrdlu", k=draw.randint(1, 9))) for _ in range(2000)]

    def prose(count: int) -> str:
        return " ".join(draw.choices(words, k=count)) + "."

    for _ in range(40):
        prompt = [Segment("p", prose(1500)), Segment("q", prose(300))]
        pieces = [prose(draw.choice([2, 3, 5, 20, 200])) for _ in range(100)]
        assert {hint.reason for hint in why(prompt, pieces) if hint is not None} == set()
