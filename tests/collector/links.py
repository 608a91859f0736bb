"""The links that Jaeger's UI shows: ``linkPatterns`` of ``jaeger-ui.json`` filled in as the UI fills them in.

Placeholders are ``#{name}``. Values go into a URL encoded, into a text as they are. A link with a placeholder that has
no value is not shown. A pattern of type ``tags`` is offered at each tag that it names, and sees the span's tags and,
behind ``trace.``, the trace; one of type ``traces`` sees the trace alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import quote

from tests.collector.running import CONFIGS

_PLACEHOLDER = re.compile(r"#\{([^}]*)\}")
_OF_A_TRACE = ("traceID", "traceName", "duration", "startTime", "endTime")


class Link(NamedTuple):
    """What a person sees, and where it leads."""

    text: str
    url: str


def ui_configuration() -> dict[str, Any]:
    """``jaeger-ui.json`` as it is shipped."""
    found: dict[str, Any] = json.loads((CONFIGS / "jaeger-ui.json").read_text())
    return found


def span_links(tags: Mapping[str, Any], trace: Mapping[str, Any]) -> list[Link]:
    """The links that the UI shows at the tags of one span.

    Args:
        tags: the span's tags by their keys.
        trace: at least ``traceID``; further what the UI knows of a trace.
    """
    values = {**{f"trace.{name}": trace[name] for name in _OF_A_TRACE if name in trace}, **tags}
    patterns = [each for each in ui_configuration()["linkPatterns"] if each["type"] == "tags"]
    return _shown([each for key in tags for each in patterns if key in _keys(each)], values)


def trace_links(trace: Mapping[str, Any]) -> list[Link]:
    """The links that the UI shows at a trace."""
    patterns = [each for each in ui_configuration()["linkPatterns"] if each["type"] == "traces"]
    return _shown(patterns, {name: trace[name] for name in _OF_A_TRACE if name in trace})


def _keys(pattern: Mapping[str, Any]) -> list[str]:
    key = pattern["key"]
    return [key] if isinstance(key, str) else key


def _shown(patterns: list[Mapping[str, Any]], values: Mapping[str, Any]) -> list[Link]:
    links = []
    for pattern in patterns:
        names = {name for part in ("url", "text") for name in _PLACEHOLDER.findall(pattern[part])}
        if names <= set(values):
            text = _PLACEHOLDER.sub(lambda found: str(values[found[1]]), pattern["text"])
            url = _PLACEHOLDER.sub(lambda found: quote(str(values[found[1]]), safe="-_.!~*'()"), pattern["url"])
            links.append(Link(text, url))
    return links
