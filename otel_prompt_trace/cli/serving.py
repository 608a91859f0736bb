"""``serve``: records as pages for a browser, which is where Jaeger's links lead."""

from __future__ import annotations

import contextlib
import os
import sys
import threading

import click

from otel_prompt_trace.cli.app import places, records
from otel_prompt_trace.cli.output import printable
from otel_prompt_trace.exceptions import MissingDependency
from otel_prompt_trace.settings import Settings, check_jaeger


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="A loopback address.")
@click.option(
    "--port", type=click.IntRange(0, 65_535), default=8765, show_default=True, help="The port; 0 takes a free one."
)
@click.option("--jaeger", metavar="URL", help="Asked for the queries of a trace. Default: PROMPT_TRACE_JAEGER.")
@places
def serve(settings: Settings, host: str, port: int, jaeger: str | None) -> int:
    """Show records in a browser, on this machine alone: /q/QID and /t/TRACE, as pages and as JSON.

    Goes on until SIGTERM or SIGINT, and ends with 0. The links that collector-config/jaeger-ui.json puts into Jaeger
    lead here.
    """
    try:
        from otel_prompt_trace.viewer import application, serving
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in {"starlette", "uvicorn"}:
            raise
        raise MissingDependency("the viewer", "viewer") from error
    from otel_prompt_trace.viewer.jaeger import Jaeger

    asked = check_jaeger(jaeger) if jaeger else settings.jaeger
    source = records(settings, patient=False)  # a browser waits; and what is spooled is shown meanwhile
    listening = serving.listen(host, port)

    def ready() -> None:
        asking = f", asks Jaeger at {asked}" if asked else ""
        line = (
            f"prompt-trace serves {serving.address_of(listening)}  (reads {source.store.url}{asking}; Ctrl-C ends it)"
        )
        click.echo(printable(line))

    serving.serve(application.application(source, Jaeger(asked) if asked else None), listening, ready)
    _leave_what_waits()
    return 0


def _leave_what_waits() -> None:
    """End now where threads still wait for a store or for Jaeger: they only read, and Python would wait for them."""
    main = threading.main_thread()
    if any(thread is not main and not thread.daemon for thread in threading.enumerate()):
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError):
                stream.flush()
        os._exit(0)


COMMANDS = (serve,)
