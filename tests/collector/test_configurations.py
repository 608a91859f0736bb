"""The collector's configuration is consistent in itself: it parses, and its pipelines name only what it defines."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

CONFIGS = sorted(
    path
    for path in (Path(__file__).parents[1] / "collector-config").glob("*.yaml")
    if path.name != "kubernetes.yaml"  # no collector's: see tests/faults/test_guarantees_page.py
)


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.name)
def test_pipelines_name_what_is_defined_and_everything_stays_on_loopback(path: Path) -> None:
    """Each receiver, processor, exporter and extension in use is defined, and none is defined for nothing."""
    yaml = pytest.importorskip("yaml")
    text = path.read_text()
    config = yaml.safe_load(text)
    pipelines = config["service"]["pipelines"].values()
    for kind in ("receivers", "processors", "exporters"):
        assert {name for pipeline in pipelines for name in pipeline[kind]} == set(config[kind])
    assert set(config["service"]["extensions"]) == set(config["extensions"])
    assert set(re.findall(r"\b\d+\.\d+\.\d+\.\d+\b", text)) <= {"127.0.0.1"}
