"""Which stretches of a body are cut: decoded as the host decodes it, at any depth, and no more than must be."""

from __future__ import annotations

import json
from time import perf_counter
from typing import Any

import pytest

from otel_prompt_trace.core.bodies.cutting import places_to_cut
from otel_prompt_trace.core.bodies.runs import cut_runs, parts_of
from otel_prompt_trace.core.bodies.scan import scan
from otel_prompt_trace.core.seal import keyed_digest
from otel_prompt_trace.core.withheld import Withheld

DIGEST = keyed_digest(b"key")
NOTHING = Withheld({}, DIGEST)


def cut(body: Any, policy: str = "store", *texts: str) -> list[str]:
    """What is cut of a body, as it stands in its text."""
    text = body if isinstance(body, str) else json.dumps(body)
    hidden = Withheld(dict.fromkeys(texts, "hash"), DIGEST)
    return [text[start:end] for start, end, _ in sorted(places_to_cut(text, scan(text), policy, hidden))]


def test_policy_hash_takes_every_string_that_is_no_word_of_the_protocol() -> None:
    """The model, roles, types and media types stay: without them nobody could read the rest."""
    body = {
        "model": "m",
        "messages": [{"role": "user", "content": [{"type": "text", "text": "hello"}]}],
        "unheard": {"model": "not the model", "role": "not a role", "type": "nor a type"},
        "n": 5,
    }
    assert cut(body, "hash") == ["hello", "not the model", "not a role", "nor a type"]


def test_a_model_that_stands_elsewhere_as_well() -> None:
    """Only the body's own field is the model's name."""
    assert cut({"model": "m", "messages": [{"role": "user", "content": "m"}]}, "hash") == ["m"]


@pytest.mark.parametrize("body", [[{"model": "m"}], ["a", ["b"]], [], ["text"]])
def test_a_body_that_is_no_object(body: Any) -> None:
    """Every string of it is cut."""
    text = json.dumps(body)
    assert cut(body, "hash") == [string for string in ("m", "a", "b", "text") if f'"{string}"' in text]


def test_an_image_keeps_its_head() -> None:
    """What it is may be known, what it shows not."""
    url = "data:image/png;base64,QUJD"
    assert cut({"messages": [{"content": [{"image_url": {"url": url}}]}]}, "hash") == ["QUJD"]


def test_withheld_texts_however_they_were_escaped() -> None:
    """Each occurrence, also one within the escapes of another JSON text, and in the name of a field."""
    text = r'{"input": [{"content": "say \u0068ello"}, {"content": "{\"a\": \"hello\"}", "hello": 1}]}'
    assert cut(text, "store", "hello") == [r"\u0068ello", "hello", "hello"]


def test_the_name_of_a_field_that_an_api_has_stays() -> None:
    """Whoever withholds the word ``content`` can still read the body."""
    assert cut({"messages": [{"role": "user", "content": "the content"}]}, "store", "content") == ["content"]


@pytest.mark.parametrize("depth", [50, 150, 3000])
@pytest.mark.parametrize("name", ["metadata", "messages", "unheard"])
def test_depth_hides_no_credential(depth: int, name: str) -> None:
    """Neither behind what is nested deeply nor in it."""
    behind = f'{{"{name}": {"[" * depth}1{"]" * depth}, "tools": [{{"authorization": "secret"}}]}}'
    assert cut(behind)[-1] == "secret"
    inside = f'{{"metadata": {"[" * depth}{{"authorization": "secret"}}{"]" * depth}, "input": "hello"}}'
    assert cut(inside) == ["secret"]


def test_nothing_to_cut() -> None:
    """Then nothing is looked for."""
    text = '{"messages": [{"role": "user", "content": "x"}]}'
    assert list(places_to_cut(text, scan(text), "store", NOTHING)) == []


def test_a_long_conversation_is_read_in_a_moment() -> None:
    """Every string of ten thousand messages is cut, and each is found again with its own cut."""
    text = json.dumps({"messages": [{"role": "user", "content": f"message {n}"} for n in range(10_000)]})
    runs = cut_runs(text, places_to_cut(text, scan(text), "hash", NOTHING), DIGEST)
    started = perf_counter()
    parts = parts_of(runs)
    assert perf_counter() - started < 5
    assert parts is not None
    assert all(segment.cuts == ((0, len(segment.text)),) for segment in parts.prompt.segments)
