"""Preprocessing as layers at the inputs and outputs of a model, and the model without these.

u8 [n, h, w, c] -> Convert -> Interpolate -> Subtract -> Multiply -> Transpose -> readers of the input

These are the layers that OpenVINO's PrePostProcessor writes, in its order, so that its plug-ins fuse them. They are
removed as far as later changes still show where they end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import cast

import numpy as np

from converter.errors import ConversionError
from converter.passes.compression.float16_constants import PREPROCESSING
from ir_runtime.graph import Model, Node, Output, RuntimeInfo, make_node
from ir_runtime.graph.element_types import element_type
from ir_runtime.graph.invariants import PROCESSING
from ir_runtime.operations.colour import I420toBGR8, I420toRGB8, NV12toBGR8, NV12toRGB8
from ir_runtime.operations.elementwise import Divide1, Multiply1, Subtract1
from ir_runtime.operations.indexing import Gather8
from ir_runtime.operations.inputs_outputs import Parameter1
from ir_runtime.operations.interpolate import Interpolate11
from ir_runtime.operations.movement import Transpose1
from ir_runtime.operations.reduction import ReduceMin1
from ir_runtime.rewriting import Builder, UniqueNames, graph_pass, layers, shape_layers
from ir_runtime.rewriting.edits import replace_parameter

from .description import PILLOW_RESIZES, PLANES, Postprocess, Preprocess
from .recorded import Recorded
from .resolution import Resolved, order_of_output, resolve
from .weights import fold, reverse_back, reverse_in_weights

_PLANES = {
    ("nv12", "rgb"): NV12toRGB8,
    ("nv12", "bgr"): NV12toBGR8,
    ("i420", "rgb"): I420toRGB8,
    ("i420", "bgr"): I420toBGR8,
}


@graph_pass("preprocessing", PROCESSING)
def insert(model: Model, inputs: Mapping[str, Preprocess], outputs: Mapping[str, Postprocess]) -> int:
    """Insert the steps of these inputs and outputs into the model, in place; return the number of both.

    Names are tensor names. The steps are recorded in the model's ``rt_info``. Raises :class:`ConversionError` for
    an unknown name, and where steps do not fit.
    """
    record = Recorded.of(model)
    ends = {**_ends("input", model.parameters, inputs), **_ends("output", model.results, outputs)}
    resolved = []
    for name, steps in inputs.items():
        node = ends[name]
        own = node.end_names[0] if node.end_names else node.name
        if own in record.inputs:
            raise ConversionError(
                f"input '{own}' has preprocessing already ({record.shown(own)}): give all of it when you convert the "
                "model that has none"
            )
        resolved.append((node, resolve(own, steps, node.outputs[0].type)))
    input_steps = dict(record.inputs)
    reversed_layers = list(record.reversed_layers)
    for node, resolved_steps in resolved:
        reversed_layers += _insert_input(model, node, resolved_steps)
        input_steps[resolved_steps.name] = resolved_steps.steps
    output_steps = dict(record.outputs)
    for name, postprocess in outputs.items():
        node = ends[name]
        own = node.end_names[0]
        if own in output_steps:
            raise ConversionError(f"output '{own}' has postprocessing already: give all of it in one conversion")
        output_steps[own] = _insert_output(model, node, own, postprocess)
    Recorded(input_steps, output_steps, tuple(reversed_layers)).write(model)
    return len(inputs) + len(outputs)


def _ends(role: str, nodes: Sequence[Node], requested: Mapping[str, object]) -> dict[str, Node]:
    """Return the inputs or outputs (``role``) by the requested names.

    Raises :class:`ConversionError` for an unknown name, and for two names of one node.
    """
    nodes_by_name = {name: node for node in nodes for name in (*node.end_names, node.name)}
    for name in requested:
        if name not in nodes_by_name:
            available = ", ".join(repr((node.end_names or [node.name])[0]) for node in nodes) or "none"
            raise ConversionError(f"the model has no {role} '{name}' to process; its {role}s are {available}")
    if len({nodes_by_name[name] for name in requested}) != len(requested):
        raise ConversionError(f"an {role} is given two descriptions: name it once")
    return {name: nodes_by_name[name] for name in requested}


def inner_name(name: str) -> str:
    """Return the tensor name of an input behind its steps, or of an output in front of them."""
    return f"{name}/model"


def layout_info(layout: str) -> RuntimeInfo:
    """Return the attribute in the ``rt_info`` of a port that OpenVINO reads a layout from."""
    text = "[" + ",".join(layout.upper()) + "]"
    return RuntimeInfo("attribute", (("name", "layout"), ("version", "0"), ("layout", text)))


def _insert_input(model: Model, node: Node, resolved_steps: Resolved) -> list[str]:
    """Insert the steps of an input; return the names of layers whose weights were reversed for swapped colors."""
    (old,) = node.outputs
    unique = UniqueNames(model)
    parameter = make_node(
        Parameter1(shape=resolved_steps.input_type.shape, element_type=resolved_steps.input_type.element_type),
        (),
        node.name,
    )
    new = parameter.outputs[0]
    new.names, parameter.output_names = list(old.names), list(node.output_names)
    parameter.origin, parameter.runtime_info = node.origin, node.runtime_info
    new.runtime_info = old.runtime_info
    if resolved_steps.steps.layout is not None:
        new.runtime_info = (
            *(info for info in new.runtime_info if dict(info.attributes).get("name") != "layout"),
            layout_info(resolved_steps.steps.layout),
        )
    if resolved_steps.steps.fold:
        resolved_steps = fold(model, old, resolved_steps)
    reversed_layers: list[str] = []
    reverses = resolved_steps.steps.swaps_colors
    if reverses:
        axis = resolved_steps.order.index(cast(int, resolved_steps.channel_axis))
        with_reversed_weights = reverse_in_weights(model, old, axis)
        reverses, reversed_layers = with_reversed_weights is None, with_reversed_weights or []
    builder = Builder(unique)
    builder.begin(node)
    value = steps_as_layers(
        builder,
        new,
        resolved_steps,
        old.element_type.name,
        reverses=reverses,
        swapped=resolved_steps.steps.swaps_colors,
    )
    replace_parameter(model, node, parameter)
    old.names = []
    if value is not new:
        value.add_name(inner_name(resolved_steps.name))
    node.name = unique(node.name)
    old.replace_by(value)
    return reversed_layers


def steps_as_layers(
    builder: Builder, value: Output, resolved_steps: Resolved, type_name: str, *, reverses: bool, swapped: bool
) -> Output:
    """Emit the steps behind ``value``. Where the model's weights reverse the channels, mean and scale are reversed."""
    steps = resolved_steps.steps
    if steps.color in PLANES:
        value = builder.emit(_PLANES[steps.color, steps.model_color](), value)
    if steps.resize not in PILLOW_RESIZES:
        value = layers.in_type(builder, value, resolved_steps.works_in)
    if resolved_steps.sizes is not None:
        axes = [cast(str, steps.layout).index(letter) for letter in "hw"]
        value = _resize(builder, value, steps, resolved_steps.sizes, axes)
    value = layers.in_type(builder, value, resolved_steps.works_in)
    if reverses:
        axis = cast(int, resolved_steps.channel_axis)
        value = builder.emit(Gather8(batch_dims=0), value, builder.constant([2, 1, 0]), builder.constant(axis))
    is_reversed = swapped and not reverses
    if steps.mean is not None:
        value = builder.emit(
            Subtract1(), value, _channel_constant(builder, steps.mean, resolved_steps, is_reversed=is_reversed)
        )
        value.node.runtime_info = (PREPROCESSING,)
    if steps.scale is not None:
        dtype = resolved_steps.works_in.dtype.type
        inverse = [dtype(1) / dtype(number) for number in cast("Sequence[float]", steps.scale)]
        value = builder.emit(
            Multiply1(), value, _channel_constant(builder, inverse, resolved_steps, is_reversed=is_reversed)
        )
        value.node.runtime_info = (PREPROCESSING,)
    if resolved_steps.order != tuple(range(len(resolved_steps.order))):
        value = builder.emit(Transpose1(), value, builder.constant(list(resolved_steps.order)))
    return layers.in_type(builder, value, element_type(type_name))


def _resize(
    builder: Builder, value: Output, steps: Preprocess, sizes: tuple[int, int] | int, axes: Sequence[int]
) -> Output:
    """Resize images along ``axes``, height and width, and cut out their center where ``steps`` crop.

    ``sizes`` are the target height and width, or the length of the shorter side.
    """
    is_pillow = steps.resize in PILLOW_RESIZES
    resize = Interpolate11(
        mode=cast(str, steps.resize),
        shape_calculation_mode="sizes",
        coordinate_transformation_mode="half_pixel",
        nearest_mode="round_prefer_floor",
        cube_coeff=-0.5 if is_pillow else -0.75,
    )
    if isinstance(sizes, int):
        lengths = shape_layers.dimension_list(builder, value, *axes)
        shorter = builder.emit(ReduceMin1(keep_dims=True), lengths, builder.constant([0]))
        scaled = layers.multiply(builder, lengths, builder.constant([sizes]))
        target = builder.emit(Divide1(), scaled, shorter)
    else:
        target = builder.constant(list(sizes))
    value = builder.emit(resize, value, target, builder.constant(list(axes)))
    for index, axis in enumerate(axes if steps.crop is not None else ()):
        length = cast("tuple[int, int]", steps.crop)[index]
        if not isinstance(sizes, int) and sizes[index] == length:
            continue
        # Gather, not Slice: its result has a static dimension, which the model's input may require.
        side = builder.emit(Gather8(batch_dims=0), target, builder.constant([index]), builder.constant(0))
        rest = builder.emit(Subtract1(), side, builder.constant([length]))
        first = builder.emit(Divide1(), rest, builder.constant([2]))
        positions = layers.add(builder, first, builder.constant(list(range(length))))
        value = builder.emit(Gather8(batch_dims=0), value, positions, builder.constant(axis))
    return value


def _channel_constant(builder: Builder, numbers: object, resolved_steps: Resolved, *, is_reversed: bool) -> Output:
    """Return a constant of one number for each channel, or for all, that broadcasts along the channel axis."""
    values = np.asarray(numbers)
    if values.size == 1:
        shape = [1]
    else:
        shape = [1] * len(resolved_steps.order)
        shape[cast(int, resolved_steps.channel_axis)] = values.size
        values = values[::-1] if is_reversed else values
    constant = builder.constant(values.reshape(shape), resolved_steps.works_in)
    constant.node.runtime_info = (PREPROCESSING,)
    return constant


def _insert_output(model: Model, node: Node, name: str, steps: Postprocess) -> Postprocess:
    """Insert steps in front of a result; return them with the element type that they convert to."""
    (old,) = node.inputs
    order = order_of_output(name, steps, old.type)
    target_type = element_type(steps.element_type) if steps.element_type else old.element_type
    if not (target_type.is_real or target_type.is_integral or target_type is old.element_type):
        raise ConversionError(f"output '{name}' is {old.element_type} and cannot be returned as {target_type}")
    builder = Builder(UniqueNames(model))
    builder.begin(name)
    value = layers.in_type(builder, old, target_type)
    if order is not None:
        value = builder.emit(Transpose1(), value, builder.constant(list(order)))
    complete = replace(steps, element_type=target_type.name)
    if value is not old:
        names = list(node.end_names)
        old.names = [inner_name(name), *(other for other in old.names if other not in names)]
        value.names, node.output_names = names, names
        node.replace_inputs([value])
    if steps.layout is not None:
        value.runtime_info = (*value.runtime_info, layout_info(steps.layout))
    return complete


def inner_inputs(model: Model, record: Recorded) -> Mapping[str, Output] | None:
    """Return the inputs that the model itself takes in place of those with steps.

    None where a later change removed one, and where weights hold mean and scale.
    """
    if any(steps.fold for steps in record.inputs.values()):
        return None
    values = {name: output for node in model.nodes() for output in node.outputs for name in output.names}
    parameters = {node.end_names[0]: node.outputs[0] for node in model.parameters if node.end_names}
    values_by_name = {name: values.get(inner_name(name), parameters.get(name)) for name in record.inputs}
    return (
        {name: value for name, value in values_by_name.items() if value is not None}
        if all(values_by_name.values())
        else None
    )


def without_preprocessing(model: Model, record: Recorded) -> Model | None:
    """A copy that takes and returns what the model did before; None where a later change hides where that is."""
    copy = model.clone()
    return copy if _remove(copy, record) else None


@graph_pass("without_preprocessing", PROCESSING)
def _remove(copy: Model, record: Recorded) -> bool:
    inner = inner_inputs(copy, record)
    if inner is None:
        return False
    for name, value in inner.items():
        (node,) = [candidate for candidate in copy.parameters if name in candidate.end_names]
        if value is node.outputs[0]:
            continue
        parameter = make_node(Parameter1(shape=value.shape, element_type=value.element_type), (), node.name)
        node.outputs[0].names, parameter.outputs[0].names = [], list(node.outputs[0].names)
        parameter.output_names = list(node.output_names)
        replace_parameter(copy, node, parameter)
        value.replace_by(parameter.outputs[0], move_names=False)
    values = {name: output for node in copy.nodes() for output in node.outputs for name in output.names}
    for result in copy.results:
        _return_inner(result, record, values)
    if not reverse_back(copy, list(record.reversed_layers)):
        return False
    Recorded({}, {}).write(copy)
    return True


def _return_inner(result: Node, record: Recorded, values: Mapping[str, Output]) -> None:
    name = next((name for name in result.end_names if name in record.outputs), None)
    before = None if name is None else values.get(inner_name(name))
    if before is None:
        return
    names = list(result.end_names)
    result.inputs[0].names = []
    before.names = [*names, *(other for other in before.names if other not in names)]
    result.replace_inputs([before])
