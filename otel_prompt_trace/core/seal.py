"""From events as captured to events as stored.

What is captured on the application's thread is as little as possible: the prompt once, and for a piece that the
application placed only its offsets. Sealing adds what costs time and can wait: the texts of placed pieces, the
segments with their lengths and digests. It also applies the policy of a text, and there it must happen before
anything is written.

A stored ``request`` holds ``prompt`` (a string) or ``messages`` (a list), and for each segment its path, role,
``chars`` and ``sha256``; ``sha256`` of a single segment stands on the event too, ``chars`` is the total. Under
another policy than ``store`` the digests are keyed (``hmac_sha256``): a bare hash of a short text is soon guessed.

A policy of the query withholds every text. A policy of one piece withholds its text, and so does the caller's list:
each occurrence is cut out of every string of every event in the batch. The piece around it then stands by its
offsets, since its own text would tell. What can't be searched is cut whole: in doubt nothing is kept.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import orjson

from otel_prompt_trace.core.bodies.cutting import places_to_cut
from otel_prompt_trace.core.bodies.runs import cut_runs, parts_of, read_body
from otel_prompt_trace.core.census import take
from otel_prompt_trace.core.cutting import Digest, Place, cut_names, cut_outside, cut_text, cut_value, replace_at
from otel_prompt_trace.core.events import Event
from otel_prompt_trace.core.exchanges import received
from otel_prompt_trace.core.pieces import Piece
from otel_prompt_trace.core.redaction import Redactor
from otel_prompt_trace.core.request_parts import change_parameters, split_request, visible_parts
from otel_prompt_trace.core.secret_places import POLICY as SECRET
from otel_prompt_trace.core.segments import Outside, Segment, Split
from otel_prompt_trace.core.text import CutText, as_text, sha256_text, utf8, wrap
from otel_prompt_trace.core.verdict import EVIDENCE
from otel_prompt_trace.core.withheld import Withheld

_STRENGTH = {evidence: rank for rank, evidence in enumerate(EVIDENCE)}
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


def keyed_digest(key: bytes) -> Digest:
    """HMAC-SHA256 in hex over the UTF-8 of a text (RFC 2104)."""
    return lambda text: hmac.new(key, utf8(text), hashlib.sha256).hexdigest()


def seal(
    events: Sequence[Event],
    policy: str = "store",
    digest: Digest | None = None,
    withheld: Sequence[str] = (),
    redact: Redactor | None = None,
) -> list[Event]:
    """The events as they are stored; the arguments stay as they are.

    Args:
        events: the events of one query that were captured together.
        policy: the query's policy for text.
        digest: the keyed digest; needed for any other policy than ``store``, and for ``withheld``.
        withheld: texts of which no occurrence may be kept, beside those of the pieces in the batch.
        redact: finds what must not be kept in any text.

    Raises:
        ValueError: something must be withheld, and there is no digest to keep in its place.
    """
    events = [received(event) for event in events]
    splits = _splits(events)
    placements: dict[Any, tuple[Split, int]] = {}
    for number, taken in splits.items():
        placements.setdefault(events[number].get("call"), taken)
    filled = [_fill(event, placements.get(event.get("call"))) for event in events]
    texts = {text: "hash" for text in withheld if text} | dict(_withheld_pieces(filled, policy))
    own = any("policy" in event and _policy(event, policy) != "store" for event in filled)
    if not texts and not own and not needs_policy(filled, policy, redact=redact):
        return [_measure(event, splits[n][0]) if n in splits else event for n, event in enumerate(filled)]
    if digest is None:
        raise ValueError(f"policy {policy!r} needs a keyed digest")
    hidden = Withheld(texts, digest, redact)
    if hidden:
        filled = [hidden.rename(event) for event in filled]
        splits = _splits(filled)
    prompts = {n: prompt for n, (prompt, _) in splits.items()}
    return [hidden.clean(event) if hidden else event for event in _withhold(filled, prompts, policy, hidden, digest)]


def needs_policy(
    events: Sequence[Event], policy: str, withheld: Sequence[str] = (), redact: Redactor | None = None
) -> bool:
    """Whether anything must be cut before these events are written."""
    if policy != "store" or redact is not None or any(withheld):
        return True
    for event in events:  # noqa: SIM110 - asked for every append: a generator costs as much again
        if "secrets" in event or ("policy" in event and event["kind"] == "piece"):
            return True
    return False


def prompt_digest(request: Event) -> str | None:
    """The one digest of a stored request: of its single segment, else over the segments' digests, a line each."""
    for name in ("sha256", "hmac_sha256"):
        if name in request:
            return str(request[name])
    lines = [str(s.get("sha256") or s.get("hmac_sha256")) for s in request.get("segments", ())]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest() if lines else None


def _splits(events: Sequence[Event]) -> dict[int, tuple[Split, int]]:
    """The prompts of the requests, by the number of the event."""
    taken = ((n, split_request(event)) for n, event in enumerate(events) if event["kind"] == "request")
    return {n: prompt for n, prompt in taken if prompt is not None}


def _withheld_pieces(events: Sequence[Event], policy: str) -> Iterable[tuple[str, str]]:
    """The texts of the pieces that must not be kept, each with the policy that says so."""
    for event in events:
        text = event.get("text")
        if event["kind"] == "piece" and isinstance(text, str) and text and _policy(event, policy) != "store":
            own = as_text(event.get("policy", "store"))
            if own != "store":  # what the query's policy withholds is cut with the field that it stands in
                yield text, own


def _fill(event: Event, placement: tuple[Split, int] | None) -> Event:
    """Give a placed piece its text, which the captured event left out because the prompt holds it.

    Its segment was counted within the prompt alone; what the parameters put before that comes on top.
    """
    if event["kind"] != "piece" or "text" in event or "start" not in event or "hmac_sha256" in event:
        return event
    if placement is None:
        return event
    prompt, before = placement
    number, start, end = _whole(event.get("segment", 0)), _whole(event["start"]), _whole(event.get("end"))
    if number is None or number + before >= len(prompt.segments) or start is None or end is None:
        return event
    moved = {"segment": number + before} if before else {}
    return {**event, **moved, "text": prompt.segments[number + before].text[start:end]}


def _measure(event: Event, prompt: Split) -> Event:
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


def _withhold(
    events: list[Event], splits: dict[int, Split], policy: str, hidden: Withheld, digest: Digest
) -> list[Event]:
    """Locate every piece while the texts are still here, then keep digests in place of what must not be kept."""
    pieces = {n: piece_of(event) for n, event in enumerate(events) if event["kind"] == "piece"}
    withheld = {n for n in pieces if _policy(events[n], policy) != "store" and not _tells_nothing(events[n], policy)}
    telling: set[int] = set()  # pieces whose own text would tell what is withheld beside or inside them
    places: dict[int, tuple[int, int, int]] = {}
    sealed = list(events)
    for number in sorted(splits, key=lambda n: _STRENGTH.get(events[n].get("evidence", ""), 9), reverse=True):
        call, prompt = events[number].get("call"), splits[number]
        candidates = _candidates(events, pieces, call)
        found = zip(candidates, take(prompt, [pieces[n] for n in candidates]).pieces, strict=True)
        here = {n: (p.segment or 0, p.start or 0, p.end or 0) for n, p in found if p.state == "located"}
        cuts = {n: cut for n, segment in enumerate(prompt.segments) if (cut := hidden.places(segment.text))}
        telling |= {
            n for n, (segment, a, b) in here.items() if n not in withheld and _meets(cuts.get(segment, ()), a, b)
        }
        for n in candidates:
            if events[n].get("call") == call:  # the strongest request comes last, and its offsets count
                places.pop(n, None)
                places |= {n: here[n]} if n in here else {}
        sealed[number] = _cut_request(events[number], prompt, cuts, policy, hidden, digest)
    for number, event in enumerate(events):
        if event["kind"] == "piece":
            kept = number not in withheld and number not in telling and not hidden.stand_in(pieces[number].text)
            sealed[number] = _seal_piece(event, places.get(number), not kept, policy, digest)
        elif number not in splits and (policy != "store" or (event["kind"] == "request" and hidden)):
            sealed[number] = _cut_fields(event, policy if policy != "store" else "hash", digest)
    return sealed


def _candidates(events: list[Event], pieces: dict[int, Piece], call: Any) -> list[int]:
    """The pieces that may stand in a call's prompt: its own, and what the query offers unless it has copies of it."""
    own = [n for n in pieces if events[n].get("call") == call and not events[n].get("left_out")]
    shared = [n for n in pieces if events[n].get("call") is None and call is not None]
    if any(pieces[n].offered for n in own):
        shared = []
    return sorted(own + shared, key=lambda n: pieces[n].offered)


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
        blank = {"blank": True} if text.isspace() else {}  # glue, which keeps no producer from being the whole prompt
        kept |= {"chars": len(text), "hmac_sha256": digest(text), **blank}
    return {**kept, "policy": _policy(event, policy)}


def _cut_fields(event: Event, policy: str, digest: Digest) -> Event:
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


def _cut_request(
    event: Event, prompt: Split, cuts: Mapping[int, list[Place]], policy: str, hidden: Withheld, digest: Digest
) -> Event:
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
        return _cut_fields(event, "hash", digest)
    places = list(places_to_cut(text, read.value, policy, hidden))
    body = {**event, "body": cut_runs(text, places, digest)}
    kept = parts_of(body["body"])  # the same parts, with paths in which no name is left that was cut
    if kept is None or len(kept.prompt.segments) != len(prompt.segments):
        return _cut_fields(event, "hash", digest)
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


def _tells_nothing(event: Event, policy: str) -> bool:
    """A blank text stays where only its own policy would take it: it is cut nowhere else either."""
    text = event.get("text")
    return policy == "store" and isinstance(text, str) and text.isspace()


def _policy(event: Event, policy: str) -> str:
    own = as_text(event.get("policy", "store"))
    return own if policy == "store" else policy


def piece_of(event: Event) -> Piece:
    """The piece that a ``piece`` event declares. Without a call it is offered to every call of its query.

    A field of another type than it should have counts as absent: a record from outside is read, not trusted.
    """
    text, source_id = event.get("text"), event.get("source_id")
    chars = len(text) if isinstance(text, CutText) else _whole(event.get("chars"))
    return Piece(
        producer=as_text(event.get("producer")),
        text=text if isinstance(text, str) else None,
        trust=as_text(event.get("trust", "unknown")),
        policy=as_text(event.get("policy", "store")),
        source_id=None if source_id is None else as_text(source_id),
        inline=bool(event.get("inline")),
        offered=bool(event.get("offered")) or event.get("call") is None,
        inferred=bool(event.get("inferred")),
        segment=_whole(event.get("segment")),
        start=_whole(event.get("start")),
        end=_whole(event.get("end")),
        chars=chars,
        hmac_sha256=as_text(event["hmac_sha256"]) if event.get("hmac_sha256") is not None else None,
        value=event.get("value"),
        blank=bool(event.get("blank")),
        given=_whole(event.get("given")),
    )


def _whole(number: object) -> int | None:
    return number if isinstance(number, int) and not isinstance(number, bool) and number >= 0 else None
