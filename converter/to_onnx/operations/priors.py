"""Boxes at regular places of an image."""

from __future__ import annotations

import numpy as np

from converter.to_onnx import Context, Value, ir_op
from ir_runtime.graph.operation import Operation
from ir_runtime.operations.priors import PriorBox1, PriorBox8, PriorBoxClustered1


@ir_op(PriorBox1, PriorBox8, PriorBoxClustered1, local_function=True)
def prior_boxes(ctx: Context, op: Operation, layer: Value, image: Value) -> Value:
    """A constant: the sizes of layer and image must be known"""
    sizes = [ctx.constant_values(shape_input) for shape_input in (layer, image)]
    if sizes[0] is None or sizes[1] is None:
        ctx.fail("the sizes of the layer and of the image must be known: set the shapes of the inputs first")
    boxes = op.evaluate(sizes[0], sizes[1])
    return ctx.constant(np.asarray(boxes), ctx.node.outputs[0].element_type)
