"""Attributes of operations: declared once, inherited, checked, immutable, and typed for type checkers."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from pathlib import Path
from typing import ClassVar

import pytest

import ir_runtime
from ir_runtime import AttributeValueError
from ir_runtime.graph import element_types
from ir_runtime.graph.operation import Operation, argument, boolean, enum, integer, integers, real, type_of_elements
from ir_runtime.operations.generation import ShapeOf3
from ir_runtime.operations.movement import Concat1

ROOT = Path(__file__).parents[3]


class _Base(Operation):
    type = "Sample"
    limit: ClassVar[int] = 3
    axis: int = integer()
    mode: str = enum("up", "Down", default="up")


class _Derived(_Base):
    axis: int = integer(default=7)
    sizes: tuple[int, ...] = integers(default=[1, 2], xml="the_sizes")
    extra: object = argument(default=None)


class _Mixed(_Derived, _Base):
    scale: float = real(default=2)


def test_attributes_are_inherited_in_order_and_overridden_in_place() -> None:
    assert list(_Base.declared) == ["axis", "mode"]
    assert list(_Derived.declared) == ["axis", "mode", "sizes", "extra"]
    made = _Mixed(mode="DOWN", extra=element_types)
    assert (made.axis, made.mode, made.sizes, made.scale, made.limit) == (7, "Down", (1, 2), 2.0, 3)
    assert made.extra is element_types
    assert _Base(axis=1).axis == 1


def test_only_attributes_of_the_file_are_written() -> None:
    assert _Derived(sizes=[4], extra=1).attributes() == {"axis": "7", "mode": "up", "the_sizes": "4"}
    assert [attribute.xml for attribute in _Derived.xml_attributes()] == ["axis", "mode", "the_sizes"]


def test_classes_made_by_a_call_have_their_bases_attributes() -> None:
    made = type("Made", (_Base,), {"flag": boolean(default=True)})
    assert list(made.declared) == ["axis", "mode", "flag"]
    assert made(axis=2).attributes() == {"axis": "2", "mode": "up", "flag": "true"}


def test_the_class_shows_the_declaration() -> None:
    assert _Derived.declared["axis"] is _Derived.axis
    assert _Base.declared["axis"].is_required
    assert not _Derived.declared["axis"].is_required


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "Sample: attribute 'axis' is required"),
        ({"axis": 1.5}, "Sample: attribute 'axis' must be of type integer, but is 1.5"),
        ({"axis": True}, "Sample: attribute 'axis' must be of type integer, but is True"),
        ({"axis": 2**63}, "Sample: attribute 'axis' must be of type integer"),
        ({"axis": 1, "mode": "left"}, "Sample: attribute 'mode' must be one of up, Down, but is 'left'"),
        ({"axis": 1, "axes": 2}, "Sample has no attribute 'axes'; known are: axis, mode"),
    ],
)
def test_wrong_attributes(given: dict[str, object], message: str) -> None:
    with pytest.raises(AttributeValueError, match=f"^{message}"):
        _Base(**given)


def test_a_wrong_attribute_has_the_name_of_the_file() -> None:
    with pytest.raises(AttributeValueError, match="attribute 'the_sizes' must be of type integers"):
        _Derived(sizes=[1.5])


def test_a_wrong_default_fails_where_the_class_is_made() -> None:
    # Python before 3.12 wraps what __set_name__ raises.
    with pytest.raises((AttributeValueError, RuntimeError)) as failure:
        type("Wrong", (Operation,), {"axis": integer(default=1.5)})  # type: ignore[arg-type]
    assert isinstance(failure.value.__cause__ or failure.value, (AttributeValueError, ValueError))


def test_an_operation_does_not_change() -> None:
    made = Concat1(axis=1)
    with pytest.raises(AttributeError, match="Concat cannot be changed: 'axis'"):
        made.axis = 2  # type: ignore[misc]
    with pytest.raises(AttributeError, match="Concat cannot be changed: 'axis'"):
        del made.axis
    assert made.axis == 1


def test_a_changed_copy() -> None:
    made = _Derived(axis=4, mode="down", extra="x")
    other = made.with_attributes(axis=5)
    assert (other.axis, other.mode, other.extra, made.axis) == (5, "Down", "x", 4)
    assert type(other) is _Derived
    with pytest.raises(AttributeValueError, match="has no attribute 'axes'"):
        made.with_attributes(axes=1)


def test_operations_are_equal_to_themselves_alone_and_survive_copying() -> None:
    made = ShapeOf3(output_type="i32")  # type: ignore[arg-type]
    assert made != ShapeOf3(output_type=element_types.i32)
    for twin in (copy.copy(made), copy.deepcopy(made), pickle.loads(pickle.dumps(made))):
        assert twin.output_type is element_types.i32
    assert repr(made) == "ShapeOf3(output_type=ElementType(i32))"


def test_what_attributes_must_be_together_is_checked_last() -> None:
    class Ordered(Operation):
        low: int = integer(default=0)
        high: int = integer(default=1)
        kind: element_types.ElementType = type_of_elements(default=element_types.f32)

        def validate(self) -> None:
            if self.low > self.high:
                raise ir_runtime.InferenceError(f"{self.low} lies above {self.high}")

    assert Ordered(high=5).high == 5
    with pytest.raises(ir_runtime.InferenceError, match="2 lies above 1"):
        Ordered(low=2)


SNIPPET = """\
from ir_runtime.graph.operation import Operation, integer
from ir_runtime.operations.movement import Concat1

class Mine(Concat1):
    count: int = integer()

Mine(axis=1, count=2)
Concat1(axis=1)
Concat1(axes=1)
Mine(axis="x", count=1)
Mine(axis=1)
Mine(count=2).axis = 2
"""


def test_a_type_checker_knows_the_constructors(tmp_path: Path) -> None:
    script = tmp_path / "snippet.py"
    script.write_text(SNIPPET)
    # The configuration sets strict.
    command = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"), str(script)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    found = [line.split(":", 1)[1] for line in done.stdout.splitlines() if "error:" in line]
    lines = SNIPPET.splitlines()
    assert {lines[int(line.split(":")[0]) - 1] for line in found} == {
        "Concat1(axes=1)",
        'Mine(axis="x", count=1)',
        "Mine(axis=1)",
        "Mine(count=2).axis = 2",
    }, done.stdout
    assert 'Unexpected keyword argument "axes"' in done.stdout
    assert 'incompatible type "str"; expected "int"' in done.stdout
    assert 'Missing named argument "count"' in done.stdout
