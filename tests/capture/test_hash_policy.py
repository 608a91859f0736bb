"""Policy ``hash``: no text is kept anywhere, offsets and lengths are, and the census still closes."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import otel_prompt_trace as pt
from otel_prompt_trace.core.text import Cut, CutText
from otel_prompt_trace.pipeline.shipper import Shipper
from tests.capture.recording import Recording

_SECRETS = [
    "QUESTION-secret", "SYSTEM-secret", "CHUNK-secret", "USER-secret", "OUTPUT-secret", "ARGUMENT-secret",
    "RESULT-secret", "TOOL-secret", "SCHEMA-secret", "COMMENT-secret", "LATE-secret", "HALF-secret",
]  # fmt: skip


@pytest.fixture
def held_back(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], None]]:
    """Keep the shipper from delivering until the function is called, so that the spool can be looked at."""
    deliver = Shipper._deliver
    held = [True]

    def wait(self: Shipper, **options: bool) -> bool:
        return False if held[0] else deliver(self, **options)

    monkeypatch.setattr(Shipper, "_deliver", wait)
    yield lambda: held.__setitem__(0, False)
    held[0] = False


def _everything(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())


def _ask(**arguments: Any) -> pt.Query:
    prompt = pt.Prompt().add("system", "SYSTEM-secret", trust="policy").literal("\n\n")
    prompt.add("rag", "CHUNK-secret é 🏳️‍🌈", source_id="c1").literal("\n\n").add("user", "USER-secret", trust="user")
    with pt.query(question="QUESTION-secret", **arguments) as q:
        q.retrieved([{"chunk_id": "c1", "score": 0.5, "text": "CHUNK-secret é 🏳️‍🌈"}])
        q.tool_call("t", arguments={"a": "ARGUMENT-secret"}, result="RESULT-secret", keep_arguments=True)
        tools = [{"name": "f", "description": "TOOL-secret"}]
        with q.call(model="m", prompt=prompt, tools=tools, response_format={"d": "SCHEMA-secret"}) as call:
            pt.declare("late", "LATE-secret")
            call.respond({"text": "OUTPUT-secret", "odd": "HALF-secret \ud83d"}, finish_reason="stop")
    return q


def _leaks(data: bytes) -> list[str]:
    return [secret for secret in _SECRETS if secret.encode() in data]


@pytest.mark.parametrize("how", ["installed", "query", "environment"])
def test_no_text_in_spool_or_store(
    install: Callable[..., Recording], monkeypatch: pytest.MonkeyPatch, held_back: Callable[[], None], how: str
) -> None:
    """Not one byte of question, prompt, pieces, output, tools or results, before delivery and after it."""
    if how == "environment":
        monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "NO_CONTENT")
    recording = install(policy="hash") if how == "installed" else install()
    q = _ask(**({"policy": "hash"} if how == "query" else {}))
    if how != "query":  # feedback has no query of its own to take a policy from
        pt.feedback(q.qid, comment="COMMENT-secret")
    assert b"PTFRM1" in recording.spooled_bytes()
    assert _leaks(_everything(recording.spool)) == []
    held_back()
    assert pt.flush(20).ok
    kinds = [event["kind"] for event in recording.events(q.qid)]
    assert {"query", "retrieval", "tool_call", "request", "piece", "response", "end"} <= set(kinds)
    assert _leaks(recording.stored_bytes()) == []


def test_the_same_without_the_policy_keeps_every_text(recording: Recording) -> None:
    """So that the test above can fail: here each of these texts is found."""
    q = _ask()
    pt.feedback(q.qid, comment="COMMENT-secret")
    pt.flush(20)
    assert _leaks(recording.stored_bytes()) == [secret for secret in _SECRETS if secret != "HALF-secret"]


def test_a_hashed_json_value_stands_nowhere_else_either(recording: Recording) -> None:
    """Each string of declared tools is cut out of the request that sends them, names as well; the rest stays."""
    tools = [
        {
            "type": "function",
            "function": {
                "name": "TOOL-secret",
                "description": "SCHEMA-secret of it",
                "parameters": {"type": "object", "properties": {"FIELD-secret": {"type": "string"}}},
            },
        }
    ]
    with pt.query() as q:
        pt.declare("tools", tools, policy="hash")
        with q.call(model="m", prompt=[{"role": "user", "content": "Use TOOL-secret now."}], tools=tools) as call:
            call.respond("I used TOOL-secret.")
    assert pt.flush(20).ok
    kept = recording.stored_bytes()
    assert [secret for secret in (b"TOOL-secret", b"SCHEMA-secret", b"FIELD-secret") if secret in kept] == []
    (request,) = recording.of(q.qid, "request")
    assert request["tools"][0]["type"] == "function"
    assert request["messages"][0]["content"].filled.startswith("Use ")


def test_places_and_lengths_stay(install: Callable[..., Recording]) -> None:
    """Each piece keeps its offsets and its keyed digest, the prompt its length."""
    recording = install(policy="hash")
    prompt = pt.Prompt().add("system", "Secret é").literal("\n").add("user", "🏳️‍🌈", trust="user")
    with pt.query() as q, q.call(prompt=prompt) as call:
        call.respond("out")
    pieces = recording.of(q.qid, "piece")
    digest = recording.runtime.digest()
    assert [(p["start"], p["end"], p["hmac_sha256"]) for p in pieces] == [
        (0, 8, digest("Secret é")),
        (8, 9, digest("\n")),
        (9, 13, digest("🏳️‍🌈")),
    ]
    assert not any("text" in piece for piece in pieces)
    (request,) = recording.of(q.qid, "request")
    assert request["chars"] == 13
    assert request["hmac_sha256"] == digest(prompt.text)
    assert "sha256" not in request
    (response,) = recording.of(q.qid, "response")
    assert response["output"] == CutText((Cut(3, "hash", digest("out")),))


def _from_prompt(q: pt.Query) -> Any:
    return pt.Prompt().add("system", "Answer.").literal("\n").add("user", "Why?")


def _from_messages(q: pt.Query) -> Any:
    return pt.Prompt().message("system").add("system", "Answer.").message("user").add("user", "Why?")


def _from_offers(q: pt.Query) -> Any:
    return pt.declare("system", "Answer.") + pt.declare("joiner", "\n") + pt.declare("user", "Why?")


def _from_offers_in_messages(q: pt.Query) -> Any:
    return [
        {"role": "system", "content": pt.declare("system", "Answer.")},
        {"role": "user", "content": pt.declare("user", "Why?")},
    ]


@pytest.mark.parametrize("make", [_from_prompt, _from_messages, _from_offers, _from_offers_in_messages])
def test_the_record_grades_exact(install: Callable[..., Recording], make: Callable[[pt.Query], Any]) -> None:
    """Located before the texts went: every character is accounted for, by placement or by declaration."""
    recording = install(policy="hash")
    with pt.query() as q:
        for _ in range(2):
            with q.call(prompt=make(q)) as call:
                call.respond("o")
    grade = pt.grade(recording.record(q.qid))
    assert grade.verdict == "exact"
    assert [call.census.unaccounted for call in grade.calls if call.census] == [0, 0]
    assert b"Answer" not in recording.stored_bytes()


def test_a_gap_is_a_gap_under_the_policy_too(install: Callable[..., Recording]) -> None:
    """An undeclared part stays visible as one: a withheld character that nobody owns is never exact."""
    recording = install(policy="hash")
    with pt.query() as q:
        text = pt.declare("system", "Answer.")
        with q.call(prompt=text + " undeclared") as call:
            call.respond("o")
    grade = pt.grade(recording.record(q.qid))
    assert grade.verdict != "exact"
    assert [call.census.unaccounted for call in grade.calls if call.census] == [11]


@pytest.mark.parametrize("placed", [True, False])
def test_one_piece_is_withheld_alone(recording: Recording, held_back: Callable[[], None], placed: bool) -> None:
    """A piece's own policy takes its text out of the prompt and leaves the rest; the record still closes."""
    with pt.query() as q:
        prompt: Any
        if placed:
            prompt = pt.Prompt().add("system", "Answer: ").add("user", "USER-secret", policy="hash")
        else:
            prompt = pt.declare("system", "Answer: ") + pt.declare("user", "USER-secret", policy="hash")
        with q.call(prompt=prompt) as call:
            call.respond("kept output")
    assert b"USER-secret" not in _everything(recording.spool)
    held_back()
    assert pt.flush(20).ok
    assert b"USER-secret" not in recording.stored_bytes()
    (request,) = recording.of(q.qid, "request")
    assert request["prompt"].runs[0] == "Answer: "
    assert len(request["prompt"]) == 19
    assert recording.of(q.qid, "response")[0]["output"] == "kept output"
    assert pt.grade(recording.record(q.qid)).verdict == "exact"


def test_the_span_carries_a_keyed_digest(install: Callable[..., Recording]) -> None:
    """A bare sha256 of a short prompt is soon guessed: under the policy there is an HMAC, or nothing yet."""
    import hashlib

    from tests.waiting import until

    recording = install(policy="hash")
    with pt.query() as q, q.call(prompt=pt.Prompt().add("a", "al").add("b", "pha")) as call:
        until(lambda: call._provisional is not None)
        call.respond("o")
    with pt.query() as quick, quick.call(prompt="short"):
        pass
    attributes = [dict(s.attributes or {}) for s in recording.exporter.get_finished_spans() if s.name == "call"]
    assert attributes[0]["prompt_trace.sha256"] == recording.runtime.digest()("alpha")
    assert attributes[0]["prompt_trace.verdict"] == "exact"
    assert attributes[1].get("prompt_trace.sha256") != hashlib.sha256(b"short").hexdigest()


def test_it_fails_closed(install: Callable[..., Recording], monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a text can't be withheld the event is lost and counted, and not a byte of it is written."""
    recording = install(policy="hash")

    def fails(*_: object) -> None:
        raise RuntimeError("odd")

    monkeypatch.setattr("otel_prompt_trace.pipeline.recorder.seal", fails)
    _ask()
    monkeypatch.undo()
    result = pt.flush(20)
    assert result.stored == 0
    assert result.lost > 0
    assert set(result.reasons) == {"not_encodable"}
    assert _leaks(_everything(recording.spool) + recording.stored_bytes()) == []


def test_a_placed_piece_is_withheld_from_the_answer_and_the_span(recording: Recording) -> None:
    """A piece of policy hash in a Prompt is cut out of the answer too; the span has no bare digest of the prompt."""
    with pt.query() as q, q.call(prompt=pt.Prompt().add("a", "I am ").add("user", "Alice", policy="hash")) as call:
        call.respond("Hello Alice")
    pt.flush(20)
    assert b"Alice" not in recording.stored_bytes()
    bare = hashlib.sha256(b"I am Alice").hexdigest()
    assert (recording.span("call").attributes or {}).get("prompt_trace.sha256") != bare
