"""What two requests hold beside their prompts: the parts that the model may see, and the settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from otel_prompt_trace.core.bodies.runs import value_of
from otel_prompt_trace.core.call import Call
from otel_prompt_trace.core.conventions.request_bodies import settings_of
from otel_prompt_trace.core.parameters import content_of
from otel_prompt_trace.core.text import wrap


@dataclass(frozen=True, slots=True)
class Setting:
    """A part or a parameter that is not as it was; None where it was not there."""

    name: str
    before: Any
    after: Any


def changed_parts(before: Call, after: Call) -> Iterator[Setting]:
    """The model-visible parts that changed: tool definitions, a response schema."""
    yield from _changed(before.visible, after.visible)


def changed_settings(before: Call, after: Call) -> Iterator[Setting]:
    """The parameters that changed: the model, its temperature, and whatever else was sent beside the prompt."""
    yield from _changed(_settings(before), _settings(after))


def _changed(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Setting]:
    for name in dict.fromkeys((*before, *after)):
        was, now = before.get(name), after.get(name)
        if _canonical(was) != _canonical(now):
            yield Setting(name, was, now)


def _settings(call: Call) -> dict[str, Any]:
    request = call.request or {}
    told = request
    if "body" in request:
        found = settings_of(value_of(request["body"]))
        told = {**found, "model": request.get("model", found.get("model"))}
    parameters = told.get("parameters")
    rest = parameters if isinstance(parameters, Mapping) else {}
    others = {str(name): item for name, item in rest.items() if not any(True for _ in content_of(str(name), "", item))}
    named = {name: told.get(name) for name in ("model", "temperature")}
    visible = {name.partition(".")[0] for name in call.visible}
    settings = {**named, **{name: item for name, item in others.items() if name not in visible}}
    return {name: item for name, item in settings.items() if item is not None}


def _canonical(value: Any) -> bytes:
    return orjson.dumps(wrap(value), option=orjson.OPT_SORT_KEYS)
