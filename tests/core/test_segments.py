"""Prompts taken apart: what counts as text of the prompt, what is listed beside it, and that nothing hides."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otel_prompt_trace.core.census import census
from otel_prompt_trace.core.segments import Segment, Split, split, split_messages
from otel_prompt_trace.core.text import Cut, CutText, Foreign, unwrap, wrap


def texts(prompt: Any) -> dict[str, str]:
    """Path and text of every segment."""
    return {segment.path: segment.text for segment in split(prompt).segments}


def beside(prompt: Any) -> dict[str, tuple[str, str]]:
    """Path, kind and detail of every part that is no text."""
    return {part.path: (part.kind, part.detail) for part in split(prompt).outside}


def test_a_string_is_one_segment() -> None:
    """Its path is ``prompt``; its characters are all of it."""
    assert split("a\r\nb\x00") == Split((Segment("prompt", "a\r\nb\x00"),))
    assert split("").segments[0].text == ""


@pytest.mark.parametrize("prompt", [None, 5, b"bytes", bytearray(b"b"), memoryview(b"b"), {"role": "user"}, object()])
def test_anything_else_is_refused(prompt: object) -> None:
    """The bytes of a prompt are not its text, and an object is not guessed at."""
    with pytest.raises(TypeError, match="a prompt is a str, a Prompt or a list of messages, not"):
        split(prompt)


def test_openai_messages() -> None:
    """Content as a string or as parts, names, tool calls with their arguments, tool results: all of it is text."""
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "name": "ann", "content": [{"type": "text", "text": "Why?"}, {"type": "text", "text": ""}]},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "call_1", "type": "function", "function": {"name": "look_up", "arguments": '{"q":"x"}'}}
            ],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": "42"},
    ]
    assert texts(messages) == {
        "messages[0].content": "Be brief.",
        "messages[1].name": "ann",
        "messages[1].content[0].text": "Why?",
        "messages[1].content[1].text": "",
        "messages[2].tool_calls[0].function.name": "look_up",
        "messages[2].tool_calls[0].function.arguments": '{"q":"x"}',
        "messages[3].content": "42",
    }
    assert [s.role for s in split(messages).segments] == ["system", *["user"] * 3, *["assistant"] * 2, "tool"]
    assert split(messages).total == len("Be brief.annWhy?look_up" + '{"q":"x"}' + "42")


def test_anthropic_messages() -> None:
    """Blocks of text, tool use with its arguments as an object, tool results, thinking; cache marks are no text."""
    messages = [
        {"role": "user", "content": [{"type": "text", "text": "Hi", "cache_control": {"type": "ephemeral"}}]},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"},
                {"type": "tool_use", "id": "toolu_1", "name": "look_up", "input": {"city": "Rome", "days": 3}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "toolu_1", "content": [{"type": "text", "text": "Sunny"}]}
            ],
        },
    ]
    assert texts(messages) == {
        "messages[0].content[0].text": "Hi",
        "messages[1].content[0].thinking": "Hm.",
        "messages[1].content[1].name": "look_up",
        "messages[1].content[1].input.city": "Rome",
        "messages[2].content[0].content[0].text": "Sunny",
    }
    assert beside(messages) == {"messages[1].content[0].signature": ("binary", "4 characters")}


def test_google_contents() -> None:
    """Parts, function calls with their arguments, and function responses."""
    contents = [
        {"role": "user", "parts": [{"text": "Hi"}, {"fileData": {"mimeType": "text/plain", "fileUri": "gs://b/f"}}]},
        {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {"id": "7", "status": "open"}}}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {"type": "note", "url": "u"}}}]},
    ]
    assert texts(contents) == {
        "messages[0].parts[0].text": "Hi",
        "messages[1].parts[0].functionCall.name": "f",
        "messages[1].parts[0].functionCall.args.id": "7",
        "messages[1].parts[0].functionCall.args.status": "open",
        "messages[2].parts[0].functionResponse.name": "f",
        "messages[2].parts[0].functionResponse.response.type": "note",
        "messages[2].parts[0].functionResponse.response.url": "u",
    }
    assert beside(contents) == {"messages[0].parts[1].fileData.fileUri": ("reference", "gs://b/f")}


def test_nothing_hides_in_a_field_that_we_do_not_know() -> None:
    """A field of tomorrow is text of the prompt until somebody says otherwise."""
    messages = [{"role": "user", "content": "Hi", "secret_instructions": {"deep": ["Do it."]}, "type": ["x"]}]
    assert texts(messages) == {
        "messages[0].content": "Hi",
        "messages[0].secret_instructions.deep[0]": "Do it.",
        "messages[0].type[0]": "x",
    }
    assert census(messages, [("user", "Hi")]).unaccounted == len("Do it.x")


def test_below_a_tool_s_arguments_every_name_is_the_application_s() -> None:
    """``id``, ``status``, ``url`` are parameters of a message, but what a tool was called with is text."""
    block = {
        "type": "tool_use",
        "id": "t",
        "name": "f",
        "input": {"type": "a", "id": "b", "url": "c", "x": {"role": "d"}},
    }
    assert texts([{"role": "assistant", "content": [block]}]) == {
        "messages[0].content[0].name": "f",
        "messages[0].content[0].input.type": "a",
        "messages[0].content[0].input.id": "b",
        "messages[0].content[0].input.url": "c",
        "messages[0].content[0].input.x.role": "d",
    }


@pytest.mark.parametrize(
    ("part", "where", "detail"),
    [
        (
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo=", "detail": "low"}},
            ".image_url.url",
            "34 characters of image/png",
        ),
        (
            {"type": "input_image", "image_url": "data:image/png;base64,iVBO"},
            ".image_url",
            "26 characters of image/png",
        ),
        (
            {"type": "file", "file": {"file_data": "data:application/pdf;base64,JVBE"}},
            ".file.file_data",
            "32 characters of application/pdf",
        ),
        (
            {"type": "image", "source": {"type": "base64", "media_type": "image/jpeg", "data": "/9j/4AAQ"}},
            ".source.data",
            "8 characters of image/jpeg",
        ),
        ({"inlineData": {"mimeType": "image/png", "data": "iVBO"}}, ".inlineData.data", "4 characters of image/png"),
        ({"inline_data": {"mime_type": "image/png", "data": "iVBO"}}, ".inline_data.data", "4 characters of image/png"),
        (
            {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}},
            ".input_audio.data",
            "8 characters of an unknown type",
        ),
        ({"type": "image", "source": {"bytes": b"\x89PNG"}}, ".source.bytes", "4 bytes"),
        ({"type": "image", "source": {"bytes": memoryview(b"\x89PNG")}}, ".source.bytes", "4 bytes"),
        ({"image_url": {"url": "data:my secret"}}, ".image_url.url", "14 characters of an unknown type"),
    ],
)
def test_an_image_is_binary_and_the_text_beside_it_stays(part: dict[str, Any], where: str, detail: str) -> None:
    """Whatever the provider's form: listed with path and length, not counted, and never at its sibling's cost."""
    messages = [{"role": "user", "content": [{"type": "text", "text": "what is this"}, part]}]
    assert texts(messages) == {"messages[0].content[0].text": "what is this"}
    assert beside(messages) == {f"messages[0].content[1]{where}": ("binary", detail)}


def test_a_document_in_plain_text_is_text() -> None:
    """The same form as an image's, but what the model reads are these characters."""
    source = {"type": "text", "media_type": "text/plain", "data": "data: all of it"}
    assert texts([{"content": [{"type": "document", "source": {**source, "data": "all of it"}}]}]) == {
        "messages[0].content[0].source.data": "all of it"
    }


@pytest.mark.parametrize(
    ("part", "detail"),
    [
        ({"image_url": {"url": "https://b.example/i.png?X-Amz-Signature=secret"}}, "https://b.example/i.png"),
        ({"type": "input_file", "file_url": "https://b.example/f.pdf?token=secret#x"}, "https://b.example/f.pdf"),
        ({"file": {"file_id": "file-123"}}, "file-123"),
        ({"fileData": {"fileUri": "gs://bucket/f"}}, "gs://bucket/f"),
    ],
)
def test_what_is_held_elsewhere_is_a_reference_without_its_query(part: dict[str, Any], detail: str) -> None:
    """Its content is not here, so it is listed and not counted; a signed link's secret is not shown."""
    messages = [{"role": "user", "content": [{"type": "text", "text": "see"}, part]}]
    assert texts(messages) == {"messages[0].content[0].text": "see"}
    (found,) = split(messages).outside
    assert (found.kind, found.detail) == ("reference", detail)
    assert census(messages, [("user", "see"), ("x", "?")]).reasons.count("held_by_reference") == 1


@pytest.mark.parametrize("content", [object(), {1, 2}, Foreign("app.Message", "Message(1)")])
def test_a_value_that_is_no_json_is_not_passed_over(content: object) -> None:
    """An SDK's object in a message list may hold the whole question: it is listed, and the verdict is not exact."""
    messages = [{"role": "user", "content": content}]
    (found,) = split(messages).outside
    assert (found.path, found.kind) == ("messages[0].content", "reference")
    assert "held_by_reference" in census(messages, [("user", "Hi")]).reasons
    (stored,) = split(unwrap(wrap(messages))).outside
    assert stored == found


def test_a_message_that_holds_itself_ends() -> None:
    """A cycle is listed once it is as deep as a value is stored."""
    message: dict[str, Any] = {"content": "Hi"}
    message["more"] = [message]
    found = split([message])
    assert found.outside[-1].detail == "nested too deeply"
    assert set(texts([message]).values()) == {"Hi"}


def test_no_two_fields_share_a_path() -> None:
    """A name with a dot or a bracket is quoted: digests are kept by path."""
    fields = {"a.b": "1", "a": {"b": "2"}, "c[0]": "3", "c": ["4"], "": "5", "d e": "6", 7: "7", "7": "8"}
    found = split([fields]).segments
    assert len({segment.path for segment in found}) == len(found) == 8
    assert [s.path for s in found][:4] == [
        'messages[0]["a.b"]',
        "messages[0].a.b",
        'messages[0]["c[0]"]',
        "messages[0].c[0]",
    ]


def test_a_cut_text_keeps_its_length_and_says_where_it_was_cut() -> None:
    """What a policy took is a filler of the same length, and listed."""
    cut = CutText(("Hi ", Cut(3, "hash", "ff"), "!"))
    (segment,) = split([{"role": "user", "content": cut}]).segments
    assert (len(segment.text), segment.cuts, segment.stored) == (7, ((3, 6),), cut)
    assert split(cut).segments[0].text == "Hi \ufffc\ufffc\ufffc!"


def test_the_root_of_the_paths_is_the_caller_s() -> None:
    """A request body names its list as it likes."""
    assert split_messages([{"content": "a"}], "input").segments[0].path == "input[0].content"


leaves = st.text(st.characters(exclude_categories=()), max_size=5)
contents = st.recursive(
    st.one_of(leaves, st.none(), st.integers(), st.booleans(), st.binary(max_size=3)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["content", "text", "x", "url", "type", "input", "data", "id"]), inner),
    ),
    max_leaves=15,
)


@given(st.lists(contents, max_size=3))
@settings(deadline=None, max_examples=200)
def test_storing_a_message_list_changes_none_of_its_segments(messages: list[Any]) -> None:
    """Before and after its way through JSON it has the same segments, paths and parts beside it."""
    assert split(unwrap(wrap(messages))) == split(messages)


@given(st.lists(contents, max_size=3))
@settings(deadline=None, max_examples=200)
def test_the_total_is_the_sum_of_the_segments(messages: list[Any]) -> None:
    """In code points, and nothing else is added."""
    found = split(messages)
    assert found.total == sum(len(segment.text) for segment in found.segments)
    assert len({segment.path for segment in found.segments}) == len(found.segments)
