"""Events as they are stored under a policy: the fields of any kind, and a request with its segments.

What is cut leaves its place, its length and a keyed digest. A segment of which anything was cut has a keyed digest in
place of its sha256.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from otel_prompt_trace.core.bodies.cutting import places_to_cut
from otel_prompt_trace.core.bodies.runs import cut_runs, parts_of, read_body
from otel_prompt_trace.core.cutting import Digest, Place, cut_names, cut_outside, cut_text, cut_value, replace_at
from otel_prompt_trace.core.events import Event
from otel_prompt_trace.core.request_parts import change_parameters, visible_parts
from otel_prompt_trace.core.secret_places import POLICY as SECRET
from otel_prompt_trace.core.segments import Outside, Segment, Split
from otel_prompt_trace.core.text import CutText, as_text, sha256_text
from otel_prompt_trace.core.withheld import Withheld

_TEXTS = {  # the fields of each kind that hold text of the conversation, and fall under the query's policy
    "query": ("question",),
    "retrieval": ("hits", "question"),
    "request": ("parameters",),
    "response": ("output", "error_message"),
    "tool_call": ("arguments", "result"),
    "content": ("value", "values", "events"),
    "feedback": ("score", "comment", "fields"),
}
# Of a response: what its provider says in words of its own, and what could as well be a text of the conversation.
_WORDS = ("error", "finish_reason", "model", "response_id", "content_type")
_WORD = re.compile(r"[A-Za-z0-9._:/+=@,-]{1,200}(?:; ?[A-Za-z0-9_-]{1,40}=[A-Za-z0-9_-]{1,40})?")  # no prose: no spaces


def measure(event: Event, prompt: Split) -> Event:
    """A request with the lengths and digests of its segments; nothing of it is cut."""
    segments = [_described(segment, {"sha256": sha256_text(segment.text)}) for segment in prompt.segments]
    return _with_segments(event, prompt, segments)


def _described(segment: Segment, digest: dict[str, str]) -> dict[str, Any]:
    role = {} if segment.role is None else {"role": segment.role}
    return {"path": segment.path, **role, "chars": len(segment.text), **digest}


def _with_segments(event: Event, prompt: Split, segments: list[dict[str, Any]]) -> Event:
    single: dict[str, Any] = {}
    if len(segments) == 1 and "body" not in event:
        single = {name: segments[0][name] for name in ("sha256", "hmac_sha256") if name in segments[0]}
    outside = [{"path": part.path, "kind": part.kind, "detail": part.detail} for part in prompt.outside]
    return {
        **event,
        "chars": prompt.total,
        **single,
        "segments": segments,
        **({"outside": outside} if outside else {}),
    }


def cut_fields(event: Event, policy: str, digest: Digest) -> Event:
    """An event of any kind without the texts that its fields hold."""
    texts = _TEXTS.get(event["kind"], ())
    if event["kind"] == "request":  # of a shape that can't be taken apart
        texts = (*texts, "prompt", "messages", "tools", "response_format", "body")
        event = {name: item for name, item in event.items() if name != "sha256"}
    cut = {name: cut_value(item, policy, digest) if name in texts else item for name, item in event.items()}
    if event["kind"] == "response":
        cut |= {name: _word(cut[name], policy, digest) for name in _WORDS if name in cut}
        if "usage" in cut:
            cut["usage"] = _numbers(cut["usage"])
    if event["kind"] == "feedback" and "fields" in cut:  # whoever gives feedback names its fields as well
        cut["fields"] = cut_names(cut["fields"], digest)
    return cut


def _word(value: Any, policy: str, digest: Digest) -> Any:
    """A word as it is; in place of anything else a string with its digest, which readers take for a name."""
    if value is None or isinstance(value, bool | int | float) or (isinstance(value, str) and _WORD.fullmatch(value)):
        return value
    if isinstance(value, list | tuple):
        return [_word(item, policy, digest) for item in value]
    return f"[{policy} {digest(as_text(value))[:16]}]"


def _numbers(value: Any) -> Any:
    """Of what was used only the counts, by names that are words: a provider may put anything there."""
    if not isinstance(value, Mapping):
        return value if isinstance(value, int | float) else None
    kept = {n: _numbers(item) for n, item in value.items() if isinstance(n, str) and _WORD.fullmatch(n)}
    return {name: item for name, item in kept.items() if item is not None}


def cut_request(
    event: Event, prompt: Split, cuts: Mapping[int, list[Place]], policy: str, hidden: Withheld, digest: Digest
) -> Event:
    """A request without what ``cuts`` names by segment, or, under another policy than ``store``, without any text."""
    cut: dict[str, Callable[[Any], Any]] = {}
    described = []
    if "body" in event:
        return _cut_body(event, prompt, cuts, policy, hidden, digest)
    for number, segment in enumerate(prompt.segments):
        places = cuts.get(number, []) if policy == "store" else [(0, len(segment.text), policy)]
        if segment.text and places:
            cut[segment.path] = partial(_cut_leaf, places=places, policy=policy, digest=digest)
            described.append(_described(segment, {"hmac_sha256": digest(segment.text)}))
        else:
            described.append(_described(segment, {"sha256": sha256_text(segment.text)}))
    body = dict(event)
    if policy != "store":
        cut |= {part.path: partial(cut_outside, policy=policy, digest=digest) for part in prompt.outside}
        if [name for name in ("tools", "response_format") if body.pop(name, None)]:
            body["model_visible_withheld"] = True
    prompt = replace(prompt, outside=tuple(_cut_described(part, policy, hidden) for part in prompt.outside))
    if "parameters" in body:
        body["parameters"] = change_parameters(body["parameters"], partial(_cut_parameter, cut, policy, digest))
    if body.get("messages") is None:
        body["prompt"] = replace_at(body["prompt"], "prompt", cut)
    else:
        body["messages"] = [replace_at(message, f"messages[{n}]", cut) for n, message in enumerate(body["messages"])]
        if cut and "prompt" in body:
            body["prompt"] = cut_value(body["prompt"], policy, digest)
    return _with_segments(body, prompt, described)


def _cut_body(
    event: Event, prompt: Split, cuts: Mapping[int, list[Place]], policy: str, hidden: Withheld, digest: Digest
) -> Event:
    """The same of a request as it was sent: stretches of its bytes are cut, and what is left is as it was sent."""
    text: str = event["body"][0]
    read = read_body(text)
    if read is None:
        return cut_fields(event, "hash", digest)
    places = list(places_to_cut(text, read.value, policy, hidden))
    body = {**event, "body": cut_runs(text, places, digest)}
    kept = parts_of(body["body"])  # the same parts, with paths in which no name is left that was cut
    if kept is None or len(kept.prompt.segments) != len(prompt.segments):
        return cut_fields(event, "hash", digest)
    described = [
        _described(
            replace(s, path=left.path),
            {"hmac_sha256": digest(s.text)}
            if s.text and (policy != "store" or n in cuts or left.cuts)
            else {"sha256": sha256_text(s.text)},
        )
        for n, (s, left) in enumerate(zip(prompt.segments, kept.prompt.segments, strict=True))
    ]
    if any(place.policy != SECRET for place in places):  # no secret can be guessed from it, a short text can
        body["hmac_sha256"] = digest(text)
        del body["sha256"]
    if policy != "store" and visible_parts(event):
        body["model_visible_withheld"] = True
    outside = kept.prompt.outside
    if len(outside) == len(prompt.outside):
        named = (_cut_described(part, policy, hidden) for part in prompt.outside)
        outside = tuple(replace(part, path=left.path) for part, left in zip(named, outside, strict=True))
    prompt = replace(prompt, outside=outside)
    return _with_segments(body, prompt, described)


def _cut_described(part: Outside, policy: str, hidden: Withheld) -> Outside:
    """What is said of an image or a link: nothing but its kind where the text itself is withheld."""
    return replace(part, detail="withheld") if policy != "store" or hidden.stand_in(part.value) else part


def _cut_parameter(cut: Mapping[str, Callable[[Any], Any]], policy: str, digest: Digest, path: str, value: Any) -> Any:
    """Content is cut like a message's; under the query's policy any other parameter loses its strings."""
    if policy == "store" or any(name == path or name.startswith((f"{path}.", f"{path}[")) for name in cut):
        return replace_at(value, path, cut)
    return cut_value(value, policy, digest)


def _cut_leaf(value: str | CutText, places: list[Place], policy: str, digest: Digest) -> CutText:
    if isinstance(value, str):
        return cut_text(value, places, digest)
    whole: CutText = cut_value(value, policy, digest)
    return whole
