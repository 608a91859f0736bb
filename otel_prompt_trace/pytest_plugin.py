"""For pytest: tests write to no real store unless they ask, and what they record can be looked at.

Loaded at the start of every pytest run where the package is installed, so it imports nothing heavy before a test uses
it, and it touches nothing but its own settings. ``-p no:otel_prompt_trace.pytest_plugin`` leaves it out.

==========================================  ====================================================================
``prompt_trace`` (fixture)                  what the test records: a :class:`testing.recorded.PromptTrace`
``prompt_trace_store`` (ini, option,        ``memory`` (default): whatever store an application names, payloads
marker)                                     stay in this process; ``real``: as the application says; else the
                                            store where all of them go. The marker alone means ``real``
``prompt_trace_accounted`` (ini, marker)    a test fails if a prompt in it has unaccounted characters
==========================================  ====================================================================
"""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

import pytest

from otel_prompt_trace.redirection import VARIABLE, redirect

if TYPE_CHECKING:
    from otel_prompt_trace.testing.recorded import PromptTrace

_MEMORY = "memory:"
_MARKERS = (
    "prompt_trace_store(where='real'): let this test write to the stores that the application names, or to one store",
    "prompt_trace_accounted(on=True): fail if a prompt of this test has unaccounted characters",
)


class _Guard:
    """Where stores are redirected to in this run, and what was in force before it."""

    def __init__(self, asked: str) -> None:
        self.store = _store(asked)
        self._variable = os.environ.get(VARIABLE)
        self._before = put_in_force(self.store)

    def undo(self) -> None:
        """Leave the process as it was: a run may be within another."""
        put_in_force(self._before)
        if self._variable is not None:
            os.environ[VARIABLE] = self._variable


_GUARD = pytest.StashKey[_Guard]()
_TRACE = pytest.StashKey["PromptTrace"]()
_MARKED = pytest.StashKey["str | None"]()


def put_in_force(store: str | None) -> str | None:
    """Redirect every store of this process and of those that it starts; returns the redirection of before."""
    if store is None:
        os.environ.pop(VARIABLE, None)
    else:
        os.environ[VARIABLE] = store
    before = redirect(store)
    current = sys.modules.get("otel_prompt_trace.current")
    if current is not None and current.current() is not None:  # installed before pytest was, or by a test
        from otel_prompt_trace.testing.recorded import follow_redirection

        follow_redirection()
    return before


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options: each is off, or safe, unless asked."""
    where = "memory (default), real, or the store to which tests write"
    parser.addini("prompt_trace_store", f"where payloads go in tests: {where}", default="memory")
    parser.addini("prompt_trace_accounted", "fail tests with unaccounted characters", type="bool", default=False)
    group = parser.getgroup("prompt-trace")
    group.addoption("--prompt-trace-store", metavar="WHERE", default=None, help=f"Where payloads go: {where}.")


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Before any conftest is imported: one may install."""
    _begin(early_config, early_config.known_args_namespace)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Also where the plugin was named by a conftest."""
    for marker in _MARKERS:
        config.addinivalue_line("markers", marker)
    _begin(config, config.option)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Leave nothing behind."""
    guard = config.stash.get(_GUARD, None)
    if guard is not None:
        del config.stash[_GUARD]
        guard.undo()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Before the test's fixtures: an empty store, and what its markers ask for."""
    guard = item.config.stash[_GUARD]
    marker = item.get_closest_marker("prompt_trace_store")
    if marker is not None:
        item.stash[_MARKED] = put_in_force(_store(str(marker.args[0] if marker.args else "real")))
    elif guard.store == _MEMORY and "otel_prompt_trace.store.memory" in sys.modules:
        from otel_prompt_trace.store.memory import process_store

        process_store().clear()
    if _asked_to_account(item):
        _trace_of(item)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, None]:
    """After a test that passed: whether its prompts are accounted for."""
    outcome = yield
    if outcome.excinfo is None and _asked_to_account(item):
        from otel_prompt_trace.testing.accounted import unaccounted

        found = unaccounted(item.stash[_TRACE].records)
        if found:
            outcome.force_exception(pytest.fail.Exception("\n\n".join(found), pytrace=False))


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    """After the test's fixtures."""
    trace = item.stash.get(_TRACE, None)
    if trace is not None:
        del item.stash[_TRACE]
        trace.end()
    if _MARKED in item.stash:
        before = item.stash[_MARKED]
        del item.stash[_MARKED]
        put_in_force(before)


@pytest.fixture
def prompt_trace(request: pytest.FixtureRequest) -> PromptTrace:
    """What this test records: ``records``, ``get(qid)``, ``calls``, ``assert_accounted()``; the same ids every time."""
    return _trace_of(request.node)


def _begin(config: pytest.Config, options: Any) -> None:
    if _GUARD not in config.stash:
        asked = getattr(options, "prompt_trace_store", None) or str(config.getini("prompt_trace_store"))
        config.stash[_GUARD] = _Guard(asked)


def _trace_of(item: pytest.Item) -> PromptTrace:
    if _TRACE not in item.stash:
        from otel_prompt_trace.testing.recorded import PromptTrace

        if _MARKED in item.stash:
            pytest.fail("the marker prompt_trace_store asks for another store than that of prompt_trace", pytrace=False)
        trace = PromptTrace()
        trace.begin()
        item.stash[_TRACE] = trace
    return item.stash[_TRACE]


def _asked_to_account(item: pytest.Item) -> bool:
    marker = item.get_closest_marker("prompt_trace_accounted")
    if marker is None:
        return bool(item.config.getini("prompt_trace_accounted"))
    return bool(marker.args[0]) if marker.args else True


def _store(asked: str) -> str | None:
    return {"memory": _MEMORY, "real": None}.get(asked, asked)
