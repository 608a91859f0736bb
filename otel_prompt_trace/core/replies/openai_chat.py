"""OpenAI's chat completions and legacy completions, and the many hosts that speak the same.

A stream is chunks of ``choices[].delta`` (or ``choices[].text``), closed by ``[DONE]``. Not every host sends that mark:
a stream that was transmitted whole and named a finish reason for each choice has ended too.
"""

from __future__ import annotations

from typing import Any

from otel_prompt_trace.core.conventions.messages import output_of
from otel_prompt_trace.core.conventions.values import given
from otel_prompt_trace.core.replies.growing import grow, settled
from otel_prompt_trace.core.replies.values import fields_of, listed, named, objects_in, place_of, word, words

_WHOLE = frozenset({"role", "id", "type", "index", "expires_at"})  # come once, or repeated with every delta


def read_chat(body: dict[str, Any]) -> dict[str, Any] | None:
    """The fields of a response event; None for what is no such body."""
    if not isinstance(body.get("choices"), list):
        return None
    choices = sorted(objects_in(body["choices"]), key=lambda choice: place_of(choice.get("index")))
    answers = [answer for choice in choices if (answer := _answer(choice)) is not None]
    reasons = [choice.get("finish_reason") or choice.get("stop_reason") for choice in choices]
    return named(body, output=listed(output_of(answers)), finish_reason=words(reasons))


def _answer(choice: dict[str, Any]) -> Any:
    message = choice.get("message")
    if not isinstance(message, dict):
        return choice.get("text")
    told = {name: item for name, item in given(message).items() if item != []}
    return told if told.keys() - {"role"} else None


class ChatStream:
    """Chunks, put together into the body of an answer that was not streamed."""

    def __init__(self) -> None:
        self._head: dict[str, Any] = {}
        self._choices: dict[int, _Choice] = {}
        self._seen = False

    @property
    def ended(self) -> bool:
        """Every choice said why it ended."""
        return bool(self._choices) and all(choice.reason is not None for choice in self._choices.values())

    def add(self, _name: str, value: dict[str, Any], /) -> None:
        """One chunk."""
        choices = value.get("choices")
        usage = value.get("usage") or ("x_groq" in value and fields_of(value["x_groq"]).get("usage"))
        for field in ("id", "model"):
            if not self._head.get(field) and value.get(field):  # Azure's first chunk has empty ones
                self._head[field] = value[field]
        if isinstance(usage, dict):
            self._head["usage"] = usage
        if not isinstance(choices, list):
            return
        self._seen = True
        for choice in choices:
            if isinstance(choice, dict):
                place = place_of(choice.get("index"))
                held = self._choices.get(place)
                if held is None:
                    held = self._choices[place] = _Choice()
                held.add(choice)

    def body(self) -> dict[str, Any] | None:
        """The body so far; None if no chunk was of this shape."""
        if not self._seen:
            return None
        return {**self._head, "choices": [choice.body(index) for index, choice in sorted(self._choices.items())]}


class _Choice:
    def __init__(self) -> None:
        self.reason: str | None = None
        self._fields: dict[str, Any] = {}
        self._calls: list[dict[str, Any]] = []
        self._open: dict[int, dict[str, Any]] = {}  # the call that an index stands for now

    def add(self, choice: dict[str, Any]) -> None:
        if choice.get("finish_reason") is not None or choice.get("stop_reason") is not None:
            self.reason = word(choice.get("finish_reason")) or word(choice.get("stop_reason")) or self.reason
        if isinstance(choice.get("text"), str):
            grow(self._fields, {"text": choice["text"]})
        delta = choice.get("delta") or choice.get("message")
        if not isinstance(delta, dict):
            return
        rest = delta
        if "tool_calls" in delta:
            rest = {name: item for name, item in delta.items() if name != "tool_calls"}
            for call in objects_in(delta["tool_calls"]):
                self._add_call(call)
        if rest:
            grow(self._fields.setdefault("message", {}), rest, whole=_WHOLE)

    def _add_call(self, call: dict[str, Any]) -> None:
        """Hosts number the calls, or number all of them 0 under ids that differ, or number none."""
        index = call.get("index")
        last: dict[str, Any] = self._calls[-1] if self._calls else {}
        held: dict[str, Any] | None
        if index is None and self._calls and call.get("id") in (None, "", last.get("id")):
            place, held = -1, last
        else:
            place = place_of(index) if index is not None else len(self._calls)
            held = self._open.get(place)
        if held is None or (call.get("id") and held.get("id") and call["id"] != held["id"]):
            held = self._open[place] = {}
            self._calls.append(held)
        function = fields_of(call.get("function"))
        if function.get("name") and function["name"] == settled(fields_of(held.get("function")).get("name")):
            function = {name: item for name, item in function.items() if name != "name"}  # said again
        kept = {name: item for name, item in call.items() if name not in ("index", "function")}
        grow(held, {**kept, **({"function": function} if function else {})}, whole=_WHOLE)

    def body(self, index: int) -> dict[str, Any]:
        fields = settled(self._fields)
        if self._calls:
            fields.setdefault("message", {})["tool_calls"] = settled(self._calls)
        return {"index": index, **fields, "finish_reason": self.reason}
