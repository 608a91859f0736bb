"""From events as captured to events as stored.

What is captured on the application's thread is as little as possible: the prompt once, and for a piece that the
application placed only its offsets. Sealing adds what costs time and can wait: the texts of placed pieces, the
segments with their lengths and digests. It also applies the policy of a text, and there it must happen before
anything is written.

A stored ``request`` holds ``prompt`` (a string) or ``messages`` (a list), and for each segment its path, role,
``chars`` and ``sha256``; ``sha256`` of a single segment stands on the event too, ``chars`` is the total. Under
another policy than ``store`` the digests are keyed (``hmac_sha256``): a bare hash of a short text is soon guessed.

A policy of the query withholds every text. A policy of one piece withholds that piece and its place in the prompt;
the piece around it then stands by its offsets, since its own text would tell. What can't be located is cut
wherever it stands: in doubt nothing is kept.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import orjson

from otel_prompt_trace.core.census import take
from otel_prompt_trace.core.cutting import Digest, Place, cut_outside, cut_text, cut_value, replace_at
from otel_prompt_trace.core.events import Event
from otel_prompt_trace.core.pieces import Piece
from otel_prompt_trace.core.segments import Segment, Split, split
from otel_prompt_trace.core.text import CutText, sha256_text, utf8, wrap
from otel_prompt_trace.core.verdict import EVIDENCE

POLICIES = ("store", "hash")

_STRENGTH = {evidence: rank for rank, evidence in enumerate(EVIDENCE)}
_TEXTS = {  # the fields of each kind that hold text of the conversation, and fall under the query's policy
    "query": ("question",),
    "retrieval": ("hits", "question"),
    "request": ("parameters",),
    "response": ("output",),
    "tool_call": ("arguments", "result"),
    "content": ("value", "values", "events"),
    "feedback": ("comment", "fields"),
}


def keyed_digest(key: bytes) -> Digest:
    """HMAC-SHA256 in hex over the UTF-8 of a text (RFC 2104)."""
    return lambda text: hmac.new(key, utf8(text), hashlib.sha256).hexdigest()


def seal(events: Sequence[Event], policy: str = "store", digest: Digest | None = None) -> list[Event]:
    """The events as they are stored; the arguments stay as they are.

    Args:
        events: the events of one query that were captured together.
        policy: the query's policy for text.
        digest: the keyed digest; needed for any other policy than ``store``.

    Raises:
        ValueError: something must be withheld, and there is no digest to keep in its place.
    """
    splits = {n: taken for n, event in enumerate(events) if (taken := _split(event)) is not None}
    placements: dict[Any, Split] = {}
    for number, taken in splits.items():
        placements.setdefault(events[number].get("call"), taken)
    filled = [_fill(event, placements.get(event.get("call"))) for event in events]
    if policy != "store" or any(event.get("policy", "store") != "store" for event in filled):
        if digest is None:
            raise ValueError(f"policy {policy!r} needs a keyed digest")
        return _withhold(filled, splits, policy, digest)
    return [_measure(event, splits[n]) if n in splits else event for n, event in enumerate(filled)]


def needs_policy(events: Sequence[Event], policy: str) -> bool:
    """Whether anything must be cut before these events are written."""
    return policy != "store" or any(event["kind"] == "piece" and "policy" in event for event in events)


def prompt_digest(request: Event) -> str | None:
    """The one digest of a stored request: of its single segment, else over the segments' digests, a line each."""
    for name in ("sha256", "hmac_sha256"):
        if name in request:
            return str(request[name])
    lines = [str(s.get("sha256") or s.get("hmac_sha256")) for s in request.get("segments", ())]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest() if lines else None


def _split(event: Event) -> Split | None:
    if event["kind"] != "request":
        return None
    prompt = event["messages"] if event.get("messages") is not None else event.get("prompt")
    try:
        return None if prompt is None else split(prompt)
    except TypeError:  # of a shape that we do not know: kept as it was handed over, or cut whole
        return None


def _fill(event: Event, prompt: Split | None) -> Event:
    """Give a placed piece its text, which the captured event left out because the prompt holds it."""
    if event["kind"] != "piece" or "text" in event or "start" not in event or "hmac_sha256" in event or prompt is None:
        return event
    number, start, end = _whole(event.get("segment", 0)), _whole(event["start"]), _whole(event.get("end"))
    if number is None or number >= len(prompt.segments) or start is None or end is None:
        return event
    return {**event, "text": prompt.segments[number].text[start:end]}


def _measure(event: Event, prompt: Split) -> Event:
    segments = [_described(segment, {"sha256": sha256_text(segment.text)}) for segment in prompt.segments]
    return _with_segments(event, prompt, segments)


def _described(segment: Segment, digest: dict[str, str]) -> dict[str, Any]:
    role = {} if segment.role is None else {"role": segment.role}
    return {"path": segment.path, **role, "chars": len(segment.text), **digest}


def _with_segments(event: Event, prompt: Split, segments: list[dict[str, Any]]) -> Event:
    single: dict[str, Any] = {}
    if len(segments) == 1:
        single = {name: segments[0][name] for name in ("sha256", "hmac_sha256") if name in segments[0]}
    outside = [{"path": part.path, "kind": part.kind, "detail": part.detail} for part in prompt.outside]
    return {
        **event,
        "chars": prompt.total,
        **single,
        "segments": segments,
        **({"outside": outside} if outside else {}),
    }


def _withhold(events: list[Event], splits: dict[int, Split], policy: str, digest: Digest) -> list[Event]:
    """Locate every piece while the texts are still here, then keep digests in place of what must not be kept."""
    pieces = {n: piece_of(event) for n, event in enumerate(events) if event["kind"] == "piece"}
    withheld = {n for n in pieces if _policy(events[n], policy) != "store"}
    telling: set[int] = set()  # pieces whose own text would tell what is withheld beside or inside them
    places: dict[int, tuple[int, int, int]] = {}
    sealed = list(events)
    for number in sorted(splits, key=lambda n: _STRENGTH.get(events[n].get("evidence", ""), 9), reverse=True):
        call, prompt = events[number].get("call"), splits[number]
        candidates = _candidates(events, pieces, call)
        found = zip(candidates, take(prompt, [pieces[n] for n in candidates]).pieces, strict=True)
        here = {n: (p.segment or 0, p.start or 0, p.end or 0) for n, p in found if p.state == "located"}
        cuts = _cuts(events, pieces, withheld.intersection(candidates), here, prompt, policy)
        telling |= {
            n for n, (segment, a, b) in here.items() if n not in withheld and _meets(cuts.get(segment, ()), a, b)
        }
        for n in candidates:
            if events[n].get("call") == call:  # the strongest request comes last, and its offsets count
                places.pop(n, None)
                places |= {n: here[n]} if n in here else {}
        sealed[number] = _cut_request(events[number], prompt, cuts, policy, digest)
    secrets = [text for n in withheld if (text := pieces[n].text)]
    for number, event in enumerate(events):
        if event["kind"] == "piece":
            text = pieces[number].text or ""
            tells = number in telling or (number not in places and any(secret in text for secret in secrets))
            sealed[number] = _seal_piece(event, places.get(number), number in withheld or tells, policy, digest)
        elif number not in splits and policy != "store":
            sealed[number] = _cut_fields(event, policy, digest)
    return sealed


def _candidates(events: list[Event], pieces: dict[int, Piece], call: Any) -> list[int]:
    """The pieces that may stand in a call's prompt: its own, and what the query offers unless it has copies of it."""
    own = [n for n in pieces if events[n].get("call") == call]
    shared = [n for n in pieces if events[n].get("call") is None and call is not None]
    if any(pieces[n].offered for n in own):
        shared = []
    return sorted(own + shared, key=lambda n: pieces[n].offered)


def _cuts(
    events: list[Event],
    pieces: dict[int, Piece],
    withheld: set[int],
    located: dict[int, tuple[int, int, int]],
    prompt: Split,
    policy: str,
) -> dict[int, list[Place]]:
    """What must be cut, by segment: where a piece is located, and all its occurrences where it is not."""
    cuts: dict[int, list[Place]] = {}
    found = withheld.intersection(located)
    for n in found:
        segment, start, end = located[n]
        cuts.setdefault(segment, []).append((start, end, _policy(events[n], policy)))
    for n in withheld - found:
        text = pieces[n].text or ""
        for number, part in enumerate(prompt.segments if text else ()):
            position = part.text.find(text)
            while position >= 0:
                end = position + len(text)
                cuts.setdefault(number, []).append((position, end, _policy(events[n], policy)))
                position = part.text.find(text, end)
    return cuts


def _meets(cuts: Sequence[Place], start: int, end: int) -> bool:
    return any(first < end and start < last for first, last, _ in cuts)


def _seal_piece(event: Event, place: tuple[int, int, int] | None, withheld: bool, policy: str, digest: Digest) -> Event:
    kept = dict(event)
    if place is not None:
        kept["segment"], kept["start"], kept["end"] = place
    if not withheld:
        return kept
    text, value = kept.pop("text", None), kept.pop("value", None)
    if value is not None:
        kept["hmac_sha256"] = digest(orjson.dumps(wrap(value), option=orjson.OPT_SORT_KEYS).decode())
    if isinstance(text, str):
        kept |= {"chars": len(text), "hmac_sha256": digest(text)}
    return {**kept, "policy": _policy(event, policy)}


def _cut_fields(event: Event, policy: str, digest: Digest) -> Event:
    texts = _TEXTS.get(event["kind"], ())
    if event["kind"] == "request":  # of a shape that can't be taken apart
        texts = (*texts, "prompt", "messages", "tools", "response_format")
    return {name: cut_value(item, policy, digest) if name in texts else item for name, item in event.items()}


def _cut_request(event: Event, prompt: Split, cuts: Mapping[int, list[Place]], policy: str, digest: Digest) -> Event:
    cut: dict[str, Callable[[Any], Any]] = {}
    described = []
    for number, segment in enumerate(prompt.segments):
        places = cuts.get(number, []) if policy == "store" else [(0, len(segment.text), policy)]
        if segment.text and places:
            cut[segment.path] = partial(_cut_leaf, places=places, policy=policy, digest=digest)
            described.append(_described(segment, {"hmac_sha256": digest(segment.text)}))
        else:
            described.append(_described(segment, {"sha256": sha256_text(segment.text)}))
    body = dict(event)
    if policy != "store":
        body |= {name: cut_value(body[name], policy, digest) for name in _TEXTS["request"] if name in body}
        cut |= {part.path: partial(cut_outside, policy=policy, digest=digest) for part in prompt.outside}
        prompt = replace(prompt, outside=tuple(replace(part, detail="withheld") for part in prompt.outside))
        if [name for name in ("tools", "response_format") if body.pop(name, None)]:
            body["model_visible_withheld"] = True
    if body.get("messages") is None:
        body["prompt"] = replace_at(body["prompt"], "prompt", cut)
    else:
        body["messages"] = [replace_at(message, f"messages[{n}]", cut) for n, message in enumerate(body["messages"])]
        if cut and "prompt" in body:
            body["prompt"] = cut_value(body["prompt"], policy, digest)
    return _with_segments(body, prompt, described)


def _cut_leaf(value: str | CutText, places: list[Place], policy: str, digest: Digest) -> CutText:
    if isinstance(value, str):
        return cut_text(value, places, digest)
    whole: CutText = cut_value(value, policy, digest)
    return whole


def _policy(event: Event, policy: str) -> str:
    own = str(event.get("policy", "store"))
    return own if policy == "store" else policy


def piece_of(event: Event) -> Piece:
    """The piece that a ``piece`` event declares. Without a call it is offered to every call of its query.

    A field of another type than it should have counts as absent: a record from outside is read, not trusted.
    """
    text, source_id = event.get("text"), event.get("source_id")
    chars = len(text) if isinstance(text, CutText) else _whole(event.get("chars"))
    return Piece(
        producer=str(event.get("producer")),
        text=text if isinstance(text, str) else None,
        trust=str(event.get("trust", "unknown")),
        policy=str(event.get("policy", "store")),
        source_id=None if source_id is None else str(source_id),
        inline=bool(event.get("inline")),
        offered=bool(event.get("offered")) or event.get("call") is None,
        inferred=bool(event.get("inferred")),
        segment=_whole(event.get("segment")),
        start=_whole(event.get("start")),
        end=_whole(event.get("end")),
        chars=chars,
        hmac_sha256=str(event["hmac_sha256"]) if event.get("hmac_sha256") is not None else None,
        value=event.get("value"),
    )


def _whole(number: object) -> int | None:
    return number if isinstance(number, int) and not isinstance(number, bool) and number >= 0 else None
