"""Asking a recorded call's placement again: what is said, and which offsets count."""

from __future__ import annotations

from typing import Any

import pytest

from otel_prompt_trace.core.again import Again, summary
from otel_prompt_trace.core.derive import derive
from otel_prompt_trace.core.events import Event
from otel_prompt_trace.core.grade import grade
from otel_prompt_trace.core.pieces import Piece
from otel_prompt_trace.core.placement import Placement, Rendered
from otel_prompt_trace.core.prompt import Prompt
from otel_prompt_trace.core.record import Record
from tests.core.by_hand import Script, read

SOURCE = "1" * 64


def lines(pieces: tuple[Piece, ...]) -> str:
    """A line each, less the last of three."""
    return "\n".join(piece.text or "" for piece in pieces[:2])


LINES = Placement("app:lines", lines, SOURCE)
GIVEN = (Piece("a", "say ok"), Piece("b", "ok"), Piece("c", "left out"))


def events(placement: Placement = LINES, *, offsets: bool = True, policy: str = "store", **request: Any) -> list[Event]:
    """The stored events of a call whose prompt it rendered."""
    rendered = Rendered(placement, placement.function(GIVEN), GIVEN, elapsed_ns=0 if offsets else 10**9)
    script = Script()
    for piece in rendered.placed:
        script("piece", call="c1", **{name: value for name, value in piece.items() if name != "kind"})
    prompt = rendered.messages() if isinstance(rendered.prompt, Prompt) else rendered.prompt
    field = "prompt" if isinstance(prompt, str) else "messages"
    script("request", call="c1", evidence="declared", placement=placement.reference, **{field: prompt}, **request)
    return script.sealed(policy)


def asked(record: Record, *placements: Placement) -> Again:
    """What came of asking the one call's placement again."""
    again = grade(record, placements={placement.name: placement for placement in placements}).calls[0].again
    assert again is not None
    return again


def offsets(record: Record, *placements: Placement) -> dict[str, tuple[str, int | None]]:
    """State and start of each piece, derived with these placements."""
    census = derive(record, {placement.name: placement for placement in placements})[0].census
    assert census is not None
    return {p.producer: (p.state, p.start) for p in census.pieces}


def test_the_same_prompt_again_gives_the_offsets() -> None:
    """Without recorded offsets a search takes the first ``ok``, inside the other piece; the placement knows better."""
    record = read(events(offsets=False))
    assert all(piece.start is None for piece in record.calls[0].pieces)
    found = asked(record, LINES)
    assert (found.status, found.detail) == ("same", "it gives the same prompt again")
    assert offsets(record, LINES) == {"a": ("located", 0), "b": ("located", 7)}


def test_recorded_offsets_need_nobody() -> None:
    """What was derived at send time stands in the record, and what was left out is missed by nobody."""
    record = read(events())
    assert [piece.label for piece in record.calls[0].left_out] == ["c"]
    assert offsets(record) == {"a": ("located", 0), "b": ("located", 7)}
    assert [gap.text for gap in derive(record)[0].census.gaps] == ["\n"]  # type: ignore[union-attr]
    found = grade(record).calls[0].again
    assert found is not None
    assert found.status == "not_asked"


def test_a_changed_rule_is_seen() -> None:
    """Both digests are named; the function is not asked, and the recorded offsets count, verified."""
    called: list[int] = []
    changed = Placement("app:lines", lambda p: called.append(1) or lines(p), "2" * 64)
    record = read(events())
    found = asked(record, changed)
    assert found.status == "changed"
    assert (
        found.detail
        == "placement changed: recorded sha256 111111111111, now sha256 222222222222: the recorded offsets count"
    )
    assert (called, found.pieces) == ([], None)
    assert offsets(record, changed) == {"a": ("located", 0), "b": ("located", 7)}


def test_recorded_offsets_are_verified_whoever_is_asked() -> None:
    """One that does not hold is no place: the piece is searched for."""
    stored = events()
    stored[0]["start"], stored[0]["end"] = 1, 7
    assert offsets(read(stored)) == {"a": ("located", 0), "b": ("located", 7)}


def test_the_same_source_and_another_prompt() -> None:
    """A helper changed, or a clock: said, and the recorded ones count."""
    other = Placement("app:lines", lambda p: "Today\n" + lines(p), SOURCE)
    assert asked(read(events()), other).status == "differs"
    assert offsets(read(events()), other) == {"a": ("located", 0), "b": ("located", 7)}


def test_more_messages_than_it_gives_today_are_not_the_same() -> None:
    """A rider that was recorded behind the rendered messages."""

    def build(pieces: tuple[Piece, ...]) -> list[Any]:
        return [{"role": "user", "content": pieces[0].text}]

    placement = Placement("app:build", build, SOURCE)
    stored = events(placement)
    assert asked(read(stored), placement).status == "same"
    stored[-1]["messages"].append({"role": "user", "content": "and a rider"})
    assert asked(read(stored), placement).status == "differs"


def test_a_prompt_object_stands_by_its_own_offsets() -> None:
    """It is built again and compared; its recorded offsets are by construction already."""

    def build(pieces: tuple[Piece, ...]) -> Prompt:
        return Prompt().message("user").add("a", pieces[0].text or "").literal("!").add("b", pieces[1].text or "")

    placement = Placement("app:build", build, SOURCE)
    record = read(events(placement))
    assert asked(record, placement).status == "same"
    assert grade(record, placements={"app:build": placement}).verdict == "exact"


def test_texts_in_parameters_come_before() -> None:
    """A system text beside the prompt is a segment of its own, before those of the placement."""
    record = read(events(offsets=False, parameters={"system": "Be brief."}))
    census = derive(record, {"app:lines": LINES})[0].census
    assert census is not None
    assert [(p.producer, p.segment, p.start) for p in census.located] == [("a", 1, 0), ("b", 1, 7)]


def test_in_the_request_as_sent() -> None:
    """What the wire saw counts, and the offsets follow the declared prompt into it."""
    stored = events(offsets=False)
    script = Script(writer="01JDZQ4K8BWRWRWRWRWRWRWRW2")
    body = '{"model":"m","messages":[{"role":"user","content":"Hi: say ok\\nok"}]}'
    script("request", call="c1", evidence="wire", body=[body], host="h", path="/v1/chat/completions", attempt=1)
    record = read([*stored, *script.sealed()])
    assert record.calls[0].evidence == "wire"
    assert offsets(record, LINES) == {"a": ("located", 4), "b": ("located", 11)}


@pytest.mark.parametrize(
    ("change", "status"),
    [
        (lambda e: e[-1]["placement"].update(name="os:system"), "unregistered"),
        (lambda e: e[0].pop("given"), "withheld"),
        (lambda e: e[2].pop("text"), "withheld"),
        (lambda e: e[0].update(given=10**30), "withheld"),
        (lambda e: e[0].update(given="0"), "withheld"),
    ],
)
def test_a_record_from_anybody(change: Any, status: str) -> None:
    """A name is looked up among what is registered and nowhere else; what is not whole is not asked about."""
    stored = events()
    change(stored)
    assert asked(read(stored), LINES).status == status


@pytest.mark.parametrize("value", [None, 5, "app:lines", [], {}, {"name": 5}])
def test_what_is_no_reference_names_no_placement(value: Any) -> None:
    """As if there were none."""
    stored = events()
    stored[-1]["placement"] = value
    assert grade(read(stored), placements={"app:lines": LINES}).calls[0].again is None


def test_an_error_of_the_function_is_named_and_ends_nothing() -> None:
    """By its type alone: its message may quote the prompt."""

    def fails(pieces: tuple[Piece, ...]) -> str:
        raise KeyError(pieces[0].text)

    found = asked(read(events()), Placement("app:lines", fails, SOURCE))
    assert (found.status, found.detail) == ("failed", "it raised KeyError: the recorded offsets count")
    nothing = Placement("app:lines", lambda pieces: None, SOURCE)
    assert asked(read(events()), nothing).status == "failed"


def test_where_texts_were_kept_as_digests() -> None:
    """There is nothing to ask with; the offsets that were found when it was recorded count."""
    record = read(events(policy="hash"))
    assert asked(record, LINES).status == "withheld"
    assert offsets(record, LINES) == {"a": ("located", 0), "b": ("located", 7)}


def test_left_out_pieces_take_nobodys_place_where_texts_are_withheld() -> None:
    """The search at send time goes past them: one that equals another's text is no rival."""
    rendered = Rendered(LINES, "x\ny", (Piece("a", "x"), Piece("b", "y"), Piece("c", "x")))
    script = Script()
    for piece in reversed(rendered.placed):
        script("piece", call="c1", **{name: value for name, value in piece.items() if name != "kind"})
    script("request", call="c1", evidence="declared", prompt="x\ny")
    assert offsets(read(script.sealed("hash"))) == {"b": ("located", 2), "a": ("located", 0)}


def test_without_a_source_on_either_side_the_prompt_decides() -> None:
    """Typed at a prompt, or shipped compiled: there is no digest to compare."""
    bare = Placement("app:lines", lines, None)
    assert asked(read(events(bare)), bare).status == "same"
    assert asked(read(events(bare)), LINES).detail.startswith("placement changed: recorded no digest, now sha256 1111")


def test_a_summary_counts_calls() -> None:
    """A line for each placement and outcome."""
    assert summary({("b", "same", "as before"): 2, ("a", "changed", "it did"): 1}) == [
        "a: it did (1 call(s))",
        "b: as before (2 call(s))",
    ]
