"""Jaeger, asked which qids stand on the spans of a trace.

Nothing that it answers is trusted: qids are checked one by one, the answer is read up to a size and within a time,
redirects are not followed. Whatever goes wrong is a fault in words and never keeps a page from being shown.
"""

from __future__ import annotations

import http.client
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import orjson

from otel_prompt_trace.bounded_http import ask
from otel_prompt_trace.core.attributes import QID
from otel_prompt_trace.core.qid import is_qid

_BYTES = 64 * 1024 * 1024  # of one answer; a trace whose spans carry prompts has tens of them
_QIDS = 1000
_SECONDS = 15.0  # for all of an answer


@dataclass(frozen=True, slots=True)
class Told:
    """Qids of a trace, each once, in the order of its spans; ``fault`` says why there may be more, else is empty."""

    qids: tuple[str, ...] = ()
    fault: str = ""


@dataclass(frozen=True, slots=True)
class Jaeger:
    """The Jaeger at ``url``, which :func:`otel_prompt_trace.settings.load` has checked."""

    url: str
    seconds: float = _SECONDS

    def page(self, trace_id: str) -> str:
        """The address of a trace's page."""
        return f"{self.url}/trace/{trace_id}"

    def qids(self, trace_id: str) -> Told:
        """The qids on the spans of a trace; never raises.

        Args:
            trace_id: 32 hexadecimal digits.
        """
        try:
            address, accepted = f"{self.url}/api/traces/{trace_id}", {"Accept": "application/json"}
            status, body = ask("GET", address, seconds=self.seconds, most=_BYTES, headers=accepted)
        except (OSError, http.client.HTTPException) as error:
            return Told(fault=f"Jaeger at {self.url} does not answer: {type(error).__name__}: {error}"[:300])
        if status == http.client.NOT_FOUND:
            return Told()
        if status != http.client.OK:
            return Told(fault=f"Jaeger at {self.url} answers with status {status}")
        if len(body) > _BYTES:
            return Told(fault=f"Jaeger's answer has more than {_BYTES:,} bytes and was not read")
        try:
            qids = tuple(dict.fromkeys(_qids(orjson.loads(body))))
        except orjson.JSONDecodeError:
            return Told(fault=f"what Jaeger at {self.url} answers is no JSON, or was cut after {self.seconds:.0f} s")
        if len(qids) > _QIDS:
            return Told(qids[:_QIDS], f"the spans of this trace name {len(qids):,} queries: {_QIDS:,} are listed")
        return Told(qids)


def _qids(answer: Any) -> Iterator[str]:
    """What of Jaeger's JSON is a qid, whatever else it holds."""
    for trace in _items(answer, "data"):
        for span in _items(trace, "spans"):
            for tag in _items(span, "tags"):
                if isinstance(tag, dict) and tag.get("key") == QID and is_qid(tag.get("value")):
                    yield tag["value"]


def _items(holder: Any, name: str) -> list[Any]:
    found = holder.get(name) if isinstance(holder, dict) else None
    return found if isinstance(found, list) else []
