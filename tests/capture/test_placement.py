"""``placement`` and ``place``: the application's function renders what is sent, and the record says by which rule."""

from __future__ import annotations

import hashlib
import inspect
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import otel_prompt_trace as pt
from tests.capture.recording import Recording


@pt.placement
def answer(pieces: tuple[pt.Piece, ...]) -> str:
    """The system text, then the rest in brackets."""
    system, *rest = pieces
    return f"{system.text}\n" + "".join(f"[{piece.text}]" for piece in rest)


PIECES = [("system", "Be brief."), pt.Piece("rag", "chunk", "retrieved", source_id="doc-1"), ("user", "brief")]


def test_the_decorator_changes_nothing() -> None:
    """The function can be called as before; its name, and a digest of its source, are registered."""
    assert inspect.isfunction(answer)
    found = pt.placements()[f"{__name__}:answer"]
    assert found.function is answer
    assert found.sha256 == hashlib.sha256(inspect.getsource(answer).encode()).hexdigest()


def test_a_call_records_name_digest_and_offsets(recording: Recording) -> None:
    """What is sent is what the function gave; a text that stands twice is placed where the function put it."""
    with pt.query() as q:
        prompt = pt.place(answer, PIECES)
        with q.call(prompt=prompt) as call:
            call.respond("ok")
    assert prompt.text == "Be brief.\n[chunk][brief]"
    (request,) = recording.of(q.qid, "request")
    assert request["prompt"] == prompt.text
    assert request["placement"] == {
        "name": f"{__name__}:answer",
        "sha256": pt.placements()[f"{__name__}:answer"].sha256,
    }
    placed = [(e["producer"], e["start"], e["end"], e["given"], e["text"]) for e in recording.of(q.qid, "piece")]
    assert placed == [("system", 0, 9, 0, "Be brief."), ("rag", 11, 16, 1, "chunk"), ("user", 18, 23, 2, "brief")]
    graded = pt.grade(recording.record(q.qid), placements=pt.placements())
    assert graded.calls[0].again is not None
    assert graded.calls[0].again.status == "same"
    assert recording.attributes("call")["prompt_trace.pieces"] == 3


def test_what_cannot_be_packed_is_recorded_as_lines(recording: Recording) -> None:
    """Messages with objects of the application's own in them, as without a placement."""

    class Odd:
        def __repr__(self) -> str:
            return "odd"

    def build(pieces: tuple[pt.Piece, ...]) -> list[Any]:
        return [{"role": "user", "content": pieces[0].text, "odd": Odd()}]

    with pt.query() as q, q.call(prompt=pt.place(build, [("user", "why?")])) as call:
        call.respond("ok")
    (piece,) = recording.of(q.qid, "piece")
    assert (piece["text"], piece["start"]) == ("why?", 0)


def test_left_out_texts_of_a_policy_are_withheld(recording: Recording) -> None:
    """What the function did without is recorded too, and under its policy as a digest."""
    secret = pt.Piece("rag", "the secret chunk", policy="hash")
    with pt.query() as q, q.call(prompt=pt.place(lambda pieces: pieces[0].text, [("user", "why?"), secret])) as call:
        call.respond("ok")
    assert pt.flush(20).ok
    assert b"the secret chunk" not in recording.stored_bytes() + recording.spooled_bytes()
    (left_out,) = [event for event in recording.of(q.qid, "piece") if event.get("left_out")]
    assert left_out["chars"] == 16


def test_an_error_of_the_function_is_the_applications(recording: Recording) -> None:
    """It renders what is sent: nothing swallows it, and nothing is counted as lost."""

    def fails(pieces: tuple[pt.Piece, ...]) -> str:
        raise LookupError("no template")

    with pytest.raises(LookupError, match="no template"), pt.query():
        pt.place(fails, PIECES)
    assert recording.runtime.accounts.result().lost == 0


def test_a_function_that_fails_the_second_time_costs_the_offsets_alone(recording: Recording) -> None:
    """Recording never raises, and the call is recorded whole."""
    once = iter(["first time"])
    with pt.query() as q:
        prompt = pt.place(lambda pieces: next(once), [("user", "first time")])
        with q.call(prompt=prompt) as call:
            call.respond("ok")
    (request,) = recording.of(q.qid, "request")
    assert request["prompt"] == "first time"
    assert recording.runtime.accounts.result().lost == 0


@pytest.mark.parametrize("gives", [None, 5, object(), b"bytes"])
def test_what_is_no_prompt_passes_through(recording: Recording, gives: Any) -> None:
    """It is the application's to send; what is recorded of it is as without a placement."""
    with pt.query() as q, q.call(prompt=pt.place(lambda pieces: gives, PIECES)) as call:
        call.respond("ok")
    assert [event["kind"] for event in recording.events(q.qid)][-1] == "end"


def test_with_nothing_installed_the_function_is_asked_once() -> None:
    """Rendering is the application's; nothing is done around it."""
    count: list[int] = []
    prompt = pt.place(lambda pieces: count.append(1) or "text", PIECES)
    with pt.query() as q, q.call(prompt=prompt):
        pass
    assert (str(prompt), count) == ("text", [1])


@pytest.mark.parametrize("wrong", [5, [("a", 5)], [object()], ["text"]])
def test_pieces_of_another_type_are_refused(wrong: Any) -> None:
    """Before anything is rendered: it is plain misuse."""
    with pytest.raises(TypeError):
        pt.place(answer, wrong)


async def coroutine(pieces: Any) -> str:
    """A function that gives no prompt."""
    return ""


def generator(pieces: Any) -> Any:
    """Another one."""
    yield ""


@pytest.mark.parametrize("wrong", [coroutine, generator, 5, type("Odd", (), {"__call__": lambda self, p: ""})()])
def test_only_functions_with_a_name_that_give_a_prompt_are_placements(wrong: Any) -> None:
    """A record names it, and what it gives is sent."""
    with pytest.raises(TypeError, match="placement"):
        pt.placement(wrong)


def test_a_changed_source_has_another_digest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One line changed, or moved in the file: only the first is another rule."""
    monkeypatch.syspath_prepend(tmp_path)
    body = "import otel_prompt_trace as pt\n@pt.placement\ndef render(pieces):\n    return {}\n"
    digests = []
    for name, text in (
        ("rules_a", body.format("'a'")),
        ("rules_b", body.format("'b'")),
        ("rules_c", "\n" + body.format("'a'")),
    ):
        (tmp_path / f"{name}.py").write_text(text)
        digests.append(pt.placements(name)[f"{name}:render"].sha256)
    assert digests[0] == digests[2] != digests[1]


def test_the_module_of_a_script_is_named_as_others_import_it(tmp_path: Path) -> None:
    """A function of the script that was started is not called ``__main__``'s."""
    script = tmp_path / "the_app.py"
    script.write_text(
        "import otel_prompt_trace as pt\ndef render(pieces):\n    return ''\nfound = pt.place(render, []).placement\n"
    )
    assert runpy.run_path(str(script), run_name="__main__")["found"].name.endswith(":render")
    import subprocess
    import sys

    script.write_text(script.read_text() + "print(found.name)\n")
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "the_app:render"


def test_without_source_there_is_no_digest(recording: Recording) -> None:
    """And the record says the name alone."""
    space: dict[str, Callable[..., Any]] = {}
    exec("def render(pieces):\n    return pieces[0].text", {"__name__": "typed"}, space)
    with pt.query() as q, q.call(prompt=pt.place(space["render"], PIECES)) as call:
        call.respond("ok")
    assert recording.of(q.qid, "request")[0]["placement"] == {"name": "typed:render"}
