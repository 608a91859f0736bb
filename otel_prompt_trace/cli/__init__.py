"""The command ``prompt-trace``.

``app`` is the command group with what all commands share, ``running`` runs it; each other module holds commands of one
concern. Nothing here decides anything: verdicts, records and deliveries are made further in.
"""

from __future__ import annotations

import sys

from otel_prompt_trace.exceptions import MissingDependency


def main() -> None:
    """Run the command.

    Exit codes: 0 all exact or passed; 1 a mismatch, a failed check, or not found; 2 usage or unreachable store;
    3 nothing worse than unknown.
    """
    try:
        from otel_prompt_trace.cli.running import run
    except ModuleNotFoundError as error:
        if error.name not in {"click", "rich"}:
            raise
        sys.stderr.write(f"prompt-trace: {MissingDependency('the command line', 'cli')}\n")
        sys.exit(2)
    run()
