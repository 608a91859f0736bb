"""What the plugin costs and does where nobody uses it: next to nothing."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.testing.conftest import PACKAGE, PLUGIN, RunPytest


@pytest.fixture
def distribution(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The package as pytest finds it where it is installed: with its entry point and the list of its files."""
    described = tmp_path / "site" / "installed_prompt_trace-1.0.dist-info"
    described.mkdir(parents=True)
    (described / "METADATA").write_text("Metadata-Version: 2.1\nName: installed-prompt-trace\nVersion: 1.0\n")
    (described / "entry_points.txt").write_text(f"[pytest11]\n{PLUGIN} = {PLUGIN}\n")
    files = ("__init__.py", "pytest_plugin.py", "redirection.py", "settings.py")
    (described / "RECORD").write_text("".join(f"otel_prompt_trace/{name},,\n" for name in files))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(PACKAGE), str(described.parent)]))


def test_a_run_that_does_not_use_it_loads_next_to_nothing(run_pytest: RunPytest) -> None:
    """Neither OpenTelemetry nor any other part of the package than the four that stand here."""
    test = """
import os, sys

def test_it():
    ours = {name for name in sys.modules if name.startswith("otel_prompt_trace")}
    assert ours == {"otel_prompt_trace", "otel_prompt_trace._version", "otel_prompt_trace.redirection",
                    "otel_prompt_trace.pytest_plugin"}
    heavy = ("opentelemetry", "orjson", "msgspec", "zstandard", "boto3", "tiktoken", "click", "rich")
    assert not [name for name in sys.modules if name.partition(".")[0] in heavy]
    assert not os.path.exists(os.environ["XDG_STATE_HOME"])
"""
    run_pytest(test_it=test).assert_outcomes(passed=1)


@pytest.mark.usefixtures("distribution")
@pytest.mark.parametrize("named", [True, False])
def test_it_is_loaded_by_its_entry_point(pytester: pytest.Pytester, named: bool) -> None:
    """Once, also where it is named on the command line as well."""
    pytester.makepyfile("def test_it(prompt_trace):\n    assert prompt_trace.calls == []\n")
    options = ["-p", PLUGIN] if named else []
    pytester.runpytest_subprocess("-W", "error", *options).assert_outcomes(passed=1)
    pytester.runpytest_subprocess("-p", f"no:{PLUGIN}").assert_outcomes(errors=1)


@pytest.mark.usefixtures("distribution")
def test_a_package_that_is_there_before_pytest_is_no_warning(pytester: pytest.Pytester) -> None:
    """As under ``opentelemetry-instrument pytest``; what was installed by then is kept off as well."""
    pytester.makepyfile(
        "def test_it():\n"
        "    from otel_prompt_trace.current import current\n"
        "    assert current().settings.store == 'memory:'\n"
    )
    code = (
        "import pytest, otel_prompt_trace as pt\n"
        "pt.install(store='real', spool='spool', redact=['email'])\n"
        "raise SystemExit(pytest.main(['-W', 'error', '-p', 'no:cacheprovider']))\n"
    )
    assert pytester.run(sys.executable, "-c", code).ret == 0
    assert not (pytester.path / "real").exists()
