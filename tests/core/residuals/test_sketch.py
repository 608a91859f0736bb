"""A sketch is the prompt without its text: every character once, whereabouts in words that hold from call to call."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from otel_prompt_trace.core.residuals.sketch import Sketch
from tests.core.residuals.building import Day, Part

PRODUCERS = st.sampled_from([None, "a", "b", "c"])


def zones(call: Sketch) -> list[tuple[str | None, str, str]]:
    return [(run.producer, *run.zone[2:]) for run in call.runs]


@given(st.lists(st.tuples(PRODUCERS, st.text("xyz. \n", min_size=1, max_size=9)), max_size=9))
def test_runs_are_the_prompt(parts: list[Part]) -> None:
    """In order, without a character twice or lost."""
    call = Day().say(parts)
    reached = 0
    for run in call.runs:
        assert run.start == reached < run.end
        assert sum(unit.chars for unit in run.units) == run.chars
        reached = run.end
    assert reached == call.total == sum(len(text) for _, text in parts)


def test_zones_go_by_producers_that_stand_once() -> None:
    """However many chunks and frames there are between the system's text and the question."""
    day = Day()
    for count in (1, 2, 3):
        chunks: list[Part] = [("rag", f"Chunk {n}. ") for n in range(count)] * (count > 1) or [("rag", "Chunk. ")]
        call = day.say([("system", "Be brief. "), *chunks, (None, "and "), ("user", "Why?"), (None, " Now.")])
        assert zones(call)[-1] == (None, "user", "$")
    assert zones(call)[-3] == (None, "system", "user")
    assert [run.after for run in call.runs][-3:] == ["rag", "", "user"]


def test_whole_messages_of_a_dialogue_are_one_zone() -> None:
    """Whatever their number; what the system says is another."""
    messages = [{"role": role, "content": f"{role} says"} for role in ("system", "user", "assistant", "user")]
    call = Day().send(messages, [])
    assert [run.message for run in call.runs] == [False, True, True, True]
    assert len({run.zone for run in call.runs}) == 2


def test_a_group_is_the_conversation_else_the_query() -> None:
    """And the tokens from the cache are those of the usage, brought to one meaning."""
    day = Day()
    one, other = day.say([(None, "a")], conversation="c", cached=128), day.say([(None, "a")])
    assert (one.group, one.cached) == ("c", 128)
    assert (other.group, other.cached) == (other.qid, None)
    assert one.order < other.order


def test_names_of_sources_are_no_text_of_their_own() -> None:
    """A frame that names the chunk after it is a frame."""
    call = Day().say(
        [("system", "Hi. "), (None, "[travel/hotels.md#limits]\n"), ("rag:travel/hotels.md#limits", "110.")]
    )
    assert call.gaps[0].solid == 2
    other = Day().say([("system", "Hi. "), (None, "[travel/hotels.md#limits]\n"), ("rag:elsewhere", "110.")])
    assert other.gaps[0].solid == 25


def test_two_speakers_make_a_dialogue() -> None:
    """In the common notations; one speaker, or a word in the midst of a line, does not."""
    for text in (
        "user: a\nassistant: b",
        "<|user|>\na\n<|assistant|>\nb",
        "Human: a\n\nAI: b",
        "## Question:\na\n## Answer:\nb",
    ):
        assert Day().say([(None, text)]).gaps[0].dialogue, text
    for text in ("user: a\nuser: b", "the user: a assistant", "Question: why?"):
        assert not Day().say([(None, text)]).gaps[0].dialogue, text
