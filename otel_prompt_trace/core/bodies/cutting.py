"""Which stretches of a body must not be kept: credentials always, the rest as the policies say.

Every string is looked at as the host decodes it, whatever escapes it was sent with.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from otel_prompt_trace.core.bodies.runs import RawPlace
from otel_prompt_trace.core.bodies.scan import At, raw_place
from otel_prompt_trace.core.secret_places import POLICY as SECRET
from otel_prompt_trace.core.secret_places import secret_places
from otel_prompt_trace.core.withheld import Withheld, is_protocol

_DATA_URL = re.compile(r"data:(?:[A-Za-z0-9.+-]+/[A-Za-z0-9.+-]+;base64,)?")
_KEPT = ("model", "modelId")


def places_to_cut(text: str, body: Any, policy: str, hidden: Withheld) -> Iterator[RawPlace]:
    """What of a body is not kept.

    Args:
        text: the body's text, and ``body`` what it was scanned to.
        policy: the query's; anything but ``store`` takes every string that is no word of the protocol.
        hidden: texts and patterns that are cut wherever they stand.
    """
    for start, end in secret_places(text):
        yield RawPlace(start, end, SECRET)
    if policy == "store" and not hidden:
        return
    kept = [body[name] for name in _KEPT if name in body] if isinstance(body, Mapping) else []
    stack: list[tuple[Any, str]] = [(body, "")]  # no recursion: a body may be nested deeply
    while stack:
        item, key = stack.pop()
        if isinstance(item, At):
            if not is_protocol(key, item) and not any(item is model for model in kept):
                yield from _string(text, item, policy, hidden)
        elif isinstance(item, Mapping):
            for name, below in item.items():
                yield from _name(text, name, hidden)
                stack.append((below, str(name)))
        elif isinstance(item, Sequence) and not isinstance(item, str):
            stack += [(below, key) for below in item]


def _string(text: str, string: At, policy: str, hidden: Withheld) -> Iterator[RawPlace]:
    if policy != "store":
        head = _DATA_URL.match(string)
        yield RawPlace(*raw_place(text, string, head.end() if head else 0, len(string)), policy)
    else:
        yield from _hidden(text, string, hidden)


def _name(text: str, name: Any, hidden: Withheld) -> Iterator[RawPlace]:
    if isinstance(name, At) and hidden and not hidden.is_field(name):
        yield from _hidden(text, name, hidden)


def _hidden(text: str, string: At, hidden: Withheld) -> Iterator[RawPlace]:
    if hidden:
        for start, end, policy in hidden.places(string):
            yield RawPlace(*raw_place(text, string, start, end), policy)
