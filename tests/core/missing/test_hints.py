"""What a hint may say and what not: minimal lengths, one place for one text, edges of letters, what others own."""

from __future__ import annotations

from unicodedata import combining, normalize

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otel_prompt_trace.capture.provisional import take_stock
from otel_prompt_trace.core.census import census, explained, take
from otel_prompt_trace.core.grade import grade
from otel_prompt_trace.core.missing.explain import why
from otel_prompt_trace.core.missing.hint import WORDS, Hint
from otel_prompt_trace.core.pieces import Piece
from otel_prompt_trace.core.segments import Segment, Split, split
from tests.core.by_hand import QID, Script
from tests.core.missing.test_folding import hostile
from tests.core.test_assignment import any_piece, prompts

CHUNK = "Invoices are kept for ten years.\nThen they are shredded."


def hints(prompt: str, *texts: str | None, owned: tuple[tuple[int, int], ...] = ()) -> list[str | None]:
    """What stands at each text's hint, with the reason."""
    found = why([Segment("p", prompt)], texts, [(0, start, end) for start, end in owned])
    return [None if hint is None else f"{hint.reason}: {prompt[hint.start : hint.end]}" for hint in found]


@given(st.lists(hostile, max_size=3), st.lists(hostile, max_size=5), st.data())
@settings(deadline=None, max_examples=200)
def test_whatever_is_asked_a_place_is_a_place(bodies: list[str], texts: list[str], data: st.DataObject) -> None:
    """No text breaks it, every hint has known names and lies within its segment, and is never the text itself."""
    owned = []
    for number, body in enumerate(bodies):
        ends = sorted(data.draw(st.lists(st.integers(0, len(body)), min_size=2, max_size=2)))
        owned.append((number, *ends))
    for text, hint in zip(texts, why([Segment("p", body) for body in bodies], texts, owned), strict=True):  # type: ignore[arg-type]
        if hint is not None:
            assert set(hint.reason.split("+")) <= set(WORDS)
            assert 0 <= hint.start < hint.end <= len(bodies[hint.segment])
            assert bodies[hint.segment][hint.start : hint.end] != text or any(text in body for body in bodies)


@given(prompts, st.lists(any_piece(), max_size=8), st.booleans())
@settings(deadline=None, max_examples=150)
def test_a_hint_decides_nothing(texts: list[str], pieces: list[Piece], ordered: bool) -> None:
    """Counts, gaps, reasons, verdict, states and places are those of the census that looked for no reason."""
    plain = take(Split(tuple(Segment(f"p{n}", text) for n, text in enumerate(texts))), pieces, ordered=ordered)
    found = explained(plain)
    for name in ("segments", "gaps", "total", "covered", "reasons", "verdict", "visible"):
        assert getattr(found, name) == getattr(plain, name)
    for before, after in zip(plain.pieces, found.pieces, strict=True):
        assert (after.state, after.segment, after.start, after.end) == (
            before.state, before.segment, before.start, before.end,
        )  # fmt: skip
        assert after.hint is None or after.state == "unlocatable"


def test_it_is_asked_for() -> None:
    """``explain=False`` looks for nothing, and ``take`` does not either."""
    pieces = [("system", "Be brief."), ("rag", CHUNK)]
    prompt = f"Be brief.\n[{CHUNK.upper()}]"
    assert [p.hint and p.hint.reason for p in census(prompt, pieces).pieces] == [None, "case"]
    assert [p.hint for p in census(prompt, pieces, explain=False).pieces] == [None, None]
    assert [p.note for p in take(split(prompt), [Piece(*pair) for pair in pieces]).pieces] == ["", ""]


def test_the_note_is_for_people() -> None:
    """Reason, path, place and lengths in words; never the text."""
    (placed,) = census(
        [{"role": "user", "content": f"[{CHUNK.replace(chr(10), chr(13) + chr(10))}]"}], [("rag", CHUNK)]
    ).pieces
    assert placed.note == "line endings changed in messages[0].content at 1..58: 1 character longer"
    assert placed.state == "unlocatable"
    assert placed.hint == Hint("line_endings", 0, 1, 58, "1 character longer")


class TestLettersAndMarks:
    """A place begins and ends between letters, whatever they are made of."""

    @pytest.mark.parametrize(
        ("text", "standing"),
        [
            ("Caf\u00e9 \u00e0 la cr\u00e8me", "Cafe\u0301 a\u0300 la cre\u0300me"),
            ("\u1e69 and \u1e69 again", "s\u0307\u0323 and s\u0323\u0307 again"),
            ("\ud55c\uad6d\uc5b4 \ubb38\uc7a5", normalize("NFD", "\ud55c\uad6d\uc5b4 \ubb38\uc7a5")),
            (
                "\U0001f468\u200d\U0001f469\u200d\U0001f467 caf\u00e9",
                "\U0001f468\u200d\U0001f469\u200d\U0001f467 cafe\u0301",
            ),
            ("half \ud83d of \u00e9", "half \ud83d of e\u0301"),
            ("nul \x00 in \u00e9", "nul \x00 in e\u0301"),
            ("\u202eevil\u202c \u00e9", "\u202eevil\u202c e\u0301"),
        ],
    )
    def test_canonical_equivalents(self, text: str, standing: str) -> None:
        """Found, and the place takes in the last mark."""
        prompt = f"<{standing}>"
        (found,) = why([Segment("p", prompt)], [text])
        assert found is not None
        assert found.reason in ("nfd", "nfc", "unicode_form")
        assert prompt[found.start : found.end] == standing

    @pytest.mark.parametrize(
        ("text", "prompt"),
        [
            ("The Cafe", "the cafe\u0301"),  # the last letter has a mark that is not the text's
            ("\u0301tude de cas", "E\u0301TUDE DE CAS"),  # the mark is on a letter that is not the text's
            ("THE END OF E", "the end of &#101;&#769;"),
        ],
    )
    def test_no_part_of_a_letter(self, text: str, prompt: str) -> None:
        """A letter with its mark is another letter."""
        assert hints(prompt, text) == [None]

    @given(hostile, hostile)
    @settings(deadline=None, max_examples=150)
    def test_never_between_a_letter_and_its_mark(self, before: str, after: str) -> None:
        """Whatever is around it."""
        prompt = f"{before}{CHUNK.upper()}{after}"
        for hint in why([Segment("p", prompt)], [CHUNK]):
            if hint is not None:
                assert not combining(prompt[hint.start])
                assert hint.end == len(prompt) or not combining(prompt[hint.end]) or prompt[hint.end - 1].isspace()


class TestShortTexts:
    """A short text is somewhere by accident: no reason is better than a false one."""

    @pytest.mark.parametrize(
        ("text", "prompt"),
        [
            ("ok\n", "a book"),
            ("\n\n", "one\ntwo"),
            ("A", "a"),
            ("User ", "a user's choice"),
            ("Yes.\n", "YES."),
            ("<", "&lt;"),
            ("OK", "[ok]"),
            ("a b", "[a  b]"),
            ("the end\n", "bathe ending"),
            ("abc\u200b", "abcd"),
        ],
    )
    def test_no_reason(self, text: str, prompt: str) -> None:
        """Too short for so loose a change, or a part of a longer word."""
        assert hints(prompt, text) == [None]

    @pytest.mark.parametrize(
        ("text", "prompt", "reason"),
        [
            ("a\r\nb\r\n", "[a\nb\n]", "line_endings: a\nb\n"),
            ("\u00e9", "(e\u0301)", "nfd: e\u0301"),
            ("<b>", "x &lt;b&gt; y", "html_escaped: &lt;b&gt;"),
            ("Task: x.\n\n", "Task: x.\nQ", "dropped_newline: Task: x.\n"),
            ("Question: ", "\\nQuestion:", "trimmed: Question:"),
        ],
    )
    def test_a_reason(self, text: str, prompt: str, reason: str) -> None:
        """One change that explains all of it, and stands as a word."""
        assert hints(prompt, text) == [reason]


class TestOwners:
    """What another text owns explains a missing one only if it is all there, and a place explains one text."""

    def test_free_places_come_first(self) -> None:
        """The same text twice: once it is somebody's."""
        prompt = f"{CHUNK.upper()} {CHUNK.upper()}"
        second = len(CHUNK) + 1
        (found,) = why([Segment("p", prompt)], [CHUNK], [(0, 0, len(CHUNK))])
        assert found is not None
        assert (found.start, found.end) == (second, len(prompt))

    def test_a_long_text_inside_another_s(self) -> None:
        """A history that holds it in capitals: that is why, whoever owns the characters. A short text may be chance."""
        prompt = f"User: {CHUNK.upper()} Why?"
        assert hints(prompt, CHUNK, owned=((0, len(prompt)),)) == [f"case: {CHUNK.upper()}"]
        assert hints(prompt, "ten YEARS", owned=((0, len(prompt)),)) == [None]

    def test_no_part_of_what_is_owned(self) -> None:
        """Chunks overlap: the dropped one's first sentence is its neighbour's last."""
        prompt = "One is here. Invoices are kept for ten years. [and more]"
        assert hints(prompt, CHUNK) == ["truncated: Invoices are kept for ten years. [and more]"[:43]]
        assert hints(prompt, CHUNK, owned=((0, 45),)) == [None]

    def test_one_place_one_text(self) -> None:
        """Declared three times and standing twice, changed: the third has no reason."""
        prompt = f"<{CHUNK.upper()}> <{CHUNK.upper()}>"
        found = why([Segment("p", prompt)], [CHUNK] * 3)
        assert [hint and hint.start for hint in found] == [1, len(CHUNK) + 4, None]

    def test_a_whole_text_comes_before_a_part(self) -> None:
        """Two texts begin alike: the one that stands as a whole has the place."""
        other = CHUNK[:33] + "Nobody reads them before that."
        assert hints(f"<{CHUNK.upper()}>", other, CHUNK) == [None, f"case: {CHUNK.upper()}"]

    def test_nothing_to_look_for(self) -> None:
        """A text that was not kept, an empty one, white space, and a prompt without segments."""
        assert hints("abc", None, "", " \n") == [None, None, None]
        assert why([], [CHUNK]) == (None,)
        assert why([Segment("p", "")], [CHUNK]) == (None,)
        assert why([Segment("p", "abc")], []) == ()


def test_nothing_is_explained_while_a_call_is_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """The provisional verdict, taken where an application may wait for it, looks for no reason; the batch does."""

    def asked(*_: object) -> tuple[Hint | None, ...]:
        raise AssertionError("a reason was looked for")

    script = Script()
    script.call("c1", f"<{CHUNK.upper()}>", {"producer": "rag", "text": CHUNK})
    monkeypatch.setattr("otel_prompt_trace.core.missing.explain.why", asked)
    taken = take_stock(QID, script.sealed(), "c1", ())
    assert taken is not None
    assert taken.verdict == "unknown"
    with pytest.raises(AssertionError, match="looked for"):
        grade(script.record())
