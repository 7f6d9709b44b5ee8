"""Nodes in the form that their operators had before opset 13: attributes in place of inputs, and operators of then.

Exporters write the forms of opset 13. What an older opset cannot say raises
:class:`converter.to_onnx.opsets.OpsetTooLow` with the first opset that can.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from converter.onnx_file import schema_table

from .graph import Value
from .opsets import OpsetTooLow

if TYPE_CHECKING:
    from .context import Context

_AS_ATTRIBUTES: Mapping[str, tuple[int, Mapping[int, str]]] = {
    "Squeeze": (13, {1: "axes"}),
    "Unsqueeze": (13, {1: "axes"}),
    "ReduceSum": (13, {1: "axes"}),
    "Split": (13, {1: "split"}),
    "Clip": (11, {1: "min", 2: "max"}),
    "Pad": (11, {1: "pads", 2: "value"}),
    "Slice": (10, {1: "starts", 2: "ends", 3: "axes", 4: "steps"}),
    "TopK": (10, {1: "k"}),
}
"""Operator -> the opset from which on inputs (by place) are what attributes were before."""
_NUMBERS = frozenset({"min", "max", "value", "k"})
"""Attributes that are one number; the others are lists."""
_DEFAULTS: Mapping[str, Any] = {
    "allowzero": 0,
    "batch_dims": 0,
    "ceil_mode": 0,
    "largest": 1,
    "layout": 0,
    "noop_with_empty_axes": 0,
    "select_last_index": 0,
    "sorted": 1,
    "storage_order": 0,
}
"""Values of attributes that mean what operators without them do."""
_BROADCASTING = ("Max", "Min", "Sum", "Mean")
"""Operators whose inputs had one shape before opset 8."""
_NEGATIVE_AXES = 11
"""The opset from which on axes may count from the end."""


class Replaced(Exception):
    """The node is written by others, which compute ``value``."""

    def __init__(self, value: Value) -> None:
        super().__init__()
        self.value = value


def older_form(
    ctx: Context, op_type: str, inputs: Sequence[Value | None], attributes: Mapping[str, Any], count: int
) -> tuple[str, tuple[Value | None, ...], dict[str, Any]]:
    """Return operator, inputs and attributes of a node in the model's opset, which is below 13.

    ``count`` is the number of its outputs.

    Raises :class:`Replaced` where other nodes take its place, and :class:`OpsetTooLow` where nothing does.
    """
    opset = ctx.opset
    operands, values = list(inputs), {key: value for key, value in attributes.items() if value is not None}
    _replace(ctx, op_type, operands, values)
    if op_type == "ScatterElements" and opset < 11 and values.get("reduction", "none") == "none":
        op_type = "Scatter"
        values.pop("reduction", None)
    if op_type == "Resize" and opset < 11 and len(operands) > 2:
        op_type = _resize_by_scales(ctx, operands, values)
    if op_type in _AS_ATTRIBUTES and opset < _AS_ATTRIBUTES[op_type][0]:
        _inputs_as_attributes(ctx, op_type, operands, values)
    scale = operands[1] if op_type in ("QuantizeLinear", "DequantizeLinear") else None
    if scale is not None and scale.shape.is_static and all(size == 1 for size in scale.shape.static()):
        values.pop("axis", None)
    if op_type == "Resize" and opset >= 11:  # regions and scales are empty where they are not used
        nothing = np.zeros(0, np.float32)
        operands[1:3] = [ctx.constant(nothing) if value is None else value for value in operands[1:3]]
    if op_type == "Gemm" and opset < 11 and len(operands) == 2 and operands[0] is not None:
        operands.append(ctx.like(0, operands[0]))
    if (
        opset < 8
        and op_type in _BROADCASTING
        and len({str(operand.shape) for operand in operands if operand is not None}) > 1
    ):
        raise OpsetTooLow(8, f"{op_type} of tensors of different shapes")
    if op_type == "If" and opset < 11:
        pairs = zip(values["then_branch"].outputs, values["else_branch"].outputs)
        if not all(a.shape.is_static and b.shape.is_static and a.shape.static() == b.shape.static() for a, b in pairs):
            raise OpsetTooLow(11, "If with branches whose shapes may differ")
    if opset < _NEGATIVE_AXES:
        _count_axes_from_the_front(op_type, operands, values)
    schema = schema_table.find(op_type, "", opset)
    if schema is not None:
        for key in [key for key in values if key not in schema.attribute_types]:
            value = values[key]
            if _DEFAULTS.get(key, object()) == value or (key == "dilations" and set(value) == {1}):
                del values[key]
        _check(schema, operands, values, count)
    return op_type, tuple(operands), values


def _replace(ctx: Context, op_type: str, inputs: list[Value | None], values: dict[str, Any]) -> None:
    """Raise :class:`Replaced` where an operator of today is several of then."""
    opset, x = ctx.opset, inputs[0] if inputs else None
    if op_type in ("LessOrEqual", "GreaterOrEqual") and opset < 12:
        strict = ctx.emit(op_type.removesuffix("OrEqual"), *inputs)
        raise Replaced(ctx.emit("Or", strict, ctx.emit("Equal", *inputs)))
    if op_type == "Expand" and opset < 8 and x is not None and inputs[1] is not None:
        counts = [operand.shape.element_count() for operand in (x, inputs[1])]
        if all(count.is_static for count in counts) and counts[0].value == 1 and x.shape.rank <= counts[1].value:
            single = ctx.emit("Reshape", x, ctx.constant([1] * counts[1].value))
            raise Replaced(ctx.emit("Tile", single, inputs[1]))
    if op_type in ("Softmax", "LogSoftmax", "Hardmax") and x is not None:
        # Before opset 13 the dimensions behind the axis are normalized together with it.
        if not x.shape.has_rank:
            raise OpsetTooLow(13, f"{op_type} of data of unknown rank")
        rank, axis = x.shape.rank, values.get("axis", -1)
        axis %= max(rank, 1)
        values["axis"] = max(rank - 1, 0)
        if axis < rank - 1:
            order = list(range(rank))
            order[axis], order[-1] = order[-1], order[axis]
            moved = ctx.emit("Transpose", x, perm=order)
            moved.type = type(x.type)(x.element_type, type(x.shape)([x.shape[index] for index in order]))
            raise Replaced(ctx.emit("Transpose", ctx.emit(op_type, moved, axis=rank - 1), perm=order))


def _resize_by_scales(ctx: Context, inputs: list[Value | None], values: dict[str, Any]) -> str:
    """Give Resize its form before opset 11, by scales alone, and return the operator.

    Places are those of ``asymmetric``; the nearest element lies below them where data grow, and above them where they
    shrink (``simple``).
    """
    x, rounding = inputs[0], values.pop("nearest_mode", "simple")
    scales = inputs[2] if len(inputs) == 3 else _scales(ctx, x, inputs[3])
    constant = None if scales is None else ctx.constant_values(scales)
    is_rounded_so = rounding == "simple" or (
        constant is not None and bool((constant >= 1 if rounding == "floor" else constant <= 1).all())
    )
    is_asymmetric = values.pop("coordinate_transformation_mode", None) == "asymmetric"
    is_known = rounding in ("simple", "floor", "ceil") and values["mode"] != "cubic"
    if scales is None or not is_asymmetric or not is_rounded_so or not is_known:
        raise OpsetTooLow(11, "Resize of this mode")
    inputs[1:] = [scales]
    if ctx.opset >= 10:
        return "Resize"
    if constant is None or (constant < 1).any():
        raise OpsetTooLow(10, "Resize to smaller dimensions")
    if ctx.opset < 9:
        values["scales"] = [float(scale) for scale in constant]
        inputs[1:] = []
    return "Upsample"


def _scales(ctx: Context, x: Value | None, sizes: Value | None) -> Value | None:
    """The scales that give the sizes; None where they are not known or no float32 does."""
    counts = None if sizes is None else ctx.constant_values(sizes)
    if x is None or counts is None or not x.shape.is_static or 0 in x.shape.static():
        return None
    dims = np.array(x.shape.static(), np.float32)
    scales = counts.astype(np.float32) / dims
    scales = np.where(np.floor(scales * dims) < counts, np.nextafter(scales, np.float32(np.inf)), scales)
    return ctx.constant(scales) if (np.floor(scales * dims) == counts).all() else None


def _inputs_as_attributes(ctx: Context, op_type: str, inputs: list[Value | None], values: dict[str, Any]) -> None:
    since, names = _AS_ATTRIBUTES[op_type]
    for index in range(len(inputs) - 1, 0, -1):
        value, name = inputs.pop(), names[index]
        if value is None:
            continue
        constant = ctx.constant_values(value)
        if constant is None:
            raise OpsetTooLow(since, f"{op_type} with {name} that are computed")
        numbers = constant.reshape(-1).tolist()
        if name == "steps":
            if any(number != 1 for number in numbers):
                raise OpsetTooLow(since, "Slice with steps")
        elif name in _NUMBERS:
            values[name] = numbers[0] if name == "k" else float(numbers[0])
        else:
            values[name] = numbers


def _count_axes_from_the_front(op_type: str, inputs: Sequence[Value | None], values: dict[str, Any]) -> None:
    x, axes = inputs[0] if inputs else None, values.get("axes")
    if x is None or not x.shape.has_rank:
        return
    rank = x.shape.rank
    if isinstance(values.get("axis"), int) and values["axis"] < 0:
        values["axis"] += rank
    if isinstance(axes, (list, tuple)):
        rank += len(axes) if op_type == "Unsqueeze" else 0
        counted = [axis % rank for axis in axes]
        values["axes"] = sorted(counted) if op_type in ("Squeeze", "Unsqueeze") else counted


def _check(schema: schema_table.Schema, inputs: Sequence[Value | None], values: Mapping[str, Any], count: int) -> None:
    """Raise :class:`OpsetTooLow` where the operator has no such inputs, outputs or attributes yet."""

    def takes(version: schema_table.Schema) -> bool:
        has_places = len(inputs) <= version.most_inputs and count <= version.most_outputs
        return has_places and all(key in version.attribute_types for key in values)

    if takes(schema):
        return
    later = [
        version for version in schema_table.versions(schema.name, "") if version.since_version > schema.since_version
    ]
    unknown = sorted(set(values) - set(schema.attribute_types))
    needed = [version.since_version for version in later if takes(version)]
    needed += [version.since_version for version in later if unknown and version.attribute_types.keys() >= set(unknown)]
    if needed:
        unknown = unknown or [f"{len(inputs)} inputs and {count} outputs"]
        raise OpsetTooLow(needed[0], f"{schema.name} with {', '.join(unknown)}")
