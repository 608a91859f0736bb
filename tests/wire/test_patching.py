"""Patches: put on when a library is imported, taken off again, and never a guess."""

from __future__ import annotations

import importlib
import logging
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import wrapt

from otel_prompt_trace.wire.patching import Patch, Patches

LIBRARY = """
__version__ = "7.1"

class Client:
    def send(self, request, *, stream=False):
        return ["sent", request]

    @staticmethod
    def static(request):
        return ["static", request]

    @classmethod
    def of_class(cls, request):
        return [cls.__name__, request]

class Heir(Client):
    pass

def function(request):
    return ["function", request]

value = 7
"""


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The name of a library that can be imported and has not been."""
    name = f"library_{tmp_path.name.replace('-', '_')}_{abs(hash(tmp_path)) % 10**8}"
    (tmp_path / f"{name}.py").write_text(LIBRARY)
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()
    yield name
    sys.modules.pop(name, None)


@pytest.fixture
def seen() -> list[Any]:
    """What the wrapper saw."""
    return []


@pytest.fixture
def wrapper(seen: list[Any]) -> Callable[..., Any]:
    """Notes what passes, and lets it through."""

    def note(wrapped: Callable[..., Any], instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        seen.append((args, kwargs))
        return wrapped(*args, **kwargs)

    return note


def test_import_after_install(library: str, wrapper: Any, seen: list[Any]) -> None:
    """Nothing is imported for it; the patch is on as soon as the library is there."""
    patches = Patches([Patch(library, "Client.send", wrapper, ("request", "stream"))])
    assert library not in sys.modules
    assert patches.active == patches.notes == []
    module = importlib.import_module(library)
    assert patches.active == [f"{library}.Client.send"]
    assert module.Client().send("r", stream=True) == ["sent", "r"]
    assert seen == [(("r",), {"stream": True})]
    patches.remove()


def test_import_before_install(library: str, wrapper: Any, seen: list[Any]) -> None:
    """Where it is there already, the patch is on at once; instances that exist are reached as well."""
    module = importlib.import_module(library)
    client = module.Client()
    patches = Patches([Patch(library, "Client.send", wrapper)])
    assert client.send("r") == ["sent", "r"]
    assert len(seen) == 1
    patches.remove()


def test_remove_restores_what_was_there(library: str, wrapper: Any, seen: list[Any]) -> None:
    """The very objects, a static method's as well."""
    module = importlib.import_module(library)
    names = ("send", "static")
    before = {name: vars(module.Client)[name] for name in names}
    patches = Patches(
        [*(Patch(library, f"Client.{name}", wrapper) for name in names), Patch(library, "function", wrapper)]
    )
    assert module.Client().send("r") == ["sent", "r"]
    assert module.Client.static("r") == ["static", "r"]
    assert module.function("r") == ["function", "r"]
    assert len(seen) == 3
    patches.remove()
    patches.remove()
    assert {name: vars(module.Client)[name] for name in names} == before
    assert module.Client().send("r") == ["sent", "r"]
    assert module.function("r") == ["function", "r"]
    assert len(seen) == 3


def test_removed_before_the_import(library: str, wrapper: Any) -> None:
    """Then the library is never touched."""
    patches = Patches([Patch(library, "Client.send", wrapper)])
    patches.remove()
    module = importlib.import_module(library)
    assert not isinstance(vars(module.Client)["send"], wrapt.ObjectProxy)
    assert patches.active == []


def test_installed_again(library: str, wrapper: Any, seen: list[Any]) -> None:
    """Whatever the order of imports and removals: one wrapper at a time."""
    first = Patches([Patch(library, "Client.send", wrapper)])
    first.remove()
    second = Patches([Patch(library, "Client.send", wrapper)])
    module = importlib.import_module(library)
    module.Client().send("r")
    assert len(seen) == 1
    second.remove()
    third = Patches([Patch(library, "Client.send", wrapper)])
    module.Client().send("r")
    assert len(seen) == 2
    third.remove()


@pytest.mark.parametrize(
    ("where", "takes", "reason"),
    [
        ("Client.send", ("request", "timeout", "proxy"), "it takes no proxy, timeout"),
        ("Client.dispatch", (), "dispatch"),
        ("Session.send", (), "Session"),
        ("Client.of_class", (), "not a callable"),
        ("Heir.send", (), "send"),  # inherited: wrapping it there would not be undone by putting it back
        ("value", ("request",), ""),
    ],
)
def test_a_patch_that_does_not_fit(
    library: str, wrapper: Any, where: str, takes: tuple[str, ...], reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It disables itself, says so with the library's version, and keeps neither import nor other patches back."""
    patches = Patches([Patch(library, where, wrapper, takes), Patch(library, "function", wrapper, ("request",))])
    with caplog.at_level(logging.WARNING):
        module = importlib.import_module(library)
    (note,) = patches.notes
    assert note.startswith(f"{library}.{where} of version 7.1 is not captured: ")
    assert reason in note
    assert note in caplog.text
    assert patches.active == [f"{library}.function"]
    assert module.Client().send("r") == ["sent", "r"]
    patches.remove()
    assert module.function("r") == ["function", "r"]


def test_somebody_wrapped_over_us(library: str, wrapper: Any, seen: list[Any]) -> None:
    """Theirs stays when ours goes: taking it off would break theirs. Ours is then passed through."""
    module = importlib.import_module(library)
    patches = Patches([Patch(library, "Client.send", wrapper)])
    ours = vars(module.Client)["send"]

    def theirs(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
        return ["theirs", *wrapped(*args, **kwargs)]

    wrapt.wrap_function_wrapper(module, "Client.send", theirs)
    outer = vars(module.Client)["send"]
    patches.remove()
    assert vars(module.Client)["send"] is outer
    assert module.Client().send("r") == ["theirs", "sent", "r"]
    assert outer.__wrapped__ is ours


def test_we_wrapped_over_somebody(library: str, wrapper: Any, seen: list[Any]) -> None:
    """Theirs is there again afterwards, the same object."""
    module = importlib.import_module(library)

    def theirs(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
        return ["theirs", *wrapped(*args, **kwargs)]

    wrapt.wrap_function_wrapper(module, "Client.send", theirs)
    before = vars(module.Client)["send"]
    patches = Patches([Patch(library, "Client.send", wrapper, ("request",))])
    assert patches.notes == []
    assert module.Client().send("r") == ["theirs", "sent", "r"]
    assert len(seen) == 1
    patches.remove()
    assert vars(module.Client)["send"] is before
