"""The pure core is pure: it imports neither OpenTelemetry nor anything that does I/O."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import otel_prompt_trace

PACKAGE = Path(otel_prompt_trace.__file__).parent
FILES = {
    ".".join(path.relative_to(PACKAGE / "core").with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted((PACKAGE / "core").rglob("*.py"))
    if path != PACKAGE / "core" / "__init__.py"
}
MODULES = list(FILES)
ALLOWED = {"__future__", "ast", "base64", "bisect", "collections", "dataclasses", "datetime", "enum", "functools"}
ALLOWED |= {"hashlib", "hmac", "html", "itertools", "json", "math", "re", "types", "typing", "unicodedata"}
ALLOWED |= {"brotli", "copy", "difflib", "fnmatch", "string", "struct", "zlib"}
ALLOWED |= {"msgspec", "orjson", "otel_prompt_trace", "zstandard"}

# The package's own __init__ is the public API, which does need OpenTelemetry; the core must not need it.
LOADER = """
import importlib, json, sys, types
package = types.ModuleType("otel_prompt_trace")
package.__path__ = [sys.argv[1]]
sys.modules["otel_prompt_trace"] = package
before = set(sys.modules)
for name in sys.argv[2:]:
    importlib.import_module("otel_prompt_trace.core." + name)
print(json.dumps(sorted(set(sys.modules) - before)))
"""


def test_importing_the_core_loads_nothing_that_it_may_not() -> None:
    """In a fresh interpreter: no OpenTelemetry, no client of any service, no socket, no thread, no event loop."""
    command = [sys.executable, "-I", "-c", LOADER, str(PACKAGE), *MODULES]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    loaded = ast.literal_eval(done.stdout)
    roots = {name.partition(".")[0] for name in loaded}
    forbidden = {"opentelemetry", "boto3", "botocore", "requests", "urllib3", "httpx", "tiktoken", "duckdb", "pyarrow"}
    forbidden |= {"asyncio", "concurrent", "http", "logging", "multiprocessing", "socket", "ssl"}
    assert not roots & forbidden
    ours = {name for name in loaded if name.startswith("otel_prompt_trace.")}
    assert ours <= {"otel_prompt_trace.core", "otel_prompt_trace.exceptions", *_dotted(MODULES)}


def test_the_core_says_what_each_of_its_modules_is() -> None:
    """A module or package that is added is added to the reading order, and what is gone is gone from it."""
    said = ast.get_docstring(ast.parse((PACKAGE / "core" / "__init__.py").read_text(encoding="utf-8"))) or ""
    assert sorted(re.findall(r"``(\w+)``", said)) == sorted({name.partition(".")[0] for name in MODULES})


@pytest.mark.parametrize("module", MODULES)
def test_a_module_of_the_core_imports_only_what_is_pure(module: str) -> None:
    """No os, io, pathlib, socket, threading, time: neither at the top nor inside a function."""
    tree = ast.parse(FILES[module].read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "an import says where it comes from"
            names = [node.module or ""]
        else:
            continue
        for name in names:
            assert name.partition(".")[0] in ALLOWED, name
            if name.startswith("otel_prompt_trace"):
                assert name in {"otel_prompt_trace.exceptions", *_dotted(MODULES)}, name


@pytest.mark.parametrize("module", MODULES)
def test_a_module_of_the_core_opens_prints_and_asks_nothing(module: str) -> None:
    """What it does is a function of its arguments: it calls no built-in that touches the world."""
    tree = ast.parse(FILES[module].read_text(encoding="utf-8"))
    called = {node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    assert not called & {"open", "print", "input", "exec", "eval", "__import__", "breakpoint"}
    attributes = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    assert not attributes & {"now", "utcnow", "today", "urandom", "random"}


def _dotted(modules: list[str]) -> set[str]:
    return {f"otel_prompt_trace.core.{name}" for name in modules}
