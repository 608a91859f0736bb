"""Checks: each can pass, fail, or say that it was not exercised, and each says why."""

from __future__ import annotations

from typing import Any

import pytest

from otel_prompt_trace.core.checks import Check
from otel_prompt_trace.core.grade import grade
from otel_prompt_trace.core.prompt import Prompt
from otel_prompt_trace.core.record import Record
from tests.core.by_hand import Script, read
from tests.core.test_seal import placed

NAMES = {
    "payload_integrity",
    "single_end",
    "duplicate_piece",
    "whole_prompt_piece",
    "sent_as_rendered",
    "chunk_identity",
    "chunks_located",
    "rank_prefix",
    "token_identity",
    "expected_tokens",
    "finish_reason",
    "span_joined",
}
CHUNKS = {f"c#{n}": f"Chunk {n}: text. " for n in range(1, 6)}


def words(text: str, model: str) -> int | None:
    """A tokenizer for one public model."""
    return len(text.split()) if model == "public" else None


def check(record: Record, name: str, *, counting: bool = False) -> Check:
    """The one check of a name."""
    result = grade(record, words if counting else None)
    (found,) = [c for c in (*result.checks, *result.calls[0].checks) if c.name == name]
    return found


def retrieval(inside: list[int], *, dropped: list[str] | None = None, **more: Any) -> Script:
    """A query that retrieved chunks 1 to 5, of which some went into the prompt."""
    script = Script()
    hits = [{"rank": n, "chunk_id": f"c#{n}", "score": 1 - n / 10} for n in range(1, 6)]
    script("retrieval", hits=hits, **({} if dropped is None else {"dropped": dropped}), **more)
    prompt = Prompt().add("system", "Be brief. ")
    for n in inside:
        prompt.add("rag", CHUNKS[f"c#{n}"], source_id=f"c#{n}")
    sources = [{} if p.source_id is None else {"source_id": p.source_id} for p in prompt.pieces]
    script.call("c1", prompt.text, *[piece | source for piece, source in zip(placed(prompt), sources, strict=True)])
    return script


def test_every_check_of_a_call_and_of_the_query_is_there() -> None:
    """Under their published names, each once, with a status and a detail."""
    result = grade(retrieval([1]).record())
    found = [*result.checks, *result.calls[0].checks]
    assert sorted(c.name for c in found) == sorted(NAMES)
    assert all(c.status in ("pass", "fail", "unknown") and c.detail for c in found)
    assert [c.name for c in result.checks] == ["single_end"]
    assert all(c.call == 1 for c in result.calls[0].checks)


@pytest.mark.parametrize("name", ["sent_as_rendered", "expected_tokens", "span_joined"])
def test_what_was_not_exercised_is_unknown(name: str) -> None:
    """What needs the wire, a declared number or the spans is never counted as passed without them."""
    assert check(retrieval([1]).record(), name).status == "unknown"


class TestSingleEnd:
    """A query ends once."""

    @pytest.mark.parametrize(("ends", "status"), [(0, "unknown"), (1, "pass"), (2, "fail"), (3, "fail")])
    def test_number_of_ends(self, ends: int, status: str) -> None:
        """None yet is unknown; a second one is kept and fails."""
        script = retrieval([1])
        for _ in range(ends):
            script("end", ms={})
        script("end", joined=True)
        found = check(script.record(), "single_end")
        assert (found.status, found.call) == (status, None)


class TestPayloadIntegrity:
    """Every segment of the stored prompt has the digest and the length that were recorded."""

    @pytest.fixture
    def events(self) -> list[dict[str, Any]]:
        """A stored call with two messages."""
        script = Script()
        script.call("c1", [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Why?"}])
        return script.sealed()

    def integrity(self, events: list[dict[str, Any]]) -> Check:
        """The check over stored events."""
        return check(read(events), "payload_integrity")

    def test_whole(self, events: list[dict[str, Any]]) -> None:
        """Nothing was changed."""
        assert self.integrity(events).status == "pass"
        assert self.integrity(events).detail == "sha256 of 2 segment(s) verified"

    def test_a_changed_character(self, events: list[dict[str, Any]]) -> None:
        """Of the same length."""
        events[0]["messages"][1]["content"] = "Who?"
        assert self.integrity(events).status == "fail"
        assert "messages[1].content: sha256 differs" in self.integrity(events).detail

    def test_a_changed_length(self, events: list[dict[str, Any]]) -> None:
        """The count is that of the whole, taken before anything could be cut."""
        events[0]["messages"][1]["content"] = "Why"
        assert self.integrity(events).detail == "messages[1].content: 3 characters, 4 were recorded"
        assert self.integrity(events).status == "fail"

    def test_a_lost_message(self, events: list[dict[str, Any]]) -> None:
        """Each of those that are left is what it was; that one is missing fails all the same."""
        del events[0]["messages"][1]
        assert self.integrity(events).status == "fail"
        assert self.integrity(events).detail == "1 segments, 2 were recorded"

    def test_an_added_message(self, events: list[dict[str, Any]]) -> None:
        """What has no digest is not vouched for."""
        events[0]["messages"].append({"role": "user", "content": "Really?"})
        assert self.integrity(events).status == "unknown"

    @pytest.mark.parametrize("segments", [None, [], "x", [5]])
    def test_without_digests(self, events: list[dict[str, Any]], segments: object) -> None:
        """There is nothing to compare with."""
        events[0]["segments"] = segments
        assert self.integrity(events).status == "unknown"

    def test_withheld(self) -> None:
        """A keyed digest can't be verified here, and that is said."""
        script = Script()
        script.call("c1", "Why?")
        found = check(script.record("hash"), "payload_integrity")
        assert (found.status, found.detail) == ("unknown", "1 of 1 segments are kept as keyed digests")

    def test_no_prompt(self) -> None:
        """Nothing was recorded that could be checked."""
        script = Script()
        script("response", call="c1")
        assert check(script.record(), "payload_integrity").status == "unknown"


class TestPieces:
    """Pieces that were declared more often than they stand, or that are all there is."""

    def test_duplicate(self) -> None:
        """By name."""
        script = Script()
        script.call("c1", "ok then", {"producer": "a", "text": "ok"}, {"producer": "b", "text": "ok"})
        assert check(script.record(), "duplicate_piece") == Check("duplicate_piece", "fail", "b", 1)
        assert check(script.record(), "whole_prompt_piece").status == "pass"

    def test_whole_prompt(self) -> None:
        """By name."""
        script = Script()
        script.call("c1", "ok then", {"producer": "app", "text": "ok then", "source_id": "1"})
        assert check(script.record(), "whole_prompt_piece") == Check("whole_prompt_piece", "fail", "app:1", 1)
        assert check(script.record(), "duplicate_piece").status == "pass"

    @pytest.mark.parametrize("name", ["duplicate_piece", "whole_prompt_piece"])
    def test_without_pieces(self, name: str) -> None:
        """None was declared, so none could fail."""
        script = Script()
        script.call("c1", "ok then")
        assert check(script.record(), name).status == "unknown"


class TestChunkIdentity:
    """What was retrieved is in the prompt or was dropped, by name."""

    def test_4_and_1_are_5(self) -> None:
        """The clamp dropped one, and says so."""
        found = check(retrieval([1, 2, 3, 4], dropped=["c#5"]).record(), "chunk_identity")
        assert found.status == "pass"
        assert found.detail == "4 in prompt + 1 dropped = 5 of 5 retrieved (c#5)"

    def test_all_in_the_prompt(self) -> None:
        """Nothing was dropped, and nothing has to be said."""
        found = check(retrieval([1, 2, 3, 4, 5]).record(), "chunk_identity")
        assert (found.status, found.detail) == ("pass", "5 in prompt + 0 dropped = 5 of 5 retrieved")

    def test_one_is_missing_and_nobody_says_why(self) -> None:
        """It may have been dropped, or lost on the way: unknown, by name."""
        found = check(retrieval([1, 2, 4, 5]).record(), "chunk_identity")
        assert found.status == "unknown"
        assert found.detail.endswith("neither in the prompt nor said to be dropped: c#3")

    def test_said_to_be_dropped_and_yet_there(self) -> None:
        """The application says one thing, and the prompt another."""
        found = check(retrieval([1, 2, 3, 4, 5], dropped=["c#5", "c#1"]).record(), "chunk_identity")
        assert (found.status, found.detail) == ("fail", "said to be dropped, yet in the prompt: c#1, c#5")

    def test_said_to_be_dropped_and_never_retrieved(self) -> None:
        """A name that nobody knows."""
        found = check(retrieval([1, 2, 3, 4], dropped=["c#5", "c#9"]).record(), "chunk_identity")
        assert (found.status, found.detail) == ("fail", "said to be dropped, but never retrieved: c#9")

    def test_declared_is_not_in_the_prompt(self) -> None:
        """A chunk counts where it is located, not where it is merely declared."""
        script = retrieval([1, 2, 3, 4], dropped=["c#5"])
        script("piece", call="c1", producer="rag", text="Another text.", source_id="c#5")
        assert check(script.record(), "chunk_identity").status == "pass"
        assert check(script.record(), "chunks_located").status == "fail"

    def test_nothing_retrieved(self) -> None:
        """There is nothing to add up."""
        script = Script()
        script.call("c1", "ok")
        assert check(script.record(), "chunk_identity").status == "unknown"

    def test_ids_that_are_numbers(self) -> None:
        """A chunk whose id is the number 7 is the chunk that a piece names as its source 7."""
        script = Script()
        script("retrieval", hits=[{"rank": 1, "chunk_id": 7, "score": 1}])
        script.call("c1", "one two", {"producer": "rag", "text": "one ", "source_id": 7})
        assert check(script.record(), "chunk_identity").detail.startswith("1 in prompt")
        assert check(script.record(), "chunks_located").status == "pass"


class TestChunksLocated:
    """Every piece that names a retrieved chunk as its source stands in the prompt, at its offsets."""

    def test_located(self) -> None:
        """By offset, not by belief."""
        found = check(retrieval([1, 2]).record(), "chunks_located")
        assert (found.status, found.detail) == ("pass", "2 located by offset")

    @pytest.mark.parametrize("text", ["Chunk 9: never sent.", CHUNKS["c#1"], "text. Chunk 2"])
    def test_not_located(self, text: str) -> None:
        """Unlocatable, a duplicate, or contested: by name and reason."""
        script = retrieval([1, 2])
        script("piece", call="c1", producer="rag", text=text, source_id="c#3")
        found = check(script.record(), "chunks_located")
        assert found.status == "fail"
        assert found.detail.startswith("rag:c#3 (")

    def test_offered_to_the_query_and_used_by_another_call(self) -> None:
        """The call that goes without it has no chunk to locate."""
        script = Script()
        script("retrieval", hits=[{"rank": 1, "chunk_id": "c#1"}])
        script("piece", producer="rag", text=CHUNKS["c#1"], source_id="c#1")
        script.call("c1", "rewrite the question", {"producer": "t", "text": "rewrite "})
        script.call("c2", f"{CHUNKS['c#1']}Why?", {"producer": "user", "text": "Why?"})
        statuses = [c.status for g in grade(script.record()).calls for c in g.checks if c.name == "chunks_located"]
        assert statuses == ["unknown", "pass"]

    def test_no_source(self) -> None:
        """Pieces that name no chunk are no chunks, and neither are hits without an id."""
        script = Script()
        script("retrieval", hits=[{"rank": 1}])
        script.call("c1", "one two", {"producer": "rag", "text": "one "})
        assert check(script.record(), "chunks_located").status == "unknown"


class TestOddHits:
    """Names are compared, so what has none, or has one twice, is counted as such."""

    def test_a_chunk_that_two_searches_found_is_one_chunk(self) -> None:
        """It stands in the prompt once, and is retrieved once."""
        script = Script()
        for _ in range(2):
            script("retrieval", hits=[{"rank": 1, "chunk_id": "a"}, {"rank": 2, "chunk_id": "b"}])
        script("retrieval", dropped=["b", "b"], rule="break")
        script.call("c1", "So: one", {"producer": "rag", "text": "one", "source_id": "a"})
        found = check(script.record(), "chunk_identity")
        assert (found.status, found.detail) == ("pass", "1 in prompt + 1 dropped = 2 of 2 retrieved (b)")

    def test_a_hit_without_an_id(self) -> None:
        """Nobody can say what became of it."""
        script = Script()
        script("retrieval", hits=[{"rank": 1, "chunk_id": "a"}, {"rank": 2}])
        script.call("c1", "So: one", {"producer": "rag", "text": "one", "source_id": "a"})
        found = check(script.record(), "chunk_identity")
        assert (found.status, found.detail) == (
            "unknown",
            "1 in prompt + 0 dropped = 1 of 1 retrieved; 1 hit(s) have no id",
        )


class TestRankPrefix:
    """The chunks in the prompt are the best ones: no rank is left out before the last."""

    @pytest.mark.parametrize(
        ("inside", "status", "detail"),
        [
            ([1, 2, 3], "pass", "ranks 1 to 3"),
            ([3, 1, 2], "pass", "ranks 1 to 3"),
            ([1, 2, 4], "fail", "rank 3 is missing while rank 4 is in the prompt"),
            ([2], "fail", "rank 1 is missing while rank 2 is in the prompt"),
            ([2, 5], "fail", "rank 1, 3, 4 is missing while rank 5 is in the prompt"),
            ([], "unknown", "no retrieved chunk stands in the prompt"),
        ],
    )
    def test_ranks(self, inside: list[int], status: str, detail: str) -> None:
        """By the ranks of what is located."""
        found = check(retrieval(inside).record(), "rank_prefix")
        assert (found.status, found.detail) == (status, detail)

    def test_an_application_that_skips_says_so(self) -> None:
        """Its rule is to go on with the next chunk that fits."""
        found = check(retrieval([1, 2, 4], dropped=["c#3", "c#5"], rule="continue").record(), "rank_prefix")
        assert found.status == "pass"
        assert "rank 3 was skipped" in found.detail
        assert check(retrieval([1, 2, 4], rule="break").record(), "rank_prefix").status == "fail"

    @pytest.mark.parametrize(("ranks", "status"), [([0, 1], "fail"), ([None, None], "fail"), (["x", "y"], "fail")])
    def test_ranks_from_nought_or_none_at_all(self, ranks: list[Any], status: str) -> None:
        """Counted from nought the best chunk has rank 0; without ranks the order counts."""
        script = Script()
        script("retrieval", hits=[{"rank": rank, "chunk_id": f"c#{n}"} for n, rank in enumerate(ranks)])
        script.call("c1", "one two", {"producer": "rag", "text": "one ", "source_id": "c#1"})
        assert check(script.record(), "rank_prefix").status == status

    def test_each_search_has_ranks_of_its_own(self) -> None:
        """The second of one search stands for no other search's second."""
        for second, status in ((["d", "c"], "pass"), (["c", "d"], "fail")):
            script = Script()
            script("retrieval", hits=[{"rank": n, "chunk_id": chunk} for n, chunk in enumerate("ab", 1)])
            script("retrieval", hits=[{"rank": n, "chunk_id": chunk} for n, chunk in enumerate(second, 1)])
            texts = [{"producer": "rag", "text": f"text {chunk} ", "source_id": chunk} for chunk in "abd"]
            script.call("c1", "So: text a text b text d ", *texts)
            assert check(script.record(), "rank_prefix").status == status

    def test_the_rule_is_that_of_the_chunk_that_was_skipped(self) -> None:
        """One search may stop and another skip: each is held to its own rule."""
        for rule, status in (("continue", "pass"), ("break", "fail")):
            script = Script()
            script("retrieval", hits=[{"rank": n, "chunk_id": f"c{n}"} for n in (1, 2)], dropped=["c1"], rule=rule)
            script("retrieval", dropped=[], rule="break" if rule == "continue" else "continue")
            script.call("c1", "So: two", {"producer": "rag", "text": "two", "source_id": "c2"})
            assert check(script.record(), "rank_prefix").status == status


class TestTokenIdentity:
    """The local count against the provider's, cached tokens normalised, the gap named."""

    def found(self, usage: Any, prompt: Any = "one two three", model: str = "public", **fields: Any) -> Check:
        """The check of a call of three words."""
        script = Script()
        script.call("c1", prompt, model=model, **fields)
        script("response", call="c1", usage=usage)
        return check(script.record(), "token_identity", counting=True)

    def test_equal(self) -> None:
        """Counted here what is reported there."""
        assert self.found({"prompt_tokens": 3}).status == "pass"

    @pytest.mark.parametrize(
        "usage",
        [
            {"input_tokens": 1, "cache_read_input_tokens": 2, "cache_creation_input_tokens": 0},
            {"prompt_tokens": 3, "prompt_tokens_details": {"cached_tokens": 2}},
        ],
    )
    def test_cached_tokens_in_either_dialect(self, usage: dict[str, Any]) -> None:
        """Anthropic leaves them out of its count, OpenAI does not: both say three."""
        found = self.found(usage)
        assert (found.status, found.detail) == ("pass", "3 counted here = 3 reported")

    @pytest.mark.parametrize(("reported", "status"), [(10, "pass"), (11, "unknown")])
    def test_the_chat_wrapper(self, reported: int, status: str) -> None:
        """A few tokens a message and a reply are the provider's own form, and no more than that."""
        found = self.found({"prompt_tokens": reported}, prompt=[{"role": "user", "content": "one two three"}])
        assert found.status == status

    def test_a_gap_with_tools_is_named_and_never_passed(self) -> None:
        """Only the provider knows how they are rendered."""
        found = self.found({"prompt_tokens": 9}, tools=[{"name": "f"}], response_format={"type": "json_object"})
        assert found.status == "unknown"
        assert "6 more; candidates: " in found.detail
        assert found.detail.endswith("tools, response format, a system message of the host's")

    def test_a_gap_with_an_image_is_named(self) -> None:
        """Its tokens are in no text."""
        image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBO"}}
        content = [{"type": "text", "text": "one two three"}, image]
        assert (
            "binary parts" in self.found({"prompt_tokens": 900}, prompt=[{"role": "user", "content": content}]).detail
        )

    def test_a_gap_that_nothing_explains(self) -> None:
        """No declared part could be it."""
        found = self.found({"prompt_tokens": 140_384})
        assert found.status == "unknown"
        assert found.detail.endswith("unexplained")

    def test_fewer_reported_than_the_string_holds(self) -> None:
        """The provider was given less than what was recorded."""
        assert self.found({"prompt_tokens": 2}).status == "fail"

    def test_without_a_public_encoding(self) -> None:
        """There is nothing to count with."""
        assert self.found({"prompt_tokens": 3}, model="secret").detail.startswith("3 reported; no public encoding")
        assert self.found({"prompt_tokens": 3}, model="secret", encoding="public").status == "pass"

    @pytest.mark.parametrize("usage", [None, {}, "three", {"output_tokens": 5}])
    def test_without_a_report(self, usage: Any) -> None:
        """There is nothing to compare with."""
        assert self.found(usage).status == "unknown"

    def test_the_application_s_own_count_is_preferred(self) -> None:
        """It knows its tokenizer."""
        assert self.found({"prompt_tokens": 7}, model="secret", prompt_tokens=7).status == "pass"


@pytest.mark.parametrize(
    ("reason", "status"),
    [
        ("stop", "pass"),
        ("end_turn", "pass"),
        ("STOP", "pass"),
        ("tool_calls", "pass"),
        ("length", "fail"),
        ("max_tokens", "fail"),
        ("MAX_TOKENS", "fail"),
        ("content_filter", "fail"),
        ("wandered_off", "unknown"),
        (None, "unknown"),
        (["stop"], "unknown"),
    ],
)
def test_finish_reason(reason: Any, status: str) -> None:
    """A whole answer, one that was cut, or a word that nobody knows."""
    script = Script()
    script.call("c1", "ok")
    script("response", call="c1", finish_reason=reason)
    assert check(script.record(), "finish_reason").status == status
