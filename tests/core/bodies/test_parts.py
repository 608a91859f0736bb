"""A body's parts: they add up to its bytes, and no text hides in what is neither content nor visible nor listed."""

from __future__ import annotations

import base64
import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_prompt_trace.core.bodies.apis import BY_NAME, api_of
from otel_prompt_trace.core.bodies.parts import BodyParts, take_apart
from otel_prompt_trace.core.bodies.runs import as_runs, parts_of, rebuild
from otel_prompt_trace.core.bodies.scan import At, Fields, Items, scan
from otel_prompt_trace.core.exchanges import received
from otel_prompt_trace.core.text import utf8

MARKER = "where-is-this-text"
CORPUS = Path(os.environ.get("PROMPT_TRACE_CORPUS") or Path(__file__).parents[4] / "shared" / "corpus")
REQUESTS = CORPUS / "cassettes" / "requests.jsonl"
IMAGE = base64.b64encode(bytes(range(99))).decode()

_WORDS = st.sampled_from(["", "hello", "naïve\n", "日本語", '"quoted" \\', "\U0001f600", "\ud83d", "x" * 40])
_UNKNOWN = st.sampled_from(["note", "x-field", "ünïcode", "a b", "body", "0", "transforms", "messages2", "template"])
_TREES = st.recursive(
    _WORDS | st.integers() | st.booleans() | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_UNKNOWN, inner, max_size=3),
    max_leaves=6,
)
_SETTINGS = st.fixed_dictionaries(
    {},
    optional={
        "temperature": st.floats(0, 2),
        "stream": st.booleans(),
        "stop": st.just(["\n", "END"]),
        "metadata": st.just({"a": "b"}),
        "tools": st.just([{"type": "function", "function": {"name": "f", "description": "dé", "parameters": {}}}]),
        "response_format": st.just({"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}}}),
        "previous_response_id": st.just("resp_1"),
        "images": st.just([IMAGE]),
    },
)
_IMAGES = st.sampled_from(
    [
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{IMAGE}"}},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": IMAGE}},
        {"inlineData": {"mimeType": "image/png", "data": IMAGE}},
        {"type": "input_image", "image_url": f"data:image/png;base64,{IMAGE}"},
        {"type": "input_file", "file_id": "file-1"},
    ]
)
_TEXT_PARTS = st.builds(lambda text: {"type": "text", "text": text}, _WORDS)
_CONTENT = _WORDS | st.lists(_TEXT_PARTS | _IMAGES, max_size=3)
_MESSAGES = st.lists(
    st.fixed_dictionaries({"role": st.sampled_from(["system", "user", "assistant"]), "content": _CONTENT}), max_size=3
)
_GOOGLE = st.lists(
    st.fixed_dictionaries({"role": st.just("user"), "parts": st.lists(st.builds(dict, text=_WORDS), max_size=2)})
)
_SHAPES: dict[str, st.SearchStrategy[dict[str, Any]]] = {
    "openai.chat": st.builds(dict, model=st.just("m"), messages=_MESSAGES),
    "openai.completions": st.builds(dict, model=st.just("m"), prompt=_WORDS | st.lists(_WORDS) | st.just([1, 2])),
    "openai.responses": st.builds(
        dict, input=_WORDS | _MESSAGES, instructions=_WORDS, text=st.just({"verbosity": "low"})
    ),
    "anthropic.messages": st.builds(
        dict, max_tokens=st.just(9), system=_WORDS | st.lists(_TEXT_PARTS), messages=_MESSAGES
    ),
    "google.generate": st.builds(
        dict, contents=_GOOGLE, systemInstruction=st.builds(dict, parts=st.lists(st.builds(dict, text=_WORDS)))
    ),
    "bedrock.converse": st.builds(dict, system=st.lists(st.builds(dict, text=_WORDS)), messages=_MESSAGES),
    "bedrock.invoke": st.builds(dict, inputText=_WORDS, textGenerationConfig=st.just({"stopSequences": ["User:"]})),
    "ollama.chat": st.builds(dict, model=st.just("m"), messages=_MESSAGES, options=st.just({"stop": ["x"]})),
    "ollama.generate": st.builds(dict, model=st.just("m"), prompt=_WORDS, system=_WORDS, suffix=_WORDS),
    "cohere.chat": st.builds(dict, message=_WORDS, chat_history=st.lists(st.builds(dict, role=_WORDS, message=_WORDS))),
}  # fmt: skip


@st.composite
def bodies(draw: st.DrawFn, api: str) -> dict[str, Any]:
    """A body of an API, with settings, definitions, images and fields that nobody knows."""
    return {**draw(_SHAPES[api]), **draw(_SETTINGS), **draw(st.dictionaries(_UNKNOWN, _TREES, max_size=3))}


def written(body: Any, *, ascii_only: bool = True, indent: int | None = None) -> str:
    """The body's text; a lone surrogate can only stand there as an escape."""
    text = json.dumps(body, ensure_ascii=ascii_only, indent=indent)
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def taken(text: str) -> BodyParts:
    return take_apart(scan(text))


def _strings(value: Any) -> Iterator[At]:
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, At):
            yield item
        elif isinstance(item, Mapping):
            stack += item.values()
        elif isinstance(item, list):
            stack += item


def _accounted(parts: BodyParts) -> list[tuple[int, int]]:
    """Where something stands that is content, visible, binary or listed as a reference."""
    values = [segment.text for segment in parts.prompt.segments]
    values += [part.value for part in parts.prompt.outside]
    values += parts.visible.values()
    return [(value.start, value.end) for value in values if isinstance(value, At | Fields | Items)]


def found(text: str, parts: BodyParts, wanted: str) -> bool:
    """Whether a string that holds ``wanted`` is accounted for as something else than envelope."""
    places = [(string.start, string.end) for string in _strings(scan(text)) if wanted in string]
    return all(any(start <= a and b <= end for start, end in _accounted(parts)) for a, b in places) and bool(places)


@pytest.mark.parametrize("api", BY_NAME)
@given(data=st.data())
def test_the_parts_add_up_to_the_body(api: str, data: st.DataObject) -> None:
    """Envelope, content, definitions and binary are the bytes as sent, exactly, and overlap nowhere."""
    body = data.draw(bodies(api))
    assert BY_NAME[api].is_request(body)
    text = written(body, ascii_only=data.draw(st.booleans()), indent=data.draw(st.sampled_from([None, 2])))
    parts = taken(text)
    sizes = parts.sizes(text)
    assert sum(sizes.values()) == len(utf8(text))
    assert min(sizes.values()) >= 0
    places = sorted(set(_accounted(parts)))
    assert all(end <= start for (_, end), (start, _) in pairwise(places))
    paths = [segment.path for segment in parts.prompt.segments] + [part.path for part in parts.prompt.outside]
    assert len(paths) == len(set(paths))
    event = received({"kind": "request", "body": text.encode(), "path": "/x"})
    assert event["parts"] == sizes
    assert event["bytes"] == len(text.encode())


@pytest.mark.parametrize("api", BY_NAME)
@given(data=st.data())
def test_no_text_hides(api: str, data: st.DataObject) -> None:
    """A text at any place that is no known setting's is found again, whatever its fields are called."""
    body = data.draw(bodies(api))
    places: list[Callable[[], Any]] = []

    def look(item: Any, known: bool) -> None:
        if isinstance(item, dict):
            for name, below in item.items():
                if isinstance(below, str) and not known and name not in _WORDS_OF_MESSAGES:
                    places.append(lambda item=item, name=name: item.__setitem__(name, MARKER))
                look(below, known or name in ("stop", "metadata", "options", "textGenerationConfig", "text"))
            if not known:
                places.append(lambda: item.__setitem__("unheard-of", MARKER))
        elif isinstance(item, list):
            for number, below in enumerate(item):
                if isinstance(below, str) and not known:
                    places.append(lambda item=item, number=number: item.__setitem__(number, MARKER))
                look(below, known)

    copy = json.loads(json.dumps(body))
    look(copy, False)
    data.draw(st.sampled_from(places))()
    text = written(copy)
    assert found(text, taken(text), MARKER), text


_WORDS_OF_MESSAGES = ("role", "type", "model", "media_type", "mimeType", "detail")


@pytest.mark.parametrize(
    "body",
    [
        {"images": MARKER},
        {"images": [{"data": MARKER}]},
        {"prompt": {"text": MARKER}},
        {"prompt": {"id": "p", "version": "2", "more": [MARKER]}},
        {"format": MARKER * 100},
        {"text": {"verbosity": MARKER * 100}},
        {"text": {"format": {"type": MARKER * 100}}},
        {"text": {"format": {"type": "json_schema", "schema": {"description": MARKER}}}},
        {"metadata": {"a": [{"b": MARKER * 100}]}},
        {"stop": [MARKER * 100]},
        {"messages": [{"role": MARKER * 100, "content": ""}]},
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "", "id": MARKER * 100}]}]},
        {"messages": MARKER},
        {"messages": {"content": MARKER}},
        {"generationConfig": {"unheard": MARKER}},
        {"extra_body": {"messages": [{"role": "user", "content": MARKER}]}, "messages": []},
        {"messages": [{"role": "user", "content": [[{"deep": {"deeper": MARKER}}]]}]},
    ],
)
def test_no_text_hides_in_what_looks_like_something_else(body: dict[str, Any]) -> None:
    """A setting longer than any setting, a shape that an API does not have: the text is content, or visible."""
    text = json.dumps(body)
    assert found(text, taken(text), MARKER)


def test_of_a_name_that_stands_twice_both_values_are_content() -> None:
    """Hosts differ in which of them they read."""
    text = '{"model": "m", "messages": [{"role": "user", "content": "one"}], "messages": [{"content": "two"}]}'
    assert [segment.text for segment in taken(text).prompt.segments] == ["one", "two"]


@pytest.mark.parametrize("name", ["metadata", "messages", "prompt", "input", "tools", "text", "unheard", "images"])
@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")])
def test_what_is_nested_without_end_is_listed(name: str, opening: str, closing: str) -> None:
    """Depth ends in no error; what can't be looked at is visible, or held by reference, and so decides the verdict."""
    text = f'{{"{name}": {opening * 20_000}"{MARKER}"{closing * 20_000}, "system": "after"}}'
    parts = taken(text)
    assert found(text, parts, MARKER)
    assert found(text, parts, "after")
    assert sum(parts.sizes(text).values()) == len(text)


@pytest.mark.parametrize(
    ("body", "listed"),
    [
        ({"previous_response_id": "resp_1"}, {"previous_response_id": "resp_1"}),
        ({"conversation": {"id": "c"}}, {"conversation": "conversation"}),
        ({"prompt": {"id": "pmpt_1", "variables": {"a": "x"}}}, {"prompt.id": "pmpt_1"}),
        ({"cachedContent": "cachedContents/1"}, {"cachedContent": "cachedContents/1"}),
        ({"prompt": [1, 2, 3]}, {"prompt": "token ids"}),
        ({"prompt": [[1, 2], [3]]}, {"prompt": "token ids"}),
        ({"context": [1, 2], "prompt": "x"}, {"context": "token ids"}),
        (
            {"messages": [{"content": [{"image_url": {"url": "https://host/a.png?signature=s"}}]}]},
            {"messages[0].content[0].image_url.url": "https://host/a.png"},
        ),
        (
            {"contents": [{"parts": [{"fileData": {"fileUri": "gs://b/o"}}]}]},
            {"contents[0].parts[0].fileData.fileUri": "gs://b/o"},
        ),
        (
            {"input": [{"role": "user", "content": [{"type": "input_file", "file_id": "file-1"}]}]},
            {"input[0].content[0].file_id": "file-1"},
        ),
    ],
)
def test_what_is_held_by_reference_is_listed(body: dict[str, Any], listed: dict[str, str]) -> None:
    """With its path and what it names, without a link's query."""
    outside = taken(json.dumps(body)).prompt.outside
    assert {part.path: part.detail for part in outside if part.kind == "reference"} == listed


@pytest.mark.parametrize("body", [[1], "text", None, 7])
def test_a_body_that_is_no_object_has_no_parts(body: Any) -> None:
    """It is all envelope."""
    text = json.dumps(body)
    assert taken(text).sizes(text) == {"envelope": len(text), "content": 0, "model_visible": 0, "binary": 0}


# Where the corpus has content: a further field here is a setting that the tables lack, or a place for text to look at.
CONTENT = {"messages", "input", "instructions", "contents", "systemInstruction.parts", "system", "prompt", "message"}


@pytest.mark.corpus
@pytest.mark.skipif(not REQUESTS.is_file(), reason="the corpus is not here")
def test_real_bodies_of_the_corpus() -> None:
    """Every request of the cassettes to a known API: recognised, sums exact, rebuilt byte for byte, no odd content."""
    per_api: Counter[str] = Counter()
    taken_for_content: set[str] = set()
    for line in REQUESTS.read_text(encoding="utf-8").splitlines():
        request = json.loads(line)
        api = api_of(request["path"].partition("?")[0])
        if api is None or request["method"] != "POST":
            continue
        encoded = request["request_body_base64"]
        body = base64.b64decode(encoded) if encoded else (request["request_body"] or "").encode()
        try:
            value = json.loads(body)
        except ValueError:
            per_api[f"{api.name} (no JSON)"] += 1
            continue
        if not api.is_request(value):
            per_api[f"{api.name} (another shape)"] += 1
            continue
        per_api[api.name] += 1
        runs = as_runs(body)
        assert rebuild(runs, lambda _: b"") == (body, 0)
        parts = parts_of(runs)
        assert parts is not None
        sizes = parts.sizes(runs[0])
        assert sum(sizes.values()) == len(body)
        assert parts.prompt.segments or parts.prompt.outside, request["cassette"]
        for segment in parts.prompt.segments:
            taken_for_content.add(segment.path.partition("[")[0])
    print(dict(per_api))  # shown with -s
    assert taken_for_content - CONTENT == set()
    assert len(per_api) > 8
    assert sum(per_api.values()) > 150
