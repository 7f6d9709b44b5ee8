"""Names and modules that are imported when they are first used, and records."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from dataclasses import FrozenInstanceError, field, replace
from pathlib import Path

import pytest

from ir_runtime.lazy import import_modules_of
from ir_runtime.records import record

PACKAGE = """
from ir_runtime.lazy import exports
__getattr__, __dir__ = exports(__name__, {".first": ("one", "two"), "textwrap": ("dedent",)})
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.syspath_prepend(str(tmp_path))
    name = f"{tmp_path.name}_lazy"
    (tmp_path / name / "inner").mkdir(parents=True)
    (tmp_path / name / "__init__.py").write_text(PACKAGE)
    (tmp_path / name / "first.py").write_text("one, two = object(), 2")
    (tmp_path / name / "inner" / "__init__.py").write_text("")
    (tmp_path / name / "inner" / "second.py").write_text("")
    yield name
    for module in [module for module in sys.modules if module.startswith(name)]:
        del sys.modules[module]


def test_a_name_imports_its_module(package: str) -> None:
    module = importlib.import_module(package)
    assert f"{package}.first" not in sys.modules
    assert {"one", "two", "dedent"} <= set(dir(module))
    assert module.one is module.one is sys.modules[f"{package}.first"].one
    assert module.dedent(" x") == "x"
    assert "one" in vars(module), "it is looked up once"
    with pytest.raises(AttributeError, match=f"module '{package}' has no attribute 'three'"):
        _ = module.three


def test_all_modules_of_a_package_are_imported(package: str) -> None:
    import_modules_of(package)
    assert {f"{package}.first", f"{package}.inner.second"} <= set(sys.modules)


@record
class Point:
    x: int
    y: int = 2
    tags: list[str] = field(default_factory=list, compare=False)


def test_a_record_is_a_frozen_data_class() -> None:
    first, second = Point(1), Point(1, y=2, tags=["a"])
    assert first == second
    assert hash(first) == hash(second)
    assert repr(replace(second, x=3)) == "Point(x=3, y=2, tags=['a'])"
    assert first.tags == []
    assert first.tags is not Point(1).tags
    with pytest.raises(FrozenInstanceError, match="'x' was given when it was made"):
        first.x = 2  # type: ignore[misc]


@pytest.mark.parametrize(
    ("values", "named", "message"),
    [
        ((), {}, "needs a value for 'x'"),
        ((1, 2, [], 4), {}, "takes 3 values, but got 4"),
        ((1,), {"x": 2}, "has no field 'x', or it is given twice"),
        ((1,), {"z": 2}, "has no field 'z', or it is given twice"),
    ],
)
def test_a_record_takes_its_fields(values: tuple[object, ...], named: dict[str, object], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        Point(*values, **named)  # type: ignore[arg-type]
