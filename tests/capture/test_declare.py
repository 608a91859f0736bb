"""``declare``: who put a text into the prompt, said where the text is made."""

from __future__ import annotations

from typing import Any

import pytest

import otel_prompt_trace as pt
from otel_prompt_trace.exceptions import ConfigurationError
from tests.capture.recording import Recording


class _Text(str):
    __slots__ = ()


@pytest.mark.parametrize("value", ["text", "", _Text("sub"), "half \ud83d", [{"a": 1}], {"type": "object"}, None, 7])
def test_it_returns_its_text(recording: Recording, value: Any) -> None:
    """The very object that was handed over, of any type, inside a query and outside."""
    assert pt.declare("p", value) is value
    with pt.query():
        assert pt.declare("p", value) is value
        with pt.query() as q, q.call(prompt="x"):
            assert pt.declare("p", value) is value
    assert pt.flush(20).lost == 0


def test_it_stands_inside_expressions(recording: Recording) -> None:
    """f-strings, joins, dicts and lists are written as they would be without it."""
    with pt.query() as q:
        text = f"{pt.declare('a', 'alpha')} {'-'.join([pt.declare('b', 'beta'), pt.declare('c', 'gamma')])}"
        message = {"role": "user", "content": pt.declare("d", "delta")}
    assert text == "alpha beta-gamma"
    assert message == {"role": "user", "content": "delta"}
    pieces = recording.of(q.qid, "piece")
    assert [(p["producer"], p["text"]) for p in pieces] == [
        ("a", "alpha"),
        ("b", "beta"),
        ("c", "gamma"),
        ("d", "delta"),
    ]


def test_all_that_is_said_of_a_piece_is_kept(recording: Recording) -> None:
    """Source, trust and inline stand on the event; defaults are not written out."""
    with pt.query() as q:
        pt.declare("rag", "chunk", source_id="c1", trust="retrieved", inline=True)
        pt.declare("plain", "text")
    first, second = recording.of(q.qid, "piece")
    assert first == first | {"source_id": "c1", "trust": "retrieved", "inline": True, "text": "chunk"}
    assert not {"source_id", "inline", "policy", "value"} & second.keys()
    assert second["trust"] == "unknown"


def test_inside_a_call_it_belongs_to_that_call(recording: Recording) -> None:
    """Declared while a call is open: of that call alone. Before and after: offered to all."""
    with pt.query() as q:
        pt.declare("before", "alpha ")
        with q.call(prompt="alpha beta") as first:
            pt.declare("inside", "beta")
            first.respond("o")
        pt.declare("after", "gamma")
        with q.call(prompt="alpha gamma") as second:
            second.respond("o")
    calls = {p["producer"]: p.get("call") for p in recording.of(q.qid, "piece")}
    assert calls == {"before": None, "inside": first.id, "after": None}
    record = recording.record(q.qid)
    assert [[piece.producer for piece in call.pieces] for call in record.calls] == [["inside"], []]
    assert pt.grade(record).verdict == "exact"


def test_declaring_the_same_again_refreshes_the_offer(recording: Recording) -> None:
    """One event for one offer, however often it is said; another text or source is another offer."""
    with pt.query() as q:
        for _ in range(3):
            pt.declare("rules", "be kind")
        pt.declare("rules", "be brief")
        pt.declare("rules", "be kind", source_id="v2")
        for _ in range(2):
            pt.declare("tools", [{"name": "clock"}])
    pieces = recording.of(q.qid, "piece")
    assert [(p.get("text"), p.get("source_id"), p.get("value")) for p in pieces] == [
        ("be kind", None, None),
        ("be brief", None, None),
        ("be kind", "v2", None),
        (None, None, [{"name": "clock"}]),
    ]


def test_a_value_that_grew_is_another_offer(recording: Recording) -> None:
    """The same list with one tool more is not the offer that stands: both are recorded, each as it was."""
    tools: list[dict[str, str]] = [{"name": "clock"}]
    with pt.query() as q:
        pt.declare("tools", tools)
        tools.append({"name": "map"})
        pt.declare("tools", tools)
        with q.call(prompt="p", tools=tools) as call:
            call.respond("o")
    assert [len(piece["value"]) for piece in recording.of(q.qid, "piece")] == [1, 2]


def test_a_declared_schema_accounts_for_itself(recording: Recording) -> None:
    """Tool definitions are a part that the model may see: declared they are accounted for, else the verdict is open."""
    tools = [{"name": "clock", "parameters": {}}]
    verdicts = []
    for declared in (True, False):
        with pt.query() as q:
            if declared:
                pt.declare("tools", tools)
            with q.call(prompt=pt.Prompt().add("a", "x").add("b", "y"), tools=tools) as call:
                call.respond("o")
        verdicts.append(pt.grade(recording.record(q.qid)).verdict)
    assert verdicts == ["exact", "unknown"]


def test_outside_any_query_nothing_is_recorded(recording: Recording) -> None:
    """There is no query that the text could belong to."""
    pt.declare("p", "nobody asked")
    with pt.query():
        pass
    pt.flush(20)
    assert b"nobody" not in recording.stored_bytes()


@pytest.mark.parametrize(("argument", "value"), [("trust", "holy"), ("policy", "shred"), ("policy", None)])
def test_plain_misuse_is_said_at_once(recording: Recording, argument: str, value: Any) -> None:
    """An unknown label is a mistake in the program; the message names those that there are."""
    arguments: dict[str, Any] = {argument: value}
    with pt.query(), pytest.raises(ConfigurationError, match=r"it takes .*(owner|store)"):
        pt.declare("p", "t", **arguments)


def test_a_text_is_withheld_wherever_it_stands_in_the_query_and_below(recording: Recording) -> None:
    """A piece of policy hash is cut out of every prompt, output and tool result of its query and of queries within."""
    secret = "SECRET-alice@example.org"
    with pt.query() as outer:
        text = pt.declare("user", secret)
        pt.declare("user", secret, policy="hash")  # the same again, and this time to be withheld
        with outer.call(prompt=f"{text} and again {text}", system=f"for {text}") as call:
            call.respond(f"I know {text}")
        outer.tool_call("lookup", result=f"found {text}")
        with pt.query() as inner, inner.call(prompt=[{"role": "user", "content": f"hello {text}"}]) as call:
            call.respond("ok")
        with pt.query(join=True) as joined, joined.call(prompt={"odd": text}) as call:
            call.respond("ok")
    pt.flush(20)
    first_pieces = [event for event in recording.of(outer.qid, "piece") if "hmac_sha256" in event]
    assert first_pieces
    assert secret.encode() not in recording.stored_bytes()


def test_many_texts_of_one_length_are_declared_in_time(recording: Recording) -> None:
    """Offers of one producer and one length are hashed, not compared with each other: 4,000 of them are no wait."""
    with pt.query() as q:
        for number in range(4_000):
            pt.declare("memory", f"fact {number:06d}")
            pt.declare("memory", f"fact {number:06d}")
    assert len(recording.of(q.qid, "piece")) == 4_000


def test_a_number_is_declared_as_it_is_written(recording: Recording) -> None:
    """A number is returned as it is, and stands in the record as the text that an f-string makes of it."""
    with pt.query() as q, q.call(prompt=f"{pt.declare('price', 5)} euros") as call:
        call.respond("ok")
    assert pt.declare("price", 5) == 5
    (piece,) = recording.of(q.qid, "piece")
    assert piece["text"] == "5"
