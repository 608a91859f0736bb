"""What one test records: an empty store in memory, a clock and ids of its own, and everything undone after it."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from otel_prompt_trace.core.call import Call
from otel_prompt_trace.core.grade import Grade, grade
from otel_prompt_trace.core.record import Record, project
from otel_prompt_trace.current import current
from otel_prompt_trace.installation import flush, install, uninstall
from otel_prompt_trace.redirection import redirect, redirected_to
from otel_prompt_trace.settings import Settings
from otel_prompt_trace.sources import set_default_sources
from otel_prompt_trace.store import PayloadStore
from otel_prompt_trace.store.memory import MEMORY, process_store
from otel_prompt_trace.testing.accounted import unaccounted
from otel_prompt_trace.testing.steady import steady_sources

_SECONDS = 20.0


class PromptTrace:
    """The records of one test. Reading them delivers first what waits."""

    def __init__(self) -> None:
        self.store = PayloadStore(process_store())

    def begin(self) -> None:
        """Begin to record, whatever the application installs or has installed.

        Raises:
            AssertionError: recording is switched off by the environment.
        """
        self._before = redirect(MEMORY)
        self._replaced: Settings | None = None
        sources = steady_sources()
        set_default_sources(sources)
        runtime = current()
        if runtime is not None and runtime.settings.test_store != MEMORY:
            self._replaced = runtime.settings
            uninstall()
            runtime = None
        self._installed = runtime is None
        if runtime is not None:
            runtime.renew(sources)
        elif not install_as(self._replaced):
            self.end()
            raise AssertionError("nothing is recorded: PROMPT_TRACE_ENABLED=false or OTEL_SDK_DISABLED=true is set")
        process_store().clear()  # after what an earlier test had left to be delivered

    def end(self) -> None:
        """Put back what was before."""
        if self._installed:
            uninstall()
        redirect(self._before)
        set_default_sources()
        if self._replaced is not None:
            install_as(self._replaced)

    @property
    def records(self) -> list[Record]:
        """The record of every query so far, in the order of their first events."""
        flush(_SECONDS)
        found = [self._project(qid) for qid in dict.fromkeys(qid for _, qid in self.store.qids())]
        return sorted(found, key=lambda record: ([str(event.get("ts")) for event in record.events[:1]], record.qid))

    def get(self, qid: str) -> Record:
        """The record of one query.

        Raises:
            NotFound: nothing was recorded under this id.
        """
        flush(_SECONDS)
        return self.store.get(qid)

    @property
    def calls(self) -> list[Call]:
        """Every call of :attr:`records`."""
        return [call for record in self.records for call in record.calls]

    def grade(self, qid: str) -> Grade:
        """The grade of one query: verdicts, reasons, checks; no tokens are counted."""
        return grade(self.get(qid))

    def assert_accounted(self, qid: str | None = None) -> None:
        """Fail unless a declared piece accounts for every character of every prompt: of one query, or of all.

        Raises:
            AssertionError: it names each gap: path, offsets, an excerpt, and the pieces next to it. Also where no
                call was recorded, so that there was nothing to account for.
        """
        __tracebackhide__ = True
        records = self.records if qid is None else [self.get(qid)]
        if not any(record.calls for record in records):
            raise AssertionError("no call was recorded, so that there is nothing to account for")
        found = unaccounted(records)
        if found:
            raise AssertionError("\n\n".join(found))

    def _project(self, qid: str) -> Record:
        found = self.store.events(qid)
        return project(qid, found.events, found.problems)


def install_as(settings: Settings | None) -> bool:
    """Install, with the settings of an installation that was undone; whether anything is recorded."""
    given: dict[str, Any] = {}
    if settings is not None:
        given = {f.name: getattr(settings, f.name) for f in fields(settings) if f.name != "test_store"}
        given["spool"] = str(settings.spool)
    return install(**given)


def follow_redirection() -> None:
    """After the redirection was changed: what is installed goes where it says now.

    Where it says that stores are what they are, nothing is: the store that the application named is not known here.
    """
    runtime = current()
    if runtime is not None and runtime.settings.test_store != redirected_to():
        settings = runtime.settings
        uninstall()
        if redirected_to() is not None:
            install_as(settings)
