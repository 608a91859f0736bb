"""Sketches of calls for tests: a prompt, who declared which part of it, and when."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import count
from typing import Any

from otel_prompt_trace.core.call import Call
from otel_prompt_trace.core.census import census
from otel_prompt_trace.core.events import Event
from otel_prompt_trace.core.pieces import Declared, Piece
from otel_prompt_trace.core.record import Record
from otel_prompt_trace.core.residuals.sketch import Sketch, sketch

Part = tuple[str | None, str]  # a producer (and a source: rag:id), None for nobody, and its text


class Day:
    """Calls one after the other; ``calls`` are their sketches."""

    def __init__(self) -> None:
        self.calls: list[Sketch] = []
        self._number = count(1)

    def say(
        self,
        parts: Iterable[Part],
        *,
        conversation: str | None = None,
        cached: int | None = None,
        answer: str | None = None,
        service: str = "app",
    ) -> Sketch:
        """A call whose prompt is one string, made of these parts in this order; each stands where it was put."""
        prompt, pieces = "", []
        for producer, text in parts:
            if producer is not None:
                start, prompt = len(prompt), prompt + text
                name, _, source = producer.partition(":")
                pieces.append(Piece(name, text, source_id=source or None, segment=0, start=start, end=len(prompt)))
            else:
                prompt += text
        return self.send(prompt, pieces, conversation=conversation, cached=cached, answer=answer, service=service)

    def send(
        self,
        prompt: Any,
        pieces: Sequence[Declared],
        *,
        conversation: str | None = None,
        cached: int | None = None,
        answer: str | None = None,
        service: str = "app",
    ) -> Sketch:
        """A call with any prompt."""
        number = next(self._number)
        qid, ts = f"Q{number:06d}", f"2026-11-30T12:00:00.{number:09d}Z"
        common: Event = {"v": "1.0", "qid": qid, "ts": ts, "writer": "W", "seq": number, "service": service}
        query: Event = {**common, "kind": "query"}
        if conversation is not None:
            query["conversation_id"] = conversation
        response: Event = {**common, "kind": "response", "output": answer}
        if cached is not None:
            response["usage"] = {"prompt_tokens": 10_000, "prompt_tokens_details": {"cached_tokens": cached}}
        call = Call("c1", 1, ({**common, "kind": "request"},), (response,), (), (), ())
        found = sketch(Record(qid, (query,), ()), call, census(prompt, pieces))
        self.calls.append(found)
        return found
