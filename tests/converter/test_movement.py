"""ONNX's movement operators through both engines, against onnxruntime."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import converter
import ir_runtime
from tests.engines import ENGINES, check_node, node_model, run
from tests.suite.reshape import check_reshaped

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


def numbers(dtype: np.dtype[Any], shape: tuple[int, ...]) -> np.ndarray:
    """Different small numbers, as far as the type has them."""
    return (np.arange(int(np.prod(shape))) % 7).reshape(shape).astype(dtype)


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


DYNAMIC: dict[str, Any] = {"x": ["a", None, "c"]}


@pytest.mark.parametrize("opset", [5, 13, 14, 19, 21, 23])
@pytest.mark.parametrize(
    ("x", "shape"),
    [
        (X, [4, 6]),
        (X, [-1]),
        (X, [0, -1]),
        (X, [0, 0, 2, 2]),
        (X, [2, 0, 4]),
        (X[:1, :1, :1], []),
        (X[:0], [0, 12]),
    ],
    ids=str,
)
def test_reshape(opset: int, x: np.ndarray, shape: list[int]) -> None:
    check_node(node_model("Reshape", {"x": x}, constants={"s": ints(*shape)}, opset=opset), {"x": x})


def test_reshape_1() -> None:
    model = node_model("Reshape", {"x": X}, attributes={"shape": [0, -1, 2]}, opset=1)
    check_node(model, {"x": X}, [X.reshape(2, 6, 2)])


@pytest.mark.parametrize("shape", [[0, -1], [-1, 4], [6, 4], [0, 0, -1]], ids=str)
def test_reshape_of_dynamic_dimensions(shape: list[int]) -> None:
    check_node(node_model("Reshape", {"x": X}, constants={"s": ints(*shape)}, opset=14, shapes=DYNAMIC), {"x": X})


def test_reshape_with_allowzero() -> None:
    x = np.zeros((0, 3, 4), np.float32)
    model = node_model("Reshape", {"x": x}, constants={"s": ints(3, 0, 5)}, attributes={"allowzero": 1}, opset=14)
    check_node(model, {"x": x})


def test_reshape_to_a_shape_that_comes_at_execution() -> None:
    feeds = {"x": X, "s": ints(0, -1, 2)}
    check_node(node_model("Reshape", feeds, opset=14, shapes={"x": DYNAMIC["x"]}), feeds)


@pytest.mark.parametrize("opset", [1, 9, 11, 13, 21, 25])
@pytest.mark.parametrize("axis", [0, 1, 2, 3])
@pytest.mark.parametrize("shapes", [None, {"x": ["a", "b", "c"]}, {"x": ["a", 3, 4]}, {"x": [2, 3, "c"]}], ids=str)
def test_flatten(opset: int, axis: int, shapes: Any) -> None:
    expected = X.reshape(int(np.prod(X.shape[:axis])), -1)
    check_node(
        node_model("Flatten", {"x": X}, attributes={"axis": axis}, opset=opset, shapes=shapes), {"x": X}, [expected]
    )


@pytest.mark.parametrize("axis", [-1, -3])
def test_flatten_from_behind(axis: int) -> None:
    check_node(node_model("Flatten", {"x": X}, attributes={"axis": axis}, opset=13, shapes=DYNAMIC), {"x": X})


@pytest.mark.parametrize("shape", [(0, 3), (2, 0, 3), (3, 0)])
def test_flatten_of_nothing(shape: tuple[int, ...]) -> None:
    x = np.zeros(shape, np.float32)
    names = [f"d{i}" for i in range(len(shape))]
    expected = x.reshape(shape[0], int(np.prod(shape[1:])))
    for shapes in (None, {"x": names}):
        check_node(node_model("Flatten", {"x": x}, opset=13, shapes=shapes), {"x": x}, [expected])


@pytest.mark.parametrize("fuse", [True, False])
@pytest.mark.parametrize("shape", [(2, 3, 0, 4), (0, 3, 2, 4), (2, 0, 3, 4), (0, 3, 0, 4)], ids=str)
def test_flatten_of_dynamic_dimensions_that_are_zero(shape: tuple[int, ...], fuse: bool) -> None:
    model = node_model("Flatten", {"x": np.zeros(shape, np.float32)}, opset=13, shapes={"x": [None] * 4})
    ir = ir_runtime.model_to_bytes(converter.convert_model(model, fuse=fuse))
    for engine in ENGINES:
        (found,) = run(engine, ir, {"x": np.zeros(shape, np.float32)})
        assert found.shape == (shape[0], shape[1] * shape[2] * shape[3]), engine


def test_flatten_of_unknown_rank() -> None:
    model = node_model("Flatten", {"x": X}, attributes={"axis": 2}, opset=13, shapes={"x": None})
    # The CPU plug-in takes no input of unknown rank.
    check_node(model, {"x": X}, [X.reshape(6, 4)], engines=["numpy"])


@pytest.mark.parametrize("opset", [1, 13, 21, 24])
@pytest.mark.parametrize("perm", [None, [2, 0, 1], [0, 1, 2]], ids=str)
@pytest.mark.parametrize("shapes", [None, DYNAMIC], ids=str)
def test_transpose(opset: int, perm: list[int] | None, shapes: Any) -> None:
    attributes = {} if perm is None else {"perm": perm}
    expected = np.transpose(X, perm)
    model = node_model("Transpose", {"x": X}, attributes=attributes, opset=opset, shapes=shapes)
    check_node(model, {"x": X}, [expected])


ONES = np.arange(3, dtype=np.float32).reshape(1, 3, 1)


@pytest.mark.parametrize("axes", [None, [0], [-1], [0, 2], [2, -3]], ids=str)
@pytest.mark.parametrize("opset", [1, 11, 13, 21, 25])
def test_squeeze(opset: int, axes: list[int] | None) -> None:
    given: dict[str, Any] = {}
    if axes is not None:
        given = {"attributes": {"axes": axes}} if opset < 13 else {"constants": {"axes": ints(*axes)}}
    expected = np.squeeze(ONES, None if axes is None else tuple(axes))
    check_node(node_model("Squeeze", {"x": ONES}, opset=opset, **given), {"x": ONES}, [expected])


@pytest.mark.parametrize("opset", [10, 11, 13, 21])
@pytest.mark.parametrize("at", ["constant", "execution"])
def test_squeeze_along_an_empty_list_squeezes_everything(opset: int, at: str) -> None:
    """As in onnxruntime, to which an attribute without entries is none."""
    none = np.zeros(0, np.int64)
    feeds = {"x": ONES}
    if opset < 13:
        model = node_model("Squeeze", feeds, opset=opset)
        model.graph.node[0].attribute.add(name="axes", type=onnx.AttributeProto.INTS)
    elif at == "constant":
        model = node_model("Squeeze", feeds, opset=opset, constants={"axes": none})
    else:
        feeds = {**feeds, "axes": none}
        model = node_model("Squeeze", feeds, opset=opset)
    check_node(model, feeds)


@pytest.mark.parametrize("shapes", [None, {"x": ["a", "b", "c"]}], ids=str)
def test_squeeze_along_axes_that_come_at_execution(shapes: Any) -> None:
    feeds = {"x": ONES, "axes": ints(-1, 0)}
    check_node(node_model("Squeeze", feeds, opset=13, shapes=shapes), feeds)


def test_squeeze_of_dynamic_dimensions() -> None:
    model = node_model("Squeeze", {"x": ONES}, constants={"axes": ints(0)}, opset=13, shapes={"x": ["a", "b", "c"]})
    check_node(model, {"x": ONES})
    model = node_model("Squeeze", {"x": ONES}, opset=13, shapes={"x": ["a", "b", "c"]})
    # Which dimensions go is only known at run time, and the CPU plug-in takes no unknown rank.
    check_node(model, {"x": ONES}, engines=["numpy"])


DECLARED = {
    "its own output": ("float[n, 1, 4] x", "float[a, 4] y", "y = Squeeze (x)", [3, 1, 4]),
    "what follows": ("float[n, 1, 4] x", "float[a, 4] y", "t = Squeeze (x) y = Relu (t)", [3, 1, 4]),
    "a product": ("float[n, 4, 1, 1] x, float[4, 3] w", "float[n, 3] y", "t = Squeeze (x) y = MatMul (t, w)", [2, 4, 1, 1]),
    "of ones": ("float[n, 1, 4] x", "float[a] y", "t = Squeeze (x) y = Relu (t)", [1, 1, 4]),
    "a second reader": ("float[n, 1, 4] x", "float[n, 4] y, z", "t = Squeeze (x) y = Relu (t) z = Neg (t)", [3, 1, 4]),
    "two of them": (
        "float[n, 1, 4] x", "float[a, 4] y, float[b, 4] z", "t = Squeeze (x) y = Relu (t) s = Squeeze (x) z = Neg (s)",
        [3, 1, 4],
    ),
}  # fmt: skip


def squeezed(inputs: str, outputs: str, nodes: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : 13]> g ({inputs}) => ({outputs}) {{ {nodes} }}'
    )


@pytest.mark.parametrize(("inputs", "outputs", "nodes", "shape"), DECLARED.values(), ids=DECLARED)
def test_the_declared_rank_tells_what_is_squeezed(inputs: str, outputs: str, nodes: str, shape: list[int]) -> None:
    feeds = {"x": np.arange(np.prod(shape), dtype=np.float32).reshape(shape)}
    if "w" in inputs:
        feeds["w"] = np.arange(12, dtype=np.float32).reshape(4, 3)
    check_node(squeezed(inputs, outputs, nodes), feeds)


@pytest.mark.parametrize("outputs", ["y", "float[a, b, c, d] y"])
@pytest.mark.parametrize(("shape", "target"), [("n, 1, 4", "cpu"), ("n, 1, 4", "any"), ("2, 1, 4", "cpu")])
def test_a_result_of_unknown_rank_is_told(
    outputs: str, shape: str, target: str, caplog: pytest.LogCaptureFixture
) -> None:
    model = converter.convert_model(
        squeezed(f"float[{shape}] x", outputs, "t = Squeeze (x) y = Relu (t)"), target=target
    )
    is_open = not model.outputs[0].shape.has_rank
    assert is_open == ("n" in shape)
    messages = [record.getMessage() for record in caplog.records]
    refusals = [message for message in messages if "takes no tensors of unknown rank" in message]
    assert len(refusals) == (is_open and target == "cpu")
    assert all("layer 't' (Squeeze, made from node 't' of Squeeze)" in message for message in refusals)


@pytest.mark.parametrize("axes", [[0], [-1], [1, 3], [0, -1, 2]], ids=str)
@pytest.mark.parametrize("opset", [1, 11, 13, 21, 25])
def test_unsqueeze(opset: int, axes: list[int]) -> None:
    given: dict[str, Any] = {"attributes": {"axes": axes}} if opset < 13 else {"constants": {"axes": ints(*axes)}}
    expected = np.expand_dims(X, tuple(axes))
    model = node_model("Unsqueeze", {"x": X}, opset=opset, shapes=DYNAMIC, **given)
    check_node(model, {"x": X}, [expected])


@pytest.mark.parametrize("opset", [13, 25])
def test_unsqueeze_of_no_axes(opset: int) -> None:
    """PyTorch's GroupNorm of data without dimensions in space; OpenVINO's reader refuses such a layer."""
    check_node(
        node_model("Unsqueeze", {"x": X}, opset=opset, shapes=DYNAMIC, constants={"axes": ints()}), {"x": X}, [X]
    )


@pytest.mark.parametrize("x", [X, np.float32(5)], ids=["3d", "scalar"])
def test_unsqueeze_at_axes_that_come_at_execution(x: Any) -> None:
    feeds = {"x": np.asarray(x), "axes": ints(1, 0)}
    check_node(node_model("Unsqueeze", feeds, opset=13), feeds, [np.expand_dims(x, (0, 1))])


@pytest.mark.parametrize("opset", [1, 4, 11, 13])
def test_concat(opset: int) -> None:
    feeds = {"a": X, "b": X[:, :1] + 100, "c": X[:, :0]}
    model = node_model("Concat", feeds, attributes={"axis": 1}, opset=opset)
    check_node(model, feeds, [np.concatenate(list(feeds.values()), 1)])


def test_concat_1_joins_along_dimension_1() -> None:
    check_node(node_model("Concat", {"a": X, "b": X}, opset=1), {"a": X, "b": X}, [np.concatenate([X, X], 1)])


@pytest.mark.parametrize("axis", [0, -1])
def test_concat_of_dynamic_dimensions(axis: int) -> None:
    feeds = {"a": X, "b": X}
    shapes: dict[str, Any] = {"a": ["n", None, 4], "b": ["n", 3, "k"]}
    check_node(node_model("Concat", feeds, attributes={"axis": axis}, opset=13, shapes=shapes), feeds)


SIX = np.arange(12, dtype=np.float32).reshape(2, 6)


@pytest.mark.parametrize("opset", [1, 2, 11, 13, 18])
@pytest.mark.parametrize("shapes", [None, {"x": ["n", "m"]}], ids=str)
@pytest.mark.parametrize(
    ("lengths", "axis", "count"), [(None, 1, 3), ([1, 3, 2], 1, 3), ([0, 6], -1, 2), ([2], 0, 1), (None, 0, 2)], ids=str
)
def test_split(opset: int, shapes: Any, lengths: list[int] | None, axis: int, count: int) -> None:
    attributes: dict[str, Any] = {"axis": axis}
    constants = {}
    if lengths is None and opset >= 18:
        attributes["num_outputs"] = count
    elif lengths is not None and opset < 13:
        attributes["split"] = lengths
    elif lengths is not None:
        constants = {"split": ints(*lengths)}
    ends = count if lengths is None else np.cumsum(lengths)[:-1]
    model = node_model(
        "Split", {"x": SIX}, outputs=count, attributes=attributes, constants=constants, opset=opset, shapes=shapes
    )
    check_node(model, {"x": SIX}, np.split(SIX, ends, axis))


@pytest.mark.parametrize("shapes", [None, {"x": ["n", "m"]}], ids=str)
@pytest.mark.parametrize("count", [4, 5])
def test_split_into_uneven_parts(shapes: Any, count: int) -> None:
    x = np.arange(28, dtype=np.float32).reshape(2, 14)
    attributes = {"axis": 1, "num_outputs": count}
    model = node_model("Split", {"x": x}, outputs=count, attributes=attributes, opset=18, shapes=shapes)
    check_node(model, {"x": x})


@pytest.mark.parametrize("count", [1, 3, 1 << 40, -(1 << 40)])
def test_split_into_another_number_of_parts_is_refused(count: int) -> None:
    attributes = {"axis": 1, "num_outputs": count}
    model = node_model("Split", {"x": SIX}, outputs=2, attributes=attributes, opset=18)
    with pytest.raises(converter.ConversionError, match=rf"num_outputs is {count}, but the node has 2 outputs"):
        converter.convert_model(model)


@pytest.mark.parametrize("shapes", [None, {"x": ["n", "m"]}], ids=str)
def test_split_by_lengths_that_come_at_execution(shapes: Any) -> None:
    feeds = {"x": SIX, "s": ints(1, 4, 1)}
    check_node(node_model("Split", feeds, outputs=3, attributes={"axis": 1}, opset=13, shapes=shapes), feeds)


@pytest.mark.parametrize("opset", [8, 13])
@pytest.mark.parametrize(
    ("dimensions", "shape"),
    [
        ((3, 1), [2, 3, 4]),
        ((3, 4), [1]),
        ((3, 4), [3, 1]),
        ((3, 1), [0]),
        ((), [2, 2]),
        ((1, 3), [0, 3]),
        ((1, 4), [2, 0, 1]),
        ((0, 1), [1, 0]),
    ],
    ids=str,
)
def test_expand(opset: int, dimensions: tuple[int, ...], shape: list[int]) -> None:
    x = numbers(np.dtype(np.float32), dimensions)
    expected = x + np.zeros(shape, np.float32)
    # The plug-in divides by zero, which ends the process, where it broadcasts an empty tensor.
    engines = ENGINES if x.size else ["numpy"]
    static = node_model("Expand", {"x": x}, constants={"s": ints(*shape)}, opset=opset)
    check_node(static, {"x": x}, [expected], engines=engines)
    names = {"x": [f"d{i}" for i in range(len(dimensions))]}
    dynamic = node_model("Expand", {"x": x}, constants={"s": ints(*shape)}, opset=opset, shapes=names)
    check_node(dynamic, {"x": x}, [expected], engines=engines)
    feeds = {"x": x, "s": ints(*shape)}
    # Where a 0 meets a 1 the CPU plug-in takes the greater dimension; known shapes are computed before.
    engines = ["numpy"] if 0 in shape else ["numpy", "openvino"]
    check_node(node_model("Expand", feeds, opset=opset, shapes=names), feeds, [expected], engines=engines)


@pytest.mark.parametrize("shape", [(2, 1, 4, 3), (3, 1, 1, 2, 2), (1, 2, 3)])
@pytest.mark.parametrize("unknown", [0b1, 0b100, 0b1001, 0b11111])
def test_tile_of_dimensions_that_are_partly_known(shape: tuple[int, ...], unknown: int) -> None:
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    declared = [None if unknown >> axis & 1 else dimension for axis, dimension in enumerate(shape)]
    for repeats in itertools.product((1, 2), repeat=len(shape)):
        model = node_model("Tile", {"x": x}, constants={"r": ints(*repeats)}, opset=13, shapes={"x": declared})
        check_node(model, {"x": x}, [np.tile(x, repeats)])


@pytest.mark.parametrize("channels", [1, "c"])
@pytest.mark.parametrize("rank", [4, 5])
@pytest.mark.parametrize("before", ["Expand", "MaxPool"])
def test_tile_of_one_channel(before: str, rank: int, channels: int | str) -> None:
    # A layer before it decides in which layout the plug-in stores the data.
    spatial = (3, 4, 2)[: rank - 2]
    x = np.arange(2 * np.prod(spatial), dtype=np.float32).reshape(2, 1, *spatial)
    declared = ["b", channels, *(f"d{i}" for i in range(rank - 2))]
    for axis, times in itertools.product(range(rank), (2, 3)):
        repeats = [times if i == axis else 1 for i in range(rank)]
        nodes = [helper.make_node("Tile", ["same", "r"], ["y"])]
        if before == "Expand":
            nodes[:0] = [helper.make_node("Shape", ["x"], ["s"]), helper.make_node("Expand", ["x", "s"], ["same"])]
        else:
            nodes.insert(0, helper.make_node("MaxPool", ["x"], ["same"], kernel_shape=[1] * (rank - 2)))
            nodes.append(helper.make_node("MaxPool", ["y"], ["z"], kernel_shape=[1] * (rank - 2)))
        graph = helper.make_graph(
            nodes,
            "test",
            [helper.make_tensor_value_info("x", 1, declared)],
            [onnx.ValueInfoProto(name=nodes[-1].output[0])],
            [numpy_helper.from_array(ints(*repeats), "r")],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
        check_node(model, {"x": x})


@pytest.mark.parametrize("opset", [6, 13])
@pytest.mark.parametrize("repeats", [[1, 1, 1], [2, 1, 3], [1, 0, 2]], ids=str)
@pytest.mark.parametrize("shapes", [None, DYNAMIC], ids=str)
@pytest.mark.parametrize("known", [True, False])
def test_tile(opset: int, repeats: list[int], shapes: Any, known: bool) -> None:
    feeds: dict[str, Any] = {"x": X}
    constants = {"r": ints(*repeats)}
    if not known:
        feeds, constants = {**feeds, **constants}, {}
    model = node_model("Tile", feeds, constants=constants, opset=opset, shapes=shapes)
    check_node(model, feeds, [np.tile(X, repeats)])


@pytest.mark.parametrize("known", [True, False])
def test_tile_1(known: bool) -> None:
    tiles = np.array(3, np.float32)
    axis = np.array(1, np.float32)
    feeds, constants = ({"x": X}, {"tiles": tiles}) if known else ({"x": X, "tiles": tiles}, {})
    model = node_model("Tile", feeds, constants={**constants, "axis": axis}, order=["x", "tiles", "axis"], opset=1)
    check_node(model, feeds, [np.tile(X, (1, 3, 1))])


SPACE = np.arange(2 * 8 * 2 * 3, dtype=np.float32).reshape(2, 8, 2, 3)


def depth_to_space(x: np.ndarray, block: int, mode: str) -> np.ndarray:
    """The formula in ONNX's specification."""
    b, c, h, w = x.shape
    if mode == "DCR":
        parts = x.reshape(b, block, block, c // block**2, h, w).transpose(0, 3, 4, 1, 5, 2)
    else:
        parts = x.reshape(b, c // block**2, block, block, h, w).transpose(0, 1, 4, 2, 5, 3)
    return parts.reshape(b, c // block**2, h * block, w * block)


@pytest.mark.parametrize(("opset", "mode"), [(1, None), (11, None), (11, "DCR"), (11, "CRD"), (13, "CRD"), (28, "CRD")])
@pytest.mark.parametrize("shapes", [None, {"x": ["n", "c", "h", "w"]}], ids=str)
def test_depth_to_space(opset: int, mode: str | None, shapes: Any) -> None:
    attributes = {"blocksize": 2, **({"mode": mode} if mode else {})}
    model = node_model("DepthToSpace", {"x": SPACE}, attributes=attributes, opset=opset, shapes=shapes)
    check_node(model, {"x": SPACE}, [depth_to_space(SPACE, 2, mode or "DCR")])


@pytest.mark.parametrize(("opset", "mode"), [(1, None), (13, None), (28, "DCR"), (28, "CRD")])
@pytest.mark.parametrize("shapes", [None, {"x": ["n", "c", "h", "w"]}], ids=str)
def test_space_to_depth_undoes_depth_to_space(opset: int, mode: str | None, shapes: Any) -> None:
    attributes = {"blocksize": 2, **({"mode": mode} if mode else {})}
    x = depth_to_space(SPACE, 2, mode or "DCR")
    model = node_model("SpaceToDepth", {"x": x}, attributes=attributes, opset=opset, shapes=shapes)
    check_node(model, {"x": x}, [SPACE])


@pytest.mark.parametrize("opset", [1, 13, 15, 21, 25])
@pytest.mark.parametrize("shapes", [None, DYNAMIC], ids=str)
def test_shape_and_size(opset: int, shapes: Any) -> None:
    check_node(node_model("Shape", {"x": X}, opset=opset, shapes=shapes), {"x": X}, [ints(2, 3, 4)])
    check_node(node_model("Size", {"x": X}, opset=opset, shapes=shapes), {"x": X}, [np.int64(24)])


@pytest.mark.parametrize(
    "part",
    [{"start": 1}, {"end": -1}, {"start": -2, "end": 2}, {"start": -9, "end": 9}, {"start": 2, "end": 1}],
    ids=str,
)
@pytest.mark.parametrize("shapes", [None, DYNAMIC], ids=str)
def test_part_of_a_shape(part: dict[str, int], shapes: Any) -> None:
    expected = ints(2, 3, 4)[slice(part.get("start", 0), part.get("end"))]
    check_node(node_model("Shape", {"x": X}, attributes=part, opset=15, shapes=shapes), {"x": X}, [expected])


@pytest.mark.parametrize(
    ("op_type", "opset", "arguments", "message"),
    [
        ("Reshape", 13, {"constants": {"s": ints(5, 5)}}, "do not fit"),
        ("Reshape", 13, {"constants": {"s": ints(-1, -1)}}, "at most one dimension may be -1"),
        ("Reshape", 14, {"constants": {"s": ints(0, -1)}, "attributes": {"allowzero": 1}}, "both 0 and -1"),
        ("Reshape", 1, {}, "'shape' is missing"),
        ("Flatten", 13, {"attributes": {"axis": 4}}, "axis 4 lies outside"),
        ("Transpose", 13, {"attributes": {"perm": [0, 0, 1]}}, "is not an order"),
        ("Squeeze", 11, {"attributes": {"axes": [1]}}, "is not 1"),
        ("Unsqueeze", 11, {"attributes": {"axes": [0, 0]}}, "twice"),
        ("Split", 13, {"constants": {"s": ints(1, 2)}, "attributes": {"axis": 1}}, "2 lengths are given for 1"),
        ("Split", 13, {"constants": {"s": ints(2)}, "attributes": {"axis": 1}}, "do not add up"),
        ("Tile", 13, {"constants": {"r": ints(2)}}, "repeats are given for"),
        ("DepthToSpace", 13, {"attributes": {"blocksize": 2}}, "must have 4 dimensions"),
    ],
)
def test_contradictions(op_type: str, opset: int, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(converter.ConversionError, match=message):
        converter.convert_model(node_model(op_type, {"x": X}, opset=opset, **arguments))


def test_flatten_of_any_batch_before_channels_of_a_known_number() -> None:
    """The tail of a classifier: pooled channels, of which the product of dimensions is known."""
    graph = helper.make_graph(
        [
            helper.make_node("Conv", ["x", "w"], ["c"]),
            helper.make_node("GlobalAveragePool", ["c"], ["p"]),
            helper.make_node("Flatten", ["p"], ["y"]),
        ],
        "g",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1, 3, 5, 5])],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.linspace(-1, 1, 4 * 3 * 3 * 3, dtype=np.float32).reshape(4, 3, 3, 3), "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    image = np.linspace(-1, 1, 2 * 3 * 6 * 7, dtype=np.float32).reshape(2, 3, 6, 7)
    check_reshaped(model, {"x": image[:1, :, :5, :5]}, {"x": image})
    types = [node.op.type for node in converter.convert_model(model).nodes()]
    assert sorted(set(types)) == ["Const", "Convolution", "Parameter", "ReduceMean", "Reshape", "Result"]
