"""Whether every text of one value stands in others: then it tells nothing more than they do.

Values are compared by their leaves, whatever shape they come in: strings, numbers and the names of fields. A string
that is JSON is opened, at any depth, on either side. What names the kind of a part (``type``, ``role``, a media type)
is a word of whoever reports, and no text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from otel_prompt_trace.core.conventions.values import decoded
from otel_prompt_trace.core.withheld import Withheld

_KINDS = frozenset({"type", "role", "modality", "mime_type", "media_type", "mimeType"})
_KIND = re.compile(r"[A-Za-z][A-Za-z0-9_./+-]{0,63}")
_CODE = re.compile(r"[A-Za-z0-9_.:/+-]{0,128}")  # ids, finish reasons, fingerprints, names of tiers
_SCHEMAS = frozenset({"input_schema", "inputSchema"})  # elsewhere a tool's parameters
_BETWEEN = "\x00"
_DEPTH = 100
_SEARCHED = 2**30  # characters that are looked through for parts of longer texts; what is not found by then is unknown


class Texts:
    """The leaves of some values, and whether those of another value are among them."""

    def __init__(self, values: Iterable[Any]) -> None:
        self._leaves: set[Any] = set()
        waiting = list(values)
        while waiting:
            for name, leaf in _leaves(waiting.pop()):
                if leaf not in self._leaves:
                    self._leaves.add(leaf)
                    opened = leaf if name is _NAME else decoded(leaf)
                    if opened is not leaf:
                        waiting.append(opened)
        self._all: str | None = None
        self._left = _SEARCHED

    def hold(self, value: Any, *, codes: bool = False) -> bool:
        """Whether every text of a value is a whole one of these, or a part of one: see :meth:`unknown`."""
        return not any(True for _ in self.unknown(value, codes=codes))

    def unknown(self, value: Any, name: str = "", *, codes: bool = False, depth: int = 0) -> Iterator[Any]:
        """The leaves of a value that are neither one of these nor a part of one.

        Args:
            name: under which the value was reported.
            codes: numbers, and words that may be an id or a code, are let pass.
            depth: how deep in JSON within JSON the value stood.
        """
        for field, leaf in _leaves(value, name.rpartition(".")[2]):
            if leaf in self._leaves or (codes and _is_code(leaf)):
                continue
            if not isinstance(leaf, str):
                yield leaf
            elif field is _NAME:
                if leaf not in _SCHEMAS and not Withheld.is_field(leaf):
                    yield leaf
            elif not (field in _KINDS and _KIND.fullmatch(leaf)) and not self._is_part(leaf):
                opened = decoded(leaf) if depth < _DEPTH else leaf
                if opened is leaf:
                    yield leaf
                else:
                    yield from self.unknown(opened, str(field), codes=codes, depth=depth + 1)

    def _is_part(self, leaf: str) -> bool:
        if self._all is None:
            self._all = _BETWEEN.join(leaf for leaf in self._leaves if isinstance(leaf, str))
        self._left -= len(self._all)
        return self._left >= 0 and leaf in self._all


_NAME: Any = object()  # stands where a leaf is the name of a field itself


def _is_code(leaf: Any) -> bool:
    return not isinstance(leaf, str) or _CODE.fullmatch(leaf) is not None


def _leaves(value: Any, name: Any = "") -> Iterator[tuple[Any, Any]]:
    """Pairs of the field below which a leaf stands, and the leaf."""
    stack = [(value, name)]  # no recursion: a value may be nested deeply
    while stack:
        item, field = stack.pop()
        if isinstance(item, Mapping):
            for below, inner in item.items():
                yield _NAME, below
                stack.append((inner, below))
        elif isinstance(item, Sequence) and not isinstance(item, str | bytes | bytearray | memoryview):
            stack += [(inner, field) for inner in item]
        elif item is not None and not isinstance(item, bool):
            yield field, item if isinstance(item, str | int | float | bytes) else repr(item)
