"""Suggest: the line that declares what a shape of gaps holds.

A suggestion names a text by its place, its length and where it can be read; it holds none. Each text gets a name of its
own, since one producer for several texts is a remainder by its looks; a template's frames are too short for that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from otel_prompt_trace.core.residuals.remainder import FIXED
from otel_prompt_trace.core.residuals.shapes import Shape

TEXT = "TEXT"  # stands in a line for the text itself


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A line of Python that declares what stands in a gap, and why it is that line.

    ``fixed`` says whether ``TEXT`` in the line is one text that can be copied from the example.
    """

    shape: Shape
    producer: str
    line: str
    fixed: bool


def suggestions(found: Iterable[Shape]) -> Iterator[Suggestion]:
    """One for each shape, in their order."""
    names: Counter[str] = Counter()
    for shape in found:
        name = _producer(shape)
        names[name] += 1
        frame = name == "template" and shape.chars < FIXED
        if names[name] > 1 and not frame and name != "history":
            name = f"{name}-{names[name]}"
        yield Suggestion(shape, name, _line(shape, name), _is_fixed(shape))


def _is_fixed(shape: Shape) -> bool:
    return shape.shape in ("constant", "continuing") and not shape.holes


def _producer(shape: Shape) -> str:
    if shape.cause in ("history", "template"):
        return shape.cause
    if shape.shape == "one-off":
        return "source"
    if shape.shape == "continuing":
        return "continuation"
    return "prefix" if shape.place.startswith(("before", "the whole")) else "rider"


def _line(shape: Shape, name: str) -> str:
    if name == "history" and shape.messages:
        return (
            "for number, message in enumerate(history, 1): "
            'pt.declare("history", message["content"], source_id=f"message {number}", trust="owner")'
        )
    if name == "history":
        return 'pt.declare("history", history, trust="owner")'
    if shape.cause == "template":
        text = TEXT if _is_fixed(shape) else 'f"...{value}..."'
        return f'pt.declare("{name}", {text}, trust="owner")'
    if shape.shape == "one-off":
        return f'pt.declare("{name}", text, source_id=..., trust="unknown")'
    return f'pt.declare("{name}", {TEXT}, trust="policy")'
