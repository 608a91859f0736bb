"""The store that this process writes to whatever an application names: set by tests, so that no real one is touched.

A module of its own, since it is set before anything else of the package is loaded. A subprocess learns of it by the
variable ``PROMPT_TRACE_TEST_STORE``.
"""

from __future__ import annotations

VARIABLE = "PROMPT_TRACE_TEST_STORE"

_store: str | None = None


def redirected_to() -> str | None:
    """The store that every other one stands for; None where each is what it is."""
    return _store


def redirect(url: str | None) -> str | None:
    """Let every store be ``url``, or with None what it is, and return what was in force."""
    global _store
    before, _store = _store, url
    return before
