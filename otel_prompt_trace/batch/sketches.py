"""Sketches of calls on disk, so that calls of a whole day can be compared in the order of time.

Invariants:

- In memory is one sketch, and of the others their time and place.
- The file is of this process and for it alone: digests hold within one process.
"""

from __future__ import annotations

import pickle  # what is read is what this very object wrote into a folder of its own
from collections.abc import Iterator
from pathlib import Path

from otel_prompt_trace.core.residuals.sketch import Sketch


class Sketches:
    """Add sketches in any order, then read them in the order of time as often as need be."""

    def __init__(self, folder: Path) -> None:
        self._file = (folder / "sketches").open("w+b")
        self._places: list[tuple[tuple[str, str, int], int]] = []

    def add(self, sketch: Sketch) -> None:
        """Keep one."""
        self._places.append((sketch.order, self._file.tell()))
        pickle.dump(sketch, self._file, pickle.HIGHEST_PROTOCOL)

    def __iter__(self) -> Iterator[Sketch]:
        """All of them, by time; nothing may be added meanwhile."""
        for _, place in sorted(self._places):
            self._file.seek(place)
            sketch: Sketch = pickle.load(self._file)  # noqa: S301 - see the import
            yield sketch

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()
