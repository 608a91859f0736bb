"""A prompt that knows its own parts: offsets by construction, not by search.

``Prompt`` is the application's placement: what it builds is what is sent, and the same placement is what the
record is graded by. It behaves like a builder, and gives either one string or a list of messages.
"""

from __future__ import annotations

from itertools import chain
from typing import Any

from otel_prompt_trace.core.events import Event
from otel_prompt_trace.core.pieces import POLICIES, TRUST, Piece, check_labels
from otel_prompt_trace.core.segments import Segment

LITERAL = "literal"


class Prompt:
    r"""A prompt under construction.

    >>> p = Prompt()
    >>> p.add("system", "Answer from the context.", trust="policy").literal("\n\n").add("user", "Why?", trust="user")
    Prompt(chars=30, pieces=3)
    >>> p.text
    'Answer from the context.\n\nWhy?'
    """

    __slots__ = ("_before", "_end", "_placed", "_roles", "_segment", "_texts", "_withheld")

    def __init__(self) -> None:
        self._roles: list[str | None] = []  # of each segment; None for the single string
        self._texts: list[list[str]] = []
        self._segment = -1  # the one that is added to; none yet
        self._before = 0  # characters in the segments before it
        self._end = 0  # its own
        self._placed: list[Event] = []
        self._withheld: list[str] = []

    def add(
        self,
        producer: str,
        text: str,
        *,
        source_id: str | None = None,
        trust: str = "unknown",
        policy: str = "store",
    ) -> Prompt:
        """Append ``text`` and record that ``producer`` put it there. Returns the prompt, for chaining.

        Raises:
            TypeError: ``text`` is no str.
            ConfigurationError: there is no such trust label or policy.
        """
        if not isinstance(text, str):
            raise TypeError(f"a piece's text is a str, not {type(text).__name__}")
        if trust not in TRUST or policy not in POLICIES:
            check_labels(trust, policy)
        if self._segment < 0:
            self._open(None)
        segment, start = self._segment, self._end
        self._end = end = start + len(text)
        self._texts[segment].append(text)
        placed: Event = {
            "kind": "piece", "producer": producer, "trust": trust, "segment": segment, "start": start, "end": end,
        }  # fmt: skip
        if source_id is not None:
            placed["source_id"] = source_id
        if policy != "store":
            placed["policy"] = policy
            self._withheld.append(text)
        self._placed.append(placed)
        return self

    def literal(self, text: str) -> Prompt:
        """Append text of the template itself (a heading, a separator): a piece of the producer ``literal``."""
        return self.add(LITERAL, text, trust="owner")

    def message(self, role: str) -> Prompt:
        """Begin a new message; what is added from here on is its content.

        Raises:
            ValueError: text was added before the first message, so that it would belong to none.
        """
        if self._roles and self._roles[0] is None:
            raise ValueError("text was added before the first message(): a prompt is one string or a list of messages")
        self._open(role)
        return self

    def messages(self) -> list[dict[str, Any]]:
        """The messages, as model APIs take them: ``[{"role": …, "content": …}]``; one string is a user message."""
        return [
            {"role": "user" if role is None else role, "content": "".join(texts)}
            for role, texts in zip(self._roles, self._texts, strict=True)
        ]

    @property
    def text(self) -> str:
        """The prompt as one string.

        Raises:
            ValueError: it has several messages, which have no one string: use :meth:`messages`.
        """
        if len(self._texts) > 1:
            raise ValueError("a prompt of several messages has no single text: use messages()")
        return "".join(self._texts[0]) if self._texts else ""

    @property
    def pieces(self) -> tuple[Piece, ...]:
        """Every piece with its segment and offsets, in the order of placement."""
        texts = chain.from_iterable(self._texts)  # one for each piece, in the same order
        return tuple(
            Piece(
                placed["producer"],
                text,
                placed["trust"],
                placed.get("policy", "store"),
                placed.get("source_id"),
                segment=placed["segment"],
                start=placed["start"],
                end=placed["end"],
            )
            for placed, text in zip(self._placed, texts, strict=True)
        )

    @property
    def placed(self) -> list[Event]:
        """The pieces as events without call and text, made as they were added so that a call makes nothing twice.

        Its text is the prompt's, between the offsets. The list is a copy, its events are the prompt's own.
        """
        return list(self._placed)

    @property
    def withheld(self) -> list[str]:
        """The texts of the pieces whose policy keeps no text."""
        return list(self._withheld)

    @property
    def segments(self) -> tuple[Segment, ...]:
        """The segments, with the paths that they have in the request."""
        if not self.is_messages:
            return (Segment("prompt", self.text),)
        return tuple(
            Segment(f"messages[{position}].content", "".join(texts), role)
            for position, (role, texts) in enumerate(zip(self._roles, self._texts, strict=True))
        )

    @property
    def is_messages(self) -> bool:
        """Whether the prompt is a list of messages rather than one string."""
        return bool(self._roles) and self._roles[0] is not None

    def __str__(self) -> str:
        return self.text

    def __len__(self) -> int:
        return self._before + self._end

    def __repr__(self) -> str:
        return f"Prompt(chars={len(self)}, pieces={len(self._placed)})"

    def _open(self, role: str | None) -> None:
        self._roles.append(role)
        self._texts.append([])
        self._segment += 1
        self._before += self._end
        self._end = 0


def replay(pieces: tuple[Piece, ...], segments: int) -> tuple[str, ...] | None:
    """The segments as the recorded placement builds them, or None where it leaves a hole or lacks a text.

    This is the rule by which ``derive`` grades a prompt of an application that builds it with :class:`Prompt`:
    the same pieces, in the same places, must give the same characters.
    """
    built: list[list[str]] = [[] for _ in range(segments)]
    reached = [0] * segments
    placed = sorted((p for p in pieces if p.segment is not None and p.start is not None), key=_place)
    for piece in placed:
        position = piece.segment or 0
        if not 0 <= position < segments or piece.text is None or piece.start != reached[position]:
            return None
        built[position].append(piece.text)
        reached[position] += len(piece.text)
    return tuple("".join(texts) for texts in built) if placed else None


def _place(piece: Piece) -> tuple[int, int]:
    return piece.segment or 0, piece.start or 0
