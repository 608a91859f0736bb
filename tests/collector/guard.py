"""The content guard of ``production.yaml``, read from the file: what it would delete, by its own rules."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import pytest

from tests.collector.running import CONFIGS

_DELETE = re.compile(r'delete_matching_keys\(attributes, "([^"]+)"\)')
_NAMED = re.compile(r'IsMatch\(name, "([^"]+)"\)')


class Group(NamedTuple):
    """Statements that run in one context, where one of the conditions holds; always where there are none."""

    context: str
    conditions: list[str]
    statements: list[str]


def configuration(name: str) -> dict[str, Any]:
    """A YAML file of ``collector-config``."""
    yaml = pytest.importorskip("yaml")
    return yaml.safe_load((CONFIGS / name).read_text())


def groups(processor: str = "transform/content") -> list[Group]:
    """Each group of a processor, in their order, as the collector reads them."""
    found = configuration("production.yaml")["processors"][processor]["trace_statements"]
    return [Group(each["context"], _read(each.get("conditions", ())), _read(each["statements"])) for each in found]


class Rules:
    """The rules of one context that delete attributes."""

    def __init__(self, context: str) -> None:
        self._always: list[re.Pattern[str]] = []
        self._named: list[re.Pattern[str]] = []
        self._names: list[re.Pattern[str]] = []
        self._below: list[re.Pattern[str]] = []
        for _, conditions, statements in (group for group in groups() if group.context == context):
            rules = [re.compile(each[1]) for each in map(_DELETE.fullmatch, statements) if each is not None]
            names = [re.compile(each[1]) for each in map(_NAMED.fullmatch, conditions) if each is not None]
            if names:
                self._named, self._names = rules, names
            elif conditions:
                self._below = rules
            else:
                self._always += rules

    def delete(self, key: str, event: str = "") -> bool:
        """Whether an attribute of this key is deleted, on a span or on an event of that name."""
        rules = list(self._always)
        if any(name.search(event) for name in self._names):
            rules += self._named
        return any(rule.search(key) for rule in rules)

    def delete_below(self, key: str) -> bool:
        """Whether a value that was nested, and now is an attribute of this key, is deleted."""
        return any(rule.search(key) for rule in self._below)


def _read(texts: list[str]) -> list[str]:
    return [text.replace("$$", "$") for text in texts]
