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
from collections.abc import Iterable, Sequence
from typing import Any

import orjson

from otel_prompt_trace.core.census import take
from otel_prompt_trace.core.cut_events import cut_fields, cut_request, measure
from otel_prompt_trace.core.cutting import Digest, Place
from otel_prompt_trace.core.events import Event
from otel_prompt_trace.core.exchanges import received
from otel_prompt_trace.core.pieces import Piece, as_offset, piece_of
from otel_prompt_trace.core.redaction import Redactor
from otel_prompt_trace.core.request_parts import split_request
from otel_prompt_trace.core.segments import Split
from otel_prompt_trace.core.text import as_text, utf8, wrap
from otel_prompt_trace.core.verdict import EVIDENCE
from otel_prompt_trace.core.withheld import Withheld

_STRENGTH = {evidence: rank for rank, evidence in enumerate(EVIDENCE)}


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
    named = [event for event in filled if "policy" in event]
    texts = {text: "hash" for text in withheld if text}
    if named or policy != "store":
        texts |= dict(_withheld_pieces(filled, policy))
    own = any(_policy(event, policy) != "store" for event in named)
    if not texts and not own and not needs_policy(filled, policy, redact=redact):
        return [measure(event, splits[n][0]) if n in splits else event for n, event in enumerate(filled)]
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
    number, start, end = as_offset(event.get("segment", 0)), as_offset(event["start"]), as_offset(event.get("end"))
    if number is None or number + before >= len(prompt.segments) or start is None or end is None:
        return event
    moved = {"segment": number + before} if before else {}
    return {**event, **moved, "text": prompt.segments[number + before].text[start:end]}


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
        sealed[number] = cut_request(events[number], prompt, cuts, policy, hidden, digest)
    for number, event in enumerate(events):
        if event["kind"] == "piece":
            kept = number not in withheld and number not in telling and not hidden.stand_in(pieces[number].text)
            sealed[number] = _seal_piece(event, places.get(number), not kept, policy, digest)
        elif number not in splits and (policy != "store" or (event["kind"] == "request" and hidden)):
            sealed[number] = cut_fields(event, policy if policy != "store" else "hash", digest)
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


def _tells_nothing(event: Event, policy: str) -> bool:
    """A blank text stays where only its own policy would take it: it is cut nowhere else either."""
    text = event.get("text")
    return policy == "store" and isinstance(text, str) and text.isspace()


def _policy(event: Event, policy: str) -> str:
    own = as_text(event.get("policy", "store"))
    return own if policy == "store" else policy
