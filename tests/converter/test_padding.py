"""ONNX's Pad through both engines, against NumPy and onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import converter
import ir_runtime
from converter.errors import InternalError
from tests.engines import check_node, node_model, schema_types

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
SHAPES: list[Any] = [None, {"x": ["a", None, "c"]}]
MODES = ["constant", "reflect", "edge"]


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def padded(x: np.ndarray, pads: list[int], mode: str, value: float = 0) -> np.ndarray:
    """NumPy's answer; negative pads cut first."""
    rank = x.ndim
    sides = list(zip(pads[:rank], pads[rank:]))
    x = x[tuple(slice(max(0, -a), n - max(0, -b)) for n, (a, b) in zip(x.shape, sides))]
    grow = [(max(0, a), max(0, b)) for a, b in sides]
    options: Any = {"constant_values": value} if mode == "constant" else {}
    result: np.ndarray = np.pad(x, grow, mode, **options)  # type: ignore[call-overload]
    return result


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("shapes", SHAPES, ids=str)
@pytest.mark.parametrize("opset", [1, 2])
def test_pad_by_attribute(mode: str, shapes: Any, opset: int) -> None:
    pads = [0, 1, 2, 1, 0, 3]
    name = "paddings" if opset == 1 else "pads"
    attributes = {name: pads, "mode": mode, "value": 1.5}
    model = node_model("Pad", {"x": X}, attributes=attributes, opset=opset, shapes=shapes)
    check_node(model, {"x": X}, [padded(X, pads, mode, 1.5)])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("pads", [[0, 1, 2, 1, 0, 3], [0, -1, 0, 0, 0, -2], [0, -1, 2, 0, 2, -1], [0] * 6], ids=str)
@pytest.mark.parametrize("shapes", SHAPES, ids=str)
@pytest.mark.parametrize("opset", [2, 11, 13, 18, 21, 25])
def test_pad(mode: str, pads: list[int], shapes: Any, opset: int) -> None:
    if mode == "reflect" and pads[4] == 2:
        pads = [0, -1, 2, 0, 1, -1]
    given: dict[str, Any] = {"constants": {"pads": ints(*pads), "value": np.array(-3, np.float32)}}
    attributes: dict[str, Any] = {"mode": mode}
    if opset < 11:
        given, attributes = {}, {"mode": mode, "pads": pads, "value": -3.0}
    model = node_model("Pad", {"x": X}, attributes=attributes, opset=opset, shapes=shapes, **given)
    check_node(model, {"x": X}, [padded(X, pads, mode, -3)])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_pad_at_execution(mode: str, shapes: Any) -> None:
    pads = [0, 1, 2, 1, 0, 3]
    feeds = {"x": X, "pads": ints(*pads)}
    model = node_model("Pad", feeds, attributes={"mode": mode}, opset=13, shapes=shapes)
    check_node(model, feeds, [padded(X, pads, mode)])


@pytest.mark.parametrize("mode", [*MODES, "wrap"])
@pytest.mark.parametrize("shapes", SHAPES, ids=str)
@pytest.mark.parametrize("axes", [[-1], [2, 0]], ids=str)
@pytest.mark.parametrize("known", ["pads and axes", "axes", "nothing"])
def test_pad_of_some_axes(mode: str, shapes: Any, axes: list[int], known: str) -> None:
    pads = [1, 1, 2, 1] if len(axes) == 2 else [1, 2]
    feeds: dict[str, Any] = {"x": X}
    constants: dict[str, Any] = {"pads": ints(*pads), "axes": ints(*axes)}
    if known == "axes":
        feeds["pads"] = constants.pop("pads")
    elif known == "nothing":
        feeds, constants = {**feeds, **constants}, {}
    model = node_model(
        "Pad",
        feeds,
        constants=constants,
        order=["x", "pads", "", "axes"],
        attributes={"mode": mode},
        opset=19,
        shapes=shapes,
    )
    whole = [0] * 6
    for index, axis in enumerate(axes):
        whole[axis % 3], whole[axis % 3 + 3] = pads[index], pads[index + len(axes)]
    check_node(model, feeds, [padded(X, whole, mode)])


@pytest.mark.parametrize("pads", [[0, 0, 9, 0, 0, 5], [0, -1, 0, 0, 5, 3], [0, 1, -1, 0, 0, 2], [0] * 6], ids=str)
@pytest.mark.parametrize("shapes", SHAPES, ids=str)
@pytest.mark.parametrize("known", [True, False])
def test_wrap(pads: list[int], shapes: Any, known: bool) -> None:
    feeds, constants = {"x": X}, {"pads": ints(*pads)}
    if not known:
        feeds, constants = {**feeds, **constants}, {}
    model = node_model("Pad", feeds, constants=constants, attributes={"mode": "wrap"}, opset=19, shapes=shapes)
    check_node(model, feeds, [padded(X, pads, "wrap")])


@pytest.mark.parametrize("pads", [[0, 0, 9, 0, 0, 5], [0, -1, 3, 0, 4, 0], [0, 2, 4, 0, 3, 0]], ids=str)
def test_reflection_back_and_forth(pads: list[int]) -> None:
    model = node_model("Pad", {"x": X}, constants={"pads": ints(*pads)}, attributes={"mode": "reflect"}, opset=13)
    check_node(model, {"x": X}, [padded(X, pads, "reflect")])


def test_reflection_of_a_single_element() -> None:
    x = X[..., :1]
    model = node_model(
        "Pad", {"x": x}, constants={"pads": ints(0, 0, 2, 0, 0, 3)}, attributes={"mode": "reflect"}, opset=13
    )
    with np.errstate(all="raise"):
        check_node(model, {"x": x}, [np.repeat(x, 6, 2)])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", schema_types("Pad", 21), ids=str)
def test_types_of_pad(dtype: np.dtype[Any], mode: str) -> None:
    x = (np.arange(12) % 7).reshape(3, 4).astype(dtype)
    constants: dict[str, Any] = {"pads": ints(1, 0, 1, 2)}
    if mode == "constant":
        constants["value"] = np.array(1, dtype)
    model = node_model("Pad", {"x": x}, constants=constants, attributes={"mode": mode}, opset=21)
    places = padded(np.arange(12).reshape(3, 4), [1, 0, 1, 2], mode, -1)
    expected = np.where(places < 0, np.array(1, dtype), x.reshape(-1)[places])
    check_node(model, {"x": x}, [expected])


@pytest.mark.parametrize(
    ("opset", "arguments", "message"),
    [
        (13, {"constants": {"pads": ints(1, 2)}}, "pads must hold 6 numbers"),
        (13, {"constants": {"pads": ints(0, 0, -3, 0, 0, -2)}}, "the pads leave -1 elements of dimension"),
        (13, {"constants": {"pads": ints(*[0] * 6)}, "attributes": {"mode": "wrap"}}, "mode must be one of"),
        (2, {"attributes": {"pads": [0, 0, 0]}}, "pads must hold 6 numbers"),
        (13, {"constants": {"pads": ints(*[1] * 6), "v": np.array([1, 2], np.float32)}}, "must be a single number"),
    ],
)
def test_contradictions(opset: int, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(converter.ConversionError, match=message):
        converter.convert_model(node_model("Pad", {"x": X}, opset=opset, **arguments))


@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.float16])
@pytest.mark.parametrize("pads", [[1, 0, 2, 1], [0, -1, 1, 0]])
def test_pad_value_computed_at_run_time(dtype: type, pads: list[int]) -> None:
    """OpenVINO's own Pad fills with 0 then."""
    x = np.arange(6).reshape(2, 3).astype(dtype)
    feeds = {"x": x, "value": np.array(7, dtype)}
    model = node_model("Pad", feeds, opset=18, constants={"pads": np.array(pads)}, order=["x", "pads", "value"])
    check_node(model, feeds)


@pytest.mark.parametrize("mode", ["edge", "reflect", "wrap"])
def test_pads_beyond_memory_are_refused(mode: str) -> None:
    """Types are inferred without making the positions; what needs them is an error of the model."""
    x = np.zeros((1, 2), np.float32)
    model = node_model(
        "Pad", {"x": x}, opset=19, constants={"p": np.array([0, 0, 0, 1 << 61])}, attributes={"mode": mode}
    )
    try:
        made = converter.convert_model(model)
    except converter.ConversionError as error:
        assert not isinstance(error, InternalError), error  # noqa: PT017
    else:
        with pytest.raises(ir_runtime.ModelError):
            ir_runtime.compile_model(made)({"x": x})
