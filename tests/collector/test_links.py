"""Jaeger's links lead from a span to its payload, and from a trace to all payloads of it."""

from __future__ import annotations

import json
import re
import urllib.request
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from tests.collector.links import Link, span_links, trace_links, ui_configuration
from tests.collector.running import Jaeger

TRACE = {"traceID": "0af7651916cd43dd8448eb211c80319c", "traceName": "shop: query", "duration": 12}
VIEWER = "http://127.0.0.1:8765"


def test_from_a_span() -> None:
    """At its qid, and nowhere else; the trace goes along."""
    tags = {"http.method": "GET", "prompt_trace.qid": "01KBFAAAAAAAAAAAAAAAAAAAAA", "prompt_trace.chars": 12}
    assert span_links(tags, TRACE) == [
        Link(
            "Open the stored payload of 01KBFAAAAAAAAAAAAAAAAAAAAA",
            f"{VIEWER}/q/01KBFAAAAAAAAAAAAAAAAAAAAA?trace={TRACE['traceID']}",
        )
    ]
    assert span_links({"http.method": "GET"}, TRACE) == []


@pytest.mark.parametrize("qid", ["a/b?c#d&e=f", "é\U0001f600", "..", "x y", "%2e", "<script>"])
def test_values_stay_one_segment(qid: str) -> None:
    """An id that is none, as any application can put on a span, changes neither path nor query."""
    (link,) = span_links({"prompt_trace.qid": qid}, TRACE)
    parts = urlsplit(link.url)
    assert (parts.scheme, parts.netloc, parts.fragment) == ("http", "127.0.0.1:8765", "")
    _, first, last = parts.path.split("/")
    assert (first, unquote(last)) == ("q", qid)
    assert parse_qs(parts.query) == {"trace": [TRACE["traceID"]]}


def test_from_a_trace() -> None:
    """By the trace's id, the one thing that a link of a trace knows."""
    assert trace_links(TRACE) == [Link("All stored payloads of this trace", f"{VIEWER}/t/{TRACE['traceID']}")]


def test_placeholders_are_those_that_the_ui_fills() -> None:
    """One that it does not know would hide the link."""
    known = {"tags": r"prompt_trace\.qid|trace\.traceID", "traces": "traceID"}
    for pattern in ui_configuration()["linkPatterns"]:
        for name in re.findall(r"#\{([^}]*)\}", pattern["url"] + pattern["text"]):
            assert re.fullmatch(known[pattern["type"]], name)


@pytest.mark.integration
def test_jaeger_hands_it_to_its_ui(jaeger: Jaeger) -> None:
    """As it stands in the file."""
    with urllib.request.urlopen(jaeger.url + "/", timeout=10) as answer:
        page = answer.read().decode()
    found = re.search(r"JAEGER_CONFIG ?= ?(\{.*?\});?$", page, re.MULTILINE)
    assert found is not None
    assert json.loads(found[1]) == ui_configuration()
