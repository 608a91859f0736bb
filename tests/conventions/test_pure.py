"""The package asks nothing of OpenTelemetry, of the rest of the project, or of the outside."""

from __future__ import annotations

import ast
from pathlib import Path

import otel_prompt_trace.core.conventions

_ALLOWED = {"__future__", "collections", "dataclasses", "json", "typing"}
_OWN = ("otel_prompt_trace.core.conventions", "otel_prompt_trace.core")


def test_imports() -> None:
    """Every import of every module is of the core, of the package itself, or of the plainest standard library."""
    modules = list(Path(otel_prompt_trace.core.conventions.__file__).parent.glob("*.py"))
    assert len(modules) > 10
    for module in modules:
        for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            strange = [n for n in names if n.partition(".")[0] not in _ALLOWED and not n.startswith(_OWN)]
            assert strange == [], module.name
