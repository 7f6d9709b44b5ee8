"""Heads rotated by angles: spelled out in an IR, one RotaryEmbedding in ONNX."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import converter
from ir_runtime.graph.element_types import Array
from tests.to_onnx.graphs import check, operators

BATCH, HEADS, LENGTH, WIDTH = 2, 3, 5, 16
FLOAT = onnx.TensorProto.FLOAT


def fed(graph: onnx.GraphProto, sizes: dict[str, int]) -> dict[str, Array]:
    rng = np.random.default_rng(0)
    feeds = {}
    for one in graph.input:
        tensor = one.type.tensor_type
        shape = [sizes[dim.dim_param] if dim.dim_param else dim.dim_value for dim in tensor.shape.dim]
        kind = helper.tensor_dtype_to_np_dtype(tensor.elem_type)
        values = rng.integers(0, 9, shape) if kind.kind == "i" else rng.normal(size=shape)
        feeds[one.name] = values.astype(kind)
    return feeds


def model(
    nodes: Sequence[onnx.NodeProto], inputs: dict[str, Any], outputs: Sequence[str] = ("y",), **constants: Any
) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "g",
        [
            helper.make_tensor_value_info(name, onnx.TensorProto.INT64 if name == "ids" else kind, shape)
            for name, (kind, shape) in inputs.items()
        ],
        [helper.make_tensor_value_info(name, next(iter(inputs.values()))[0], None) for name in outputs],
        [onnx.numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=11)


def exported(made: onnx.ModelProto, batch: int = BATCH, **options: Any) -> list[str]:
    """The operators that the model's IR is written as, once its numbers were compared in onnxruntime."""
    feeds = fed(made.graph, {"b": batch, "s": LENGTH, "p": batch, "one": 1})
    return operators(check(converter.convert_model(made), feeds, **options))


@pytest.mark.parametrize(
    ("rank", "interleaved", "has_ids", "rotated"),
    list(itertools.product([3, 4], [0, 1], [False, True], [0, 8])),
)
def test_the_operator_comes_back(rank: int, interleaved: int, has_ids: bool, rotated: int, tmp_path: Path) -> None:
    attributes: dict[str, int] = {"interleaved": interleaved, "rotary_embedding_dim": rotated}
    if rank == 3:
        attributes["num_heads"] = HEADS
    half = (rotated or WIDTH) // 2
    node = helper.make_node("RotaryEmbedding", ["x", "cos", "sin", *(["ids"] if has_ids else [])], ["y"], **attributes)
    angles = (FLOAT, [9, half] if has_ids else ["b", "s", half])
    shape = ["b", HEADS, "s", WIDTH] if rank == 4 else ["b", "s", HEADS * WIDTH]
    inputs = {"x": (FLOAT, shape), "cos": angles, "sin": angles}
    if has_ids:
        inputs["ids"] = (FLOAT, ["b", "s"])
    made = model([node], inputs)
    assert [one for one in exported(made) if one != "Gather"] == ["RotaryEmbedding"]
    onnx.save(made, tmp_path / "m.onnx")
    assert converter.round_trip(tmp_path / "m.onnx").passed


def halves(
    *,
    shape: Sequence[Any] = ("b", HEADS, "s", WIDTH),
    angles: Sequence[Any] = ("b", "s", WIDTH // 2),
    kind: int = FLOAT,
    axis: int = 1,
    order: Sequence[str] = ("minus", "first"),
    negated: str = "second",
    doubled: Sequence[str] = ("angles", "angles"),
    rest: int = 0,
    outputs: Sequence[str] = ("y",),
) -> onnx.ModelProto:
    """x cos(a) + [-second half of x, first half of x] sin(a), as transformers computes it."""
    node = helper.make_node
    nodes = [
        node("Concat", doubled, ["twice"], axis=-1),
        *(node(name.capitalize(), ["twice"], [name]) for name in ("cos", "sin")),
        *(node("Unsqueeze", [name, "axis"], [f"{name}_4"]) for name in ("cos", "sin")),
        node("Slice", ["x", "zero", "half", "last"], ["first"]),
        node("Slice", ["x", "half", "width", "last"], ["second"]),
        node("Neg", [negated], ["minus"]),
        node("Concat", order, ["swapped"], axis=-1),
        node("Mul", ["rotated" if rest else "x", "cos_4"], ["plain"]),
        node("Mul", ["swapped", "sin_4"], ["turned"]),
        node("Add", ["plain", "turned"], ["whole" if rest else "y"]),
    ]
    if rest:
        nodes.insert(0, node("Slice", ["x", "zero", "width", "last"], ["rotated"]))
        nodes.insert(0, node("Slice", ["x", "width", "end", "last"], ["rest"]))
        nodes.append(node("Concat", ["whole", "rest"], ["y"], axis=-1))
    width = shape[-1] - rest
    bounds = {"zero": [0], "half": [width // 2], "width": [width], "end": [1 << 60], "last": [-1], "axis": [axis]}
    if kind == onnx.TensorProto.DOUBLE:
        nodes = [one for one in nodes if one.op_type not in ("Cos", "Sin") and one.output[0] != "twice"]
        nodes[:0] = [node("Concat", doubled, [name], axis=-1) for name in ("cos", "sin")]
    inputs = {"x": (kind, shape), "angles": (kind, angles)}
    if "other" in doubled:
        inputs["other"] = inputs["angles"]
    return model(nodes, inputs, outputs, **bounds)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"kind": onnx.TensorProto.FLOAT16},
        {"shape": (2, HEADS, 5, WIDTH), "angles": (2, 5, WIDTH // 2)},
        {"shape": ("b", HEADS, "s", WIDTH + 6), "rest": 6},
        # Without a transpose in front: heads behind positions.
        {"shape": ("b", "s", HEADS, WIDTH), "axis": 2},
        {"order": ("minus", "first"), "outputs": ("y", "swapped")},
        # One row of angles for the whole batch is repeated.
        {"angles": (1, "s", WIDTH // 2)},
    ],
    ids=str,
)
def test_halves_are_one_operator(options: dict[str, Any], tmp_path: Path) -> None:
    made = halves(**options)
    found = exported(made)
    assert found.count("RotaryEmbedding") == 1
    assert "Mul" not in found
    assert "Neg" not in found or "outputs" in options
    onnx.save(made, tmp_path / "m.onnx")
    assert converter.round_trip(tmp_path / "m.onnx").passed


@pytest.mark.parametrize(
    "options",
    [
        {"order": ("first", "minus")},
        {"negated": "first", "order": ("second", "minus")},
        {"doubled": ("angles", "other")},
        {"angles": ("p", "s", WIDTH // 2)},
        {"angles": ("", "s", WIDTH // 2)},
        {"kind": onnx.TensorProto.DOUBLE},
    ],
    ids=str,
)
def test_what_is_no_rotation_or_of_another_batch_is_spelled_out(options: dict[str, Any]) -> None:
    made = halves(**options)
    if options.get("angles", ("b",))[0] == "":
        made.graph.input[1].type.tensor_type.shape.dim[0].ClearField("dim_param")
        feeds = fed(made.graph, {"b": BATCH, "s": LENGTH})
        feeds["angles"] = np.ones((1, LENGTH, WIDTH // 2), np.float32)
        found = operators(check(converter.convert_model(made), feeds))
    else:
        found = exported(made)
    assert "RotaryEmbedding" not in found
    assert found.count("Mul") == 2


def test_an_older_opset_spells_it_out() -> None:
    assert "RotaryEmbedding" not in exported(halves(), opset=22)


def test_layers_share_their_angles() -> None:
    """Queries and keys are rotated by the same angles, which are cut and repeated once."""
    made = halves(angles=(1, "s", WIDTH // 2))
    shared = ("angles", "twice", "cos", "sin", "cos_4", "sin_4", *(one.name for one in made.graph.initializer))
    for node in list(made.graph.node):
        if node.output[0] not in shared:
            second = made.graph.node.add()
            second.CopyFrom(node)
            for side in (second.input, second.output):
                side[:] = [name if name in shared else f"{name}_2" for name in side]
    made.graph.input.append(helper.make_tensor_value_info("x_2", FLOAT, ["b", 1, "s", WIDTH]))
    made.graph.output.append(helper.make_tensor_value_info("y_2", FLOAT, None))
    found = exported(made)
    assert [found.count(name) for name in ("RotaryEmbedding", "Expand", "Slice")] == [2, 2, 2]
