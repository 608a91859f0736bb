"""The key of keyed digests: as configured, else one of this spool, made once and shared by its processes."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from otel_prompt_trace.exceptions import ConfigurationError
from otel_prompt_trace.pipeline.spool_folder import prepare_folder
from otel_prompt_trace.settings import Settings


def hash_key(settings: Settings) -> bytes:
    """The key of keyed digests: as configured, else one of this spool, made once and shared by its processes."""
    if settings.hash_key:
        return settings.hash_key.encode()
    path: Path = settings.spool / "hash.key"
    fresh = os.urandom(32).hex().encode()
    with contextlib.suppress(OSError, ConfigurationError):
        try:
            prepare_folder(settings.spool)
            temporary = path.with_suffix(f".{os.urandom(8).hex()}")
            with open(temporary, "xb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
                file.write(fresh)
            try:
                os.link(temporary, path)  # whole or not at all: another process never reads half a key
            finally:
                temporary.unlink()
        except (FileExistsError, PermissionError):  # another process was faster, or only reading is allowed here
            pass
        kept = path.read_bytes()
        if kept:
            return kept
    return fresh
