"""Which span events and log records carry content."""

from __future__ import annotations

import pytest

from otel_prompt_trace.core.conventions import content_event, content_in_event

MESSAGES = {
    "gen_ai.system.message": "system",
    "gen_ai.developer.message": "developer",
    "gen_ai.user.message": "user",
    "gen_ai.assistant.message": "assistant",
    "gen_ai.tool.message": "tool",
    "gen_ai.choice": "assistant",
}


@pytest.mark.parametrize(("name", "role"), MESSAGES.items())
def test_messages(name: str, role: str) -> None:
    """A message of its own is content under any bare name; what describes the call is not."""
    event = content_event(name)
    assert event is not None
    assert event.role == role
    assert event.direction == ("out" if name == "gen_ai.choice" else "in")
    for key in ("content", "message", "tool_calls", "id", "a_name_nobody_knows", "tool.result", "gen_ai.event.content"):
        assert content_in_event(event, key), key
    for key in ("gen_ai.system", "gen_ai.provider.name", "server.address", "event.name"):
        assert not content_in_event(event, key), key


def test_a_message_of_a_role_that_nobody_knows() -> None:
    """A role that a later convention adds is content as well; its name is not taken for one that is known."""
    event = content_event("gen_ai.moderator.message")
    assert event is not None
    assert event.role is None


def test_the_details_event_carries_keys_of_the_table_only() -> None:
    """The details event repeats the whole call under a span's keys: its small attributes stay."""
    event = content_event("gen_ai.client.inference.operation.details")
    assert event is not None
    assert event.direction == "both"
    assert content_in_event(event, "gen_ai.input.messages")
    assert not content_in_event(event, "gen_ai.request.model")
    assert not content_in_event(event, "bare")


@pytest.mark.parametrize("name", ["db.query.result", "db.search.result"])
def test_documents_of_a_vector_database(name: str) -> None:
    """A document and its metadata are content; its id and score are what spans are for."""
    event = content_event(name)
    assert event is not None
    assert event.direction == "retrieval"
    assert content_in_event(event, f"{name}.document")
    assert content_in_event(event, f"{name}.metadata")
    assert not content_in_event(event, f"{name}.id")
    assert not content_in_event(event, f"{name}.score")


@pytest.mark.parametrize(
    ("name", "direction"),
    [
        ("gen_ai.content.prompt", "in"),
        ("gen_ai.content.completion", "out"),
        ("data.input", "in"),
        ("data.output", "out"),
        ("openinference.instrumentation.langchain", "both"),
        ("gen_ai.evaluation.result", "evaluation"),
    ],
)
def test_other_events(name: str, direction: str) -> None:
    """Events of older releases and of other vendors, with the way their content goes."""
    event = content_event(name)
    assert event is not None
    assert event.direction == direction


@pytest.mark.parametrize(
    "name", ["", "exception", "metadata", "gen_ai.content.completion.chunk", "First Token Stream Event"]
)
def test_ordinary_events(name: str) -> None:
    """An event without content: only keys of the table are taken out of it, wherever they stand."""
    assert content_event(name) is None
    assert not content_in_event(None, "content")
    assert content_in_event(None, "gen_ai.input.messages")


@pytest.mark.parametrize("name", [None, 7, b"gen_ai.choice", ["gen_ai.choice"]])
def test_a_name_that_is_no_string(name: object) -> None:
    """A slip does not raise."""
    assert content_event(name) is None  # type: ignore[arg-type]
