"""Whether a delivery process can be had."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from otel_prompt_trace.doctor.delivering import look_at_delivery
from otel_prompt_trace.settings import load


def test_nothing_is_looked_at_where_a_thread_delivers(tmp_path: Path) -> None:
    """As by default."""
    assert list(look_at_delivery(load({}, store=str(tmp_path / "store")))) == []


def test_one_is_made_and_ended(tmp_path: Path) -> None:
    """It opens the store, in which nothing is changed."""
    (finding,) = look_at_delivery(load({}, store=str(tmp_path / "store"), delivery="process"))
    assert (finding.status, finding.advice) == ("ok", "")
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize("executable", ["", "/no/such/python", "/bin/true"])
def test_where_none_can_be_had(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, executable: str) -> None:
    """It says why, and what happens in its place."""
    monkeypatch.setattr(sys, "executable", executable)
    (finding,) = look_at_delivery(load({}, store=str(tmp_path / "store"), delivery="process"))
    assert finding.status == "warn"
    assert finding.detail
    assert "thread" in finding.advice


def test_a_store_that_it_can_t_open(tmp_path: Path) -> None:
    """In the store's own words."""
    (tmp_path / "store").write_text("in the way")
    (finding,) = look_at_delivery(load({}, store=str(tmp_path / "store"), delivery="process"))
    assert finding.status == "warn"
    assert "is not a folder" in finding.detail
