"""Models in pickles, copies and messages."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

import converter
import ir_runtime
from ir_runtime import ModelError, Tensor
from ir_runtime.graph import element_types
from ir_runtime.graph.element_types import ElementType
from ir_runtime.graph.model import Origin
from ir_runtime.graph.operation import all_operations
from ir_runtime.operations.activation import ReLU1
from tests.converter.optimization.models import parse
from tests.ir_runtime.rewriting.models import branches

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


def test_a_pickle_is_read_by_another_process(model: ir_runtime.Model, tmp_path: Path) -> None:
    (tmp_path / "m.pickle").write_bytes(pickle.dumps(model))
    code = f"import pickle; print(pickle.load(open({str(tmp_path / 'm.pickle')!r}, 'rb')))"
    assert "branches" in subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


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
