"""Wraps a function of a library when the library is imported, and unwraps it again.

A patch that does not fit the installed version disables itself, and says so; it never guesses.
"""

from __future__ import annotations

import functools
import inspect
import logging
import sys
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any, NamedTuple

import wrapt

_log = logging.getLogger("otel_prompt_trace")

Wrapper = Callable[[Callable[..., Any], Any, tuple[Any, ...], dict[str, Any]], Any]


@dataclass(frozen=True, slots=True)
class Patch:
    """One function to wrap.

    ``where`` is a dotted name within ``module``, such as ``Client.send``. ``takes`` are parameters that it must have.
    """

    module: str
    where: str
    wrapper: Wrapper
    takes: tuple[str, ...] = ()


def target(patch: Patch) -> tuple[Any, str, Any]:
    """What holds the function, its name there, and the function.

    Raises:
        ImportError, AttributeError, KeyError, TypeError: the patch does not fit what is installed.
    """
    owner: Any = import_module(patch.module)
    *holders, name = patch.where.split(".")
    for holder in holders:
        owner = getattr(owner, holder)
    original = vars(owner)[name]
    absent = set(patch.takes) - set(inspect.signature(original).parameters)
    if absent:
        raise TypeError(f"it takes no {', '.join(sorted(absent))}")
    return owner, name, original


class Patches:
    """Patches in force; :meth:`remove` undoes them. Those of libraries that are not imported yet wait for it."""

    def __init__(self, patches: Iterable[Patch]) -> None:
        self.notes: list[str] = []
        self.active: list[str] = []
        self._lock = threading.Lock()
        self._done: list[tuple[Any, str, Any, Any]] = []
        self._removed = False
        for patch in patches:
            wrapt.register_post_import_hook(functools.partial(self._apply, patch), patch.module)

    def remove(self) -> None:
        """Put the original functions back; where somebody has wrapped one again, ours stays and lets through."""
        with self._lock:
            self._removed = True
            while self._done:
                owner, name, original, ours = self._done.pop()
                if vars(owner).get(name) is ours:
                    setattr(owner, name, original)

    def _apply(self, patch: Patch, _module: Any) -> None:
        with self._lock:
            if self._removed:
                return
            try:
                self._wrap(patch)
            except Exception as error:  # noqa: BLE001 - an import of the application's must not fail because of us
                version = getattr(import_module(patch.module.partition(".")[0]), "__version__", "?")
                self.notes.append(f"{patch.module}.{patch.where} of version {version} is not captured: {error}")
                _log.warning("%s", self.notes[-1])

    def _wrap(self, patch: Patch) -> None:
        owner, name, original = target(patch)
        ours = wrapt.FunctionWrapper(original, patch.wrapper)
        setattr(owner, name, ours)
        self._done.append((owner, name, original, ours))
        self.active.append(f"{patch.module}.{patch.where}")


class Library(NamedTuple):
    """A library that is installed here. ``imported`` says whether this process uses it."""

    name: str
    version: str
    imported: bool


def misfits(patches: Iterable[Patch]) -> dict[Library, list[str]]:
    """The installed libraries among those of the patches, each with what of it does not fit. Imports them."""
    found: dict[Library, list[str]] = {}
    imported = set(sys.modules)
    for patch in patches:
        name = patch.module.partition(".")[0]
        try:
            library = Library(name, version(name), name in imported)
        except PackageNotFoundError:
            continue
        faults = found.setdefault(library, [])
        try:
            target(patch)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the finding
            faults.append(f"{patch.where}: {error}")
    return found
