"""diff: what changed between two prompts, by producer; pieces are paired one to one, and edits shown in bounds."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otel_prompt_trace.core.census import take
from otel_prompt_trace.core.diff import PieceChange, PromptDiff, diff_calls
from otel_prompt_trace.core.diff.pairing import Item, largest_in_order, pair
from otel_prompt_trace.core.diff.texts import edits
from otel_prompt_trace.core.grade import CallGrade, grade
from otel_prompt_trace.core.pieces import Piece
from otel_prompt_trace.core.segments import Segment, Split, segment
from otel_prompt_trace.core.text import Cut, CutText
from tests.core.by_hand import Script

Part = tuple[str, str]  # "producer" or "producer:source id" and a text; "" for a text that nobody declares

SYSTEM = ("system", "Answer from the context. Name the section. Be brief. ")
A = ("rag:a", "Parcels are kept for ten working days at the depot. ")
B = ("rag:b", "A manager may extend that once, by five days at most. ")
C = ("rag:c", "Lost parcels are paid for by the carrier, up to a limit. ")
ASK = ("user", "Why?")


def call(*parts: Part, policy: str = "store", **request: Any) -> CallGrade:
    """A call whose prompt is made of these parts."""
    script = Script()
    at, pieces = 0, []
    for producer, text in parts:
        if producer:
            name, _, source = producer.partition(":")
            named = {"source_id": source} if source else {}
            pieces.append({"producer": name, "text": text, "segment": 0, "start": at, "end": at + len(text), **named})
        at += len(text)
    script.call("k1", "".join(text for _, text in parts), *pieces, **request)
    (found,) = grade(script.record(policy)).calls
    return found


def chat(*messages: tuple[str, Part], **request: Any) -> CallGrade:
    """A call of messages, each one part under a role."""
    script = Script()
    pieces = [{"producer": part[0], "text": part[1]} for _, part in messages if part[0]]
    listed = [{"role": role, "content": part[1]} for role, part in messages]
    script.call("k1", listed, *pieces, **request)
    (found,) = grade(script.record()).calls
    return found


def told(found: PromptDiff) -> list[tuple[str, str]]:
    """Kind and label of every change."""
    return [(change.kind, change.label) for change in found.pieces]


def test_nothing_changed() -> None:
    """A prompt and itself."""
    found = diff_calls(call(SYSTEM, A, ASK), call(SYSTEM, A, ASK))
    assert (found.same, found.pieces, found.gaps, found.parts, found.settings) == (3, (), (), (), ())
    assert (found.different, found.comparable, found.exit_code) == (False, True, 0)


def test_added_and_removed() -> None:
    """Two chunks of other ids are two chunks, and no edit of one."""
    found = diff_calls(call(SYSTEM, A, B, ASK), call(SYSTEM, A, C, ASK))
    assert told(found) == [("removed", "rag:b"), ("added", "rag:c")]
    assert (found.same, found.exit_code) == (3, 1)


def test_moved() -> None:
    """The one that changed its place, not those that it passed."""
    found = diff_calls(call(SYSTEM, A, B, C, ASK), call(SYSTEM, B, C, A, ASK))
    assert told(found) == [("moved", "rag:a")]
    (change,) = found.pieces
    assert change.before is not None
    assert change.after is not None
    assert (change.before.start, change.after.start) == (len(SYSTEM[1]), len(SYSTEM[1] + B[1] + C[1]))


def test_a_shift_is_no_move() -> None:
    """What stands further down because something was put before it stayed where it was."""
    assert told(diff_calls(call(SYSTEM, A, ASK), call(SYSTEM, B, A, ASK))) == [("added", "rag:b")]


def test_another_role_is_a_move() -> None:
    """A text that went from the system to the user says something else."""
    before = chat(("system", SYSTEM), ("user", ASK), ("user", ("memory", "It is Monday.")))
    after = chat(("system", SYSTEM), ("user", ASK), ("system", ("memory", "It is Monday.")))
    found = diff_calls(before, after)
    assert told(found) == [("moved", "memory")]


def test_edited() -> None:
    """The same producer and source id with another text, and what changed in it."""
    edited = ("rag:a", A[1].replace("ten", "twelve"))
    found = diff_calls(call(SYSTEM, A, B, ASK), call(SYSTEM, edited, B, ASK))
    assert told(found) == [("edited", "rag:a")]
    (change,) = found.pieces
    assert change.lines[0] == "@@ -[0:52] +[0:55] @@"
    assert change.lines[1:] == ("-" + A[1], "+" + edited[1])


def test_edited_and_moved() -> None:
    """Both are said."""
    edited = ("rag:a", A[1].replace("ten", "twelve"))
    (change,) = diff_calls(call(SYSTEM, A, B, C, ASK), call(SYSTEM, B, C, edited, ASK)).pieces
    assert (change.kind, change.moved) == ("edited", True)


def test_the_only_text_of_a_producer_was_edited_however_much() -> None:
    """A question is a question, whatever is asked."""
    found = diff_calls(call(SYSTEM, A, ASK), call(SYSTEM, A, ("user", "How long are parcels kept?")))
    assert told(found) == [("edited", "user")]


def test_texts_without_ids_are_paired_by_likeness() -> None:
    """Of several of one producer each with the one that it resembles; what resembles none was added, or removed."""
    turns = [f"Turn {n}: " + " ".join(f"word{n}x{k}" for k in range(30)) for n in range(5)]
    before = call(SYSTEM, *(("history", turn) for turn in turns))
    changed = [turns[3] + " And more.", turns[0].replace("word0x3", "other"), "Of something else altogether, it is."]
    after = call(SYSTEM, *(("history", turn) for turn in [turns[1], *changed]))
    found = diff_calls(before, after)
    edited = [c for c in found.pieces if c.kind == "edited"]
    assert [(c.before.text, c.after.text) for c in edited if c.before and c.after] == [
        (turns[0], changed[1]),
        (turns[3], changed[0]),
    ]
    assert sorted(c.kind for c in found.pieces if c.kind != "edited") == ["added", "removed", "removed"]


def test_separators_go_with_what_they_separate() -> None:
    """Of equal texts those between the same neighbours are the same: none of them has moved."""
    glue = ("literal", "\n\n")
    before = call(SYSTEM, glue, A, glue, B, glue, C, glue, ASK)
    after = call(SYSTEM, glue, A, glue, C, glue, ASK)
    assert told(diff_calls(before, after)) == [("removed", "rag:b"), ("removed", "literal")]
    assert [kind for kind, _ in told(diff_calls(after, before))] == ["added", "added"]


@pytest.mark.parametrize("other", ["memory", "rag:z", "rag"])
def test_relabelled(other: str) -> None:
    """The same text by another producer, or from another source."""
    found = diff_calls(call(SYSTEM, A, ASK), call(SYSTEM, (other, A[1]), ASK))
    assert told(found) == [("relabelled", other)]


def test_a_piece_that_stands_no_more() -> None:
    """It is declared as before; that it is not there is the change."""
    before = call(SYSTEM, A, ASK)
    script = Script()
    pieces = [{"producer": "rag", "text": A[1], "source_id": "a"}, {"producer": "user", "text": ASK[1]}]
    script.call("k1", SYSTEM[1] + A[1].upper() + ASK[1], {"producer": "system", "text": SYSTEM[1]}, *pieces)
    found = diff_calls(before, grade(script.record()).calls[0])
    assert told(found) == [("state", "rag:a")]
    assert found.pieces[0].after is not None
    assert found.pieces[0].after.state == "unlocatable"
    assert [gap.kind for gap in found.gaps] == ["appeared"]


class TestGaps:
    """Characters that nobody declares, in one of the two."""

    def test_appeared_and_vanished(self) -> None:
        """A rider that was not there before."""
        plain, ridden = call(SYSTEM, A, ASK), call(SYSTEM, A, ("", " Answer in French."), ASK)
        (gap,) = diff_calls(plain, ridden).gaps
        assert (gap.kind, gap.gap.text, gap.piece) == ("appeared", " Answer in French.", None)
        (gap,) = diff_calls(ridden, plain).gaps
        assert gap.kind == "vanished"

    def test_what_was_declared_before(self) -> None:
        """A piece that somebody forgot to declare is known again by its text."""
        found = diff_calls(call(SYSTEM, A, ASK), call(SYSTEM, ("", A[1]), ASK))
        assert told(found) == [("removed", "rag:a")]
        assert [(gap.kind, gap.piece) for gap in found.gaps] == [("appeared", "rag:a")]

    def test_of_equal_gaps_those_in_the_same_place_are_the_same(self) -> None:
        """Of two that became three one appeared; one that stands behind another piece now has moved."""
        gap = ("", "\n--\n")
        before, after = call(SYSTEM, gap, A, gap, ASK), call(SYSTEM, gap, A, gap, B, gap, ASK)
        assert [g.kind for g in diff_calls(before, after).gaps] == ["appeared"]
        (moved,) = diff_calls(before, call(SYSTEM, A, gap, B, gap, ASK)).gaps
        assert (moved.kind, moved.before) == ("moved", before.census and before.census.gaps[0])

    def test_the_same_gap_elsewhere_has_moved(self) -> None:
        """It passed a piece that stayed, or speaks in another role."""
        note = ("", " Answer in French.")
        (gap,) = diff_calls(call(SYSTEM, note, A, ASK), call(SYSTEM, A, note, ASK)).gaps
        assert gap.kind == "moved"
        (gap,) = diff_calls(chat(("user", note), ("user", ASK)), chat(("system", note), ("user", ASK))).gaps
        assert gap.kind == "moved"

    def test_the_same_texts_in_other_messages(self) -> None:
        """Nothing is added, removed or moved, and the prompts are not the same."""
        one, other = ("", "Be kind. "), ("", "Be brief.")
        apart = chat(("user", one), ("user", other))
        for found in (
            diff_calls(apart, chat(("user", other), ("user", one))),
            diff_calls(
                chat(("user", SYSTEM), ("user", one)), chat(("user", ("", "")), ("user", SYSTEM), ("user", one))
            ),
        ):
            assert (found.rearranged, found.pieces, found.gaps, found.exit_code) == (True, (), (), 1)

    def test_what_was_cut_without_a_digest_can_not_be_compared(self) -> None:
        """As many characters stand there as before; nobody can say whether the same."""
        redacted = segment("prompt", CutText(("Ask ", Cut(4, "redact"), " for it.")))
        one = replace(call(ASK), census=take(Split((redacted,)), [Piece("user", " for it.")]))
        found = diff_calls(one, one)
        assert (found.different, found.comparable, found.exit_code) == (False, False, 3)

    @given(st.data())
    @settings(deadline=None, max_examples=300)
    def test_nothing_changed_only_where_the_prompts_are_the_same(self, data: st.DataObject) -> None:
        """Whatever is declared of it: another text, another order, another role, or other messages are a change."""
        words = st.sampled_from(["alpha", "beta", "gamma delta", " ", "\n", "what is said here"])
        texts = st.lists(words, max_size=3).map("".join)
        chats = st.lists(st.tuples(st.sampled_from(["user", "system"]), texts), max_size=3)
        pieces = [Piece(str(n), text) for n, text in enumerate(data.draw(st.lists(words, unique=True, max_size=3)))]
        before = data.draw(chats)
        after = data.draw(st.one_of(st.just(before), st.permutations(before), chats))

        def graded(messages: list[tuple[str, str]]) -> CallGrade:
            segments = (Segment(f"messages[{n}]", text, role) for n, (role, text) in enumerate(messages))
            return replace(call(ASK), census=take(Split(tuple(segments)), pieces))

        assert diff_calls(graded(before), graded(after)).different == (before != after)


class TestBeside:
    """What is no prompt."""

    def test_parameters(self) -> None:
        """By name, with both values."""
        before = call(SYSTEM, ASK, model="m-1", temperature=0.2, parameters={"seed": 1, "stop": ["x"]})
        after = call(SYSTEM, ASK, model="m-2", temperature=0.2, parameters={"seed": 1, "top_p": 0.9})
        found = [(s.name, s.before, s.after) for s in diff_calls(before, after).settings]
        assert found == [("model", "m-1", "m-2"), ("stop", ["x"], None), ("top_p", None, 0.9)]

    def test_model_visible_parts(self) -> None:
        """A tool that was added, a schema that changed."""
        before = call(SYSTEM, ASK, tools=[{"name": "f"}], response_format={"type": "object"})
        after = call(SYSTEM, ASK, tools=[{"name": "f"}, {"name": "g"}])
        assert [s.name for s in diff_calls(before, after).parts] == ["tools", "response_format"]

    def test_of_a_request_as_it_was_sent(self) -> None:
        """Its body holds the same."""

        def sent(**body: Any) -> CallGrade:
            import json

            script = Script()
            raw = json.dumps({"messages": [{"role": "user", "content": "Why?"}], **body}).encode()
            script("request", call="k1", evidence="wire", api="openai.chat", host="h", path="/v1", attempt=1, body=raw)
            return grade(script.record()).calls[0]

        before = sent(model="m-1", temperature=0, tools=[{"name": "f"}])
        after = sent(model="m-1", temperature=1, tools=[{"name": "g"}], seed=5)
        found = diff_calls(before, after)
        assert [s.name for s in found.settings] == ["temperature", "seed"]
        assert [s.name for s in found.parts] == ["tools"]

    def test_text_that_was_given_as_a_parameter_is_prompt(self) -> None:
        """It is compared as such, by its gaps and pieces."""
        before, after = (call(SYSTEM, ASK, parameters={"instructions": text}) for text in ("Be kind.", "Be curt."))
        found = diff_calls(before, after)
        assert found.settings == ()
        assert [gap.gap.text for gap in found.gaps] == ["Be kind.", "Be curt."]


class TestPolicies:
    """Texts that are kept as digests."""

    def test_by_digest(self) -> None:
        """Equal ones are equal; of one that changed nothing but that is known."""
        before = call(SYSTEM, A, ASK, policy="hash")
        assert diff_calls(before, call(SYSTEM, A, ASK, policy="hash")).exit_code == 0
        edited = ("rag:a", A[1].replace("ten", "two"))
        found = diff_calls(before, call(SYSTEM, edited, ASK, policy="hash"))
        assert told(found) == [("edited", "rag:a")]
        assert found.pieces[0].lines == ()

    def test_a_text_and_a_digest(self) -> None:
        """Can't be compared, and that is no equality."""
        found = diff_calls(call(A, policy="hash"), call(A, ("", "x")))
        assert [kind for kind, _ in told(found)] == ["incomparable"]
        assert not found.comparable


def test_without_a_prompt() -> None:
    """A response alone can't be compared with anything."""
    script = Script()
    script("response", call="k1")
    nothing = grade(script.record()).calls[0]
    assert diff_calls(nothing, nothing).exit_code == 3
    assert diff_calls(nothing, call(SYSTEM, ASK)).exit_code == 1


LABELS = st.sampled_from(["system", "rag:a", "rag:b", "rag:c", "history", "user", ""])
TEXTS = st.sampled_from(["one. ", "two. ", "one. two. ", "\n\n", "x", "something longer than that, with words in it. "])
PARTS = st.lists(st.tuples(LABELS, TEXTS), max_size=9)


@given(PARTS, PARTS)
def test_every_piece_is_told_of_once(old: list[Part], new: list[Part]) -> None:
    """Each of either side is the same, or is in one change; and what did not change at all is told as such."""
    before, after = call(*old), call(*new)
    found = diff_calls(before, after)
    for side, given_call in (("before", before), ("after", after)):
        items = [item for c in found.pieces if (item := getattr(c, side)) is not None]
        assert given_call.census is not None
        counted = [p for p in given_call.census.pieces if p.state not in ("empty", "not_placed", "visible")]
        assert len(items) + found.same == len(counted)
    assert diff_calls(before, before).exit_code == 0
    assert found.exit_code in (0, 1)
    changed = [(label, text) for label, text in old if text] != [(label, text) for label, text in new if text]
    if not changed:
        assert not found.different


@given(st.lists(st.integers(0, 30), unique=True, max_size=12))
def test_the_largest_set_that_kept_its_order(positions: list[int]) -> None:
    """No larger one exists."""
    found = [positions[n] for n in largest_in_order(positions)]
    assert found == sorted(found)
    best = 0
    for chosen in range(2 ** len(positions)):
        taken = [p for n, p in enumerate(positions) if chosen >> n & 1]
        if len(taken) > best and taken == sorted(taken):
            best = len(taken)
    assert len(found) == best


@given(st.text("ab. \n", max_size=80), st.text("ab. \n", max_size=80))
def test_an_edit_is_shown_if_and_only_if_there_is_one(old: str, new: str) -> None:
    """Every hunk names its places, in code points of the texts."""
    lines = edits(old, new)
    assert bool(lines) == (old != new)
    for line in lines:
        assert line[0] in "@-+"


def rebuilt(old: str, new: str) -> str:
    """The new text, from the old one and the places of the hunks alone."""
    import re

    found, at = "", 0
    for line in edits(old, new):
        place = re.fullmatch(r"@@ -\[(\d+):(\d+)\] \+\[(\d+):(\d+)\] @@", line)
        if place is not None:
            a, b, c, d = map(int, place.groups())
            found += old[at:a] + new[c:d]
            at = b
    return found + old[at:]


@given(st.text("ab. \n", max_size=80), st.text("ab. \n", max_size=80))
def test_the_places_of_the_hunks_are_right(old: str, new: str) -> None:
    """Putting what they name into the old text gives the new one."""
    assert rebuilt(old, new) == new


def test_what_both_share_is_left_out() -> None:
    """Of a text without a full stop the middle is shown, with some characters around it."""
    old, new = "x" * 500 + "OLD" + "y" * 500, "x" * 500 + "NEW" + "y" * 500
    assert edits(old, new)[1:] == (f"-…{'x' * 40}OLD{'y' * 40}…", f"+…{'x' * 40}NEW{'y' * 40}…")


def test_a_newline_shows() -> None:
    """Though nothing else differs."""
    assert edits("one\ntwo", "one\ntwo\n") == ("@@ -[4:7] +[4:8] @@", "-two", "+two↵")


def test_edits_are_bounded() -> None:
    """Two texts of megabytes that share nothing: a few lines, and no square of their length."""

    def cost(n: int) -> float:
        old, new = ("".join(f"{word} {k}. " for k in range(n)) for word in ("one", "two"))
        began = time.perf_counter()
        lines = edits(old, new)
        took = time.perf_counter() - began
        assert len(lines) <= 62
        assert all(len(line) < 400 for line in lines)
        assert len(edits(old, old.replace(f"one {n // 2}. ", f"uno {n // 2}. "))) == 3
        return took

    assert min(cost(200_000) for _ in range(2)) < 15 * max(cost(40_000), 0.02)


def test_two_hundred_pieces_and_ten_thousand_equal_ones() -> None:
    """Pairing takes no square of them: five times as many take less than fifteen times as long."""

    def items(n: int, shift: int) -> list[Item]:
        made = []
        for k in range(n):
            text = "\n\n" if k % 2 else f"History of turn {k + shift}: what was said then, in words of its own {k}."
            made.append(Item("history", None, "history", ("text", text), text, len(text), "located", "p", None, k, k))
        return made

    def cost(n: int) -> float:
        began = time.perf_counter()
        pairs = pair(items(n, 0), items(n, 1))
        assert len(set(pairs.values())) == len(pairs) >= n // 2
        return time.perf_counter() - began

    cost(200)
    assert min(cost(10_000) for _ in range(2)) < 15 * max(cost(2_000), 0.02)


def test_a_change_has_the_label_of_what_is_there_now() -> None:
    """And of what was there where nothing is."""
    found = diff_calls(call(SYSTEM, A), call(SYSTEM, B))
    assert isinstance(found.pieces[0], PieceChange)
    assert [change.label for change in found.pieces] == ["rag:a", "rag:b"]
