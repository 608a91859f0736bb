"""What an attribute's key means here, in one dictionary look-up: it is asked for every attribute of every span."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from otel_prompt_trace.core.conventions import content_key
from otel_prompt_trace.diversion.secrets import secret_key

ORDINARY: Final = 0
CONTENT: Final = 1
FACT: Final = 2  # says whether the span is a model call, and of which model: kept beside the span, against eviction

_FACTS = ("gen_ai.", "llm.", "openinference.", "traceloop.", "ai.")
LONG: Final = 4096  # characters; a longer string belongs to no span, whatever its key says
SMALL: Final = frozenset({int, float, bool, type(None)})
_REMEMBERED = 4096
_LONGEST = 128
_MOST_HOLDERS = 100_000  # lists and objects in one value that are looked into; more belong to no span either


class _Kinds(dict[str, int]):
    """Answers by key. Bounded in number and in length, since keys may come from anywhere."""

    def __missing__(self, key: str) -> int:
        fact = key.startswith(_FACTS) and not secret_key(key)  # headers of a request are nothing to remember
        kind = CONTENT if content_key(key) is not None else FACT if fact else ORDINARY
        if type(key) is str and len(key) <= _LONGEST and len(self) < _REMEMBERED:
            self[key] = kind
            if kind == ORDINARY:
                ORDINARY_KEYS.add(key)
        return kind


KINDS: Final = _Kinds()
ORDINARY_KEYS: Final[set[str]] = set()  # those of them that are: what the quick ways through the doors ask


def kind_of(key: object) -> int:
    """The kind of any key; one that is no string, or can't be looked up, is the SDK's to refuse."""
    try:
        return KINDS[key]  # type: ignore[index]
    except Exception:  # noqa: BLE001 - a key of the application's may do anything
        return ORDINARY


def all_ordinary(attributes: Mapping[str, Any]) -> bool:
    """Whether none of these keys says anything of content or of a model call."""
    return ORDINARY_KEYS.issuperset(attributes) or not any(map(kind_of, attributes))


def nothing_to_take(attributes: Mapping[str, Any]) -> bool:
    """Whether all of these attributes may stay on a span as they are; False where they can't be looked at."""
    try:
        if not all_ordinary(attributes):
            return False
        for value in attributes.values():
            if type(value) is str:
                if len(value) > LONG:
                    return False
            elif type(value) not in SMALL and too_long(value):
                return False
    except Exception:  # noqa: BLE001 - a mapping of the application's may do anything
        return False
    return True


def too_long(value: Any) -> bool:
    """Whether a value is, or holds, a string too long for a span. Never raises: what can't be looked at is not."""
    if type(value) in SMALL:
        return False
    try:
        if isinstance(value, str | bytes):
            return len(value) > LONG
        return isinstance(value, dict | list | tuple) and _holds_long(value)
    except Exception:  # noqa: BLE001 - a value of the application's may do anything; the SDK has its own way with it
        return False


def _holds_long(value: Any) -> bool:
    """However deep it lies. Each container is looked into once: one may hold itself, or another many times."""
    waiting, seen = [value], {id(value)}
    while waiting:
        holder = waiting.pop()
        for item in holder.values() if isinstance(holder, dict) else holder:
            if type(item) in SMALL:
                continue
            if isinstance(item, str | bytes):
                if len(item) > LONG:
                    return True
            elif isinstance(item, dict | list | tuple) and id(item) not in seen:
                if len(seen) > _MOST_HOLDERS:
                    return True
                seen.add(id(item))
                waiting.append(item)
    return False
