"""Whether a store really does what this package needs: tried with one object, step by step.

The object lies under ``probe/<ulid>``, says what it is, and is deleted again. A step that fails says why; nothing is
raised. Later steps run where they still mean something, and the object is deleted whenever it was stored.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime

from otel_prompt_trace.core.keys import probe_key
from otel_prompt_trace.exceptions import NotFound, PromptTraceError
from otel_prompt_trace.store.objects import ObjectInfo, ObjectStore

__all__ = ["ProbeStep", "probe_store"]

_CONTENT = b"otel-prompt-trace tries out this store and deletes this object\n"
_OTHER = b"this must never be stored: the key was taken\n"


@dataclass(frozen=True, slots=True)
class ProbeStep:
    """One thing that was tried: its name (``put``, ``append_only``, ``get``, ``get_range``, ``list``, ``delete``).

    ``stored_at`` of ``list`` is when the object was stored by the store's own clock (aware, UTC).
    """

    name: str
    ok: bool
    detail: str
    stored_at: datetime | None = None


def probe_store(objects: ObjectStore, ulid: str) -> list[ProbeStep]:
    """Try a store out under a fresh id; the outcome of every step, in order.

    If the first step (``put``) fails, it is the only one.
    """
    key = probe_key(ulid)
    steps = [_step("put", lambda: _expect(objects.put(key, _CONTENT), f"a fresh key, {key}, was taken"))]
    if not steps[0].ok:
        return steps
    steps += [
        _step("append_only", lambda: _overwrite(objects, key)),
        _step("get", lambda: _expect(objects.get(key) == _CONTENT, "other bytes came back than were stored")),
        _step("get_range", lambda: _expect(objects.get_range(key, 5, 6) == _CONTENT[5:11], "a range gave other bytes")),
        _list(objects, key),
        _step("delete", lambda: _delete(objects, key)),
    ]
    return steps


def _step(name: str, attempt: Callable[[], str]) -> ProbeStep:
    try:
        fault = attempt()
    except PromptTraceError as error:
        fault = str(error)
    return ProbeStep(name, not fault, fault)


def _list(objects: ObjectStore, key: str) -> ProbeStep:
    listed: list[ObjectInfo] = []

    def attempt() -> str:
        listed.extend(objects.list(key))
        return _expect([info.key for info in listed] == [key], "the object is not listed")

    return replace(_step("list", attempt), stored_at=listed[0].modified if listed else None)


def _expect(held: bool, fault: str) -> str:
    return "" if held else fault


def _overwrite(objects: ObjectStore, key: str) -> str:
    if objects.put(key, _OTHER) or objects.get(key) != _CONTENT:
        return "a second put replaced the object: the server ignores If-None-Match, so records can be overwritten"
    return ""


def _delete(objects: ObjectStore, key: str) -> str:
    objects.delete(key)
    left = list(objects.versions(key))
    try:
        objects.get(key)
    except NotFound:
        return _expect(not left, "the object is gone, but an old version or a delete marker is left")
    return "the object is still there after it was deleted"
