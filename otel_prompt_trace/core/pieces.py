"""Pieces: text that one producer put into a prompt, and where each was found."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from otel_prompt_trace.core.missing.hint import Hint
from otel_prompt_trace.core.text import CutText, as_text
from otel_prompt_trace.exceptions import ConfigurationError

Trust = Literal["owner", "policy", "tool", "child", "retrieved", "user", "unknown"]
POLICIES = ("store", "hash")
TRUST: frozenset[str] = frozenset({"owner", "policy", "tool", "child", "retrieved", "user", "unknown"})

State = Literal[
    "located",  # stands at segment[start:end], verified
    "duplicate",  # declared more often than it stands
    "contested",  # stands only inside characters that another piece owns
    "unlocatable",  # stands nowhere
    "not_placed",  # offered to the query, not used by this call
    "empty",  # has no characters; covers nothing, decides nothing
    "whole_prompt",  # would be the whole prompt; covers nothing
    "visible",  # a JSON value that equals a model-visible part (tool definitions, response schema)
]


@dataclass(frozen=True, slots=True)
class Piece:
    """What one producer declared.

    ``text`` is None where only a digest was kept (policy ``hash``) or where ``value`` holds a JSON value.
    ``segment``, ``start``, ``end`` are recorded offsets, in code points of the original segment, known by
    construction or by a search at send time; they are verified before they count.
    """

    producer: str
    text: str | None
    trust: str = "unknown"
    policy: str = "store"
    source_id: str | None = None
    inline: bool = False
    offered: bool = False
    inferred: bool = False
    segment: int | None = None
    start: int | None = None
    end: int | None = None
    chars: int | None = None
    hmac_sha256: str | None = None
    value: Any = None
    blank: bool = False  # nothing but whitespace, recorded where the text itself was not kept
    given: int | None = None  # its number among what a placement was given

    @property
    def length(self) -> int:
        """Characters (code points) of the text, also where only its length was kept."""
        return len(self.text) if self.text is not None else self.chars or 0

    @property
    def label(self) -> str:
        """``producer`` or ``producer:source_id``, as reports name a piece."""
        return self.producer if self.source_id is None else f"{self.producer}:{self.source_id}"


Declared: TypeAlias = "Piece | tuple[str, str]"


def check_labels(trust: str, policy: str) -> None:
    """Refuse a trust label or a policy that does not exist.

    Raises:
        ConfigurationError: with those that do.
    """
    if trust not in TRUST:
        raise ConfigurationError(f"trust={trust!r}: it takes {', '.join(sorted(TRUST))}")
    if policy not in POLICIES:
        raise ConfigurationError(f"policy={policy!r}: it takes {', '.join(POLICIES)}")


def as_pieces(declared: Iterable[Declared]) -> tuple[Piece, ...]:
    """Pieces from pieces or ``(producer, text)`` pairs.

    Raises:
        TypeError: an item is neither, or its text is no string.
    """
    return tuple(item if isinstance(item, Piece) else _from_pair(item) for item in declared)


def piece_of(event: Mapping[str, Any]) -> Piece:
    """The piece that a ``piece`` event declares. Without a call it is offered to every call of its query.

    A field of another type than it should have counts as absent: a record from outside is read, not trusted.
    """
    text, source_id = event.get("text"), event.get("source_id")
    chars = len(text) if isinstance(text, CutText) else as_offset(event.get("chars"))
    return Piece(
        producer=as_text(event.get("producer")),
        text=text if isinstance(text, str) else None,
        trust=as_text(event.get("trust", "unknown")),
        policy=as_text(event.get("policy", "store")),
        source_id=None if source_id is None else as_text(source_id),
        inline=bool(event.get("inline")),
        offered=bool(event.get("offered")) or event.get("call") is None,
        inferred=bool(event.get("inferred")),
        segment=as_offset(event.get("segment")),
        start=as_offset(event.get("start")),
        end=as_offset(event.get("end")),
        chars=chars,
        hmac_sha256=as_text(event["hmac_sha256"]) if event.get("hmac_sha256") is not None else None,
        value=event.get("value"),
        blank=bool(event.get("blank")),
        given=as_offset(event.get("given")),
    )


def as_offset(number: object) -> int | None:
    """An offset, a length or a number of a segment; None for what is none."""
    return number if isinstance(number, int) and not isinstance(number, bool) and number >= 0 else None


def _from_pair(item: object) -> Piece:
    if isinstance(item, tuple) and len(item) == 2:
        producer, text = item
        if isinstance(producer, str) and isinstance(text, str):
            return Piece(producer, text)
    raise TypeError(f"a piece is a Piece or a (producer, text) pair of strings, not {type(item).__name__}")


@dataclass(slots=True, unsafe_hash=True)  # nobody changes one; a frozen one takes three times as long to make
class Placed:
    """A piece with its verdict: its state and, where located, ``segment[start:end] == piece.text``.

    ``hint`` is the likely reason why an unlocatable piece was not found, with the place where it would stand. It
    decides nothing. ``note`` says for people what there is to say, the hint included.
    """

    piece: Piece
    state: State
    segment: int | None = None
    start: int | None = None
    end: int | None = None
    note: str = ""
    hint: Hint | None = None

    @property
    def producer(self) -> str:
        """The producer that declared the piece."""
        return self.piece.producer

    @property
    def source_id(self) -> str | None:
        """The piece's source id (a chunk id), if it has one."""
        return self.piece.source_id
