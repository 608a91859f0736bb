"""``python -m otel_prompt_trace.cli``: the command, where no script is on the path."""

from otel_prompt_trace.cli import main

main()
