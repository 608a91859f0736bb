"""Every error that this package raises.

    PromptTraceError
    ├── InvalidQid            a query id outside the grammar (also a ValueError)
    ├── InvalidEvent          an event of an unknown kind, or without a required field (also a ValueError)
    ├── ConfigurationError    a setting that can't be used; says which variable to change
    ├── MissingDependency     a command needs an extra that is not installed; says which
    ├── StoreError            the payload store refused or could not be reached
    │   ├── StoreUnreachable  no answer: network, wrong endpoint, time-out (worth trying again)
    │   ├── StoreDenied       an answer that says no: credentials, permission, bucket (fix, then try again)
    │   └── ObjectCorrupt     an object that is stored but can't be read whole
    ├── NotFound              no record, call or object by that id (also a LookupError)
    ├── Ambiguous             a prefix that fits more than one qid
    ├── Erased                the record was erased; a tombstone stands in its place
    └── ArchiveError          a span archive that can't be read

None of them ever reaches an instrumented application from the recording side (``query``, ``stage``,
``call``, ``declare`` …), except for plain misuse: an illegal qid or an unknown policy. Everything else there
is counted and logged instead.
"""

from __future__ import annotations

__all__ = [
    "Ambiguous",
    "ArchiveError",
    "ConfigurationError",
    "Erased",
    "InvalidEvent",
    "InvalidQid",
    "MissingDependency",
    "NotFound",
    "ObjectCorrupt",
    "PromptTraceError",
    "StoreDenied",
    "StoreError",
    "StoreUnreachable",
]


class PromptTraceError(Exception):
    """Root of the tree drawn in this module's docstring."""


class InvalidQid(PromptTraceError, ValueError):
    """A query id must match ``[A-Za-z0-9][A-Za-z0-9._~-]{0,127}``."""


class InvalidEvent(PromptTraceError, ValueError):
    """An event that the closed set of kinds does not know, or that lacks a required field."""


class ConfigurationError(PromptTraceError):
    """A setting that can't be used; the message names the variable and the values it takes."""


class MissingDependency(PromptTraceError):
    """A part that sits behind an extra was asked for and is not installed."""

    def __init__(self, feature: str, extra: str) -> None:
        super().__init__(f"{feature} needs an extra that is not installed: pip install 'otel-prompt-trace[{extra}]'")
        self.extra = extra


class StoreError(PromptTraceError):
    """The payload store failed; ``retryable`` says whether trying again later can help."""

    retryable = False


class StoreUnreachable(StoreError):
    """The store gave no usable answer (network, time-out, 5xx, SlowDown)."""

    retryable = True


class StoreDenied(StoreError):
    """The store answered and said no (credentials, permission, missing bucket). Kept and tried again."""

    retryable = True


class ObjectCorrupt(StoreError):
    """A stored object can't be read whole: torn frame, wrong magic, or trailing garbage."""


class NotFound(PromptTraceError, LookupError):
    """Nothing is stored, and nothing waits in the local spool, under that id."""


class Ambiguous(PromptTraceError):
    """A prefix that more than one qid begins with; ``candidates`` lists some of them."""

    def __init__(self, prefix: str, candidates: list[str]) -> None:
        super().__init__(f"{prefix!r} is the beginning of {len(candidates)} or more qids: {', '.join(candidates[:5])}")
        self.candidates = candidates


class Erased(PromptTraceError):
    """The record was erased; ``when`` is the time of the tombstone (RFC 3339)."""

    def __init__(self, qid: str, when: str) -> None:
        super().__init__(f"{qid} was erased at {when}; only its content-free tombstone is left")
        self.qid = qid
        self.when = when


class ArchiveError(PromptTraceError):
    """A span archive can't be read at all (a malformed line is a counted problem instead)."""
