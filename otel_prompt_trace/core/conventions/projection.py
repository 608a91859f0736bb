"""From the content of one span to what events need: a request, a response, the hits of a retrieval.

The content itself is stored as it was handed over; what is made here is a reading of it. Three conventions are read,
those that say where a message begins and ends: OpenTelemetry's, OpenInference's and OpenLLMetry's. What came under
another's keys stays ``content`` only.

- A hole is never closed in silence: the keys that are missing stand in ``missing`` of the request, response or
  retrieval.
- What is projected says where it was read (``source``), and it is read from one place: nothing is mixed together from
  two descriptions of the same prompt.
- Nothing here raises: an unforeseen value costs the projection, which says so in ``problem``, and never the content.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from otel_prompt_trace.core.conventions import message_events, openinference, openllmetry, otel_genai
from otel_prompt_trace.core.conventions.candidate import Candidate, fullest, prompt_of
from otel_prompt_trace.core.conventions.facts import CallFacts, call_facts
from otel_prompt_trace.core.conventions.message_events import Carried
from otel_prompt_trace.core.conventions.retrieval import retrieval
from otel_prompt_trace.core.conventions.roles import span_role


@dataclass(frozen=True, slots=True)
class Projection:
    """What the content of one span says; each part is None where it says nothing of it.

    request: ``messages`` or ``prompt``, and where known ``tools``, ``response_format``, ``model``, ``temperature``,
        ``parameters``, ``provider``, ``held_by_reference``; ``source`` and, with holes, ``missing``.
    response: ``output``, ``finish_reason``, ``usage`` (tokens), ``model``, ``response_id``; ``source``, ``missing``.
    retrieval: ``hits`` (``rank``, ``chunk_id``, ``score``, ``text``), ``question``; ``source``, ``missing``.
    problem: the name of an error that ended the projection early.
    """

    request: dict[str, Any] | None = None
    response: dict[str, Any] | None = None
    retrieval: dict[str, Any] | None = None
    problem: str | None = None


def project(
    content: Mapping[Any, Any], attributes: Mapping[str, Any] | None = None, events: Sequence[Carried] = ()
) -> Projection:
    """Read the content of one span. Never raises.

    Args:
        content: the values that were diverted from the span, by key, as they were handed over.
        attributes: what stayed on the span; the small facts are read from it, and whether the span is a call.
            A span that says that it is something else (an agent, a tool, an embedding) has no request.
        events: what span events and log records of the span carried, in the order of emission.
    """
    try:
        named = {key: value for key, value in content.items() if isinstance(key, str)}
        return _project(named, attributes or {}, events)
    except Exception as error:  # noqa: BLE001 - a reading of somebody else's values must not cost the values
        return Projection(problem=type(error).__name__)


def _project(content: dict[str, Any], attributes: Mapping[str, Any], events: Sequence[Carried]) -> Projection:
    content = message_events.merged(content, events)
    hits = retrieval(content, events)
    found = None if hits is None else _noted(hits.fields, hits)
    if span_role(attributes, content) not in ("call", None):
        return Projection(retrieval=found)
    facts = call_facts(attributes)
    return Projection(_request(content, facts, events), _response(content, facts, events), found)


def _request(content: dict[str, Any], facts: CallFacts, events: Sequence[Carried]) -> dict[str, Any] | None:
    candidates = [
        *openinference.requests(content),
        otel_genai.request(content),
        openllmetry.request(content),
        message_events.request(events),
    ]
    prompts = [found for found in candidates if found is not None and prompt_of(found.fields) is not None]
    best = fullest(prompts)
    if best is None:
        return None
    fields = dict(best.fields)
    for found in filter(None, candidates):  # definitions may stand under another convention's keys than the prompt
        for name in ("tools", "response_format"):
            if not fields.get(name) and found.fields.get(name):
                fields[name] = found.fields[name]
    settings = facts.of_request
    parameters = {**settings.pop("parameters", {}), **(fields.pop("parameters", None) or {})}
    return _noted({**settings, **fields, **({"parameters": parameters} if parameters else {})}, best)


def _response(content: dict[str, Any], facts: CallFacts, events: Sequence[Carried]) -> dict[str, Any] | None:
    candidates = [
        *openinference.responses(content),
        otel_genai.response(content),
        openllmetry.response(content),
        message_events.response(events),
        openinference.plain_answer(content),
    ]
    best = next((found for found in candidates if found is not None and not found.missing), None)
    best = best or next((found for found in candidates if found is not None), None)
    reported = facts.of_response
    if best is None:
        return reported or None
    return _noted({**reported, **best.fields}, best)  # a response body says it in the provider's own words


def _noted(fields: dict[str, Any], found: Candidate) -> dict[str, Any]:
    return {**fields, "source": found.source, **({"missing": list(found.missing)} if found.missing else {})}
