"""The content guard of ``production.yaml``, read from the file: what it would delete, by its own rules."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.collector.running import CONFIGS

_DELETES = re.compile(
    r'delete_matching_keys\(attributes, "(?P<keys>[^"]+)"\)(?: where IsMatch\(name, "(?P<name>[^"]+)"\))?'
)


def configuration(name: str) -> dict[str, Any]:
    """A YAML file of ``collector-config``."""
    yaml = pytest.importorskip("yaml")
    return yaml.safe_load((CONFIGS / name).read_text())


def groups(processor: str = "transform/content") -> list[tuple[str, list[str]]]:
    """Each group of statements, in their order: the context and the statements."""
    found = configuration("production.yaml")["processors"][processor]["trace_statements"]
    return [(group["context"], group["statements"]) for group in found]


class Rules:
    """The rules of one context that delete attributes."""

    def __init__(self, context: str) -> None:
        statements = [each for of, group in groups() if of == context for each in group]
        found = [_DELETES.fullmatch(each.replace("$$", "$")) for each in statements]
        deletes = [each for each in found if each is not None]
        self._always = [re.compile(each["keys"]) for each in deletes if each["name"] is None]
        self._named = [(re.compile(each["name"]), re.compile(each["keys"])) for each in deletes if each["name"]]

    def __bool__(self) -> bool:
        return bool(self._always)

    def delete(self, key: str, event: str = "") -> bool:
        """Whether an attribute of this key is deleted, on a span or on an event of that name."""
        rules = self._always + [keys for name, keys in self._named if name.search(event)]
        return any(rule.search(key) for rule in rules)
