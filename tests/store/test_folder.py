"""What only a folder has: modes, owners, hidden files of killed writers, a disk that is full."""

from __future__ import annotations

import errno
import os
import re
import secrets
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from otel_prompt_trace.exceptions import ConfigurationError, NotFound, StoreDenied, StoreUnreachable
from otel_prompt_trace.store import FolderStore


def _leave_hidden(store_path: Path, monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    """What a process leaves that is killed between writing and linking."""
    store = FolderStore(store_path)
    with monkeypatch.context() as patch:
        patch.setattr(os, "link", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        patch.setattr(os, "unlink", lambda *_, **__: None)
        with pytest.raises(KeyboardInterrupt):
            store.put(key, b"half a secret")


def test_modes(folder: FolderStore, tmp_path: Path) -> None:
    """Folders are 0700 and files 0600 whatever the umask allows."""
    before = os.umask(0)
    try:
        folder.put("a/b/c", b"x")
    finally:
        os.umask(before)
    modes = {path.relative_to(tmp_path): stat.S_IMODE(path.stat().st_mode) for path in tmp_path.rglob("*")}
    assert modes == {
        Path("store"): 0o700,
        Path("store/a"): 0o700,
        Path("store/a/b"): 0o700,
        Path("store/a/b/c"): 0o600,
    }


def test_nothing_is_made_before_the_first_put(tmp_path: Path) -> None:
    """Opening and reading a missing folder leaves no trace; the first put makes it, parents too."""
    store = FolderStore(tmp_path / "x" / "y")
    with pytest.raises(NotFound):
        store.get("a")
    assert list(store.list("")) == []
    store.delete("a")
    assert list(tmp_path.iterdir()) == []
    assert store.put("a", b"1")
    assert (tmp_path / "x" / "y" / "a").read_bytes() == b"1"


def test_home_is_expanded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tilde is the home folder; an unknown user's is refused."""
    monkeypatch.setenv("HOME", str(tmp_path))
    assert FolderStore("~/s").url == (tmp_path / "s").as_uri()
    with pytest.raises(ConfigurationError, match="can't be a store's folder"):
        FolderStore("~no-such-user-anywhere/s")


def test_another_users_folder_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A root that is not ours is refused when it is opened, and before a put if it appeared meanwhile."""
    root = tmp_path / "store"
    early = FolderStore(root)
    root.mkdir()
    monkeypatch.setattr(os, "geteuid", lambda: root.stat().st_uid + 1)
    with pytest.raises(ConfigurationError, match="belongs to user id"):
        FolderStore(root)
    with pytest.raises(ConfigurationError, match="PROMPT_TRACE_STORE"):
        early.put("a", b"x")
    assert list(root.iterdir()) == []


def test_a_file_is_no_store(tmp_path: Path) -> None:
    """A root that is a file is a configuration error that names it."""
    (tmp_path / "f").write_text("x")
    with pytest.raises(ConfigurationError, match="is not a folder"):
        FolderStore(tmp_path / "f")


def test_a_killed_writer_leaves_nothing_visible(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hidden file is in no listing and no obstacle to the same put; it counts as a rest, and delete removes it."""
    root = tmp_path / "store"
    _leave_hidden(root, monkeypatch, "q/one")
    store = FolderStore(root)
    assert [path.name for path in (root / "q").iterdir()] != []
    assert list(store.list("")) == []
    with pytest.raises(NotFound):
        store.get("q/one")
    assert list(store.versions("q/")) == ["q/one"]
    assert store.put("q/one", b"whole") is True
    assert store.put("q/two", b"other") is True
    assert list(store.versions("q/")) == ["q/one", "q/two"]
    store.delete("q/one")
    assert [path.name for path in (root / "q").iterdir()] == ["two"]


def test_put_leaves_no_hidden_file(folder: FolderStore, tmp_path: Path) -> None:
    """Neither a put that stores nor one that comes too late leaves its hidden file."""
    folder.put("a/b", b"1")
    folder.put("a/b", b"2")
    assert [path.name for path in (tmp_path / "store" / "a").iterdir()] == ["b"]


def test_delete_removes_folders_that_become_empty(folder: FolderStore, tmp_path: Path) -> None:
    """The last object of a folder takes the folder with it, up to the root and not the root."""
    folder.put("a/b/c", b"1")
    folder.put("a/d", b"1")
    folder.delete("a/b/c")
    assert sorted(path.name for path in (tmp_path / "store").rglob("*")) == ["a", "d"]
    folder.delete("a/d")
    assert (tmp_path / "store").is_dir()
    assert list((tmp_path / "store").iterdir()) == []


def test_a_put_survives_a_delete_at_the_same_time(folder: FolderStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder that vanishes between making and linking is made again."""
    folder.put("a/other", b"1")
    real = secrets.token_hex
    calls: list[int] = []

    def vanish(size: int) -> str:
        if not calls:
            folder.delete("a/other")
        calls.append(size)
        return real(size)

    monkeypatch.setattr(secrets, "token_hex", vanish)
    assert folder.put("a/mine", b"2") is True
    assert len(calls) == 2
    assert folder.get("a/mine") == b"2"


def test_symbolic_links_and_foreign_files_are_not_listed(folder: FolderStore, tmp_path: Path) -> None:
    """A link out of the store is neither followed nor listed, and what is no key of ours does not disturb."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("x")
    folder.put("a/b", b"1")
    root = tmp_path / "store"
    (root / "link").symlink_to(outside)
    (root / "a" / "file-link").symlink_to(outside / "secret")
    (root / "lost+found").mkdir()
    (root / ".hidden").write_text("x")
    assert [info.key for info in folder.list("")] == ["a/b"]
    assert list(folder.folders("")) == ["a"]
    assert list(folder.versions("")) == ["a/b"]
    with pytest.raises(StoreDenied):
        folder.get("a/file-link")


def test_a_folder_is_no_object(folder: FolderStore) -> None:
    """A put to the name of a folder fails aloud; it must not pass for stored."""
    folder.put("a/b/c", b"1")
    with pytest.raises(StoreDenied, match="can't store a/b"):
        folder.put("a/b", b"1")
    with pytest.raises(StoreDenied, match="can't store a/b/c/d"):
        folder.put("a/b/c/d", b"1")


@pytest.mark.parametrize(
    ("number", "kind", "advice"),
    [
        (errno.ENOSPC, StoreUnreachable, "Free some space"),
        (errno.EIO, StoreUnreachable, "try again"),
        (errno.EROFS, StoreDenied, "writable"),
        (errno.EACCES, StoreDenied, "owner and mode"),
        (errno.EPERM, StoreDenied, "hard links"),
        (errno.EINVAL, StoreDenied, "another place"),
    ],
)
def test_errors_of_the_file_system(
    folder: FolderStore, monkeypatch: pytest.MonkeyPatch, number: int, kind: type[Exception], advice: str
) -> None:
    """A failed put says what failed, where, and what to do, and leaves nothing under the key."""

    def fail(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patch:
        patch.setattr(os, "link", fail)
        with pytest.raises(kind, match=advice) as caught:
            folder.put("a/b", b"x")
    assert os.strerror(number) in str(caught.value)
    assert "store: can't store a/b" in str(caught.value)
    assert list(folder.versions("")) == []
    assert folder.put("a/b", b"x") is True


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_write_permission(folder: FolderStore, tmp_path: Path) -> None:
    """Without permission a put is denied, not unreachable."""
    folder.put("a", b"x")
    (tmp_path / "store").chmod(0o500)
    try:
        with pytest.raises(StoreDenied, match="Permission denied"):
            folder.put("b", b"x")
    finally:
        (tmp_path / "store").chmod(0o700)


def test_everything_is_synced_before_put_returns(
    folder: FolderStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is synced before it gets its name, and every folder after it: those further up once while they stand."""
    order: list[str] = []
    link, fsync = os.link, os.fsync

    def seen_link(*args: str) -> None:
        order.append("link")
        link(*args)

    def seen_sync(descriptor: int) -> None:
        order.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)
        fsync(descriptor)

    monkeypatch.setattr(os, "link", seen_link)
    monkeypatch.setattr(os, "fsync", seen_sync)
    above = tmp_path.name
    for key, expected in (
        ("a/b/c", [above, ".c", "link", "b", "a", "store"]),
        ("a/b/d", [".d", "link", "b", "a"]),
        ("a/e/c", [".c", "link", "e", "a"]),
        ("f/b/c", [".c", "link", "b", "f", "store"]),
        ("g", [".g", "link", "store"]),
    ):
        order.clear()
        folder.put(key, b"x")
        assert [re.sub(r"\.[0-9a-f]{16}\.tmp", "", name) for name in order] == expected
    order.clear()
    folder.put("a/b/c", b"y")
    assert order == ["b", "a", "store"], "the one that stored it may not have synced yet"
    (tmp_path / "store" / "a").rename(tmp_path / "away")
    (tmp_path / "store" / "a" / "b").mkdir(parents=True)
    order.clear()
    folder.put("a/b/c", b"x")
    assert order[1:] == ["link", "b", "a", "store"], "another folder stands there now"


_WRITER = """
import sys
from otel_prompt_trace.store import FolderStore
store = FolderStore(sys.argv[1])
number = 0
while True:
    key = f"k/{number:06d}"
    assert store.put(key, key.encode() * 20_000)
    sys.stdout.write(key + "\\n"); sys.stdout.flush()
    number += 1
"""


@pytest.mark.fault
def test_killed_while_writing(tmp_path: Path) -> None:
    """After SIGKILL every acknowledged object is whole, and so is every listed one."""
    child = subprocess.Popen(
        [sys.executable, "-c", _WRITER, str(tmp_path / "store")], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    acknowledged = [child.stdout.readline().strip() for _ in range(30)]
    child.send_signal(signal.SIGKILL)
    acknowledged += [line.strip() for line in child.stdout if line.endswith("\n")]
    child.wait()
    child.stdout.close()
    store = FolderStore(tmp_path / "store")
    listed = [info.key for info in store.list("")]
    assert set(acknowledged) <= set(listed)
    for key in listed:
        assert store.get(key) == key.encode() * 20_000


def test_two_processes_race(tmp_path: Path) -> None:
    """Of several processes that put one key, one wins."""
    code = (
        "import sys; from otel_prompt_trace.store import FolderStore\n"
        "print(FolderStore(sys.argv[1]).put('a/b', sys.argv[2].encode()))"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "store")]
    children = [subprocess.Popen([*command, str(n)], stdout=subprocess.PIPE, text=True) for n in range(4)]
    answers = [child.communicate(timeout=60)[0].strip() for child in children]
    assert sorted(answers) == ["False", "False", "False", "True"]
    assert FolderStore(tmp_path / "store").get("a/b") == str(answers.index("True")).encode()
