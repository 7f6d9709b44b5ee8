"""IRs of one layer, made of the calls in :mod:`tests.ir_runtime.calls`."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from ir_runtime.graph.element_types import Array
from ir_runtime.graph.model import Model
from ir_runtime.graph.shape_inference import make_node
from ir_runtime.graph.shapes import PartialShape
from ir_runtime.graph.tensor import Tensor
from ir_runtime.operations.inputs_outputs import Const1, Parameter1, Result1
from tests.ir_runtime.calls import Call

_ARGUMENTS = 64
"""Whole numbers of up to this size behind the first input are arguments, such as axes: constants in real models."""
_WITHOUT_ONNX = ("u1", "u2", "u3", "u6", "nf4")


def is_constant(call: Call, index: int) -> bool:
    array = np.asarray(call.arrays[index])
    is_argument = index > 0 and array.dtype.kind in "iu" and array.size <= _ARGUMENTS
    return index in call.fixed or is_argument or call.kinds[index].name in _WITHOUT_ONNX


def model_of(call: Call, *, dynamic: bool = False, computed: Collection[int] = ()) -> tuple[Model, dict[str, Array]]:
    """A model of the layer, with the values of its inputs; ``dynamic``: of unknown dimensions.

    ``computed`` are arguments that the model's user gives.
    """
    sources, parameters, feeds = [], [], {}
    for index, (array, kind) in enumerate(zip(call.arrays, call.kinds)):
        array = np.asarray(array)
        if index not in computed and is_constant(call, index):
            sources.append(make_node(Const1(value=Tensor.from_array(array, kind)), (), f"c{index}").outputs[0])
            continue
        free = dynamic and index not in call.shaped
        shape = PartialShape([None] * array.ndim if free else array.shape)
        node = make_node(Parameter1(shape=shape, element_type=kind), (), f"x{index}")
        node.outputs[0].add_name(f"x{index}")
        parameters.append(node)
        feeds[f"x{index}"] = array
        sources.append(node.outputs[0])
    layer = make_node(call.op, sources, "layer")
    results = []
    for index, output in enumerate(layer.outputs):
        output.add_name(f"y{index}")
        result = make_node(Result1(), [output], f"result{index}")
        result.output_names = [f"y{index}"]
        results.append(result)
    return Model("layer", parameters, results), feeds
