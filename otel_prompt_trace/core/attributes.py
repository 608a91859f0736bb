"""The attributes of ours on spans: all small, whatever the prompt's size."""

from __future__ import annotations

QID = "prompt_trace.qid"
REF = "prompt_trace.ref"  # the payload's folder in the store; only when the payload is at least spooled
SHA256 = "prompt_trace.sha256"
CHARS = "prompt_trace.chars"
PIECES = "prompt_trace.pieces"
UNACCOUNTED = "prompt_trace.unaccounted"
VERDICT = "prompt_trace.verdict"
