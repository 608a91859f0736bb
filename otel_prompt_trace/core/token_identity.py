"""Token identity: the local count of a prompt beside the provider's, and what may stand between the two.

The difference is named by its candidates and never apportioned: only the provider knows how it renders a chat, a tool
or a schema.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from otel_prompt_trace.core.call import Call
from otel_prompt_trace.core.usage import normalize

# The chat format of OpenAI's models adds three tokens a message and three for the reply; four leave room for a name.
_WRAPPER_PER_MESSAGE = 4
_WRAPPER_PER_REPLY = 3
# Models in front of whose messages the host puts a system message of its own.
_HOST_SPEAKS = re.compile(r"(?:[a-z-]+/)*(?:o[1-9]|gpt-5|gpt-oss)(?![0-9a-z])")
# Whoever calls a tool is rendered with names and ids that stand in the envelope of a message.
_TOOL_USE = re.compile(r"\.(?:tool_calls|function_call|functionCall|functionResponse|toolUse|toolResult|arguments)\b")


@dataclass(frozen=True, slots=True)
class TokenIdentity:
    """Tokens of one call's prompt. ``counted`` is the local count, ``reported`` the provider's, cached ones included.

    ``wrapper`` is what the chat format may add at most; ``candidates`` are the other parts that the provider may have
    counted and the local count can't.
    """

    counted: int | None
    reported: int | None
    cached: int | None
    wrapper: int
    messages: int
    candidates: tuple[str, ...]

    @property
    def gap(self) -> int | None:
        """Tokens that were reported beyond those that were counted."""
        return None if self.counted is None or self.reported is None else self.reported - self.counted


def token_identity(call: Call, counted: int | None) -> TokenIdentity:
    """The identity of a call whose prompt has ``counted`` tokens; None where it can't be counted."""
    usage = normalize((call.response or {}).get("usage"))
    paths = [] if call.prompt is None else [segment.path for segment in call.prompt.segments]
    messages = len({path.partition(".")[0] for path in paths}) or 1
    return TokenIdentity(
        counted=counted,
        reported=usage.get("input_tokens"),
        cached=usage.get("cached_tokens"),
        wrapper=_WRAPPER_PER_REPLY + _WRAPPER_PER_MESSAGE * messages,
        messages=messages,
        candidates=tuple(_candidates(call, paths)),
    )


def _candidates(call: Call, paths: list[str]) -> Iterator[str]:
    yield from (name.replace("_", " ") for name in call.visible)
    if any(_TOOL_USE.search(path) for path in paths):
        yield "names and ids of tool calls"
    if call.prompt is not None:
        yield from sorted({f"{part.kind} parts" for part in call.prompt.outside})
    model = (call.request or {}).get("model")
    if call.visible or (isinstance(model, str) and _HOST_SPEAKS.match(model.lower())):
        yield "a system message of the host's"
