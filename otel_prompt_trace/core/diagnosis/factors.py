"""The four factors, each with its evidence in words."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Literal

from otel_prompt_trace.core.census import Census
from otel_prompt_trace.core.chunks import packed_tokens, packings
from otel_prompt_trace.core.diagnosis.facts import Facts
from otel_prompt_trace.core.diagnosis.manifest import Manifest
from otel_prompt_trace.core.diagnosis.quoting import longest_quote
from otel_prompt_trace.core.text import as_text, sha256_text

Value = Literal[0, 1] | None
Judged = tuple[Value, str]
_NAMED = 5
_TELLING = 3  # characters of an id


def indexed(facts: Facts) -> Judged:
    """By the manifest, else by the retrieval: what was found was there."""
    found, manifest = facts.retrieved, facts.manifest
    if manifest is None:
        if found is not None:
            return 1, f"{found} was retrieved, so it was there"
        return None, "no ingest manifest was given (--manifest)"
    where = f"the manifest of {manifest.entries} chunks{_version(facts, manifest)}"
    if facts.is_chunk:
        if not manifest.has_id:
            return (0, f"{where} has no such id") if found is None else (1, f"not in {where}, but it was retrieved")
        return 1, f"{where} has it{_changed(facts, manifest)}"
    if manifest.holding:
        return 1, f"{where} has it in {_listed(manifest.holding)}"
    if found is not None:
        return 1, f"not in {where}, but in {found}, which was retrieved"
    if manifest.textless:
        return None, f"{where} has only digests of {manifest.textless} of them: these can't be searched"
    return 0, f"no chunk of {where} holds it"


def retrieved(facts: Facts) -> Judged:
    """By name among the hits; of a text, by the chunks that are known to hold it."""
    if not any(isinstance(event.get("hits"), list) for event in facts.record.of("retrieval")):
        return None, "no retrieval was recorded"
    found = facts.retrieved
    if found is not None:
        hit = facts.hits[found]
        score = "" if hit.get("score") is None else f", score {as_text(hit['score'])}"
        return 1, f"{found}: rank {as_text(hit.get('rank'))} of {len(facts.hits)}{score}"
    if facts.nameless:
        return None, f"{facts.nameless} of {len(facts.record.retrieved)} hits have no id"
    named = f"not among the {len(facts.hits)} hits"
    if facts.is_chunk:
        return 0, named + _last_score(facts)
    untold = [chunk for chunk in facts.hits if chunk not in facts.texts]
    if untold:
        return None, f"the texts of {len(untold)} of {len(facts.hits)} hits are not known here: {_listed(untold)}"
    return 0, f"{named}, whose texts are all known"


def rendered(facts: Facts) -> Judged:
    """By the offsets of a located piece, or of the text itself."""
    if facts.call is None:
        return None, "the query made no call"
    if facts.census is None:
        return None, "no prompt was recorded"
    return _chunk_rendered(facts, facts.census) if facts.is_chunk else _text_rendered(facts, facts.census)


def used(facts: Facts) -> Judged:
    """By a quote in the answer; nothing else shows it."""
    answer = "\n".join(_strings((facts.call.call.response or {}).get("output"))) if facts.call is not None else ""
    if not answer:
        return None, "no answer was recorded"
    if not facts.is_chunk and facts.expected in answer:
        return 1, "quoted in the answer, to the character"
    sources = [] if facts.is_chunk else [facts.expected]
    sources += [facts.texts[chunk] for chunk in facts.chunks[:_NAMED] if chunk in facts.texts]
    for source in sources:
        quote = longest_quote(source, answer)
        if quote is not None:
            return 1, f'{len(quote)} characters are quoted in the answer: "{quote[:60]}"'
    cited = next((chunk for chunk in facts.chunks if _names(answer, chunk)), None)
    return None, f"the answer names {cited} and quotes none of it" if cited else "the answer quotes none of it"


def _names(answer: str, chunk: str) -> bool:
    """Whether an answer cites an id: in brackets, or as a word that is long enough to be no other."""
    if f"[{chunk}]" in answer:
        return True
    return len(chunk) >= _TELLING and re.search(rf"(?<!\w){re.escape(chunk)}(?!\w)", answer) is not None


def _chunk_rendered(facts: Facts, census: Census) -> Judged:
    chunk, text = facts.expected, facts.texts.get(facts.expected)
    pieces = [p for p in census.pieces if p.source_id == chunk]
    for p in pieces:
        if p.state == "located":
            return 1, f"{p.piece.label} at {census.segments[p.segment or 0].path} [{p.start}:{p.end}]"
    for path, at in facts.standing(text or ""):
        return 1, f"its text stands at {path} [{at}:{at + len(text or '')}], though no located piece names it"
    if chunk in facts.rules:
        return 0, _dropped(facts, chunk)
    form = _other_form(facts, text) if text is not None else ""
    known = text is not None and facts.searchable
    for p in pieces:
        said = f": {p.note}" if p.note else ""
        return (0 if known else None), f"{p.piece.label} is {p.state}{said}{'' if p.hint else form}"
    if known:
        return 0, f"its text stands nowhere in the prompt, and no piece names it{form}"
    if facts.all_others:
        return 0, "no piece names it, and every character of the prompt is another's"
    return None, "no piece names it, and its text is not known here to look for it (--manifest)"


def _text_rendered(facts: Facts, census: Census) -> Judged:
    for path, at in facts.standing(facts.expected):
        end = at + len(facts.expected)
        owners = [
            p.piece.label
            for p in census.located
            if census.segments[p.segment or 0].path == path and (p.start or 0) < end and at < (p.end or 0)
        ]
        return 1, f"{path} [{at}:{end}], {f'of {_listed(owners)}' if owners else 'which nobody declared'}"
    if not facts.searchable:
        return None, "not in what is kept of the prompt, of which parts are withheld or held elsewhere"
    dropped = next((chunk for chunk in facts.chunks if chunk in facts.rules), None)
    if dropped is not None:
        return 0, _dropped(facts, dropped)
    return 0, f"it stands nowhere in the prompt{_other_form(facts, facts.expected)}"


def _dropped(facts: Facts, chunk: str) -> str:
    rule, tokens = facts.rules[chunk], packed_tokens(facts.record).get(chunk)
    by = f"by the rule '{rule}'" if rule else "by a rule that was not named"
    budget = next((p["budget"] for p in packings(facts.record) if isinstance(p.get("budget"), int)), None)
    out_of = (
        "" if tokens is None or budget is None else f": {as_text(tokens)} tokens, out of a budget of {as_text(budget)}"
    )
    return f"the application dropped {chunk} {by}{out_of}"


def _other_form(facts: Facts, text: str) -> str:
    changed = facts.changed(text)
    return f"; in another form: {changed}" if changed else ""


def _version(facts: Facts, manifest: Manifest) -> str:
    events = facts.record.of("retrieval")
    asked = {as_text(event["index_version"]) for event in events if event.get("index_version") is not None}
    if not asked or not manifest.versions or asked & manifest.versions:
        return ""
    return f" (of index {_listed(sorted(manifest.versions))}; the query asked {_listed(sorted(asked))})"


def _changed(facts: Facts, manifest: Manifest) -> str:
    digest = manifest.digests.get(facts.expected)
    pieces = facts.census.pieces if facts.census is not None else ()
    text = next((p.piece.text for p in pieces if p.source_id == facts.expected and p.piece.text), None)
    if digest is None or text is None or sha256_text(text) == digest:
        return ""
    return ", with another text than the one that was declared"


def _last_score(facts: Facts) -> str:
    scores = (hit["score"] for hit in facts.hits.values() if isinstance(hit.get("score"), int | float))
    last = next(scores, None)
    return "" if last is None else f"; the last of them has score {as_text(last)}"


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def _strings(value: Any) -> Iterator[str]:
    """Every string of an answer: its text, or the arguments of its tool calls."""
    left = [value]
    while left:
        item = left.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, dict):
            left += reversed(item.values())
        elif isinstance(item, list):
            left += reversed(item)
