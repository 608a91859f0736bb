"""Who is answered: this machine by a loopback name, with GET and HEAD; and what every answer tells the browser."""

from __future__ import annotations

import pytest

from otel_prompt_trace.viewer.guard import HEADERS, names_loopback
from tests.viewer.conftest import Places


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1", "127.0.0.1:8765", "127.8.9.1", "[::1]:8765"])
def test_loopback_names_are_answered(places: Places, host: str) -> None:
    """By name or address, on whatever port."""
    assert places.client().get("/", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:8765", "127.0.0.1.evil.example", "localhost.evil.example", "localhost@evil.example",
     "10.0.0.1", "0.0.0.0", "[::]", "127.1", "2130706433", "", "localhost:", "localhost:x", "local host", "[::1"],
)  # fmt: skip
def test_no_other_name_is_answered(places: Places, host: str) -> None:
    """A name that an attacker has pointed at this machine gets neither a page nor anything of it."""
    assert not names_loopback(host)
    answer = places.client().get("/", headers={"host": host})
    assert answer.status_code == 421
    assert "prompt-trace" not in answer.text


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "ODD"])
def test_nothing_can_be_changed(places: Places, method: str) -> None:
    """Any method that is not for reading is refused, on every address."""
    for path in ("/", "/q/x", "/t/x", "/elsewhere"):
        answer = places.client().request(method, path)
        assert answer.status_code == 405
        assert answer.headers["allow"] == "GET, HEAD"


@pytest.mark.parametrize(
    ("site", "mode", "dest", "status"),
    [("none", "navigate", "document", 200), ("same-origin", "navigate", "document", 200),
     ("cross-site", "navigate", "document", 200), ("same-site", "navigate", "document", 200),
     ("cross-site", "navigate", "iframe", 403), ("same-site", "no-cors", "image", 403),
     ("cross-site", "no-cors", "script", 403), ("cross-site", "cors", "empty", 403)],
)  # fmt: skip
def test_another_site_may_link_here_and_load_nothing(
    places: Places, site: str, mode: str, dest: str, status: int
) -> None:
    """A link of Jaeger's is followed; no other page has ours in a frame, an image, a script or a fetch."""
    headers = {"sec-fetch-site": site, "sec-fetch-mode": mode, "sec-fetch-dest": dest}
    assert places.client().get("/", headers=headers).status_code == status


@pytest.mark.parametrize("path", ["/", "/q/nope", "/q/nope.json", "/t/-", "/elsewhere", "/q/%00"])
def test_every_answer_has_the_headers(places: Places, path: str) -> None:
    """Pages, errors and refusals alike: no script runs, nobody frames it, no cache keeps it."""
    client = places.client()
    for answer in (client.get(path), client.head(path), client.post(path), client.get(path, headers={"host": "x"})):
        for name, value in HEADERS.items():
            assert answer.headers[name] == value
    policy = HEADERS["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "script" not in policy
    assert "unsafe" not in policy
    assert HEADERS["cache-control"] == "no-store"
