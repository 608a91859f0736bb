"""Every attribute of every trace file of the corpus goes through the table of keys."""

from __future__ import annotations

import re

import pytest

from otel_prompt_trace.core.conventions import content_event, content_in_event, content_key
from tests.conventions.left_on_spans import LEFT
from tests.conventions.replay import leaves, sent, texts_sent
from tests.conventions.trace_files import TRACES, Carrier, carriers, files

pytestmark = [pytest.mark.corpus, pytest.mark.skipif(not TRACES.is_dir(), reason="the corpus is not here")]

_INDEX = re.compile(r"(?<=\.)\d+(?=\.|$)")
_LONG = 200  # characters
_PROSE = 5  # words between spaces
_TELLING = 30  # characters of a prompt's text that can't stand on a span by accident


def test_no_key_with_a_long_or_prose_value_is_left_without_a_reason() -> None:
    """What stays on spans is short, or is listed with a reason; the list holds nothing that is not there."""
    longest = _longest_left()
    for key, value in sorted(longest.items()):
        print(f"{key}: {len(value)} characters, {value[:80]!r}")
    suspicious = {key for key, value in longest.items() if len(value) > _LONG or len(value.split()) >= _PROSE}
    assert suspicious - LEFT.keys() == set(), "new keys that may carry content: review them"
    assert LEFT.keys() - suspicious == set(), "listed, but nothing in the corpus needs it"


def test_no_log_body_is_left() -> None:
    """Every event or log record that has a body is known to carry content."""
    bodies = [carrier for path in files() for carrier in carriers(path) if carrier.body is not None]
    assert len(bodies) > 900
    assert {carrier.name for carrier in bodies if content_event(carrier.name) is None} == set()


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_no_text_that_was_sent_is_left(provider: str) -> None:
    """No text of any replayed request stands in an attribute that stays, whatever the attribute's name."""
    texts = {
        text for call in sent(provider) if call.body for text in leaves(texts_sent(call.body)) if len(text) >= _TELLING
    }
    assert len(texts) > 10
    kept = [
        (carrier.file, key)
        for path in files()
        if provider in path.name
        for carrier in carriers(path)
        for key, value in _left(carrier).items()
        if isinstance(value, str) and any(text in value for text in texts)
    ]
    assert kept == []


def test_references_stay() -> None:
    """The upload hook's references to its files are found in the corpus, and stay on their spans."""
    references = {
        key for path in files() for carrier in carriers(path) for key in _left(carrier) if key.endswith("_ref")
    }
    assert {"gen_ai.input.messages_ref", "gen_ai.tool.definitions_ref"} <= references


def _longest_left() -> dict[str, str]:
    longest: dict[str, str] = {}
    for path in files():
        for carrier in carriers(path):
            for key, value in _left(carrier).items():
                shown, name = value if isinstance(value, str) else repr(value), _INDEX.sub("N", key)
                if len(shown) > len(longest.get(name, "")):
                    longest[name] = shown
    return longest


def _left(carrier: Carrier) -> dict[str, object]:
    if carrier.kind == "event" or carrier.kind == "log":
        event = content_event(carrier.name)
        return {key: value for key, value in carrier.attributes.items() if not content_in_event(event, key)}
    return {key: value for key, value in carrier.attributes.items() if content_key(key) is None}
