"""The public names: listed, importable, documented, and nothing beside them."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator, Mapping

import pytest

import otel_prompt_trace as pt
from otel_prompt_trace import exceptions, settings

# What the documentation promises: a name may be added here, never taken away.
_PROMISED = {
    "install", "uninstall", "flush", "aflush", "FlushResult", "query", "Query", "Receipt", "declare", "feedback",
    "Prompt", "carry", "census", "Census", "Gap", "Piece", "derive", "grade", "Grade", "Record", "open_store",
    "pack", "Packing", "PayloadStore", "ASGIMiddleware", "WSGIMiddleware", "PromptTraceError", "__version__",
    "placement", "place", "placements", "Placement", "Rendered",
}  # fmt: skip


def test_the_list_is_sorted_and_whole() -> None:
    """``__all__`` is in order, without doubles, holds every promised name and is what ``dir`` shows."""
    assert pt.__all__ == sorted(set(pt.__all__))
    assert set(pt.__all__) >= _PROMISED
    assert dir(pt) == pt.__all__
    assert set(pt._HOME) | {"__version__"} == set(pt.__all__)


@pytest.mark.parametrize("name", sorted(_PROMISED | set(pt.__all__)))
def test_each_name_is_there_with_its_documentation(name: str) -> None:
    """It can be imported, is the object of its home module, and says what it is."""
    value = getattr(pt, name)
    if name == "__version__":
        assert re.fullmatch(r"\d+\.\d+\.\d+\w*", value)
        return
    home = importlib.import_module(f"otel_prompt_trace.{pt._HOME[name]}")
    assert value is getattr(home, name)
    assert value.__module__.startswith("otel_prompt_trace")
    assert len(inspect.getdoc(value) or "") > 20


def _public_methods() -> Iterator[tuple[str, object]]:
    for name in pt.__all__:
        value = getattr(pt, name)
        if inspect.isclass(value):
            for attribute, member in vars(value).items():
                if not attribute.startswith("_") and (callable(member) or isinstance(member, property)):
                    yield f"{name}.{attribute}", member


@pytest.mark.parametrize(("name", "member"), [pytest.param(*pair, id=pair[0]) for pair in _public_methods()])
def test_each_public_method_is_documented(name: str, member: object) -> None:
    """Also the methods and properties of the public classes."""
    assert inspect.getdoc(member), name


@pytest.mark.parametrize("name", sorted(_PROMISED))
def test_functions_are_typed(name: str) -> None:
    """Every parameter and every result of a public function has a type."""
    value = getattr(pt, name)
    if inspect.isfunction(value):
        signature = inspect.signature(value)
        assert signature.return_annotation is not inspect.Signature.empty
        assert all(p.annotation is not inspect.Parameter.empty for p in signature.parameters.values())


def test_an_unknown_name_is_an_attribute_error() -> None:
    """As of any module, so that ``hasattr`` and ``from … import`` work."""
    assert not hasattr(pt, "nothing_of_this_name")
    with pytest.raises(ImportError):
        exec("from otel_prompt_trace import nothing_of_this_name")


def test_star_import_gives_all_of_it() -> None:
    """Every name resolves in one go."""
    space: dict[str, object] = {}
    exec("from otel_prompt_trace import *", space)
    assert set(pt.__all__) <= space.keys()


class _Watched(Mapping[str, str]):
    """An environment that notes what is asked of it."""

    def __init__(self) -> None:
        self.asked: set[str] = set()

    def __getitem__(self, name: str) -> str:
        self.asked.add(name)
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        raise AssertionError("settings ask for names, they do not look through the environment")

    def __len__(self) -> int:
        return 0


def test_every_variable_is_documented_and_every_documented_one_is_read() -> None:
    """The table in the module's docstring and what ``load`` asks for are the same."""
    env = _Watched()
    settings.load(env)
    table = set(re.findall(r"^``(PROMPT_TRACE_[A-Z_]+)``", settings.__doc__ or "", re.MULTILINE))
    assert len(table) >= 11
    assert {name for name in env.asked if name.startswith("PROMPT_TRACE_")} == table
    others = {name for name in env.asked if not name.startswith("PROMPT_TRACE_")}
    assert others == {"XDG_STATE_HOME", "OTEL_SDK_DISABLED", "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"}


def test_every_variable_is_a_setting() -> None:
    """The same names as arguments of ``install``."""
    table = re.findall(r"^``PROMPT_TRACE_([A-Z_]+)``", settings.__doc__ or "", re.MULTILINE)
    assert {name.lower() for name in table} == set(settings.Settings.__slots__)


def _drawn() -> dict[str, str]:
    """Child and parent of every line of the tree in the docstring."""
    above: list[str] = []
    parents: dict[str, str] = {}
    for line in (exceptions.__doc__ or "").splitlines():
        found = re.match(r"    ((?:[│ ]   )*)(?:[├└]── )?([A-Z]\w+)(?:  |$)", line)
        if found:
            depth = (len(line) - len(line.lstrip(" │├└─")) - 4) // 4
            above[depth:] = [found[2]]
            parents[found[2]] = above[depth - 1] if depth else "Exception"
    return parents


def test_the_tree_of_errors_is_as_drawn() -> None:
    """Every class of the module stands in the tree, below its own base, and is listed."""
    classes = {
        name: value
        for name, value in vars(exceptions).items()
        if inspect.isclass(value) and value.__module__ == exceptions.__name__
    }
    assert _drawn() == {name: value.__bases__[0].__name__ for name, value in classes.items()}
    assert exceptions.__all__ == sorted(classes)
    assert all(issubclass(value, exceptions.PromptTraceError) and value.__doc__ for value in classes.values())


def test_errors_are_also_what_python_calls_them() -> None:
    """As said in the tree: an illegal id is a ``ValueError``, something missing a ``LookupError``."""
    assert issubclass(exceptions.InvalidQid, ValueError)
    assert issubclass(exceptions.InvalidEvent, ValueError)
    assert issubclass(exceptions.NotFound, LookupError)
    assert exceptions.StoreUnreachable.retryable
    assert not exceptions.ObjectCorrupt.retryable
