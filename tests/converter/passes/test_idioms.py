"""What exporters spell out (``tests/rows/idioms``): names of fused layers, axes from the end, weights, other shapes.

``tests/test_rows.py`` runs each idiom and each near miss.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
import pytest

import converter
import ir_runtime
from converter.conversion import compressed
from converter.derivation import without_record
from converter.passes.registry import passes
from ir_runtime.graph.model import Model, Node
from ir_runtime.graph.shape_inference import make_node
from ir_runtime.graph.tensor import Tensor
from ir_runtime.operations import indexing, movement, normalization, reduction, slicing
from ir_runtime.operations.inputs_outputs import Const1
from ir_runtime.rewriting.fused_names import fused_names
from tests.engines import ENGINES, core, opened, run, run_onnxruntime
from tests.rows.formula import all_idioms

IDIOMS = all_idioms()


def layers(model: Model) -> list[str]:
    return [node.op.type for node in model.nodes() if not node.op.role]


@pytest.mark.parametrize("name", ["gelu", "layer normalization", "mish", "softsign"])
def test_a_fused_layer_has_the_names_of_those_in_whose_place_it_is(name: str) -> None:
    row = IDIOMS[name]
    plain = converter.convert_model(row.model(5), fuse=False, target="any")
    made = converter.convert_model(row.model(5))
    (fused,) = [node for node in made.nodes() if node.op.type == row.layers[0]]
    wanted = [node.name for node in plain.nodes() if node.inputs and node.op.role != "result"]
    assert sorted(fused_names(fused)) == sorted(wanted)
    assert fused.name == wanted[-1]
    again = core().read_model(*ir_runtime.model_to_bytes(made))
    assert any("fused_names_0" in node.get_rt_info() for node in again.get_ops())


@pytest.mark.parametrize("name", IDIOMS)
def test_without_fusion_each_node_keeps_its_layers(name: str) -> None:
    row = IDIOMS[name]
    graph, last = row.written(4)
    model = graph.model(row, True, last)
    made = converter.convert_model(model, fuse=False, target="any")
    assert len(layers(made)) >= graph.distinct > len(row.layers)
    assert [node.origin.node for node in made.nodes() if node.origin][-1] == graph.nodes[-1].name
    assert layers(converter.convert_model(model, target="any")) == row.layers


@pytest.mark.parametrize(("compress", "half"), [(None, True), ("int8", False), ("int4", True)])
@pytest.mark.parametrize("name", IDIOMS)
def test_compressed_weights_of_an_idiom_are_accounted_for(name: str, compress: str | None, half: bool) -> None:
    model = IDIOMS[name].model(3, dynamic=False)
    way = None if compress is None else converter.WeightCompression.named(compress)
    made = without_record(compressed(converter.convert_model(model), way, half).model)
    report = converter.verify(model.SerializeToString(), made)
    assert report.verdict == "equal", report.to_text()


AXES_AS_INPUTS: tuple[tuple[tuple[type, ...], int], ...] = (
    ((reduction.Reduction, movement.Squeeze1, movement.Squeeze15, movement.Unsqueeze1, normalization.MVN6), 1),
    ((slicing.Split1, slicing.VariadicSplit1), 1),
    ((indexing.Gather1, indexing.Gather7), 2),
    ((slicing.Slice8,), 4),
)
"""Operations, and the input that has their axes."""
AXES_AS_ATTRIBUTES = ("Concat", "GatherElements", "LogSoftmax", "SoftMax", "TopK")


def count_from_end(model: Model) -> int:
    """Make the axes of all layers negative, as another converter may write them; returns how many layers change."""
    count = 0
    for node in model.nodes():
        sources = node.outputs if isinstance(node.op, movement.Unsqueeze1) else node.inputs
        rank = sources[0].shape.rank if sources and sources[0].shape.has_rank else None
        if rank is None:
            continue
        axis = node.op.attributes().get("axis")
        if node.op.type in AXES_AS_ATTRIBUTES and isinstance(axis, int) and axis >= 0:
            node.op = type(node.op)(**{**node.op.attributes(), "axis": axis - rank})
            count += 1
        for operations, place in AXES_AS_INPUTS:
            if isinstance(node.op, operations) and len(node.inputs) > place:
                count += negate_input(node, place, rank)
    return count


def negate_input(node: Node, place: int, rank: int) -> bool:
    tensor = node.inputs[place].tensor
    if tensor is None or not (tensor.array() >= 0).any():
        return False
    axes = tensor.array()
    negative = Tensor.from_array(np.where(axes >= 0, axes - rank, axes).astype(axes.dtype), tensor.element_type)
    constant = make_node(Const1(value=negative), (), f"{node.name}/axes")
    node.inputs = [*node.inputs[:place], constant.outputs[0], *node.inputs[place + 1 :]]
    return True


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("name", IDIOMS)
def test_passes_take_negative_axes(name: str, seed: int) -> None:
    row = IDIOMS[name]
    plain, negative = (converter.convert_model(row.model(seed), fuse=False, target="any") for _ in range(2))
    values = row.values(np.float32)
    (expected,) = run("numpy", ir_runtime.model_to_bytes(plain), values)
    count = count_from_end(negative)
    assert count or name not in ("layer normalization", "softmax")
    for ir in (plain, negative):
        passes.run(ir)
    assert layers(negative) == layers(plain)
    for engine in ENGINES:
        (actual,) = run(engine, ir_runtime.model_to_bytes(negative), values)
        np.testing.assert_allclose(actual, expected, rtol=row.tolerance, atol=row.tolerance, err_msg=engine)


def group_normalization(*shape: int | str) -> onnx.ModelProto:
    model = IDIOMS["group normalization"].model(2)
    model.graph.input[0].CopyFrom(onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, shape))
    return model


@pytest.mark.parametrize("target", ["any", "cpu@2023.3", "cpu@2024.6"])
@pytest.mark.parametrize("shape", [(2, 3, 4, 5), ("n", "c", "h", "w")], ids=["static", "dynamic"])
def test_releases_have_group_normalization(target: str, shape: Sequence[int | str]) -> None:
    """It is of opset 12, which the oldest target has."""
    assert "GroupNormalization" in layers(converter.convert_model(group_normalization(*shape), target=target))


@pytest.mark.parametrize("shape", [(1, 3, 7, 3), (5, 3, 1, 2), (0, 3, 4, 5)], ids=str)
@pytest.mark.parametrize("engine", ENGINES)
def test_group_normalization_of_other_shapes(engine: str, shape: tuple[int, ...]) -> None:
    """Declared as one shape, and given another one: the layer has only the number of channels in it."""
    proto = group_normalization(2, 3, 4, 5)
    made = converter.convert_model(proto)
    made.reshape({"x": list(shape)})
    x = np.random.default_rng(4).normal(size=shape).astype(np.float32)
    (wanted,) = run_onnxruntime(opened(proto), {"x": x}) if x.size else (np.zeros((0, 6, 4, 5)),)
    (value,) = run(engine, ir_runtime.model_to_bytes(made), {"x": x})
    assert value.shape == wanted.shape
    np.testing.assert_allclose(value, wanted, rtol=1e-4, atol=1e-4)
