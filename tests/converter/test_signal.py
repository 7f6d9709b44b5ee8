"""ONNX's DFT and STFT through both engines, against NumPy's transforms in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import converter
from tests.engines import check_node, node_model, opened, run_onnxruntime, schema_types
from tests.random_data import generator

RNG = generator(4)
REAL = RNG.standard_normal((2, 5, 6, 1)).astype(np.float32)
COMPLEX = RNG.standard_normal((2, 5, 6, 2)).astype(np.float32)


def pairs(z: np.ndarray, dtype: Any = np.float32) -> np.ndarray:
    return np.stack([z.real, z.imag], -1).astype(dtype)


def transformed(x: np.ndarray, length: int | None, axis: int, inverse: int, onesided: int) -> np.ndarray:
    wide = x.astype(np.float64)
    z = wide[..., 0] + (1j * wide[..., 1] if x.shape[-1] == 2 else 0)
    at = axis if axis >= 0 else axis + 1
    if onesided and inverse:
        return np.fft.irfft(z, length, at)[..., None].astype(x.dtype)
    if onesided:
        return pairs(np.fft.rfft(z.real, length, at), x.dtype)
    return pairs((np.fft.ifft if inverse else np.fft.fft)(z, length, at), x.dtype)


@pytest.mark.parametrize("opset", [17, 20])
@pytest.mark.parametrize("axis", [0, 1, 2, -2, -3])
@pytest.mark.parametrize("length", [None, 3, 4, 9])
@pytest.mark.parametrize(
    ("x", "inverse", "onesided"),
    [(REAL, 0, 0), (REAL, 1, 0), (REAL, 0, 1), (COMPLEX, 0, 0), (COMPLEX, 1, 0), (COMPLEX, 1, 1)],
)
def test_dft(opset: int, axis: int, length: int | None, x: np.ndarray, inverse: int, onesided: int) -> None:
    attributes = {"inverse": inverse, "onesided": onesided}
    constants = {} if length is None else {"length": np.array(length)}
    order = ["x", "length" if constants else ""]
    if opset == 17:
        attributes["axis"] = axis
    else:
        constants["axis"] = np.array(axis)
        order.append("axis")
    model = node_model("DFT", {"x": x}, constants=constants, order=order, attributes=attributes, opset=opset)
    check_node(model, {"x": x}, [transformed(x, length, axis, inverse, onesided)])
    check_node(opened(model), {"x": x}, [transformed(x, length, axis, inverse, onesided)])


@pytest.mark.parametrize("axis", [0, 1, 2, -2])
@pytest.mark.parametrize("length", [3, 9])
@pytest.mark.parametrize(("x", "inverse", "onesided"), [(REAL, 0, 0), (REAL, 0, 1), (COMPLEX, 1, 0), (COMPLEX, 1, 1)])
@pytest.mark.parametrize("shapes", [None, {"x": ["a", "b", "c", "d"]}, {"x": ["a", "b", "c", None]}], ids=str)
def test_everything_at_execution(
    axis: int, length: int, x: np.ndarray, inverse: int, onesided: int, shapes: Any
) -> None:
    feeds = {"x": x, "length": np.array(length), "axis": np.array(axis)}
    if shapes is not None and shapes["x"][-1] is None:
        shapes = {"x": ["a", "b", "c", x.shape[-1]]}
    attributes = {"inverse": inverse, "onesided": onesided}
    model = node_model("DFT", feeds, attributes=attributes, opset=20, shapes=shapes)
    check_node(model, feeds, [transformed(x, length, axis, inverse, onesided)])


@pytest.mark.parametrize(("opset", "axis"), [(17, 1), (20, -2)])
def test_defaults(opset: int, axis: int) -> None:
    check_node(node_model("DFT", {"x": COMPLEX}, opset=opset), {"x": COMPLEX}, [transformed(COMPLEX, None, axis, 0, 0)])


@pytest.mark.parametrize("dtype", [d for d in schema_types("DFT", 20, "T1") if d.name != "float64"], ids=str)
def test_types_of_dft(dtype: np.dtype[Any]) -> None:
    x = COMPLEX.astype(dtype)
    # bfloat16 is only accurate against the greatest of the sum's terms.
    check_node(
        node_model("DFT", {"x": x}, opset=20),
        {"x": x},
        [transformed(x, None, -2, 0, 0)],
        atol=2e-2 if dtype.itemsize == 2 else 1e-5,
    )


SIGNAL = RNG.standard_normal((2, 50, 1)).astype(np.float32)
SPIRAL = RNG.standard_normal((2, 50, 2)).astype(np.float32)
WINDOW = RNG.uniform(0.1, 1, 8).astype(np.float32)


def frames_of(x: np.ndarray, step: int, window: np.ndarray, onesided: int) -> np.ndarray:
    z = x[..., 0].astype(np.float64) + (1j * x[..., 1] if x.shape[-1] == 2 else 0)
    starts = range(0, x.shape[1] - len(window) + 1, step)
    framed = np.stack([z[:, s : s + len(window)] * window for s in starts], 1)
    return pairs(np.fft.rfft(framed.real) if onesided else np.fft.fft(framed), x.dtype)


@pytest.mark.parametrize(("x", "onesided"), [(SIGNAL, 1), (SIGNAL, 0), (SPIRAL, 0)])
@pytest.mark.parametrize("step", [1, 3, 50])
@pytest.mark.parametrize("given", ["window", "length", "both", "neither"])
@pytest.mark.parametrize("constant", [True, False])
def test_stft(x: np.ndarray, onesided: int, step: int, given: str, constant: bool) -> None:
    options: dict[str, Any] = {"step": np.array(step)}
    if given in ("window", "both"):
        options["window"] = WINDOW
    if given in ("length", "both"):
        options["length"] = np.array(8)
    order = ["x", "step", "window" if "window" in options else "", "length" if "length" in options else ""]
    window = WINDOW if "window" in options else np.ones(8 if "length" in options else 50)
    inputs, constants = ({"x": x}, options) if constant else ({"x": x, **options}, {})
    shapes = None if constant else {"x": ["n", None, x.shape[2]], "window": [None]}
    model = node_model(
        "STFT", inputs, constants=constants, order=order, attributes={"onesided": onesided}, opset=17, shapes=shapes
    )
    # OpenVINO loses digits where the length is not a power of two.
    atol = 5e-4 if given == "neither" else 1e-5
    check_node(model, inputs, [frames_of(x, step, window, onesided)], atol=atol)
    check_node(opened(model), inputs, [frames_of(x, step, window, onesided)], atol=atol)


@pytest.mark.parametrize("x", [SIGNAL, SIGNAL[..., 0]], ids=["three-dimensions", "two-dimensions"])
def test_stft_as_onnxruntime(x: np.ndarray) -> None:
    constants = {"step": np.array(5), "window": WINDOW}
    model = node_model("STFT", {"x": x}, constants=constants, opset=17)
    check_node(model, {"x": x}, run_onnxruntime(model, {"x": x}))


FLOATS = schema_types("STFT", 17, "T1")


@pytest.mark.parametrize(
    ("dtype", "onesided"), [(d, n) for d in FLOATS for n in (0, 1) if n or d.name != "float64"], ids=str
)
def test_types_of_stft(dtype: np.dtype[Any], onesided: int) -> None:
    x, window = SIGNAL.astype(dtype), WINDOW.astype(dtype)
    model = node_model(
        "STFT", {"x": x}, constants={"step": np.array(3), "window": window}, attributes={"onesided": onesided}, opset=17
    )
    expected = frames_of(x.astype(np.float64), 3, window.astype(np.float64), onesided).astype(dtype)
    check_node(model, {"x": x}, [expected], atol=2e-2 if dtype.itemsize == 2 else 1e-5)


@pytest.mark.parametrize(
    ("op_type", "x", "constants", "attributes", "message"),
    [
        ("DFT", REAL, {}, {"axis": 3}, "holds the parts of complex numbers"),
        ("DFT", REAL, {}, {"axis": 5}, "axis 5 lies outside"),
        ("DFT", COMPLEX, {}, {"onesided": 1}, "wants real data"),
        ("DFT", REAL, {}, {"onesided": 1, "inverse": 1}, "wants complex data"),
        ("DFT", np.ones((2, 3, 3), np.float32), {}, {"axis": -2}, "must be 1 .real. or 2"),
        ("DFT", REAL.astype(np.float64), {}, {}, "f32 at most"),
        ("STFT", SPIRAL, {"step": np.array(3), "window": WINDOW}, {}, "wants real signals"),
        ("STFT", SIGNAL[None], {"step": np.array(3), "window": WINDOW}, {}, "must have 2 or 3 dimensions"),
        ("STFT", SIGNAL, {"step": np.array(3), "window": WINDOW, "length": np.array(7)}, {}, "frame_length is 7"),
        ("STFT", SIGNAL, {"step": np.array(0), "window": WINDOW}, {}, "do not make a transform"),
    ],
)
def test_contradictions(
    op_type: str, x: np.ndarray, constants: dict[str, Any], attributes: dict[str, Any], message: str
) -> None:
    model = node_model(op_type, {"x": x}, constants=constants, attributes=attributes, opset=17)
    with pytest.raises(converter.ConversionError, match=message):
        converter.convert_model(model)
