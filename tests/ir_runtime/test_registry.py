"""What modules register under keys: once, and never silently missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from ir_runtime import InternalError, ModelError
from ir_runtime.operations.activation import ReLU1
from ir_runtime.registry import Registry


def test_an_entry_is_registered_once() -> None:
    registry = Registry[str, int]("number")
    registry.add("one", 1)
    with pytest.raises(InternalError, match="the number 'one' is registered twice"):
        registry.add("one", 2)
    registry.add("one", 3, replace=True)
    assert registry["one"] == 3
    assert dict(registry.entries()) == {"one": 3}


def test_a_decorator_registers_under_each_key() -> None:
    registry = Registry[str, object]("function")

    @registry.of(["a", "b"])
    def function() -> None: ...

    assert registry["a"] is registry["b"] is function


def test_a_key_without_an_entry_is_an_error_when_it_is_read() -> None:
    registry = Registry[type, int]("kernel", error=ModelError)
    assert registry.get(ReLU1) is None
    with pytest.raises(ModelError, match="there is no kernel of ReLU1"):
        registry[ReLU1]


def test_the_modules_of_a_package_are_imported_by_the_first_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "registering_package"
    package.mkdir()
    (package / "__init__.py").write_text(
        "from ir_runtime.registry import Registry\nREGISTRY = Registry('entry', __name__)\n"
    )
    (package / "module.py").write_text("from registering_package import REGISTRY\nREGISTRY.add('found', 1)\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    import registering_package

    assert registering_package.REGISTRY["found"] == 1
