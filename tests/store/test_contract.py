"""What every object store does alike: a folder, an S3 in this process, a real server."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone

import pytest

from otel_prompt_trace.exceptions import NotFound
from otel_prompt_trace.store import ObjectStore, open_objects


def test_put_if_absent(objects: ObjectStore) -> None:
    """The first put stores, the second says so and touches nothing."""
    assert isinstance(objects, ObjectStore)
    assert objects.put("a/b", b"first") is True
    assert objects.put("a/b", b"second") is False
    assert objects.get("a/b") == b"first"


def test_a_race_has_one_winner(objects: ObjectStore) -> None:
    """Of sixteen puts of one key at once exactly one is told that it stored, and its bytes are there."""
    for turn in range(2):
        barrier = threading.Barrier(16)

        def put(number: int, key: str = f"race/{turn}", barrier: threading.Barrier = barrier) -> bool:
            barrier.wait()
            return objects.put(key, b"%d" % number * 1000)

        with ThreadPoolExecutor(16) as threads:
            won = list(threads.map(put, range(16)))
        assert won.count(True) == 1
        assert objects.get(f"race/{turn}") == b"%d" % won.index(True) * 1000


def test_absent(objects: ObjectStore) -> None:
    """What is not there is NotFound by get and by range, also where a longer key exists; deleting it is no error."""
    objects.put("a/b/c", b"x")
    for key in ("nothing", "a/b", "a/b/c/d", "a/b/cc"):
        with pytest.raises(NotFound):
            objects.get(key)
        with pytest.raises(NotFound):
            objects.get_range(key, 0, 1)
        objects.delete(key)
    assert objects.get("a/b/c") == b"x"
    assert list(objects.list("zzz/")) == []
    assert list(objects.folders("zzz/")) == []
    assert list(objects.versions("zzz/")) == []


def test_an_empty_store_reads_as_empty(objects: ObjectStore) -> None:
    """Before the first put, every way of reading finds nothing and makes nothing."""
    assert list(objects.list("")) == []
    assert list(objects.folders("")) == []
    assert list(objects.versions("")) == []
    objects.delete("a/b")
    with pytest.raises(NotFound):
        objects.get("a/b")


@pytest.mark.parametrize(
    ("start", "length", "expected"),
    [(0, 3, b"012"), (4, 3, b"456"), (8, 10, b"89"), (10, 5, b""), (100, 1, b""), (0, 1000, b"0123456789")],
)
def test_ranges(objects: ObjectStore, start: int, length: int, expected: bytes) -> None:
    """A range gives what there is of it."""
    objects.put("r", b"0123456789")
    assert objects.get_range("r", start, length) == expected


@pytest.mark.parametrize(("start", "length"), [(-1, 3), (0, 0), (0, -1)])
def test_impossible_ranges(objects: ObjectStore, start: int, length: int) -> None:
    """A range before the start or without a byte is misuse."""
    objects.put("r", b"0123456789")
    with pytest.raises(ValueError, match="a range starts"):
        objects.get_range("r", start, length)


def test_sizes(objects: ObjectStore) -> None:
    """No byte and nine million bytes both come back as they were."""
    large = bytes(range(256)) * 36_000
    assert objects.put("size/none", b"")
    assert objects.put("size/large", large)
    assert objects.get("size/none") == b""
    assert objects.get("size/large") == large
    assert [(info.key, info.size) for info in objects.list("size/")] == [("size/large", len(large)), ("size/none", 0)]


def test_list(objects: ObjectStore) -> None:
    """Listings are by prefix, also inside a segment, in order within a folder, with aware times of now."""
    keys = ["a-b/x", "a/b.c/d", "a/b/c", "a/bc", "ab/c", "b"]
    for key in keys:
        objects.put(key, b"x")
    assert sorted(info.key for info in objects.list("")) == sorted(keys)
    assert sorted(info.key for info in objects.list("a/")) == ["a/b.c/d", "a/b/c", "a/bc"]
    assert sorted(info.key for info in objects.list("a/b")) == ["a/b.c/d", "a/b/c", "a/bc"]
    assert [info.key for info in objects.list("a/b/")] == ["a/b/c"]
    assert [info.key for info in objects.list("a/b/c")] == ["a/b/c"]
    for info in objects.list(""):
        assert info.modified.tzinfo is not None
        assert abs(datetime.now(timezone.utc) - info.modified) < timedelta(minutes=5)
    assert sorted(objects.versions("a/")) == ["a/b.c/d", "a/b/c", "a/bc"]


def test_folders(objects: ObjectStore) -> None:
    """Folders are the next whole segments that have something below them."""
    for key in ("p/dt=1/q1/x", "p/dt=1/q1/y", "p/dt=1/q2/x", "p/dt=2/r/x", "p/file", "other/x"):
        objects.put(key, b"x")
    for deleted in (False, True):
        assert list(objects.folders("", deleted=deleted)) == ["other", "p"]
        assert list(objects.folders("p/", deleted=deleted)) == ["dt=1", "dt=2"]
        assert list(objects.folders("p/dt=1/", deleted=deleted)) == ["q1", "q2"]
        assert list(objects.folders("p/dt=1/q", deleted=deleted)) == ["q1", "q2"]
        assert list(objects.folders("p/dt=1/q2", deleted=deleted)) == ["q2"]


def test_delete(objects: ObjectStore) -> None:
    """A deleted key is gone and free again; its neighbours stay."""
    for key in ("d/a", "d/ab", "d/b"):
        objects.put(key, b"x")
    objects.delete("d/a")
    objects.delete("d/a")
    with pytest.raises(NotFound):
        objects.get("d/a")
    assert [info.key for info in objects.list("d/")] == ["d/ab", "d/b"]
    assert list(objects.versions("d/")) == ["d/ab", "d/b"]
    assert objects.put("d/a", b"again") is True


def test_pages_of_names_that_begin_alike(objects: ObjectStore) -> None:
    """Listings go on past the thousand entries of one answer, and lose or double none where names begin alike."""
    names = [f"{number:03d}{end}" for number in range(260) for end in ("", "-x", ".y", "~z")]
    keys = [f"alike/{name}/o" for name in names]
    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(lambda key: objects.put(key, b"x"), keys))
    listed = [info.key for info in objects.list("alike/")]
    assert (len(listed), set(listed)) == (len(keys), set(keys))
    folders = list(objects.folders("alike/"))
    assert (len(folders), set(folders)) == (len(names), set(names))
    left = list(objects.versions("alike/"))
    assert (len(left), set(left)) == (len(keys), set(keys))
    assert {info.key for info in objects.list("alike/123")} == {key for key in keys if key.startswith("alike/123")}


@pytest.mark.parametrize("key", ["../x", "a/../../x", "/etc/passwd", "a/.hidden", ""])
def test_keys_can_not_leave_the_store(objects: ObjectStore, key: str) -> None:
    """Every operation refuses a key that is none before it does anything."""
    for operation in (
        lambda: objects.put(key, b"x"),
        lambda: objects.get(key),
        lambda: objects.get_range(key, 0, 1),
        lambda: objects.delete(key),
    ):
        with pytest.raises(ValueError, match="is no object key"):
            operation()
    if key:
        for listing in (objects.list, objects.folders, objects.versions):
            with pytest.raises(ValueError, match="is no object key"):
                next(listing(key), None)


def test_the_url_opens_the_same_store(objects: ObjectStore) -> None:
    """The URL leads back to the store and holds no secret."""
    objects.put("a/b", b"x")
    assert open_objects(objects.url).get("a/b") == b"x"
    assert open_objects(objects.url).url == objects.url
    assert "secret" not in objects.url + repr(objects)
