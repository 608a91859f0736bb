"""Whether an attribute's key carries content: one look into the table of the module ``table``.

:func:`content_key` runs on the application's thread for every attribute of every span. It remembers the first keys that
carry no content, and the first below a prefix, a bounded number of bounded length each: a stream of made-up keys can
neither fill memory nor slow it down by more than the one look at a key's head that it then takes.
"""

from __future__ import annotations

from otel_prompt_trace.core.conventions.table import BELOW, INDEXED, NO_PROVIDERS, OF_PROVIDER, TABLE, ContentKey

_HEAD = 4  # characters; enough to send nearly every other key away after one look
_PROVIDER = "llm."


def _exact() -> dict[str, ContentKey]:
    table: dict[str, ContentKey] = {}
    for convention, directions in TABLE.items():
        for direction, keys in directions.items():
            table.update(dict.fromkeys(keys, ContentKey(convention, direction)))
    return table


def _families() -> dict[str, tuple[str, ...]]:
    families: dict[str, tuple[str, ...]] = {}
    for prefix in (*INDEXED, *BELOW):
        families[prefix[:_HEAD]] = (*families.get(prefix[:_HEAD], ()), prefix)
    return families


_EXACT = _exact()
_FAMILIES = _families()
_REMEMBERED = 1024  # keys without content; an application sets a few hundred different ones
_LONGEST = 96  # characters of a key that is remembered
_UNASKED = ContentKey("otel", "both")  # no key's answer: it stands for "look"
_answers: dict[str, ContentKey | None] = dict(_EXACT)
_indexed: dict[str, ContentKey] = {}  # the first keys below a prefix: bounded on their own, to push no other out


def content_key(key: str) -> ContentKey | None:
    """Whose content the attribute ``key`` carries, and which way it goes; None where it carries none.

    Never raises, also for a key that is no string.
    """
    try:
        answer = _answers.get(key, _UNASKED)
        return _look(key) if answer is _UNASKED else answer
    except (TypeError, AttributeError):  # no string: the SDK refuses such a key by itself
        return None


def known_keys() -> dict[str, ContentKey]:
    """Every key that the table names in full, and every prefix (ending in a dot) below which keys are content."""
    return {**_EXACT, **INDEXED, **BELOW}


def _look(key: str) -> ContentKey | None:
    known = _indexed.get(key)
    if known is not None:
        return known
    family = _FAMILIES.get(key[:_HEAD])
    found = None if family is None or not key.startswith(family) else _below(key, family)
    if found is None and family is not None and key.startswith(_PROVIDER):
        found = _of_provider(key)
    if type(key) is not str or len(key) > _LONGEST:
        return found
    if found is not None and len(_indexed) < _REMEMBERED:
        _indexed[key] = found
    elif found is None and len(_answers) < _REMEMBERED + len(_EXACT):
        _answers[key] = None
    return found


def _below(key: str, family: tuple[str, ...]) -> ContentKey | None:
    for prefix in family:
        if key.startswith(prefix):
            if prefix in BELOW:
                return BELOW[prefix]
            if key[len(prefix) : len(prefix) + 1].isdigit():
                return INDEXED[prefix]
    return None


def _of_provider(key: str) -> ContentKey | None:
    provider, _, field = key[len(_PROVIDER) :].partition(".")
    direction = OF_PROVIDER.get(field)
    if direction is None or not provider or provider.startswith(NO_PROVIDERS):
        return None
    return ContentKey("litellm", direction)
