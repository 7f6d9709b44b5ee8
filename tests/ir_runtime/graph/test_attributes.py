"""Attributes of operations, declared once; models in pickles, copies and messages."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from pathlib import Path
from typing import ClassVar

import numpy as np
import onnx
import pytest

import converter
import ir_runtime
from ir_runtime import AttributeValueError, ModelError, Operation, Tensor
from ir_runtime.graph import ElementType, Origin, element_types
from ir_runtime.graph.operation import (
    all_operations,
    argument,
    boolean,
    enum,
    integer,
    integers,
    real,
    type_of_elements,
)
from ir_runtime.operations.activation import ReLU1
from ir_runtime.operations.generation import ShapeOf3
from ir_runtime.operations.movement import Concat1
from tests.converter.optimization.models import parse
from tests.ir_runtime.rewriting.models import branches

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


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "Sample: attribute 'axis' is required"),
        ({"axis": 1.5}, "Sample: attribute 'axis' must be of type integer, but is 1.5"),
        ({"axis": True}, "Sample: attribute 'axis' must be of type integer, but is True"),
        ({"axis": 2**63}, "Sample: attribute 'axis' must be of type integer"),
        ({"axis": 1, "mode": "left"}, "Sample: attribute 'mode' must be one of up, Down, but is 'left'"),
        ({"sizes": [1.5]}, "Sample: attribute 'the_sizes' must be of type integers"),
        ({"axis": 1, "axes": 2}, "Sample has no attribute 'axes'; known are: axis, mode"),
    ],
)
def test_wrong_attributes(given: dict[str, object], message: str) -> None:
    with pytest.raises(AttributeValueError, match=f"^{message}"):
        (_Derived if "sizes" in given else _Base)(**given)


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
        "Concat1(axes=1)", 'Mine(axis="x", count=1)', "Mine(axis=1)", "Mine(count=2).axis = 2",
    }, done.stdout  # fmt: skip
    assert 'Unexpected keyword argument "axes"' in done.stdout
    assert 'incompatible type "str"; expected "int"' in done.stdout
    assert 'Missing named argument "count"' in done.stdout


# --- pickles and copies ---


WEIGHTS = np.arange(4096, dtype=np.float32)


@pytest.fixture
def model(tmp_path: Path) -> ir_runtime.Model:
    onnx.save(branches(), tmp_path / "m.onnx")
    return converter.convert_model(tmp_path / "m.onnx")


def check(model: ir_runtime.Model) -> None:
    compiled = ir_runtime.compile_model(model)
    x = np.ones(4096, np.float32)
    np.testing.assert_array_equal(compiled({"x": x, "c": np.array(True)})["y"], WEIGHTS + 1)
    np.testing.assert_array_equal(compiled({"x": x, "c": np.array(False)})["y"], x * 2)


def test_a_pickle_holds_the_weights_as_bytes(model: ir_runtime.Model, tmp_path: Path) -> None:
    data = pickle.dumps(model)
    assert data.count(WEIGHTS.tobytes()) == 1
    (tmp_path / "m.onnx").unlink()
    made = pickle.loads(data)
    assert ir_runtime.model_to_bytes(made) == ir_runtime.model_to_bytes(model)
    check(made)


def test_a_deep_copy_shares_weights_and_nothing_that_changes(model: ir_runtime.Model) -> None:
    made = copy.deepcopy(model)
    assert ir_runtime.model_to_bytes(made) == ir_runtime.model_to_bytes(model)
    ours, theirs = (
        [node.op.data for part in m.all_models() for node in part.nodes() if node.op.data] for m in (model, made)
    )
    assert ours
    assert all(one is other for one, other in zip(ours, theirs, strict=True))
    made.reshape({"x": [4096]})
    assert str(model.inputs[0].shape) == "[?]"
    assert str(made.inputs[0].shape) == "[4096]"
    check(made)


def test_long_models_are_pickled_and_copied() -> None:
    """One call a layer would be too deep."""
    count = 3000
    nodes = " ".join(f"t{i + 1} = {'Relu' if i % 2 else 'Neg'} (t{i})" for i in range(count))
    model = converter.convert_model(parse(f"g (float[2] t0) => (float[2] t{count}) {{ {nodes} }}"), target="any")
    assert len(pickle.loads(pickle.dumps(model)).nodes()) == len(copy.deepcopy(model).nodes()) == count + 2


@pytest.mark.parametrize("kind", [t for t in element_types.ALL if t.bits], ids=str)
def test_tensors_of_every_type(kind: ElementType) -> None:
    data = np.arange(24, dtype=np.uint8) % 2 if kind.name == "boolean" else np.arange(24, dtype=np.uint8)
    shape = (2, 24 * 8 // kind.bits // 2)
    tensor = Tensor.from_packed(data, kind, shape)
    made = pickle.loads(pickle.dumps(tensor))
    assert b"".join(bytes(chunk) for chunk in made.chunks()) == data.tobytes()
    assert (made.element_type, made.shape) == (kind, shape)
    assert copy.deepcopy(tensor) is copy.copy(tensor) is tensor


def test_tensors_of_text() -> None:
    tensor = Tensor.from_array(np.array(["a", "", "ü"], np.object_), element_types.string)
    assert pickle.loads(pickle.dumps(tensor)).array().tolist() == ["a", "", "ü"]


@pytest.mark.parametrize("cls", [c for c in all_operations() if not any(a.is_required for a in c.declared.values())])
def test_operations_of_every_class(cls: type) -> None:
    try:
        op = cls()
    except ModelError:
        pytest.skip("it needs more than its required attributes")
    made = pickle.loads(pickle.dumps(op))
    assert type(made) is cls
    assert made.attributes() == op.attributes()


def test_layers_keep_their_origin(model: ir_runtime.Model) -> None:
    found = []
    for made in (model, pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        found.append({node.origin for part in made.all_models() for node in part.nodes()})
        choice = next(node for node in made.nodes() if node.op.type == "If")
        assert choice.origin is not None
        assert (choice.origin.op_type, choice.where) == ("If", f"layer '{choice.name}' (If, made from {choice.origin})")
        assert all(node.origin is None for node in made.parameters)
    assert found[0] == found[1] == found[2]
    assert {origin.op_type for origin in found[0] if origin is not None} == {"If", "Add", "Mul"}


def test_where_a_layer_is() -> None:
    node = ir_runtime.Node(ReLU1(), name="act")
    assert node.where == "layer 'act' (ReLU)"
    node.origin = Origin("a' of b", "LeakyRelu")
    assert node.where == "layer 'act' (ReLU, made from node 'a' of b' of LeakyRelu)"


def test_a_compiled_model_says_that_it_is_not_pickled(model: ir_runtime.Model) -> None:
    compiled = ir_runtime.compile_model(model)
    for attempt in (pickle.dumps, copy.deepcopy, copy.copy):
        with pytest.raises(ModelError, match="pickle the Model, and compile it again"):
            attempt(compiled)


def test_what_is_shown(model: ir_runtime.Model) -> None:
    assert repr(model) == "<Model 'branches': (x: f32[?], c: boolean[]) -> (y: f32[?])>"
    assert repr(ir_runtime.compile_model(model)) == "<CompiledModel (x: f32[?], c: boolean[]) -> (y: f32[?])>"
    assert repr(model.inputs[0]) == "<Output 0 of layer 'x' (Parameter): 'x' f32[?]>"
    node = next(node for node in model.nodes() if node.op.type == "If")
    assert repr(node).startswith("<Node 'y': If-8(boolean[], f32[?]") or repr(node).startswith("<Node 'If")
    assert repr(Tensor.from_array(np.array([[1, 2], [3, 4]], np.int32))) == "<Tensor i32[2, 2]: [[1, 2], [3, 4]]>"
    assert repr(Tensor.from_array(WEIGHTS)) == "<Tensor f32[4096]: 4096 values>"
