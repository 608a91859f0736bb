"""Deriving: the census of every call of a record, by what its own pieces, the query's offers and earlier calls say."""

from __future__ import annotations

from typing import Any

import pytest

from otel_prompt_trace.core.census import Census
from otel_prompt_trace.core.derive import Derivation, derive
from otel_prompt_trace.core.events import Event
from otel_prompt_trace.core.prompt import Prompt
from otel_prompt_trace.core.record import Record
from tests.core.by_hand import Script, read
from tests.core.test_seal import placed

TOOLS = [{"type": "function", "function": {"name": "look_up"}}]


def census_of(derivation: Derivation) -> Census:
    """The census of a call that has one."""
    assert derivation.census is not None
    return derivation.census


def states(record: Record) -> list[list[tuple[str, str]]]:
    """Producer and state of every piece, call by call."""
    return [[(p.producer, p.state) for p in census_of(d).pieces] for d in derive(record)]


def test_an_offer_covers_where_it_stands_and_is_not_placed_elsewhere() -> None:
    """The system text is in one call's prompt; the other call does without it, and is none the worse."""
    script = Script()
    script("piece", producer="system", text="Be brief. ")
    script.call("c1", "Be brief. Why?", {"producer": "user", "text": "Why?"})
    script.call("c2", "Title: Why", {"producer": "t", "text": "Title: "}, {"producer": "user", "text": "Why"})
    record = script.record()
    assert states(record) == [
        [("user", "located"), ("system", "located")],
        [("t", "located"), ("user", "located"), ("system", "not_placed")],
    ]
    assert [census_of(d).verdict for d in derive(record)] == ["exact", "exact"]


def test_an_offer_that_no_call_holds_is_unlocatable_in_each() -> None:
    """It was declared, and it reached no model: loud, by name, in every call."""
    script = Script()
    script("piece", producer="policy", text="Never promise anything.")
    for call in ("c1", "c2"):
        script.call(call, "Q: Why?", {"producer": "t", "text": "Q: "}, {"producer": "user", "text": "Why?"})
    record = script.record()
    for derivation in derive(record):
        found = census_of(derivation)
        assert [p.piece.label for p in found.unlocatable] == ["policy"]
        assert found.unlocatable[0].note == "offered to the query, and no call of it holds it"
        assert (found.verdict, found.unaccounted) == ("unknown", 0)


def test_an_offer_that_one_call_holds_in_another_form() -> None:
    """Located in none, it is unlocatable in each; the reason is said where it would stand."""
    script = Script()
    script("piece", producer="rag", text="Kept for ten years.\nThen shredded.\n")
    script.call("c1", "rewrite: why?", {"producer": "user", "text": "why?"})
    script.call("c2", "[Kept for ten years.\r\nThen shredded.\r\n] why?", {"producer": "user", "text": "why?"})
    offers = [next(p for p in d.census.pieces if p.producer == "rag") for d in derive(script.record()) if d.census]
    assert [p.state for p in offers] == ["unlocatable", "unlocatable"]
    assert [p.hint and (p.hint.reason, p.hint.start, p.hint.end) for p in offers] == [None, ("line_endings", 1, 38)]
    assert offers[1].note.startswith("offered to the query, and no call of it holds it; line endings changed in prompt")


def test_an_offer_alone_that_no_call_holds() -> None:
    """Then it is unlocatable, which says more than that there were no pieces."""
    script = Script()
    script("piece", producer="policy", text="Never promise anything.")
    script.call("c1", "Why?")
    (derivation,) = derive(script.record())
    assert census_of(derivation).reasons == ("unlocatable_piece", "gap")


def test_one_occurrence_per_declaration_and_call() -> None:
    """An offer covers one occurrence in each call, and not a second one."""
    script = Script()
    script("piece", producer="system", text="Be brief.")
    for call in ("c1", "c2"):
        script.call(call, "Be brief. Be brief.", {"producer": "sep", "text": " "})
    assert [[g.text for g in census_of(d).gaps] for d in derive(script.record())] == [["Be brief."], ["Be brief."]]


def test_an_offer_and_a_declaration_in_the_call_share_one_occurrence() -> None:
    """The call's own declaration has it; the offer is then not placed here, and no duplicate."""
    script = Script()
    script("piece", producer="offered", text="Be brief.")
    script.call("c1", "Be brief. Why?", {"producer": "own", "text": "Be brief."}, {"producer": "u", "text": " Why?"})
    (found,) = map(census_of, derive(script.record()))
    assert (found.pieces[0].producer, found.pieces[0].state) == ("own", "located")
    assert found.by_producer() == {"own": 9, "u": 5}


def test_what_an_earlier_call_gave_back_is_inferred() -> None:
    """Its output and the result of a tool account for the history of the next call, marked as inferred."""
    script = Script()
    script("piece", producer="user", text="How long?")
    script.call("c1", "User: How long?", {"producer": "t", "text": "User: "})
    script("response", call="c1", output="I will look it up.")
    script("tool_call", name="look_up", result="Ten years.")
    frame = [{"producer": "t", "text": text} for text in ("User: ", "\nAssistant: ", "\nTool: ")]
    script.call("c2", "User: How long?\nAssistant: I will look it up.\nTool: Ten years.", *frame)
    script("response", call="c2", output="Ten years.")
    second = census_of(derive(script.record())[1])
    assert second.verdict == "exact"
    inferred = [(p.producer, p.state) for p in second.pieces if p.piece.inferred]
    assert inferred == [("model", "located"), ("tool", "located")]


def test_what_comes_later_is_not_inferred() -> None:
    """A call does not know its own output, nor that of a call after it."""
    script = Script()
    script.call("c1", "Ten years. Eleven years.", {"producer": "sep", "text": " "})
    script("response", call="c1", output="Ten years.")
    script.call("c2", "next", {"producer": "u", "text": "next"})
    script("response", call="c2", output="Eleven years.")
    assert census_of(derive(script.record())[0]).unaccounted == 23


def test_an_inferred_piece_that_is_not_used_decides_nothing() -> None:
    """Nobody declared it, so nobody misses it."""
    script = Script()
    script.call("c1", "one two", {"producer": "a", "text": "one "}, {"producer": "b", "text": "two"})
    script("response", call="c1", output="never used again")
    script.call("c2", "one two", {"producer": "a", "text": "one "}, {"producer": "b", "text": "two"})
    assert [census_of(d).verdict for d in derive(script.record())] == ["exact", "exact"]


def test_tools_that_the_query_offers() -> None:
    """Declared once as a value: visible in the call that has them, not placed in the one that has none."""
    script = Script()
    script("piece", producer="tools", value=TOOLS)
    pieces = [{"producer": "a", "text": "one "}, {"producer": "b", "text": "two"}]
    script.call("c1", "one two", *pieces, tools=TOOLS)
    script.call("c2", "one two", *pieces)
    first, second = map(census_of, derive(script.record()))
    assert (first.pieces[-1].state, first.verdict) == ("visible", "exact")
    assert (second.pieces[-1].state, second.verdict) == ("not_placed", "exact")


def test_tools_that_no_call_has() -> None:
    """A declared value that reached no model is as loud as a text."""
    script = Script()
    script("piece", producer="tools", value=TOOLS)
    script.call(
        "c1", "one two", {"producer": "a", "text": "one "}, {"producer": "b", "text": "two"}, tools=[{"other": 1}]
    )
    (found,) = map(census_of, derive(script.record()))
    assert found.reasons == ("undeclared_model_visible_part", "unlocatable_piece")


def test_a_call_without_a_prompt_has_no_census() -> None:
    """Only its response is known."""
    script = Script()
    script("response", call="c1", output="Ten.")
    (derivation,) = derive(script.record())
    assert (derivation.census, derivation.rendered) == (None, None)


class TestRendered:
    """Replaying the placement: the same pieces in the same places must give the prompt that was recorded."""

    def record(self, prompt: Prompt, change: Any = None) -> Record:
        """A call that was built with a :class:`Prompt`, with its stored events changed."""
        script = Script()
        script.call("c1", prompt.messages() if prompt.is_messages else prompt.text, *placed(prompt))
        events = script.sealed()
        if change is not None:
            change(events)
        return read(events)

    PROMPT = Prompt().add("system", "Be brief.").literal("\n").add("user", "Why?")

    def test_as_it_was_built(self) -> None:
        """One rule for what sends and what grades."""
        assert derive(self.record(self.PROMPT))[0].rendered is True
        messages = (
            Prompt().message("system").add("system", "Be brief.").message("user").add("user", "Why?").literal("!")
        )
        assert derive(self.record(messages))[0].rendered is True

    def test_a_changed_piece(self) -> None:
        """The recorded pieces do not build the recorded prompt."""

        def change(events: list[Event]) -> None:
            events[2]["text"] = "How?"

        (derivation,) = derive(self.record(self.PROMPT, change))
        assert derivation.rendered is False

    def test_a_changed_prompt(self) -> None:
        """As long as before, so that only the characters tell."""

        def change(events: list[Event]) -> None:
            events[3]["prompt"] = events[3]["prompt"].replace("brief", "verse")

        assert derive(self.record(self.PROMPT, change))[0].rendered is False

    @pytest.mark.parametrize("lost", [0, 1, 2])
    def test_a_lost_piece(self, lost: int) -> None:
        """A hole in the placement, be it the last piece: there is nothing to compare, and the census names the gap."""

        def change(events: list[Event]) -> None:
            del events[lost]

        (derivation,) = derive(self.record(self.PROMPT, change))
        assert derivation.rendered is None
        assert census_of(derivation).unaccounted > 0

    def test_without_a_placement(self) -> None:
        """Pieces that were only declared say nothing of their place."""
        script = Script()
        script.call("c1", "Why?", {"producer": "user", "text": "Why?"})
        assert derive(script.record())[0].rendered is None

    def test_with_a_text_withheld(self) -> None:
        """What was cut can't be built again."""
        script = Script()
        script.call("c1", self.PROMPT.text, *placed(self.PROMPT))
        (derivation,) = derive(script.record("hash"))
        assert derivation.rendered is None
        assert census_of(derivation).verdict == "exact"

    def test_offsets_found_by_a_search_are_no_placement_of_the_whole(self) -> None:
        """Beside a withheld piece the others have offsets too; what follows the last of them is a gap, not a lie."""
        script = Script()
        lost = {"producer": "user", "text": "nowhere to be found", "policy": "hash"}
        script.call("c1", "Be brief. And more.", {"producer": "system", "text": "Be brief."}, lost)
        (derivation,) = derive(script.record())
        assert derivation.rendered is None
        assert census_of(derivation).reasons == ("unlocatable_piece", "gap")


class TestOffersThatGotNoPlace:
    """Duplicate, contested or unlocatable: what is wrong with an offer that no call holds."""

    def states(self, prompts: list[str], *offers: tuple[str, str]) -> list[list[str]]:
        """The states of the offers, by call."""
        script = Script()
        for producer, text in offers:
            script("piece", producer=producer, text=text)
        for number, prompt in enumerate(prompts):
            script.call(f"c{number}", prompt)
        return [[p.state for p in d.census.pieces] for d in derive(script.record()) if d.census is not None]

    @pytest.mark.parametrize("policy", ["store", "hash"])
    def test_two_offers_of_a_text_that_stands_once(self, policy: str) -> None:
        """One is located and the other one a duplicate, which is a mismatch: the text is there."""
        script = Script()
        texts = [("s", "Be brief. "), ("a", "Why?"), ("b", "Why?")]
        for producer, text in texts:
            script("piece", producer=producer, text=text)
        copies = [{"producer": producer, "text": text, "offered": True} for producer, text in texts]
        script.call("c1", "Be brief. Why?", *(copies if policy == "hash" else []))
        census = derive(script.record(policy))[0].census
        assert census is not None
        assert [p.state for p in census.pieces] == ["located", "located", "duplicate"]
        assert (census.verdict, census.reasons) == ("mismatch", ("duplicate_piece",))

    def test_in_a_call_without_the_text_it_is_not_placed(self) -> None:
        """It is a duplicate only where its text stands."""
        found = self.states(["Why? Be brief.", "How?"], ("a", "Why?"), ("b", "Why?"))
        assert found == [["located", "duplicate"], ["not_placed", "not_placed"]]

    def test_inside_another_piece(self) -> None:
        """It stands there, and its characters are another's."""
        assert self.states(["say: go home"], ("a", "go home"), ("b", "home")) == [["located", "contested"]]

    def test_only_what_no_call_holds_is_unlocatable(self) -> None:
        """In each of them."""
        assert self.states(["Why? x", "How? x"], ("a", "Why?"), ("b", "gone")) == [
            ["located", "unlocatable"],
            ["not_placed", "unlocatable"],
        ]
