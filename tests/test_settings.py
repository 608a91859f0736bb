"""Settings: from the environment or from arguments, checked, never in the working directory."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from otel_prompt_trace.exceptions import ConfigurationError
from otel_prompt_trace.redirection import redirect
from otel_prompt_trace.settings import Settings, load, state_folder
from tests.surroundings import forget_settings

_HOME = {"XDG_STATE_HOME": "/state"}


def test_defaults() -> None:
    """Everything has a default; store and spool lie side by side under the state folder."""
    assert load(_HOME) == Settings(
        store="/state/prompt-trace/store",
        spool=Path("/state/prompt-trace/spool"),
        durability="written",
        policy="store",
        enabled=True,
        spans="divert",
        propagate=False,
        accept_qid="never",
        spool_file_bytes=16 * 2**20,
        spool_max_bytes=2**30,
        wire="on",
        wire_allow=(),
        wire_deny=(),
        wire_apis=(),
        redact=None,
        memory_max_bytes=64 * 2**20,
        spool_max_frames=1_000_000,
        spool_max_age=600,
        spool_full="drop",
        spool_block_ms=100,
        fsync_ms=250,
        adopt=True,
        delivery="thread",
    )


_VALUES: list[tuple[str, str, Any, Any, Any]] = [
    ("store", "s3://bucket/p", "s3://bucket/p", "/elsewhere", "/elsewhere"),
    ("spool", "/spool", Path("/spool"), "/other", Path("/other")),
    ("durability", "fsync", "fsync", "memory", "memory"),
    ("policy", "hash", "hash", "store", "store"),
    ("enabled", "false", False, True, True),
    ("spans", "copy", "copy", "divert", "divert"),
    ("propagate", "true", True, False, False),
    ("accept_qid", "trusted", "trusted", "never", "never"),
    ("spool_file_bytes", "65536", 65536, 70000, 70000),
    ("spool_max_bytes", "65536", 65536, 70000, 70000),
    ("memory_max_bytes", "65536", 65536, 70000, 70000),
    ("hash_key", "k", "k", "other", "other"),
    ("jaeger", "http://j:1/", "http://j:1", "https://k", "https://k"),
    ("spool_max_frames", "7", 7, 8, 8),
    ("spool_max_age", "60", 60, 5, 5),
    ("spool_full", "block", "block", "drop", "drop"),
    ("spool_block_ms", "20", 20, 30, 30),
    ("fsync_ms", "20", 20, 30, 30),
    ("adopt", "false", False, True, True),
    ("delivery", "process", "process", "thread", "thread"),
    ("wire", "off", "off", "on", "on"),
    ("wire_allow", "host:*.example, b", ("host:*.example", "b"), ["c"], ("c",)),
    ("wire_deny", "route:/admin/*", ("route:/admin/*",), "a,b", ("a", "b")),
    ("wire_apis", "/llm=openai.chat", ("/llm=openai.chat",), ["/x=ollama.chat"], ("/x=ollama.chat",)),
    ("redact", "builtins:list", list, tuple, tuple),
    ("test_store", "memory:", "memory:", "/records", "/records"),
]


@pytest.mark.parametrize(("name", "text", "read", "argument", "taken"), _VALUES)
def test_environment_and_argument(name: str, text: str, read: Any, argument: Any, taken: Any) -> None:
    """The variable is read; an argument of its name stands above it; None and an empty variable stand for nothing."""
    env = _HOME | {f"PROMPT_TRACE_{name.upper()}": text}
    assert getattr(load(env), name) == read
    assert getattr(load(env, **{name: None}), name) == read
    assert getattr(load(env, **{name: argument}), name) == taken
    empty = _HOME | {f"PROMPT_TRACE_{name.upper()}": ""}
    assert load(empty) == load(_HOME)


def test_a_test_store_stands_for_every_other() -> None:
    """Whatever variables and arguments name: nothing is spooled on disk, and no spool of the application is read."""
    env = _HOME | {
        "PROMPT_TRACE_TEST_STORE": "memory:",
        "PROMPT_TRACE_STORE": "s3://real",
        "PROMPT_TRACE_SPOOL": "/real",
    }
    found = load(env, store="s3://other", spool="/other", durability="fsync", policy="hash")
    assert (found.store, found.durability, found.policy) == ("memory:", "memory", "hash")
    assert found.spool == Path("/state/prompt-trace/test-spool")
    assert (found.hash_key, load(env, hash_key="own").hash_key) == ("of the tests", "own")
    before = redirect("/elsewhere")
    try:
        assert load(_HOME, store="s3://other").store == load(env).store == "/elsewhere"
    finally:
        redirect(before)
    assert load(_HOME, store="s3://other").store == "s3://other"


def test_every_setting_is_tried_above() -> None:
    """A new setting has to be added to the table."""
    assert {name for name, *_ in _VALUES} == set(Settings.__slots__)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("durability", "eternal"),
        ("spool_max_age", "0"),
        ("fsync_ms", "soon"),
        ("spool_full", "explode"),
        ("policy", "shred"),
        ("accept_qid", "true"),
        ("enabled", "maybe"),
        ("propagate", "2"),
        ("spool_file_bytes", "1"),
        ("spool_max_bytes", "many"),
        ("memory_max_bytes", "-1"),
        ("memory_max_bytes", "1e9"),
    ],
)
def test_a_value_that_can_t_be_is_refused(name: str, value: str) -> None:
    """The message names the variable, the value and what it takes, whichever way it came."""
    variable = f"PROMPT_TRACE_{name.upper()}"
    for env, arguments in ((_HOME | {variable: value}, {}), (_HOME, {name: value})):
        with pytest.raises(ConfigurationError, match=rf"{variable}='?{value}'?: it takes"):
            load(env, **arguments)


def test_a_file_is_no_larger_than_the_spool() -> None:
    """The message names both; where only the spool's size is given, a file is as small as it must be."""
    both = _HOME | {"PROMPT_TRACE_SPOOL_FILE_BYTES": "200000", "PROMPT_TRACE_SPOOL_MAX_BYTES": "100000"}
    with pytest.raises(ConfigurationError, match=r"SPOOL_FILE_BYTES=200000.*PROMPT_TRACE_SPOOL_MAX_BYTES=100000"):
        load(both)
    assert load(both, spool_max_bytes=200_000).spool_file_bytes == 200_000
    assert load(_HOME, spool_max_bytes=100_000).spool_file_bytes == 100_000


def test_an_unknown_argument_is_refused() -> None:
    """A slip of the pen must not leave the default in force."""
    with pytest.raises(TypeError, match="durabilty"):
        load(_HOME, durabilty="fsync")


@pytest.mark.parametrize("text", ["1", "true", "TRUE", " yes ", "on"])
def test_the_ways_of_saying_yes(text: str) -> None:
    """As people write it."""
    assert load(_HOME | {"PROMPT_TRACE_PROPAGATE": text}).propagate is True


@pytest.mark.parametrize(("disabled", "enabled"), [("true", None), ("true", "true"), ("false", "false")])
def test_off_wins(disabled: str, enabled: str | None) -> None:
    """Either switch turns everything off, also against an argument in the case of the SDK's."""
    env = _HOME | {"OTEL_SDK_DISABLED": disabled}
    if enabled is not None:
        env["PROMPT_TRACE_ENABLED"] = enabled
    assert load(env).enabled is False
    if disabled == "true":
        assert load(env, enabled=True).enabled is False


@pytest.mark.parametrize(
    ("capture", "policy"),
    [
        ("false", "hash"),
        ("NO_CONTENT", "hash"),
        ("none", "hash"),
        ("true", "store"),
        ("SPAN_ONLY", "store"),
        ("", "store"),
    ],
)
def test_no_content_elsewhere_means_hash_here(capture: str, policy: str) -> None:
    """Who has said that no text is to be kept on spans gets digests, unless the policy itself is named."""
    env = _HOME | {"OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": capture}
    assert load(env).policy == policy
    assert load(env | {"PROMPT_TRACE_POLICY": "store"}).policy == "store"


def test_paths_are_absolute(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A spool given relative to here, or to a home, means one place for ever."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/somebody")
    assert load(_HOME | {"PROMPT_TRACE_SPOOL": "here"}).spool == tmp_path / "here"
    assert load(_HOME | {"PROMPT_TRACE_SPOOL": "~/there"}).spool == Path("/home/somebody/there")


@pytest.mark.parametrize("base", [None, "", "relative/state"])
def test_the_default_is_never_in_the_working_directory(monkeypatch: pytest.MonkeyPatch, base: str | None) -> None:
    """Without an absolute state folder it is the home's."""
    monkeypatch.setenv("HOME", "/home/somebody")
    env = {} if base is None else {"XDG_STATE_HOME": base}
    assert state_folder(env) == Path("/home/somebody/.local/state/prompt-trace")
    assert load(env).store == "/home/somebody/.local/state/prompt-trace/store"


def test_without_a_home_places_have_to_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """A container's nameless user has none: the error says what to set, and with both set there is none."""

    def nobody(_: object) -> None:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "expanduser", nobody)
    with pytest.raises(ConfigurationError, match="PROMPT_TRACE_STORE and PROMPT_TRACE_SPOOL"):
        load({})
    monkeypatch.setattr(Path, "expanduser", lambda path: path)
    monkeypatch.setattr("otel_prompt_trace.settings.state_folder", nobody)
    assert load({"PROMPT_TRACE_STORE": "/s", "PROMPT_TRACE_SPOOL": "/t"}).spool == Path("/t")


def test_a_home_that_is_nobody_s_is_refused() -> None:
    """The message names the variable."""
    with pytest.raises(ConfigurationError, match="PROMPT_TRACE_SPOOL"):
        load(_HOME | {"PROMPT_TRACE_SPOOL": "~no-such-user-here/spool"})


def test_the_key_is_never_shown() -> None:
    """Settings may end up in a log or a traceback."""
    assert "s3cret" not in repr(load(_HOME, hash_key="s3cret"))


def test_the_environment_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a mapping of its own ``load`` reads the process's."""
    forget_settings(monkeypatch)
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    monkeypatch.setenv("PROMPT_TRACE_DURABILITY", "fsync")
    assert load() == load(dict(os.environ))
    assert load().durability == "fsync"
