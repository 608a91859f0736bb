"""Credentials in what instrumentations hand over: cut at the door, before anything of it is kept.

The SDK call that an instrumentation records may have been given headers, query parameters or a key beside its prompt
(``input.value`` with ``extra_headers``, say). These reach no record, whatever the policy: place, length and a keyed
digest stay. What is told of the conversation itself is left alone. Where the looking fails nothing is kept.
"""

from __future__ import annotations

import os
from typing import Any, Final

from otel_prompt_trace.core.conventions import content_key
from otel_prompt_trace.core.credentials import is_credential
from otel_prompt_trace.core.cutting import Digest, nameless
from otel_prompt_trace.core.seal import keyed_digest
from otel_prompt_trace.core.secret_places import POLICY, cut_whole, without_secrets
from otel_prompt_trace.core.text import Cut, CutText
from otel_prompt_trace.current import current

# What a model gave back, what tools were given and found: texts of the conversation, not settings of a request.
_TOLD: Final = frozenset({"out", "tool", "query", "retrieval", "embedding", "template", "evaluation"})


def secret_key(key: str) -> bool:
    """Whether an attribute of this key holds nothing else: ``llm.headers``, ``ai.request.headers.x-api-key``."""
    return any(map(is_credential, key.split(".")))


def kept(key: str, value: Any) -> Any:
    """What is kept of the value of an attribute, or of the body of a record whose name is ``key``. Never raises."""
    if not isinstance(value, str | dict | list | tuple):
        return value
    try:
        known = content_key(key)
        if known is None and secret_key(key):
            return cut_whole(value, _digest)
        if known is not None and known.direction in _TOLD:
            return value
        return without_secrets(value, _digest)
    except Exception:  # noqa: BLE001 - in doubt nothing is kept
        return CutText((Cut(len(value), POLICY),)) if isinstance(value, str) else nameless(value)


def _digest(text: str) -> str:
    """The keyed digest of the runtime, made when there is something to digest."""
    runtime = current()
    digest: Digest = keyed_digest(os.urandom(32)) if runtime is None else runtime.digest()
    return digest(text)
