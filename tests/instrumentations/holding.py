"""What must hold of every run, whatever the instrumentation, the limits and the order of installation."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, TypeAlias

from otel_prompt_trace.core.conventions import content_event, content_in_event, content_key, is_model_call
from tests.instrumentations.application import plain
from tests.instrumentations.by_hand import MARK
from tests.instrumentations.running import Run

Stored: TypeAlias = "dict[str, tuple[dict[str, Any], list[dict[str, Any]]]]"

LONGEST = 4096
APPLICATION = "application"  # the scope of the application's own spans


def assert_nothing_left(run: Run) -> None:
    """No content key, and no string over 4 KiB, is on any exported span or log record."""
    assert run.spans
    for span in run.spans:
        for where, name, value in [*_strings(span, "span"), ("span name", "", span["name"])]:
            assert len(value) <= LONGEST, f"{where} of {span['name']} holds {len(value)} characters under {name}"
        left = [key for key in span["attributes"] if content_key(key) is not None]
        assert not left, f"{span['name']} ({span['scope']}) still has {left}"
        for event in span["events"]:
            left = [key for key in event["attributes"] if content_in_event(content_event(event["name"]), key)]
            assert not left, f"event {event['name']} of {span['name']} still has {left}"
    for log in run.logs:
        left = [key for key in log["attributes"] if content_in_event(content_event(log["name"]), key)]
        assert not left, f"log record {log['name']} still has {left}"
        shown = log["body"]
        assert content_event(log["name"]) is None or shown is None or _is_stub(shown), f"{log['name']} has its body"
        for where, name, value in _strings(log, "log"):
            assert len(value) <= LONGEST, f"{where} of {log['name']} holds {len(value)} characters under {name}"


def assert_stored_whole(run: Run, bare: Run) -> int:
    """What was stored is what the same application handed over without us and without limits, value by value.

    Returns:
        The number of values compared.
    """
    compared = 0
    bare_spans, spans = in_order(bare), in_order(run)
    assert [_kind(span) for span in spans] == [_kind(span) for span in bare_spans]
    stored = _stored(run)
    for was, now in zip(bare_spans, spans, strict=True):
        compared += _assert_same(was, now, stored.pop(now["span_id"], ({}, [])), bare)
    assert not stored, "something is stored of spans that were not exported"
    return compared


def assert_stored_whole_of_each(run: Run, bare: Run) -> int:
    """The same for calls made at one time, whose spans come in any order: by the marks of the calls.

    Returns:
        The number of values compared.
    """
    compared = 0
    stored = _stored(run)
    bare_spans = {(*_kind(span), mark): span for span, mark in _marked(bare)}
    spans = {(*_kind(span), mark): span for span, mark in _marked(run)}
    assert len(spans) == len(_marked(run)) == len(stored), "an instrumentation told of a call twice, or of none"
    assert spans.keys() == bare_spans.keys()
    for which, now in spans.items():
        compared += _assert_same(bare_spans[which], now, stored[now["span_id"]], bare)
    return compared


def assert_one_call_each_mark(run: Run) -> int:
    """One call a mark: every span that bears it, and no other, is a sighting of that call.

    Returns:
        The number of calls.
    """
    expected: dict[str, dict[str, list[str]]] = {}
    spans = {span["span_id"]: span for span in run.spans}
    for span, mark in _marked(run):
        above = span
        while above["scope"] != APPLICATION:
            above = spans[above["parent"]]
        expected.setdefault(f"{above['trace_id']}-{above['span_id']}", {}).setdefault(mark, []).append(span["span_id"])
    assert set(run.records) == set(expected)
    for qid, by_mark in expected.items():
        record = run.records[qid]
        seen = sorted(sorted(str(sighting.span_id) for sighting in call.seen) for call in record.calls)
        assert seen == sorted(map(sorted, by_mark.values())), _told_apart(run, qid, by_mark)
        for call in record.calls:
            ids = [str(sighting.span_id) for sighting in call.seen]
            assert call.id == min(ids, key=lambda span_id: int(spans[span_id]["end"]))
            assert call.request is not None
        assert all(spans[i]["attributes"]["prompt_trace.qid"] == qid for ids in by_mark.values() for i in ids)
        assert len(record.of("end")) == 1
    return sum(map(len, expected.values()))


def _told_apart(run: Run, qid: str, by_mark: dict[str, list[str]]) -> str:
    """What to read when calls were taken for others: each call's spans, by mark and scope."""
    spans = {span["span_id"]: span for span in run.spans}
    marks = {span_id: mark for mark, ids in by_mark.items() for span_id in ids}
    calls = []
    for call in run.records[qid].calls:
        ids = [str(sighting.span_id) for sighting in call.seen]
        calls.append(sorted(f"{marks.get(i, '?')}: {spans[i]['scope']}" for i in ids))
    return "\n".join(map(str, sorted(calls)))


def _marked(run: Run) -> list[tuple[dict[str, Any], str]]:
    """The spans that tell of a call, each with the call's mark.

    It stands in what the span carries or carried, or where one leaves out both answer and id, the span's within it.
    """
    stored = _stored(run)
    marks: dict[str, str] = {}
    told = [span for span in run.spans if span["scope"] != APPLICATION]
    for span in told:
        logs = [log for log in run.logs if log["span_id"] == span["span_id"]]
        mark = MARK.search(_written([span, logs, stored.get(span["span_id"])]))
        if mark is not None:
            marks[span["span_id"]] = mark[0]
    within = {span["parent"]: mark for span in told if (mark := marks.get(span["span_id"])) is not None}
    found = [(span, marks.get(span["span_id"]) or within.get(span["span_id"])) for span in told]
    assert None not in [mark for _, mark in found], "a span of a call without a mark"
    return [(span, str(mark)) for span, mark in found]


def _assert_same(
    was: dict[str, Any], now: dict[str, Any], stored: tuple[dict[str, Any], list[dict[str, Any]]], bare: Run
) -> int:
    """What a span is stored to have carried is what the same span carried without us."""
    values, events = stored
    expected = {k: v for k, v in was["attributes"].items() if content_key(k) is not None or long(v)}
    if long(was["status"]):
        expected["status.description"] = was["status"]
    assert list(map(str, sorted(values))) == sorted(expected), was["name"]
    for key, value in expected.items():
        assert values[key] == value, f"{key} of {was['name']} ({was['scope']})"
    told = [*was["events"], *(log for log in bare.logs if log["span_id"] == was["span_id"])]
    whole = [found for event in told if (found := carried(event)) is not None]
    assert sorted(map(_written, events)) == sorted(map(_written, whole)), was["name"]
    kept = {key for key in was["attributes"] if content_key(key) is None}
    ours = {key for key in now["attributes"] if key.startswith("prompt_trace.")}
    assert set(now["attributes"]) - ours == kept, was["name"]
    return len(expected) + len(whole)


def assert_one_call_each(run: Run) -> int:
    """One call a logical call, named after its innermost model span; every other span of it is a sighting of it.

    The application makes one call after the other, so a logical call is a run of model spans that overlap in time.

    Returns:
        The number of calls.
    """
    counted = 0
    spans = {span["span_id"]: span for span in run.spans}
    stored = _stored(run)
    expected = _logical_calls(run, stored)
    for entry, calls in expected.items():
        qid = f"{spans[entry]['trace_id']}-{entry}"
        record = run.records[qid]
        seen = {call.id: sorted(str(sighting.span_id) for sighting in call.seen) for call in record.calls}
        assert seen == {innermost: sorted(ids) for innermost, ids in calls.items()}
        for call in record.calls:
            if call.request is None:  # one instrumentation drops the whole prompt where a part of it is an image
                assert not [told.span_id for told in call.seen if _has_prompt(stored[str(told.span_id)])]
        for span_id in (span_id for ids in calls.values() for span_id in ids):
            attributes = spans[span_id]["attributes"]
            assert attributes["prompt_trace.qid"] == qid
            assert attributes["prompt_trace.ref"].endswith(f"/{qid}/")
        counted += len(calls)
    assert set(run.records) == {f"{spans[entry]['trace_id']}-{entry}" for entry in expected}
    assert all(len(record.of("end")) == 1 for record in run.records.values())
    return counted


def _logical_calls(run: Run, stored: Stored) -> dict[str, dict[str, list[str]]]:
    """By entry span: the innermost model span of each logical call, and all model spans of it."""
    spans = {span["span_id"]: span for span in run.spans}
    found: dict[str, list[list[dict[str, Any]]]] = {}
    for span in sorted(run.spans, key=lambda span: int(span["start"])):
        keys = [*stored.get(span["span_id"], ({}, []))[0], *span["attributes"]]
        if not is_model_call(span["attributes"], keys):
            continue
        above = span
        while above["scope"] != APPLICATION:
            above = spans[above["parent"]]
        calls = found.setdefault(above["span_id"], [])
        if calls and span["start"] <= max(before["end"] for before in calls[-1]):
            calls[-1].append(span)
        else:
            calls.append([span])
    return {
        entry: {min(call, key=lambda span: int(span["end"]))["span_id"]: [s["span_id"] for s in call] for call in calls}
        for entry, calls in found.items()
    }


def _has_prompt(stored: tuple[dict[str, Any], list[dict[str, Any]]]) -> bool:
    keys = [content_key(key) for key in stored[0]]
    names = [content_event(name) for event in stored[1] for name in event]
    return any(found is not None and found.direction in ("in", "both") for found in (*keys, *names))


def _stored(run: Run) -> Stored:
    """Of each span the values that were diverted, and what its events and log records carried."""
    found: Stored = {}
    for event in run.events:
        if event["kind"] == "content" and event["route"] in ("attributes", "log"):
            values, events = found.setdefault(event["span_id"], ({}, []))
            values.update(plain(event.get("values") or {}))
            events += plain(event.get("events") or [])
    return found


def carried(event: dict[str, Any]) -> dict[str, Any] | None:
    """A bare span event or log record as it ought to be stored; None where it holds nothing to take."""
    kind = content_event(event["name"])
    taken = {k: v for k, v in event["attributes"].items() if content_in_event(kind, k) or long(v)}
    body = event.get("body")
    body = body if kind is not None or long(body) else None
    return {event["name"]: {"attributes": taken, "body": body}} if taken or body is not None else None


def in_order(run: Run) -> list[dict[str, Any]]:
    """The spans in the order in which they began."""
    return sorted(run.spans, key=lambda span: int(span["start"]))


def _kind(span: dict[str, Any]) -> tuple[str, str]:
    return span["scope"], span["name"]


def _written(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


def _strings(value: Any, where: str, name: str = "") -> Iterator[tuple[str, str, str]]:
    if isinstance(value, str):
        yield where, name, value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _strings(item, where, f"{name}.{key}")
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item, where, name)


def _is_stub(value: Any) -> bool:
    return isinstance(value, str) and len(value) < 128 and value.endswith("in the payload of prompt_trace.qid]")


def long(value: Any) -> bool:
    """Whether a value holds a string that is too long for a span."""
    return any(len(found) > LONGEST for _, _, found in _strings(value, ""))
