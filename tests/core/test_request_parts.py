"""What a request shows the model beside its prompt: parameters that are content, held elsewhere, or visible."""

from __future__ import annotations

from typing import Any

import pytest

from otel_prompt_trace.core.grade import CallGrade, grade
from otel_prompt_trace.core.parameters import SETTINGS
from otel_prompt_trace.core.request_parts import split_request, visible_parts
from otel_prompt_trace.core.text import sha256_text
from tests.core.by_hand import Script
from tests.core.test_seal import only

PIECES = ({"producer": "s", "text": "Be brief."}, {"producer": "u", "text": " Why?"})


def graded(
    *pieces: dict[str, Any], prompt: Any = "Be brief. Why?", policy: str = "store", **parameters: Any
) -> CallGrade:
    """The grade of one call with these parameters."""
    script = Script()
    script.call("c1", prompt, *PIECES, *pieces, parameters=parameters)
    return grade(script.record(policy)).calls[0]


@pytest.mark.parametrize(
    ("parameters", "paths"),
    [
        ({"system": "Obey."}, ["system", "prompt"]),
        (
            {"system": [{"type": "text", "text": "Obey.", "cache_control": {"type": "ephemeral"}}]},
            ["system[0].text", "prompt"],
        ),
        ({"instructions": "Obey."}, ["instructions", "prompt"]),
        ({"input": "Obey."}, ["prompt", "input"]),
        ({"input": [{"role": "user", "content": "Obey."}]}, ["prompt", "input[0].content"]),
        ({"extra_body": {"system": "Obey."}}, ["extra_body.system", "prompt"]),
        ({"a field of tomorrow": {"deep": ["Obey."]}}, ["prompt", 'parameters["a field of tomorrow"].deep[0]']),
        ({"messages": [{"content": "Obey."}]}, ["prompt", "parameters.messages[0].content"]),
    ],
)
def test_content_in_a_parameter_is_a_segment(parameters: dict[str, Any], paths: list[str]) -> None:
    """It is counted and has its digest; undeclared it is a gap, declared it is exact; under hash its places stay."""
    found = graded(**parameters)
    assert found.census is not None
    assert [segment.path for segment in found.census.segments] == paths
    assert (found.verdict, found.reasons, found.census.unaccounted) == ("mismatch", ("gap",), 5)
    assert found.checks[0].status == "pass"
    declared = {"producer": "o", "text": "Obey."}
    assert graded(declared, **parameters).verdict == "exact"
    hashed = graded(declared, policy="hash", **parameters)
    assert hashed.census is not None
    assert (hashed.verdict, hashed.census.by_producer()) == ("exact", {"s": 9, "u": 5, "o": 5})


def test_it_is_measured_with_the_prompt() -> None:
    """One total over all segments, and no single digest; a placed piece keeps its place in the prompt."""
    script = Script()
    placed = [
        {"producer": "s", "segment": 0, "start": 0, "end": 9},
        {"producer": "u", "segment": 0, "start": 9, "end": 14},
    ]
    script.call("c1", "Be brief. Why?", *placed, parameters={"system": "Obey."})
    request = only(script.sealed(), "request")
    assert request["chars"] == 19
    assert "sha256" not in request
    assert request["segments"][0] == {"path": "system", "role": "system", "chars": 5, "sha256": sha256_text("Obey.")}
    assert [(e["segment"], e["text"]) for e in script.sealed()[:2]] == [(1, "Be brief."), (1, " Why?")]


@pytest.mark.parametrize("name", ["previous_response_id", "conversation", "cached_content", "file_ids"])
def test_a_handle_is_held_by_reference(name: str) -> None:
    """What is behind it reaches the model and is not in the record."""
    assert graded(**{name: "id-1"}).reasons == ("held_by_reference",)
    assert graded(**{name: {"id": "id-1"}}).reasons == ("held_by_reference",)
    assert graded(**{name: None}).verdict == "exact"


def test_a_stored_prompt_is_held_by_reference_and_its_variables_are_content() -> None:
    """The provider fills in what the application sends."""
    request = {"prompt": "x", "parameters": {"prompt": {"id": "pmpt_1", "variables": {"name": "Ann"}}}}
    taken = split_request(request)
    assert taken is not None
    assert [(s.path, s.text) for s in taken[0].segments][1:] == [("parameters.prompt.variables.name", "Ann")]
    assert [(part.kind, part.detail) for part in taken[0].outside] == [("reference", "pmpt_1")]


def test_functions_are_visible_like_tools() -> None:
    """Nobody declared them; declared as a JSON value they are accounted for."""
    functions = [{"name": "look_up", "description": "Looks up."}]
    assert graded(functions=functions).reasons == ("undeclared_model_visible_part",)
    assert graded({"producer": "f", "value": functions}, functions=functions).verdict == "exact"
    schema = {"format": {"type": "json_schema", "schema": {}}, "verbosity": "low"}
    assert visible_parts({"parameters": {"text": schema}}) == {"text.format": schema["format"]}


@pytest.mark.parametrize("name", sorted(SETTINGS))
def test_a_setting_is_no_content(name: str) -> None:
    """Whatever strings it holds, an otherwise plain prompt is what it was: one segment and one digest."""
    assert graded(**{name: {"a": ["text"]}}).verdict == "exact"
    script = Script()
    script.call("c1", "Why?", parameters={name: "text"})
    assert only(script.sealed(), "request")["sha256"] == sha256_text("Why?")
