"""Placements of this process: registered by name, with a digest of their source, and asked to render what is sent.

The function is the application's own. Where it renders what is sent, its errors pass through unchanged; what is
recorded around it never raises.
"""

from __future__ import annotations

import inspect
import sys
import textwrap
import time
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

from otel_prompt_trace.core.pieces import Declared, as_pieces
from otel_prompt_trace.core.placement import Placement, Rendered
from otel_prompt_trace.core.text import sha256_text
from otel_prompt_trace.current import current

F = TypeVar("F", bound=Callable[..., Any])

_by_name: dict[str, Placement] = {}
_by_function: dict[Callable[..., Any], Placement] = {}


def placement(function: F) -> F:
    """Register a function that renders pieces into a prompt: a decorator that changes nothing of it.

    It takes the pieces as they were declared, in order (a tuple of :class:`Piece`), and returns a text, a list of
    messages, or a :class:`Prompt`. The same pieces must give the same prompt: it is asked again to learn where each
    piece stands (unless that took more than 2 ms), and once more when the record is graded. Its name in the record is
    ``module:function``; a digest of its source goes with it, so that a changed rule is seen.

    A rule that leaves pieces out, or changes them, by what is in them (a budget in tokens) should return a
    :class:`Prompt`: of a text nobody could tell what it left out, and such a piece counts as not found.

    Raises:
        TypeError: it is no function that a module could name.
    """
    _register(function)
    return function


def place(function: Callable[..., Any], pieces: Iterable[Declared]) -> Rendered:
    """Render ``pieces`` with a placement: send what it gives, and give it to ``q.call(prompt=…)``.

    Args:
        function: the placement; one that is not registered is registered here.
        pieces: :class:`Piece` objects or ``(producer, text)`` pairs.

    Raises:
        TypeError: a piece is of another type, or the function has no name.
        Exception: whatever the function raises, unchanged.
    """
    registered = _by_function.get(function)
    if registered is None:
        registered = _register(function)
    given = as_pieces(pieces)
    runtime = current()
    clock = time.perf_counter_ns if runtime is None else runtime.sources.perf_ns
    began = clock()
    prompt = registered.function(given)
    return Rendered(registered, prompt, given, clock() - began)


def placements(*modules: str) -> Mapping[str, Placement]:
    """The placements that are registered in this process, by name, for :func:`derive` and :func:`grade`.

    Args:
        modules: imported first; importing runs their code. Nothing else is imported, whatever a record names.

    Raises:
        ImportError: there is no such module. Whatever else importing it raises passes through as well.
    """
    for module in modules:
        import_module(module)
    return dict(_by_name)


def _register(function: Callable[..., Any]) -> Placement:
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(name, str):
        raise TypeError(f"a placement is a function with a name, not {type(function).__name__}")
    if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function):
        raise TypeError(f"the placement {name} has to return the prompt itself, not a coroutine or a generator")
    found = Placement(f"{_imported_as(module)}:{name}", function, _digest(function))
    _by_name[found.name] = _by_function[function] = found
    return found


def _imported_as(module: str) -> str:
    """The name by which others import a module; the one that a process was started with calls itself ``__main__``."""
    if module != "__main__":
        return module
    main = sys.modules["__main__"]
    spec, file = getattr(main, "__spec__", None), getattr(main, "__file__", None)
    return str(spec.name) if spec is not None else Path(file).stem if file else module


def _digest(function: Callable[..., Any]) -> str | None:
    try:
        return sha256_text(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError):  # typed at a prompt, built in, or shipped without its source
        return None
