"""What must hold of every run in which requests were captured as they were sent."""

from __future__ import annotations

import hashlib
import json
from calendar import timegm
from collections import Counter
from collections.abc import Iterator
from time import strptime
from typing import Any

from click.testing import CliRunner

from otel_prompt_trace.cli.reading import get
from otel_prompt_trace.core.conventions import content_key
from otel_prompt_trace.core.record import Record
from otel_prompt_trace.core.usage import normalize
from tests.instrumentations.application import plain
from tests.instrumentations.holding import APPLICATION, carried, in_order, long
from tests.instrumentations.running import Run

_KINDS = ("type", "role", "modality", "mime_type", "media_type")
_CODE = 128  # characters of an id or a code of an answer, which no event repeats


def assert_sent_is_kept(run: Run) -> int:
    """The bodies that the commands give back are those that the model host received, byte for byte and in their order.

    Returns:
        The number of requests.
    """
    sent = [body for record in by_time(run) for body in bodies(run, record)]
    assert [_sha(body) for body in sent] == [_sha(body) for body in run.requests]
    return len(sent)


def assert_same_requests(run: Run) -> int:
    """The same of requests that were sent at one time, in any order."""
    sent = Counter(_sha(body) for record in by_time(run) for body in bodies(run, record))
    assert sent == Counter(_sha(body) for body in run.requests)
    return sum(sent.values())


def bodies(run: Run, record: Record) -> Iterator[bytes]:
    """What ``prompt-trace get QID --body --call N`` writes, once for every attempt of the call."""
    for call in record.calls:
        done = CliRunner().invoke(get, [record.qid, "--body", "--call", str(call.number), *run.places])
        assert done.exit_code == 0, done.output
        assert call.request is not None
        assert call.request["sha256"] == _sha(done.stdout_bytes)
        assert call.request["bytes"] == len(done.stdout_bytes)
        for _ in call.attempts:
            yield done.stdout_bytes


def assert_calls_are_those_sent(run: Run) -> int:
    """One call a request, of evidence ``wire``, with one answer; the spans around its sending are all it was seen by.

    The application makes one call after the other, so the spans of a call overlap in time.

    Returns:
        The number of calls.
    """
    counted = 0
    groups = _overlapping(run)
    for record in run.records.values():
        for call in record.calls:
            assert call.evidence == "wire"
            assert len(call.attempts) == len(call.responses) == 1
            assert not call.unfinished
            assert call.request is not None
            sent = nanoseconds(call.request["ts"])
            around = [spans for spans in groups if spans[0]["start"] <= sent <= max(s["end"] for s in spans)]
            assert len(around) <= 1
            expected = sorted(span["span_id"] for spans in around for span in spans)
            assert sorted(str(told.span_id) for told in call.seen if told.route != "log") == expected
            for span in (span for spans in around for span in spans):
                assert span["attributes"]["prompt_trace.qid"] == record.qid
                assert span["attributes"]["prompt_trace.ref"].endswith(f"/{record.qid}/")
            groups = [spans for spans in groups if spans not in around]
            counted += 1
        assert not [event for event in record.of("request") if event.get("projected")]
        assert not [event for event in record.of("response") if event.get("projected")]
        assert len(record.of("end")) == 1
    assert not groups, "spans that no call was seen by"
    return counted


def usage(run: Run) -> Counter[str]:
    """The tokens of all calls of all records."""
    total: Counter[str] = Counter()
    for record in run.records.values():
        for call in record.calls:
            found = normalize((call.response or {}).get("usage"))
            total += Counter({name: found.get(name, 0) for name in ("input_tokens", "output_tokens")})
    return total


def assert_nothing_lost(run: Run, bare: Run) -> tuple[int, int]:
    """What gave way is what the same application handed over without us, and every text of it is kept elsewhere.

    Returns:
        How many values gave way, and how many are kept whole.
    """
    gone = whole = 0
    told = {e["span_id"]: e for e in run.events if e["kind"] == "content" and e["route"] == "attributes"}
    requests = {e["call"]: e for e in run.events if e["kind"] == "request" and "body" in e}
    answers = {e["call"]: e for e in run.events if e["kind"] == "response"}
    for was, now in zip(in_order(bare), in_order(run), strict=True):
        assert (was["scope"], was["name"]) == (now["scope"], now["name"])
        event = told.pop(now["span_id"], {})
        values, digests = plain(event.get("values") or {}), event.get("digests") or {}
        expected = {k: v for k, v in was["attributes"].items() if content_key(k) is not None or long(v)}
        if long(was["status"]):
            expected["status.description"] = was["status"]
        by_name = {key: digest for key, digest in digests.items() if not key.startswith("event ")}
        assert sorted([*values, *by_name]) == sorted(expected), was["name"]
        assert {key: value for key, value in expected.items() if key in values} == values
        assert {key: _digest(expected[key]) for key in by_name} == by_name
        emitted = [*was["events"], *(log for log in bare.logs if log["span_id"] == was["span_id"])]
        events = [found for item in emitted if (found := carried(item)) is not None]
        left = [_written(item) for item in plain(event.get("events") or [])]
        given_way = [item for item in events if _written(item) not in left]
        assert sorted(_written(item) for item in events if item not in given_way) == sorted(left)
        of_events = [digest for key, digest in digests.items() if key.startswith("event ")]
        assert sorted(map(_written, (_digest(next(iter(item.values()))) for item in given_way))) == sorted(
            map(_written, of_events)
        )
        gone, whole = gone + len(digests), whole + len(values) + len(left)
        if digests:
            only = [told["text"] for told in (event.get("difference") or {}).get("reported_only", ())]
            body = "".join(requests[event["call"]]["body"])  # none of these is cut, or has images of any size
            sent = [*_texts(json.loads(body)), *only]
            answer = [*sent, *_texts(plain({n: answers[event["call"]].get(n) for n in ("output", "finish_reason")}))]
            for key in by_name:
                _assert_kept(key, expected[key], answer if _is_answer(key) else sent, codes=_is_answer(key))
            for item in given_way:
                _assert_kept("", item, answer, codes=True)
    assert not told
    return gone, whole


def differences(run: Run) -> dict[str, Counter[str]]:
    """By the scope that reported: what it said otherwise than it was sent, in numbers."""
    found: dict[str, Counter[str]] = {}
    for record in run.records.values():
        for call in record.calls:
            for told in call.seen:
                counted = found.setdefault(told.scope, Counter())
                counted["tellings"] += 1
                counted["not read"] += told.difference is None
                for name, item in (told.difference or {}).items():
                    counted[name] += len(item) if isinstance(item, list) else 1
    return found


def by_time(run: Run) -> list[Record]:
    """The records in the order in which their first events were written."""
    return sorted(run.records.values(), key=lambda record: str(record.events[0]["ts"]))


def nanoseconds(moment: str) -> int:
    """An event's time since 1970."""
    return timegm(strptime(moment[:19], "%Y-%m-%dT%H:%M:%S")) * 10**9 + int(moment[20:-1].ljust(9, "0"))


def _overlapping(run: Run) -> list[list[dict[str, Any]]]:
    """The spans of instrumentations, those together that overlap in time."""
    found: list[list[dict[str, Any]]] = []
    for span in in_order(run):
        if span["scope"] == APPLICATION:
            continue
        if found and span["start"] <= max(before["end"] for before in found[-1]):
            found[-1].append(span)
        else:
            found.append([span])
    return found


def _assert_kept(key: str, value: Any, texts: list[str], *, codes: bool) -> None:
    """Every text of a value stands in one of these; ids and codes of an answer need not."""
    for name, text in _named(value, key.rpartition(".")[2]):
        code = codes and len(text) <= _CODE and " " not in text
        if name not in _KINDS and not code and not any(text in other for other in texts):
            opened = _opened(text)
            assert opened is not None, f"{text[:80]!r}, reported as {key}, is lost"
            _assert_kept(key, opened, texts, codes=codes)


def _is_answer(key: str) -> bool:
    found = content_key(key)
    return found is not None and found.direction == "out"


def _texts(value: Any) -> list[str]:
    """Every string of a value, and of the JSON that stands in its strings."""
    found = [text for _, text in _named(value, "")]
    return [*found, *(below for text in found if (opened := _opened(text)) is not None for below in _texts(opened))]


def _named(value: Any, name: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield name, value
    elif isinstance(value, dict):
        for below, item in value.items():
            yield from _named(item, below)
    elif isinstance(value, list):
        for item in value:
            yield from _named(item, name)


def _opened(text: str) -> Any:
    if text.lstrip()[:1] not in ("{", "["):
        return None
    try:
        return json.loads(text)
    except ValueError:
        return None


def _digest(value: Any) -> dict[str, Any]:
    text = value if isinstance(value, str) else _written(value)
    return {"sha256": _sha(text.encode()), "chars": len(text)}


def _written(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def _sha(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


def shown(combination: object, run: Run) -> str:
    """A line for each scope, for people to read."""
    return "\n".join(
        f"{combination} {scope}: {', '.join(f'{name} {number}' for name, number in counted.items() if number)}"
        for scope, counted in sorted(differences(run).items())
    )
