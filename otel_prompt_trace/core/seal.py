"""From events as captured to events as stored.

What is captured on the application's thread is as little as possible: the prompt once, and for a piece that the
application placed only its offsets. Sealing adds what costs time and can wait: the texts of placed pieces, the
segments with their lengths and digests. It also applies the policy of a text, and there it must happen before
anything is written.

A stored ``request`` holds ``prompt`` (a string) or ``messages`` (a list), and for each segment its path, role,
``chars`` and ``sha256``; ``sha256`` of a single segment stands on the event too, ``chars`` is the total. Under
another policy than ``store`` the digests are keyed (``hmac_sha256``): a bare hash of a short text is soon guessed.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from otel_prompt_trace.core.census import take
from otel_prompt_trace.core.events import Event
from otel_prompt_trace.core.pieces import Piece
from otel_prompt_trace.core.segments import Segment, Split, split
from otel_prompt_trace.core.text import Cut, CutText, sha256_text, utf8

POLICIES = ("store", "hash")
Digest = Callable[[str], str]

_TEXTS = {  # the fields of each kind that hold text of the conversation, and fall under the query's policy
    "query": ("question",),
    "retrieval": ("hits", "question"),
    "response": ("output",),
    "tool_call": ("arguments", "result"),
    "content": ("value",),
    "feedback": ("comment",),
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
    """
    requests = {event.get("call"): event for event in events if event["kind"] == "request"}
    splits = {call: split(_prompt(event)) for call, event in requests.items() if _prompt(event) is not None}
    filled = [_fill(event, splits.get(event.get("call"))) for event in events]
    if digest is not None and (policy != "store" or any(event.get("policy", "store") != "store" for event in filled)):
        return _withhold(filled, splits, policy, digest)
    return [_measure(event, splits.get(event.get("call"))) if event["kind"] == "request" else event for event in filled]


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


def _prompt(event: Event) -> Any:
    return event["messages"] if event.get("messages") is not None else event.get("prompt")


def _fill(event: Event, prompt: Split | None) -> Event:
    """Give a placed piece its text, which the captured event left out because the prompt holds it."""
    if event["kind"] != "piece" or "text" in event or "start" not in event or prompt is None:
        return event
    segment = prompt.segments[event["segment"]]
    return {**event, "text": segment.text[event["start"] : event["end"]]}


def _measure(event: Event, prompt: Split | None) -> Event:
    if prompt is None:
        return event
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


def _withhold(events: list[Event], splits: dict[Any, Split], policy: str, digest: Digest) -> list[Event]:
    """Locate every piece while the texts are still here, then keep digests in place of what must not be kept."""
    cuts: dict[Any, list[tuple[int, int, int]]] = {}
    located: dict[int, tuple[int, int, int]] = {}
    for call, prompt in splits.items():
        numbers = [n for n, e in enumerate(events) if e["kind"] == "piece" and e.get("call") == call]
        placed = take(prompt, [piece_of(events[n]) for n in numbers]).pieces
        for number, found in zip(numbers, placed, strict=True):
            if found.segment is None or found.start is None or found.end is None:
                continue
            place = (found.segment, found.start, found.end)
            located[number] = place
            if _policy(events[number], policy) != "store":
                cuts.setdefault(call, []).append(place)
    return [
        _withheld(event, splits.get(event.get("call")), cuts.get(event.get("call"), []), located.get(n), policy, digest)
        for n, event in enumerate(events)
    ]


def _withheld(
    event: Event,
    prompt: Split | None,
    cuts: list[tuple[int, int, int]],
    place: tuple[int, int, int] | None,
    policy: str,
    digest: Digest,
) -> Event:
    if event["kind"] == "request" and prompt is not None:
        return _cut_request(event, prompt, cuts, policy, digest)
    if event["kind"] == "piece":
        if place is not None:
            event = {**event, "segment": place[0], "start": place[1], "end": place[2]}
        if _policy(event, policy) != "store" and isinstance(event.get("text"), str):
            text = event["text"]
            kept = {name: value for name, value in event.items() if name not in ("text", "value")}
            return {**kept, "policy": _policy(event, policy), "chars": len(text), "hmac_sha256": digest(text)}
        return event
    if policy == "store":
        return event
    return {
        name: _cut_all(value, policy, digest) if name in _TEXTS.get(event["kind"], ()) else value
        for name, value in event.items()
    }


def _cut_request(event: Event, prompt: Split, cuts: list[tuple[int, int, int]], policy: str, digest: Digest) -> Event:
    texts: dict[str, str | CutText] = {}
    described = []
    for number, segment in enumerate(prompt.segments):
        places = [(0, len(segment.text))] if policy != "store" else [(a, b) for s, a, b in cuts if s == number]
        if segment.text and places:
            name = policy if policy != "store" else "hash"
            texts[segment.path] = _cut_text(segment.text, places, name, digest)
            described.append(_described(segment, {"hmac_sha256": digest(segment.text)}))
        else:
            described.append(_described(segment, {"sha256": sha256_text(segment.text)}))
    body = {name: value for name, value in event.items() if name not in ("tools", "response_format")}
    if policy == "store":
        body = dict(event)
    elif "tools" in event or "response_format" in event:
        body["model_visible_withheld"] = True
    if event.get("messages") is not None:
        body["messages"] = [_replace(message, f"messages[{n}]", texts) for n, message in enumerate(event["messages"])]
    else:
        body["prompt"] = texts.get("prompt", event["prompt"])
    return _with_segments(body, prompt, described)


def _replace(value: Any, path: str, texts: Mapping[str, str | CutText]) -> Any:
    if isinstance(value, str):
        return texts.get(path, value)
    if isinstance(value, Mapping):
        return {name: _replace(item, f"{path}.{name}", texts) for name, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
        return [_replace(item, f"{path}[{n}]", texts) for n, item in enumerate(value)]
    return value


def _cut_text(text: str, places: list[tuple[int, int]], policy: str, digest: Digest) -> CutText:
    runs: list[str | Cut] = []
    reached = 0
    for first, end in sorted(places):
        start = max(first, reached)
        if end <= start:
            continue
        if start > reached:
            runs.append(text[reached:start])
        runs.append(Cut(end - start, policy, digest(text[start:end])))
        reached = end
    if reached < len(text):
        runs.append(text[reached:])
    return CutText(tuple(runs))


def _cut_all(value: Any, policy: str, digest: Digest) -> Any:
    """Every string below ``value``, cut whole; numbers and structure stay."""
    if isinstance(value, str):
        return _cut_text(value, [(0, len(value))], policy, digest) if value else value
    if isinstance(value, Mapping):
        return {
            name: item if name in ("rank", "chunk_id", "score") else _cut_all(item, policy, digest)
            for name, item in value.items()
        }
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
        return [_cut_all(item, policy, digest) for item in value]
    if value is None or isinstance(value, bool | int | float):
        return value
    return _cut_all(repr(value), policy, digest)


def _policy(event: Event, policy: str) -> str:
    own = str(event.get("policy", "store"))
    return own if policy == "store" else policy


def piece_of(event: Event) -> Piece:
    """The piece that a ``piece`` event declares. Without a call it is offered to every call of its query."""
    return Piece(
        producer=str(event.get("producer")),
        text=event.get("text"),
        trust=str(event.get("trust", "unknown")),
        policy=str(event.get("policy", "store")),
        source_id=event.get("source_id"),
        inline=bool(event.get("inline")),
        offered=bool(event.get("offered")) or "call" not in event,
        inferred=bool(event.get("inferred")),
        segment=event.get("segment"),
        start=event.get("start"),
        end=event.get("end"),
        chars=event.get("chars"),
        hmac_sha256=event.get("hmac_sha256"),
        value=event.get("value"),
    )
