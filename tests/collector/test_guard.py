"""The content guard of ``production.yaml`` knows every key that this project takes off spans."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_prompt_trace.core.conventions import content_event, content_in_event, content_key, known_keys
from otel_prompt_trace.core.conventions.event_names import _EVENTS
from otel_prompt_trace.core.conventions.table import BELOW, INDEXED, TABLE
from tests.collector.guard import Rules, configuration, groups
from tests.conventions.test_keys import CONTENT, ORDINARY

WHOLE = [key for directions in TABLE.values() for keys in directions.values() for key in keys]
CONTEXTS = ("span", "spanevent", "scope", "resource")
TAILS = ("0", "12.role", "3.message.contents.1.text", "0.tool_calls.0.function.arguments")
KEPT = [
    *ORDINARY,
    *(f"prompt_trace.{name}" for name in ("qid", "ref", "sha256", "chars", "pieces", "unaccounted", "verdict")),
    *(f"{key}_ref" for key in WHOLE if key.startswith("gen_ai.")),
    "gen_ai.usage.output_tokens", "gen_ai.server.time_to_first_token", "gen_ai.prompt.version", "llm.template.id",
    "http.response.status_code", "exception.message", "code.function.name", "server.address", "service.name",
]  # fmt: skip


def keys() -> list[str]:
    """Every key of the table, and some below each of its prefixes."""
    indexed = [prefix + tail for prefix in INDEXED for tail in TAILS]
    below = [prefix + tail for prefix in BELOW for tail in (*TAILS, "city", "x.y")]
    return [*WHOLE, *indexed, *below, *CONTENT]


@pytest.mark.parametrize("context", CONTEXTS)
def test_every_known_key_is_deleted(context: str) -> None:
    """On spans, events, scopes and resources; a key added to the table and not to the file fails here."""
    rules = Rules(context)
    assert {key for key in keys() if not rules.delete(key)} == set()
    assert set(known_keys()) <= {*WHOLE, *INDEXED, *BELOW}


@pytest.mark.parametrize("context", CONTEXTS)
def test_what_is_no_content_stays(context: str) -> None:
    """References, counts, names and what this project itself sets."""
    rules = Rules(context)
    assert {key for key in KEPT if key and rules.delete(key)} == set()


@given(st.sampled_from([*INDEXED, *BELOW, *(f"{key}." for key in WHOLE)]), st.text("0a.é", max_size=6))
def test_guard_is_no_laxer_than_the_project(prefix: str, tail: str) -> None:
    """Whatever stands below a prefix: what the project calls content, the guard deletes."""
    key = prefix + tail
    assert content_key(key) is None or Rules("span").delete(key)


@pytest.mark.parametrize("context", CONTEXTS)
def test_nested_keys_are_deleted_once_they_are_attributes(context: str) -> None:
    """A dotted content key inside a map of another name, as flattening writes it: with whatever is below it."""
    rules = Rules(context)
    dotted = {key for key in keys() if "." in key or ":" in key}
    whole = {key for key in WHOLE if key in dotted}
    assert {key for key in dotted if not rules.delete_below(f"metadata.{key}")} == set()
    assert {key for key in whole if not rules.delete_below(f"metadata.0.{key}.1.text")} == set()
    below_gen_ai_prompt = {key for key in KEPT if key.startswith("gen_ai.prompt.")}  # nested, such a map goes whole
    assert {key for key in KEPT if key and rules.delete_below(f"metadata.{key}")} == below_gen_ai_prompt


@pytest.mark.parametrize("context", CONTEXTS)
def test_a_path_that_makes_a_content_key_is_deleted(context: str) -> None:
    """Maps inside maps whose names, put together, are a key: ``{"gen_ai": {"input": {"messages": …}}}``."""
    rules = Rules(context)
    assert {key for key in keys() if "." in key and not rules.delete_below(key)} == set()
    assert {key for key in KEPT if key and rules.delete_below(key)} == set()


@pytest.mark.parametrize("context", CONTEXTS)
def test_nested_values_are_looked_at_after_the_whole_ones(context: str) -> None:
    """And only where there are any: the text of the attributes tells."""
    *_, last = (group for group in groups() if group.context == context)
    assert last.statements[0] == "flatten(attributes)"
    conditions = [re.fullmatch(r'IsMatch\(String\((\w+).attributes\), "(.+)"\)', each) for each in last.conditions]
    patterns = [re.compile(each[2].replace("\\\\", "\\")) for each in conditions if each and each[1] == context]
    assert len(patterns) == len(last.conditions) == 4

    def nested(**attributes: object) -> bool:
        text = json.dumps(attributes, separators=(",", ":"))
        return any(pattern.search(text) for pattern in patterns)

    assert nested(a=1, b={"c": 1})
    assert nested(b=[{"c": 1}])
    assert nested(b=["x", {"c": 1}])
    assert nested(b=[1, None, ["x", {"c": 1}]])
    assert nested(b=["x" * 600, "y" * 600])
    assert nested(b=["]" * 300]), "a text that looks like the array's end"
    assert nested(b=["a", 2, ']",' * 90, "c"])
    assert nested(b=["]"] * 17)
    assert nested(b=[["x"]])
    assert nested(b=["a]", ["x"]])
    assert not nested(a=1, b=["stop"], c=json.dumps({"a": [{"b": {"c": "d"}}]}), d="x" * 9000)
    assert not nested(a=["stop", "]"], b='["' + "x" * 300, c=["y" * 200] * 4, d=[1.5] * 40, e=",[[", f="z" * 300)


NAMES = [
    *_EVENTS, "gen_ai.user.message", "gen_ai.message", "gen_ai.custom.kind.message", "exception", "message", "gen_ai.x",
    "openinference.instrumentation.openai", "opentelemetry.instrumentation.x", "my.gen_ai.choice", "data.inputs",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_messages_that_come_as_events(name: str) -> None:
    """Bare names are content in exactly the events in which the project says so."""
    rules, event = Rules("spanevent"), content_event(name)
    for key in ("content", "message", "tool_calls", "tool.result", "gen_ai.system", "server.address", "gen_ai.prompt"):
        assert rules.delete(key, name) == content_in_event(event, key), key


def test_order_of_the_guards() -> None:
    """Content first, then secrets, then the limits: a secret that was cut in two is not found any more."""
    config = configuration("production.yaml")
    order = ["memory_limiter", "transform/content", "redaction/secrets", "transform/limits"]
    assert config["service"]["pipelines"]["traces/in"]["processors"] == order
    limits = [each for group in groups("transform/limits") for each in group.statements]
    assert sum("truncate_all(attributes" in each for each in limits) == len(CONTEXTS)


SECRETS = {
    "sk-" + "a1B2" * 8: "OpenAI",
    "sk-ant-api03-" + "xY_9-" * 8: "Anthropic",
    "AKIA" + "ABCD1234EFGH5678": "AWS",
    "AIza" + "b" * 35: "Google",
    "ghp_" + "c" * 36: "GitHub",
    "hf_" + "d" * 34: "Hugging Face",
    "xoxb-" + "1234567890-" * 3: "Slack",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3In0.c2lnbmF0dXJl": "a web token",
    "Bearer " + "0123456789abcdef" * 2: "a header",
}


@pytest.mark.parametrize("secret", SECRETS, ids=SECRETS.get)
def test_secrets_are_known_by_their_form(secret: str) -> None:
    """In attributes by one of the patterns, in a status and in names by statements of their own."""
    blocked = configuration("production.yaml")["processors"]["redaction/secrets"]["blocked_values"]
    assert any(re.search(pattern, f"failed with {secret}!") for pattern in blocked)
    statements = [each for group in groups("transform/limits") for each in group.statements]
    masked = [re.match(r'replace_pattern\((\S+), "([^"]+)"', each) for each in statements if "replace_pattern" in each]
    assert [each and each[1] for each in masked] == ["status.message", "name", "name"], "of a span, and of its events"
    for each in masked:
        assert each is not None
        assert secret not in re.sub(each[2], "****", f"failed with {secret}!")


SECRET_KEYS = [
    "api_key", "openai.api-key", "http.request.header.authorization", "db.password", "x-api-key", "Cookie",
    "aws.secret", "auth_token", "credentials", "OPENAI_API_KEY", "http.request.header.set-cookie", "apiKey",
]  # fmt: skip


@pytest.mark.parametrize("key", SECRET_KEYS)
def test_keys_of_secrets_are_masked(key: str) -> None:
    """Whatever their values look like."""
    assert masked(key)


@pytest.mark.parametrize("key", ["gen_ai.usage.input_tokens", "author", "tokens", "prompt_trace.sha256", "keyboard"])
def test_keys_that_only_sound_like_it_are_not(key: str) -> None:
    """Counts of tokens above all."""
    assert not masked(key)


def masked(key: str) -> bool:
    """Whether the guard masks the value of this key."""
    patterns = configuration("production.yaml")["processors"]["redaction/secrets"]["blocked_key_patterns"]
    return any(re.search(pattern.replace("$$", "$"), key) for pattern in patterns)
