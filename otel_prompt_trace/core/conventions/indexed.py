"""Flat indexed keys (``llm.input_messages.0.message.role``) put together again, with what is missing named.

An attribute that never came, or that a limit took, leaves a hole in the numbering. The rest is kept in its order, and
every hole is reported by its key: a prompt with a hole must not pass for a whole one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

_Node: TypeAlias = "dict[str | None, Any]"
_LEVELS = 16  # of a key; what is nested deeper keeps the rest of its key as one name
_DIGITS = 9  # of an index
_NAMED = 100  # holes that are named one by one


class Indexed(NamedTuple):
    """Items in the order of their index, the index of each as it stood in its key, and the keys that are missing."""

    items: list[Any]
    indexes: list[str]
    missing: list[str]


def nested(content: Mapping[str, Any], prefix: str) -> Indexed:
    """The items below ``prefix`` (without its dot).

    Consecutive missing items are one entry (``llm.input_messages.3-9``). A list or a text under the bare prefix is
    not looked at, nor is a key below the prefix that has no index.
    """
    root, missing = _tree(content, prefix), list[str]()
    indexes = sorted((name for name in root if name is not None), key=lambda name: (int(name), name))
    _note_holes([int(name) for name in indexes], prefix, missing)
    found = [_build(root[name], f"{prefix}.{name}", missing) for name in indexes]
    return Indexed(found, indexes, missing)


def _tree(content: Mapping[str, Any], prefix: str) -> _Node:
    root: _Node = {}
    start = prefix + "."
    for key, value in content.items():
        if not key.startswith(start):
            continue
        index, *names = key[len(start) :].split(".", _LEVELS)
        if not _is_index(index):
            continue
        node = root.setdefault(index, {})
        for name in names:
            node = node.setdefault(name, {})
        node[None] = value  # beside the children: a key may have both a value and keys below it
    return root


def _build(node: _Node, path: str, missing: list[str]) -> Any:
    children = {name: child for name, child in node.items() if name is not None}
    if not children:
        return node[None]
    indexes = sorted(int(name) for name in children if _is_index(name))
    if len(indexes) == len(children):
        _note_holes(indexes, path, missing)
        in_order = sorted(children.items(), key=lambda child: int(child[0]))
        listed = [_build(child, f"{path}.{name}", missing) for name, child in in_order]
        return [node[None], *listed] if None in node else listed
    built = {name: _build(child, f"{path}.{name}", missing) for name, child in children.items()}
    return {"": node[None], **built} if None in node else built


def _note_holes(indexes: list[int], path: str, missing: list[str]) -> None:
    expected = 0
    for index in indexes:
        if index > expected and len(missing) < _NAMED:
            missing.append(f"{path}.{expected}" if index - expected == 1 else f"{path}.{expected}-{index - 1}")
        expected = index + 1


def _is_index(name: str) -> bool:
    return len(name) <= _DIGITS and name.isascii() and name.isdigit()
