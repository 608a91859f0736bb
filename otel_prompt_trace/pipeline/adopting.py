"""Adoption: a running process delivers what processes that are gone have left in the spool that they share.

What is adopted was meant for the same store: a spool file has a mark of its store's address in its name, since
several services of one user may share a folder, and the payloads of one must not reach the store of another. Files
without our mark are left to ``ship``, where a person names the store. A living process's file is locked, a parent's
too, so nobody has to know who is whose child.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from datetime import datetime
from pathlib import Path

import xxhash

from otel_prompt_trace.exceptions import ConfigurationError, StoreError
from otel_prompt_trace.pipeline.accounting import Accounts
from otel_prompt_trace.pipeline.drain import DrainReport, steps
from otel_prompt_trace.pipeline.reading import files
from otel_prompt_trace.pipeline.shipping import Payloads


def mark_of(store: str) -> str:
    """What stands at the end of the names of spool files that are meant for a store."""
    address = store if "://" in store else str(Path(store).expanduser().absolute())
    return "-" + xxhash.xxh3_64_hexdigest(address.encode("utf-8", "surrogateescape"))


def adopt(
    folder: Path, mark: str, payloads: Payloads, now: Callable[[], datetime], accounts: Accounts
) -> Generator[None, None, None]:
    """Deliver what is left of others, a query a step.

    Args:
        folder: the spool folder.
        mark: of the store.
        payloads: that store.
        now: the clock, for the partition of ids that carry no date.
        accounts: is told how many events were adopted, and warns of what can't be.

    Raises:
        StoreError, ConfigurationError: the store failed; what is not acknowledged stays where it is.
    """
    for path in files(folder):
        if not path.stem.endswith(mark):
            continue
        report = DrainReport()
        try:
            yield from steps(path, payloads, now, report)
        except (StoreError, ConfigurationError):
            raise
        except Exception as error:  # noqa: BLE001 - one file holds up no other
            accounts.warn("adopt", "%s can't be adopted: %s", path.name, type(error).__name__)
        finally:
            accounts.adopt(report.events)
        if report.set_aside:
            accounts.warn("adopt", "Left by a process that is gone, and can't be stored: %s", report.set_aside)
        if report.events:
            yield
