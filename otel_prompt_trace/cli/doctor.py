"""``doctor``: what works from here, and what to do about what does not."""

from __future__ import annotations

import sys
from dataclasses import asdict
from importlib import import_module
from pathlib import Path

import click

from otel_prompt_trace.cli.app import as_json, places
from otel_prompt_trace.cli.output import print_json, progress, table
from otel_prompt_trace.doctor import examine
from otel_prompt_trace.settings import Settings


@click.command()
@click.option("--app", metavar="MODULE", help="Import this module first, so that its tracer provider can be seen.")
@places
@as_json
def doctor(settings: Settings, app: str | None, json_: bool) -> int:
    """Try the store and where spans go; look at spool, clients, instrumentations, the provider and its limits.

    Exits with 0 if nothing fails, 1 if something does, 3 if something could not be found out and nothing fails.
    """
    if app is not None:
        sys.path.insert(0, str(Path.cwd()))
        try:
            import_module(app)
        except Exception as error:
            raise click.BadParameter(f"{app} can't be imported: {error}", param_hint="--app") from error
    findings = []
    with progress("looking") as step:
        for finding in examine(settings):
            findings.append(finding)
            step(len(findings), None)
    if json_:
        print_json([asdict(finding) for finding in findings])
    else:
        table(("", "what", "seen", "do"), [(f.status, f.name, f.detail, f.advice) for f in findings])
    seen = {finding.status for finding in findings}
    return 1 if "fail" in seen else 3 if "unknown" in seen else 0


COMMANDS = (doctor,)
