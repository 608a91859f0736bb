"""Texts that were declared and do not stand there, or stand there and were not declared: reports from practice.

Each as the whole of its kind: the right verdict, the right reason, the right place.
"""

from __future__ import annotations

import html
import json
import time
from typing import Any
from unicodedata import normalize

import pytest

from otel_prompt_trace.core.census import Census, census
from otel_prompt_trace.core.grade import grade
from otel_prompt_trace.core.pieces import Piece
from tests.core.by_hand import Script
from tests.core.missing.ways import as_decimal, as_hex, as_named, in_json, to_crlf


def absent(declared: str, standing: str, around: str = "[{}]") -> tuple[Census, str, str]:
    """The census of a prompt in which one piece stands changed, its reason, and what stands at its place."""
    prompt = "Answer briefly.\n" + around.format(standing) + "Why?"
    found = census(prompt, [("system", "Answer briefly.\n"), ("rag", declared), ("user", "Why?")])
    placed = found.pieces[1]
    assert placed.state == "unlocatable"
    assert (placed.segment, placed.start, placed.end) == (None, None, None)
    assert placed.hint is not None
    assert found.unaccounted == len(prompt) - len("Answer briefly.\n") - len("Why?")  # nothing of it is subtracted
    assert (found.verdict, found.reasons) == ("unknown", ("unlocatable_piece", "gap"))
    return found, placed.hint.reason, prompt[placed.hint.start : placed.hint.end]


class TestATemplateEatsOneNewline:
    """Jinja drops one newline at the end of a template: that one, and no other."""

    @pytest.mark.parametrize(
        ("declared", "standing"),
        [
            ("Task: x.\n\n", "Task: x.\n"),
            ("Task: x.\n", "Task: x."),
            ("Task: x.\r\n", "Task: x."),
            ("Task: x.\n\n\n", "Task: x.\n\n"),
            ("  Task: x.\n", "  Task: x."),
            ("Task:\nx.\n", "Task:\nx."),
        ],
    )
    def test_by_its_own_name(self, declared: str, standing: str) -> None:
        """Where it would stand is all of it but the newline."""
        found, reason, place = absent(declared, standing)
        assert (reason, place) == ("dropped_newline", standing)
        assert found.pieces[1].note.startswith("trailing newline dropped in prompt at 17..")

    @pytest.mark.parametrize(("declared", "standing"), [("Task: x.\n\n", "Task: x."), (" Task: x.\n", "Task: x.")])
    def test_more_than_that_is_trimmed(self, declared: str, standing: str) -> None:
        """Somebody stripped it."""
        assert absent(declared, standing)[1:] == ("trimmed", standing)


class TestEntities:
    """Accented letters and quotes as character references, named, by number, escaped twice."""

    @pytest.mark.parametrize(
        "declared", ["Árvíz", "Árvíz & <b>notes</b>", "naïve \"café\" 'é'", "日本語のテキスト", "½ < ¾"]
    )
    @pytest.mark.parametrize("form", [as_decimal, as_hex, as_named, lambda t: html.escape(as_decimal(t), quote=False)])
    def test_by_name(self, declared: str, form: Any) -> None:
        """As a template engine, a CMS or an XML writer has it; the last is a text that went through two of them."""
        standing = form(declared)
        _, reason, place = absent(declared, standing)
        assert reason in ("html_escaped", "html_escaped_twice")
        assert place == standing
        twice = html.unescape(standing) != declared
        assert (reason == "html_escaped_twice") is twice

    def test_accented_letters_by_number(self) -> None:
        """As it was reported."""
        assert absent("Árvíz", "&#193;rv&#237;z")[1:] == ("html_escaped", "&#193;rv&#237;z")


class TestJSONInsteadOfText:
    """A message list in a span attribute is JSON; the prompt is the text that it spells."""

    SAID = '日本語\n"q"'

    @pytest.mark.parametrize("ascii_only", [True, False])
    def test_decoded_once_before_it_is_searched(self, ascii_only: bool) -> None:
        """The piece is located in the decoded text, in its code points; evidence so weak is never exact."""
        parts = [{"type": "text", "content": f"Say: {self.SAID}"}]
        value = json.dumps([{"role": "user", "parts": parts}], ensure_ascii=ascii_only)
        script = Script()
        script("piece", call="c1", producer="user", text=self.SAID)
        facts = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}
        script("content", call="c1", route="attributes", scope="x", values={"gen_ai.input.messages": value},
               attributes=facts)  # fmt: skip
        (call,) = grade(script.record()).calls
        assert call.census is not None
        (placed,) = call.census.pieces
        assert (placed.state, placed.start, placed.end, call.census.total) == ("located", 5, 12, 12)
        assert (call.verdict, "weak_evidence" in call.reasons) == ("unknown", True)

    @pytest.mark.parametrize("ascii_only", [True, False])
    def test_a_prompt_that_is_the_encoded_text(self, ascii_only: bool) -> None:
        """Where an application renders the JSON itself, that is what the model got: named, and not located."""
        standing = in_json(self.SAID, ascii_only=ascii_only)
        assert absent(self.SAID, standing)[1:] == ("json_escaped", standing)


class TestLineEndings:
    """A loader, a client library or Windows changes them: lengths differ by one a line."""

    @pytest.mark.parametrize(
        ("declared", "standing", "apart"),
        [
            ("a\r\nb\r\n", "a\nb\n", "2 characters shorter"),
            ("a\nb\n", "a\r\nb\r\n", "2 characters longer"),
            ("one\rtwo\r", "one\ntwo\n", "as long as declared"),
            ("one\ntwo", "one\x85two", "as long as declared"),
            ("one\u2028two", "one\ntwo", "as long as declared"),
            ("one\r\n\r\ntwo", "one\n\ntwo", "2 characters shorter"),
            ("mixed\nlines\r\nhere", "mixed\nlines\nhere", "1 character shorter"),
        ],
    )
    def test_by_name_and_length(self, declared: str, standing: str, apart: str) -> None:
        """However they were mixed."""
        found, reason, place = absent(declared, standing)
        assert (reason, place) == ("line_endings", standing)
        assert found.pieces[1].hint is not None
        assert found.pieces[1].hint.detail == apart

    def test_a_whole_file(self) -> None:
        """A thousand lines: a thousand characters."""
        declared = "".join(f"line {n}\n" for n in range(1000))
        found, reason, place = absent(declared, to_crlf(declared))
        assert (reason, place) == ("line_endings", to_crlf(declared))
        assert "1000 characters longer" in found.pieces[1].note


class TestUnicodeForms:
    """The same text in another form of Unicode has other code points, and other offsets."""

    @pytest.mark.parametrize(
        "declared", ["caf\u00e9", "Z\u00fcrich und K\u00f6ln", "\ud55c\uad6d\uc5b4", "\u30d1\u30fc\u30c6\u30a3"]
    )
    def test_composed_and_decomposed(self, declared: str) -> None:
        """Either way round, each by the form that stands."""
        apart = normalize("NFD", declared)
        assert apart != declared
        assert absent(declared, apart)[1:] == ("nfd", apart)
        assert absent(apart, declared)[1:] == ("nfc", declared)

    @pytest.mark.parametrize("declared", ["ﬁle №4", "\uff11\uff12\uff13 \uff76\uff9e", "x² + ½"])
    @pytest.mark.parametrize("form", ["NFKC", "NFKD"])
    def test_compatible_characters(self, declared: str, form: Any) -> None:
        """A tokenizer's normaliser makes plain characters of them."""
        standing = normalize(form, declared)
        assert absent(declared, standing)[1:] in [(name, standing) for name in ("nfkc", "nfkd")]

    def test_offsets_are_those_of_the_original(self) -> None:
        """What stands behind a decomposed text is where it is, not where it would be if it were composed."""
        prompt = "Cafe\u0301 cre\u0300me: Why?"
        found = census(prompt, [("rag", "Caf\u00e9 cr\u00e8me"), ("user", "Why?")])
        assert (found.pieces[1].start, found.pieces[1].end) == (14, 18)
        assert prompt[14:18] == "Why?"


def conversation(turns: int) -> tuple[list[dict[str, str]], list[Piece], list[int]]:
    """Messages of which each holds all that was said before, the pieces as declared, and each transcript's length."""
    messages, pieces, lengths, said = [], [], [], ""
    for n in range(turns):
        user = f"Question {n}: how long is invoice {n * 7919} kept?"
        messages.append({"role": "user", "content": f"{said}User: {user}"})
        if said:
            pieces.append(Piece("history", said, trust="owner"))
        pieces += [Piece("template", "User: "), Piece("user", user)]
        lengths.append(len(said))
        said += f"User: {user}\nAssistant: Ten years ({n}).\n"
    return messages, pieces, lengths


class TestHistoryInsideHistory:
    """Each message takes in the whole transcript before it, which holds every text of every message before."""

    def test_each_character_counts_once(self) -> None:
        """Every text is located in its own message, nothing twice, and all is accounted for."""
        messages, pieces, lengths = conversation(12)
        found = census(messages, pieces)
        assert found.verdict == "exact"
        assert found.covered == found.total == sum(len(m["content"]) for m in messages)
        histories = [p for p in found.pieces if p.producer == "history"]
        assert [(p.segment, p.start, p.end) for p in histories] == [(n, 0, lengths[n]) for n in range(1, 12)]
        assert found.by_producer()["history"] == sum(lengths)

    def test_what_rides_inside_is_told_apart_from_the_history(self) -> None:
        """Answers that are declared inline own their characters: those of the history are the rest, so none overlap."""
        messages, pieces, lengths = conversation(6)
        inside = [Piece("model", f"Ten years ({n}).", inline=True) for n in range(5)]
        found = census(messages, [*pieces, *inside])
        owned = found.by_producer()
        assert found.verdict == "exact"
        assert owned["model"] == sum(len(piece.text or "") for piece in inside)
        assert owned["history"] + owned["model"] == sum(lengths)
        assert sum(owned.values()) == found.covered == found.total

    def test_a_history_that_nobody_declared(self) -> None:
        """It is the gap, in every message; the texts inside it are not credited to it twice."""
        messages, pieces, lengths = conversation(8)
        found = census(messages, [piece for piece in pieces if piece.producer != "history"])
        assert (found.verdict, found.unaccounted) == ("mismatch", sum(lengths))
        assert [(gap.segment, gap.start, gap.end) for gap in found.gaps] == [(n, 0, lengths[n]) for n in range(1, 8)]

    def test_its_cost_is_that_of_its_characters(self) -> None:
        """Four times the turns are sixteen times the characters; the time may grow with these, and not with more."""

        def cost(turns: int) -> float:
            messages, pieces, _ = conversation(turns)
            began = time.thread_time()
            assert census(messages, pieces).verdict == "exact"
            return time.thread_time() - began

        cost(10)
        assert cost(100) < 80 * cost(25) + 0.05


class TestMergedAndMoved:
    """A client library joins messages, or puts them first: what it adds is nobody's."""

    @pytest.mark.parametrize("joiner", ["\n\n", "\n", " ", "\n---\n"])
    @pytest.mark.parametrize("ordered", [True, False])
    def test_two_messages_in_one(self, joiner: str, ordered: bool) -> None:
        """Both stand in it, and the joiner is the gap."""
        system, developer = "Be kind to everybody.", "Be brief."
        sent = [{"role": "system", "content": f"{system}{joiner}{developer}"}, {"role": "user", "content": "Why?"}]
        pieces = [("a", system), ("b", developer), ("c", "Why?")]
        found = census(sent, pieces, ordered=ordered)
        assert [(p.segment, p.start) for p in found.pieces] == [(0, 0), (0, len(system) + len(joiner)), (1, 0)]
        assert [(gap.path, gap.text) for gap in found.gaps] == [("messages[0].content", joiner)]
        assert (found.verdict, found.unaccounted) == ("mismatch", len(joiner))

    def test_moved_to_the_front(self) -> None:
        """Located where they are; see the check ``sent_as_rendered`` for the order."""
        sent = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Why?"}]
        found = census(sent, [("user", "Why?"), ("system", "Be kind.")])
        assert [(p.segment, p.start) for p in found.pieces] == [(1, 0), (0, 0)]
        assert found.verdict == "exact"

    def test_stripped_while_it_was_merged(self) -> None:
        """The client strips what it joins: the reason is said, and where."""
        sent = [{"role": "system", "content": "Be kind.\n\nBe brief."}]
        found = census(sent, [("a", "Be kind.\n"), ("b", " Be brief.\n")])
        assert found.pieces[0].state == "located"
        assert found.pieces[1].hint is not None
        assert (found.pieces[1].hint.reason, found.pieces[1].hint.start) == ("trimmed", 10)
