"""Reading span archives: every span read, every line that is none named."""

from __future__ import annotations

import base64
import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from otel_prompt_trace.batch.archive import SpanArchive
from otel_prompt_trace.batch.spans import Span
from otel_prompt_trace.core.events import Problem
from otel_prompt_trace.exceptions import ArchiveError
from tests.batch.worlds import INSTRUMENTATION, Tracing, collector_lines, span_ids

QID = "01KBFAAAAAAAAAAAAAAAAAAAAA"


def read(*locations: Any) -> tuple[list[Span], list[Problem]]:
    items = list(SpanArchive(locations))
    return [i for i in items if isinstance(i, Span)], [i for i in items if isinstance(i, Problem)]


def line(span_id: int = 1, **fields: Any) -> bytes:
    span = {"traceId": "0af7651916cd43dd8448eb211c80319c", "spanId": f"{span_id:016x}", "name": "s", **fields}
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}).encode() + b"\n"


@pytest.fixture
def recorded(tmp_path: Path) -> Tracing:
    """A few spans of the real SDK, with every kind of attribute, exported by the real file exporter."""
    tracing = Tracing(tmp_path / "spans.jsonl")
    with tracing.ours.start_as_current_span("query", attributes={"prompt_trace.qid": QID}) as query:
        query.set_attributes({"big": 2**53 + 1, "ratio": 0.5, "on": True, "raw": b"\x00\xff", "names": ["a", "b"]})
        query.add_event("happened")
        with tracing.call(QID, chars=12, **{"prompt_trace.sha256": "ab" * 32}), tracing.chat(model="é\U0001f600"):
            pass
    tracing.close()
    return tracing


def essence(span: Span) -> tuple[Any, ...]:
    return tuple(getattr(span, name) for name in Span.__dataclass_fields__ if name not in ("source", "line"))


def by_id(spans: list[Span]) -> list[tuple[Any, ...]]:
    return sorted(map(essence, spans), key=lambda fields: fields[1])


def test_file_of_the_python_exporter(recorded: Tracing) -> None:
    """Ids, times, kind, service, scope and every attribute type come through as the SDK had them."""
    spans, problems = read(recorded.path)
    assert not problems
    found = {span.name: span for span in spans}
    assert set(found) == {"query", "call", "chat m"}
    query, call, chat = found["query"], found["call"], found["chat m"]
    original = next(span for span in recorded.finished if span.name == "query")
    assert {"trace_id": query.trace_id, "span_id": query.span_id} == span_ids(original)
    assert (query.start_ns, query.end_ns) == (original.start_time, original.end_time)
    assert (query.kind, query.service, query.scope, query.parent_span_id) == (
        "INTERNAL",
        "app",
        "otel_prompt_trace",
        None,
    )
    assert (query.events, query.dropped_attributes, query.status_code) == (1, 0, "UNSET")
    assert query.attributes == {
        "prompt_trace.qid": QID, "big": 2**53 + 1, "ratio": 0.5, "on": True, "raw": b"\x00\xff", "names": ["a", "b"],
    }  # fmt: skip
    assert (call.qid, call.digest, call.expects_payload, call.is_model_call) == (QID, "ab" * 32, True, False)
    assert (chat.scope, chat.attributes["model"], chat.is_model_call) == (INSTRUMENTATION, "é\U0001f600", True)
    assert (chat.parent_span_id, chat.qid, query.expects_payload) == (call.span_id, None, False)


def test_both_exporters_give_the_same_spans(recorded: Tracing, tmp_path: Path) -> None:
    """The collector's form of the same spans, several resources a line, reads to equal spans; so do gzips."""
    other = tmp_path / "collector.json"
    other.write_bytes(b"".join(collector_lines(recorded.finished, per_line=2)))
    expected = by_id(read(recorded.path)[0])
    assert len(expected) == 3
    assert by_id(read(other)[0]) == expected
    for path in (recorded.path, other):
        packed = tmp_path / f"{path.name}.gz"
        packed.write_bytes(gzip.compress(path.read_bytes()))
        assert by_id(read(packed)[0]) == expected


@pytest.mark.parametrize("indent", [None, 2, "\t"])
def test_single_document(recorded: Tracing, tmp_path: Path, indent: int | str | None) -> None:
    """One JSON document reads like lines, whether it stands on one line or is spread over many."""
    resources = [r for text in collector_lines(recorded.finished) for r in json.loads(text)["resourceSpans"]]
    path = tmp_path / "document.json"
    path.write_text(json.dumps({"resourceSpans": resources}, indent=indent), "utf-8")
    spans, problems = read(path)
    assert not problems
    assert by_id(spans) == by_id(read(recorded.path)[0])


def test_list_of_documents(tmp_path: Path) -> None:
    """A list of TracesData objects, spread over lines, is read as well."""
    path = tmp_path / "list.json"
    path.write_text(json.dumps([json.loads(line(n)) for n in (1, 2)], indent=1), "utf-8")
    assert [span.span_id for span in read(path)[0]] == [f"{n:016x}" for n in (1, 2)]


def test_malformed_lines_are_named_and_the_others_read(tmp_path: Path) -> None:
    """A broken line in the middle and a torn one at the end: both named with their lines, nothing else lost."""
    path = tmp_path / "spans.jsonl"
    whole = [line(n) for n in range(1, 11)]
    path.write_bytes(b"".join([*whole[:4], b'{"resourceSpans": [nonsense\n', *whole[4:9], whole[9][:-40]]))
    archive = SpanArchive([path])
    items = list(archive)
    problems = [item for item in items if isinstance(item, Problem)]
    assert [(p.source, p.line) for p in problems] == [(str(path), 5), (str(path), 11)]
    assert problems[0].reason.startswith("not JSON: ")
    assert problems[1].reason == "torn line at the end"
    spans = [item for item in items if isinstance(item, Span)]
    assert [span.line for span in spans] == [1, 2, 3, 4, 6, 7, 8, 9, 10]
    assert archive.lines == len(spans) + len(problems) == 11


def test_problem_names_no_text_of_the_line(tmp_path: Path) -> None:
    """A line may hold prompts: what is said of a broken one does not repeat it."""
    path = tmp_path / "spans.jsonl"
    path.write_bytes(b'{"resourceSpans": "the secret prompt", oops}\n[1, "the secret prompt"]\n"the secret prompt"\n')
    _, problems = read(path)
    assert [p.line for p in problems] == [1, 2, 2, 3]
    assert "secret" not in "".join(f"{p} {p.raw}" for p in problems)


def test_whole_last_line_without_newline_is_no_problem(tmp_path: Path) -> None:
    """A missing newline alone says nothing: the last line counts if it reads."""
    path = tmp_path / "spans.jsonl"
    path.write_bytes(line(1) + line(2).rstrip(b"\n"))
    spans, problems = read(path)
    assert (len(spans), problems) == (2, [])


def test_what_is_nothing_is_no_problem(tmp_path: Path) -> None:
    """Empty files, blank lines, ``{}``, a byte order mark, and lines of other signals are nothing to report."""
    (tmp_path / "empty.jsonl").touch()
    (tmp_path / "empty.jsonl.gz").write_bytes(gzip.compress(b""))
    (tmp_path / "sparse.jsonl").write_bytes(
        b"\xef\xbb\xbf"
        + line(1)
        + b'\n{}\r\n  \n{"resourceLogs": [{}]}\n{"resourceSpans": []}\n{"resourceSpans": null}\n'
    )
    spans, problems = read(tmp_path)
    assert ([span.span_id for span in spans], problems) == ([f"{1:016x}"], [])


def test_json_that_is_not_otlp_is_named(tmp_path: Path) -> None:
    """A JSON line of another kind is not taken for an empty one."""
    path = tmp_path / "spans.jsonl"
    path.write_bytes(b'{"batches": []}\n7\n')
    assert [(p.line, p.reason) for p in read(path)[1]] == [
        (1, "a JSON object without resourceSpans: not OTLP"),
        (2, "not a JSON object but int"),
    ]


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"spanId": "xyz"}, "spanId 'xyz' is not an id of 8 bytes"),
        ({"spanId": "0000000000000000"}, "spanId is all zeros"),
        ({"traceId": None}, "traceId 'None' is not an id of 16 bytes"),
        ({"traceId": "zz" * 16}, "is not an id of 16 bytes"),
        ({"startTimeUnixNano": "noon"}, "startTimeUnixNano 'noon' is not a number"),
        ({"endTimeUnixNano": str(2**63)}, "is not a number below 2**63"),
        ({"endTimeUnixNano": "9" * 5000}, "is not a number below 2**63"),
        ({"attributes": {"a": 1}}, "attributes is not a list but dict"),
        ({"attributes": [{"value": {}}]}, "an attribute is not a pair of key and value"),
        ({"status": 2}, "status is not an object but int"),
    ],
)
def test_malformed_span_leaves_its_line_readable(tmp_path: Path, fields: dict[str, Any], reason: str) -> None:
    """A span that can't be read is one problem; the span beside it in the same line is read."""
    bad, good = json.loads(line(1, **fields)), json.loads(line(2))
    path = tmp_path / "spans.jsonl"
    path.write_text(json.dumps({"resourceSpans": bad["resourceSpans"] + good["resourceSpans"]}))
    spans, problems = read(path)
    assert [span.span_id for span in spans] == [f"{2:016x}"]
    assert len(problems) == 1
    assert reason in problems[0].reason


@pytest.mark.parametrize("part", ["resourceSpans", "scopeSpans", "spans", "resource"])
def test_malformed_surroundings_are_named(tmp_path: Path, part: str) -> None:
    """A list or an object of the wrong type around spans is a problem, not an error and not nothing."""
    value = json.loads(line(1))
    resource = value["resourceSpans"][0]
    owner = {"resourceSpans": value, "scopeSpans": resource, "spans": resource["scopeSpans"][0], "resource": resource}
    owner[part][part] = "oops"
    path = tmp_path / "spans.jsonl"
    path.write_text(json.dumps(value))
    assert [p.reason.split(" is ")[0] for p in read(path)[1]] == [part]


def test_ids_and_enums_of_plain_protobuf_json(tmp_path: Path) -> None:
    """Base64 ids, ids in capitals, enum names, and numbers in place of strings read to the same span."""
    plain = json.loads(line(0xABCD, kind=3, startTimeUnixNano="5", endTimeUnixNano="7", status={"code": 2}))
    span = plain["resourceSpans"][0]["scopeSpans"][0]["spans"][0]
    variants = [
        {},
        {"traceId": span["traceId"].upper(), "spanId": span["spanId"].upper()},
        {name: base64.b64encode(bytes.fromhex(span[name])).decode() for name in ("traceId", "spanId")},
        {"kind": "SPAN_KIND_CLIENT", "status": {"code": "STATUS_CODE_ERROR"}},
        {"startTimeUnixNano": 5, "endTimeUnixNano": 7, "parentSpanId": "0" * 16},
    ]
    path = tmp_path / "spans.jsonl"
    path.write_bytes(b"".join(line(0xABCD, **{**span, **variant}) for variant in variants))
    spans, problems = read(path)
    assert not problems
    assert len({repr(essence(item)) for item in spans}) == 1
    assert (spans[0].kind, spans[0].status_code, spans[0].start_ns) == ("CLIENT", "ERROR", 5)


def test_lone_surrogate_as_the_exporter_writes_it(tmp_path: Path) -> None:
    """The Python exporter escapes a lone surrogate, which strict JSON refuses: the line is read all the same."""
    tracing = Tracing(tmp_path / "spans.jsonl")
    with tracing.ours.start_as_current_span("query", attributes={"half": "x\ud83dy"}):
        pass
    spans, problems = read(tracing.close())
    assert not problems
    assert spans[0].attributes["half"] == "x\ud83dy"


def test_first_of_repeated_attributes_counts(tmp_path: Path) -> None:
    """Two attributes of one name: the first, as the readers of OTLP agree."""
    values = [{"key": "a", "value": {"stringValue": text}} for text in ("first", "second")]
    path = tmp_path / "spans.jsonl"
    path.write_bytes(line(1, attributes=[*values, {"key": "n", "value": {"doubleValue": "NaN"}}]))
    attributes = read(path)[0][0].attributes
    assert attributes["a"] == "first"
    assert attributes["n"] != attributes["n"]


def test_torn_gzip_gives_what_it_holds(tmp_path: Path) -> None:
    """A gzip file that ends too early gives the lines before the tear, and one problem that says so."""
    path = tmp_path / "spans.jsonl.gz"
    noise = "".join(f"{n * 7919 % 104729:x}" for n in range(3000))  # compresses badly, so that the tear is far in
    path.write_bytes(gzip.compress(b"".join(line(n, name=noise[n:]) for n in range(1, 200)))[:-2000])
    spans, problems = read(path)
    assert 0 < len(spans) < 199
    assert len(problems) == 1
    assert problems[0].line == len(spans) + 1
    assert "gzip stream is torn" in problems[0].reason


def test_broken_document_is_named_at_its_line(tmp_path: Path) -> None:
    """A document spread over lines that breaks off is one problem, with the line where it breaks."""
    path = tmp_path / "document.json"
    text = json.dumps(json.loads(line(1)), indent=1)
    path.write_text("\n" + text[:-30], "utf-8")
    (problem,) = read(path)[1]
    assert "the document that begins in line 2 is not JSON" in problem.reason
    assert 2 < problem.line <= text.count("\n") + 2


def test_folders_globs_and_repeats(tmp_path: Path) -> None:
    """Folders are read with all below them, patterns likewise, each file once; other names are listed as left out."""
    for number, name in enumerate(["a.jsonl", "b.json", "deep/c.ndjson.gz", "deep/d.jsonl.2", "e.JSON"], 1):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(gzip.compress(line(number)) if name.endswith(".gz") else line(number))
    (tmp_path / "notes.txt").write_text("no spans")
    (tmp_path / ".hidden.jsonl").write_bytes(line(9))
    archive = SpanArchive([tmp_path, tmp_path / "a.jsonl", f"{tmp_path}/*.json*", f"{tmp_path}/**/*.gz"])
    assert sorted(int(span.span_id, 16) for span in archive if isinstance(span, Span)) == [1, 2, 3, 4, 5]
    assert [Path(name).name for name in archive.left_out] == ["notes.txt"]
    assert [span.name for span in SpanArchive([tmp_path / "dee*"]) if isinstance(span, Span)] == ["s", "s"]


def test_file_named_itself_is_read_whatever_its_name(tmp_path: Path) -> None:
    """The rule of names is for folders only."""
    path = tmp_path / "traces"
    path.write_bytes(line(1))
    assert len(read(path)[0]) == 1


def test_nothing_there_says_what_to_do(tmp_path: Path) -> None:
    """A path, a pattern or a folder that names no archive is an error that tells the next step."""
    with pytest.raises(ArchiveError, match=r"missing\.jsonl: no such file or folder.*Check the path"):
        SpanArchive([tmp_path / "missing.jsonl"])
    (tmp_path / "readme.txt").touch()
    with pytest.raises(ArchiveError, match=r"none of its 1 files is named \.json.*name the files themselves"):
        SpanArchive([tmp_path])


@pytest.mark.parametrize(
    "head", [b"\x28\xb5\x2f\xfd....", b"\x00\x00\x00\x99\x28\xb5\x2f\xfd..", b"\x00\x00\x01\x05\n\x82\x02"]
)
def test_other_formats_of_the_collector(tmp_path: Path, head: bytes) -> None:
    """Compressed or protobuf output of the collector is refused with the setting that gives JSON lines."""
    path = tmp_path / "spans.json"
    path.write_bytes(head + b"\n" * 3)
    with pytest.raises(ArchiveError, match="'format: json' without 'compression'"):
        read(path)


def test_unreadable_file_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that may not be read is an error, never an empty archive."""
    path = tmp_path / "spans.jsonl"
    path.write_bytes(line(1))
    archive = SpanArchive([path])

    def refuse(*_: Any, **__: Any) -> Any:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(ArchiveError, match=r"Permission denied.*who may read it"):
        list(archive)
