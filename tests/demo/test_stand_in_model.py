"""The stand-in model: it quotes the prompt, measures it, and remembers prefixes as a prompt cache does."""

from __future__ import annotations

import pytest

from otel_prompt_trace import tokens
from otel_prompt_trace.demo.stand_in_model import ENCODING, NOTICE, Message, StandIn, answer


def system(text):
    return Message("system", text)


def user(text):
    return Message("user", text)


def test_the_first_of_two_equal_sentences_is_quoted():
    """Between two versions of a policy that match equally well, the one higher up in the prompt wins."""
    old, new = "Records are kept for seven years.", "Records are kept for three years."
    question = "\n\nHow long are records kept?"
    assert answer([user(f"{old}\n\n{new}{question}")]) == NOTICE + old
    assert answer([user(f"{new}\n\n{old}{question}")]) == NOTICE + new


def test_questions_headings_and_earlier_turns_are_not_quoted():
    """What the user asked, what was answered before, and Markdown headings are no source of an answer."""
    messages = [
        system("## Records kept\nRecords go to the archive. Are records kept?"),
        user("Records are kept by me.\n\nAre records kept?"),
        Message("assistant", "Records are kept, I said."),
        user("I like records. Where are records kept?"),
    ]
    assert answer(messages) == NOTICE + "Records go to the archive."


def test_sentences_end_where_white_space_follows():
    """A full stop inside an address or a number ends nothing, and a long line without one is passed over quickly."""
    text = "Write to privacy@merrowby.example within 2.5 days! Tea is at four.\n" + "tea " * 200_000
    assert (
        answer([system(text), user("Write to whom?")]) == NOTICE + "Write to privacy@merrowby.example within 2.5 days!"
    )


def test_nothing_to_quote_is_said():
    """A prompt without a matching sentence, or without a user, has a plain answer and raises nothing."""
    for messages in ([user("Why?")], [system("A rule.")], [user("")], [system(""), user("\n\n")]):
        assert answer(messages) == NOTICE + "No sentence of the prompt shares a word with the question."


def test_prompt_tokens_are_texts_roles_and_the_published_wrapper():
    """3 a message, 1 for a name, 3 for the reply, and every text as the tokenizer counts it."""
    messages = [system("Be brief."), Message("user", "Größe? <|endoftext|>", name="anna")]
    texts = ("system", "Be brief.", "user", "Größe? <|endoftext|>", "anna")
    expected = sum(tokens.count(text, ENCODING) for text in texts) + 2 * 3 + 1 + 3
    assert StandIn().complete(messages).prompt_tokens == expected


def test_completion_tokens_are_those_of_the_text():
    """The pieces are the text, and its tokens are counted whole."""
    completion = StandIn().complete([user("Tea is at four. Bring cake.\n\nWhen is tea?")])
    assert completion.text == NOTICE + "Tea is at four."
    assert "".join(completion.pieces) == completion.text
    assert len(completion.pieces) > 5
    assert (completion.completion_tokens, completion.finish_reason) == (tokens.count(completion.text, ENCODING), "stop")


@pytest.mark.parametrize("limit", [1, 5, 12])
def test_max_tokens_cuts_and_says_so(limit):
    """A limit ends the text at a word, the finish reason says length, and the usage is that of what was sent."""
    whole = StandIn().complete([user("Tea is at four.\n\nWhen is tea?")])
    cut = StandIn().complete([user("Tea is at four.\n\nWhen is tea?")], max_tokens=limit)
    assert cut.finish_reason == "length"
    assert whole.text.startswith(cut.text)
    assert cut.completion_tokens == tokens.count(cut.text, ENCODING) <= limit


def test_an_exact_limit_does_not_cut():
    """A limit equal to the answer's own length ends with stop."""
    whole = StandIn().complete([user("Tea is at four.\n\nWhen is tea?")])
    again = StandIn().complete([user("Tea is at four.\n\nWhen is tea?")], max_tokens=whole.completion_tokens)
    assert (again.text, again.finish_reason) == (whole.text, "stop")


def prompt_of(length):
    """A system message whose prompt has exactly ``length`` tokens with the user message that follows it in tests."""
    rest = StandIn().complete([system(""), user("Why?")]).prompt_tokens
    text = " tea" * (length - rest)
    assert StandIn().complete([system(text), user("Why?")]).prompt_tokens == length
    return text


@pytest.mark.parametrize(("length", "cached"), [(1023, 0), (1024, 1024), (1151, 1024), (1152, 1152), (1300, 1280)])
def test_a_repeated_prompt_is_cached_in_steps(length, cached):
    """Nothing below 1,024 tokens is cached; from there on the same prompt is, in steps of 128."""
    model = StandIn()
    messages = [system(prompt_of(length)), user("Why?")]
    assert [model.complete(messages).cached_tokens for _ in range(3)] == [0, cached, cached]


def test_only_the_common_prefix_is_cached():
    """Two prompts with one beginning share it and no more; the longest of all earlier prompts counts."""
    model = StandIn()
    long = " tea" * 2000
    assert model.complete([system(long), user("One?")]).cached_tokens == 0
    assert model.complete([system(long[: 4 * 1100] + " milk" * 900), user("One?")]).cached_tokens == 1024
    assert model.complete([system(long), user("Other?")]).cached_tokens == 1920
    assert model.complete([system("Milk" + long), user("One?")]).cached_tokens == 0


def test_each_model_has_its_own_memory():
    """A new stand-in has seen nothing."""
    messages = [system(" tea" * 2000), user("Why?")]
    assert [StandIn().complete(messages).cached_tokens for _ in range(2)] == [0, 0]


def test_a_text_that_cannot_be_counted_is_an_error(monkeypatch):
    """Usage is measured or the request fails: it is never guessed."""
    monkeypatch.setattr(tokens, "encode", lambda text, encoding: None)
    with pytest.raises(ValueError, match="can't be counted in o200k_base"):
        StandIn().complete([user("Why?")])
