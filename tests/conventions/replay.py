"""The replayed calls: what was sent, and the spans and logs that real instrumentations made of it.

Every trace file replays the same calls in the same order, as far as its instrumentation made a span of them. What was
sent is known for each call from its recording; for the few that are not among the recorded requests, from the request
body that OpenInference kept, which is JSON-equal to what was sent.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from otel_prompt_trace.core.conventions import content_event, content_in_event, content_key, is_model_call
from otel_prompt_trace.core.conventions.message_events import Carried
from otel_prompt_trace.core.conventions.projection import Projection, project
from otel_prompt_trace.core.segments import split
from tests.conventions.trace_files import CORPUS, TRACES, Carrier, top_level

_ANSWER_ID = re.compile(r'"id":\s*"((?:chatcmpl|cmpl|resp|msg)[-_][^"]+)"')
_REFERENCES = {
    "openai": TRACES / "replayed" / "openinference-openai.default.traces.jsonl.gz",
    "anthropic": TRACES / "replayed" / "openinference-anthropic.default.traces.jsonl.gz",
}


@dataclass(frozen=True)
class Sent:
    """One replayed call: the model that was asked, the id of the answer, and the body; None where it is not known."""

    model: str
    answer: str | None
    body: dict[str, Any] | None
    recorded: bool  # whether the body is that of the recording itself


@dataclass(frozen=True)
class Seen:
    """What one instrumentation made of a call, and what is read from it."""

    sent: Sent
    span: Carrier
    projection: Projection


def seen(path: Path, provider: str) -> Iterator[Seen]:
    """The model calls of a trace file with what was sent, each matched in the order of the replay."""
    logs = _logs(path)
    calls = sent(provider)
    at = 0
    for span in _instrumented(path):
        if not is_model_call(span.attributes, span.attributes):
            continue
        answer, model = _answer_of(span), _model_of(span)
        while at < len(calls) and not _fits(calls[at], answer, model):
            at += 1
        if at == len(calls):
            raise AssertionError(f"{path.name}: {span.name} ({answer}, {model}) fits no replayed call")
        yield Seen(calls[at], span, projected(span, logs.get(span.span_id, [])))
        at += 1


@cache
def sent(provider: str) -> list[Sent]:
    """The replayed calls of a provider, in order."""
    recorded = _recorded()
    found = []
    for span in _instrumented(_REFERENCES[provider]):
        answer = _answer_of(span)
        body = _loaded(span.attributes.get("input.value"))
        original = recorded.get(answer or "")
        model = (original or body or {}).get("model") or _model_of(span)
        found.append(Sent(model, answer, original or body, original is not None))
    return found


def projected(span: Carrier, logs: list[Carrier]) -> Projection:
    """What is read from a span whose content was diverted, and from its events and logs."""
    content = {key: value for key, value in span.attributes.items() if content_key(key) is not None}
    left = {key: value for key, value in span.attributes.items() if key not in content}
    carried = []
    for carrier in [*span.events, *logs]:
        event = content_event(carrier.name)
        if event is not None:
            attributes = {k: v for k, v in carrier.attributes.items() if content_in_event(event, k)}
            carried.append(Carried(carrier.name, attributes, carrier.body))
    return project(content, left, carried)


def texts_sent(body: dict[str, Any]) -> list[str]:
    """The texts of a request body, in the order of the request: instructions that stand apart come first."""
    texts: list[str] = []
    for name in ("system", "instructions"):
        if body.get(name):
            texts += [s.text for s in split([{"role": "system", "content": body[name]}]).segments]
    for name in ("messages", "input", "prompt"):
        if body.get(name):
            texts += [s.text for s in split(body[name]).segments]
    return texts


def texts_read(projection: Projection) -> list[str]:
    """The texts of the projected prompt, in order."""
    request = projection.request or {}
    prompt = request.get("messages", request.get("prompt"))
    return [] if prompt is None else [s.text for s in split(prompt).segments]


def leaves(texts: list[str]) -> Counter[str]:
    """The texts without what only JSON's spelling makes different: arguments are sent as text, told as an object."""
    found: Counter[str] = Counter()
    for text in texts:
        value = _loaded(text)
        found.update(_strings(value) if value is not None else [text])
    return found


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        inner = _loaded(value)
        yield from _strings(inner) if inner is not None else [value]
    elif isinstance(value, dict):
        for item in value.values():
            yield from _strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)


@cache
def _recorded() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    with (CORPUS / "cassettes" / "requests.jsonl").open(encoding="utf-8") as lines:
        for line in lines:
            call = json.loads(line)
            body = _loaded(call["request_body"])
            for answer in set(_ANSWER_ID.findall(call["response_body"] or "")):
                if isinstance(body, dict):
                    found[answer] = body
    return found


def _instrumented(path: Path) -> list[Carrier]:
    """The spans of the instrumentation itself, without those that the SDK makes below them."""
    spans = [carrier for carrier in top_level(path) if carrier.kind == "span"]
    if "sdk-native" not in path.name:
        spans = [span for span in spans if span.scope != "com.anthropic.sdk.python"]
    return sorted(spans, key=lambda span: span.started)


def _logs(path: Path) -> dict[str, list[Carrier]]:
    logs = path.with_name(path.name.replace(".traces.jsonl.gz", ".logs.pb.gz"))
    found: dict[str, list[Carrier]] = {}
    for record in top_level(logs) if logs.exists() else ():
        found.setdefault(record.span_id, []).append(record)
    return found


def _answer_of(span: Carrier) -> str | None:
    answer = span.attributes.get("gen_ai.response.id")
    if not answer:
        match = _ANSWER_ID.search(str(span.attributes.get("output.value", "")))
        answer = match[1] if match else None
    return answer


def _model_of(span: Carrier) -> str | None:
    attributes = span.attributes
    settings = _loaded(attributes.get("input.value")) or _loaded(attributes.get("llm.invocation_parameters")) or {}
    return settings.get("model") or attributes.get("gen_ai.request.model") or attributes.get("llm.model_name")


def _fits(call: Sent, answer: str | None, model: str | None) -> bool:
    if answer and call.answer:
        return answer == call.answer
    return model is None or model == call.model


def _loaded(value: Any) -> Any:
    if not isinstance(value, str) or value[:1] not in ("{", "["):
        return None
    try:
        found = json.loads(value)
    except ValueError:
        return None
    return found if isinstance(found, dict | list) else None
