"""ONNX's normalisations through both engines, against float64 formulas or onnxruntime."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import converter
from tests.engines import check_node, converted, node_model, schema_types
from tests.random_data import generator

RNG = generator(11)


def normal(*shape: int) -> np.ndarray:
    return (RNG.standard_normal(shape) * 2 + 0.5).astype(np.float32)


def coarse(dtype: Any) -> dict[str, Any]:
    """Tolerances for results of a few steps, each of which rounds."""
    return {"float16": {"rtol": 5e-3, "atol": 1e-2}, "bfloat16": {"rtol": 3e-2, "atol": 6e-2}}.get(
        np.dtype(dtype).name, {"rtol": 1e-4, "atol": 2e-5}
    )


def placed(values: np.ndarray, rank: int) -> np.ndarray:
    return values.astype(np.float64).reshape(-1, *[1] * (rank - 2))


# --- BatchNormalization ---


def batch_normalized(x: np.ndarray, parameters: dict[str, np.ndarray], epsilon: float = 1e-5) -> np.ndarray:
    scale, bias, mean, variance = (placed(value, x.ndim) for value in parameters.values())
    return ((x.astype(np.float64) - mean) / np.sqrt(variance + epsilon) * scale + bias).astype(x.dtype)


def batch_parameters(channels: int, dtype: Any = np.float32) -> dict[str, np.ndarray]:
    values = {"scale": normal(channels), "b": normal(channels), "mean": normal(channels), "v": np.abs(normal(channels))}
    return {name: value.astype(dtype) for name, value in values.items()}


BATCH_VERSIONS: list[tuple[int, dict[str, Any]]] = [
    (1, {"is_test": 1, "consumed_inputs": [0, 0, 0, 1, 1]}),
    (6, {"is_test": 1}),
    (7, {}),
    (9, {"momentum": 0.5}),
    (14, {}),
    (15, {"training_mode": 0}),
]


@pytest.mark.parametrize(("opset", "attributes"), BATCH_VERSIONS)
@pytest.mark.parametrize("shape", [(2, 3), (2, 3, 4), (2, 3, 4, 5), (2, 3, 2, 2, 2)])
def test_batch_normalization(opset: int, attributes: dict[str, Any], shape: tuple[int, ...]) -> None:
    x, parameters = normal(*shape), batch_parameters(3)
    dynamic = {"x": ["n", None, *[None] * (len(shape) - 2)]}
    for epsilon in (None, 0.1):
        given = {**attributes, **({} if epsilon is None else {"epsilon": epsilon})}
        model = node_model(
            "BatchNormalization", {"x": x}, opset=opset, attributes=given, constants=parameters, shapes=dynamic
        )
        check_node(model, {"x": x}, [batch_normalized(x, parameters, epsilon or 1e-5)])
    feeds = {"x": x, **parameters}
    model = node_model("BatchNormalization", feeds, opset=opset, attributes=attributes)
    check_node(model, feeds, [batch_normalized(x, parameters)])


def test_batch_normalization_of_every_type() -> None:
    for dtype in schema_types("BatchNormalization", 15):
        for other in schema_types("BatchNormalization", 15, "T2"):
            x, parameters = normal(2, 3, 4).astype(dtype), batch_parameters(3, other)
            model = node_model("BatchNormalization", {"x": x}, opset=15, constants=parameters)
            if {np.dtype(dtype).name, np.dtype(other).name} & {"float64"} and dtype != other:
                continue
            check_node(model, {"x": x}, [batch_normalized(x, parameters)], **coarse(dtype))


@pytest.mark.parametrize("opset", [1, 6, 7])
def test_batch_normalization_of_each_activation(opset: int) -> None:
    attributes = dict(BATCH_VERSIONS)[opset] | {"spatial": 0}
    x = normal(2, 3, 4)
    parameters = {n: np.abs(normal(3, 4)) for n in ("scale", "b", "mean", "v")}
    scale, bias, mean, variance = parameters.values()
    model = node_model("BatchNormalization", {"x": x}, opset=opset, attributes=attributes, constants=parameters)
    check_node(model, {"x": x}, [(x - mean) / np.sqrt(variance + np.float32(1e-5)) * scale + bias])


@pytest.mark.parametrize("opset", [14, 15])
@pytest.mark.parametrize("outputs", [1, 3])
def test_batch_normalization_in_training(opset: int, outputs: int) -> None:
    x, parameters = normal(4, 3, 5, 2), batch_parameters(3)
    model = node_model(
        "BatchNormalization", {"x": x}, opset=opset, outputs=outputs, constants=parameters,
        attributes={"training_mode": 1, "momentum": 0.7}, shapes={"x": ["n", 3, None, None]},
    )  # fmt: skip
    mean, variance = x.mean((0, 2, 3), dtype=np.float64), x.astype(np.float64).var((0, 2, 3))
    current = {**parameters, "mean": mean, "v": variance}
    running = [parameters["mean"] * 0.7 + mean * 0.3, parameters["v"] * 0.7 + variance * 0.3]
    expected = [batch_normalized(x, current), *[value.astype(np.float32) for value in running]]
    check_node(model, {"x": x}, expected[:outputs])


@pytest.mark.parametrize(
    ("opset", "attributes", "outputs", "reason"),
    [
        (6, {}, 2, "training is not supported"),
        (9, {}, 3, "training is not supported"),
        (15, {}, 3, "there is one output"),
        (9, {"spatially": 1}, 1, "no attribute 'spatially'"),
    ],
)
def test_batch_normalization_errors(opset: int, attributes: dict[str, Any], outputs: int, reason: str) -> None:
    model = node_model(
        "BatchNormalization", {"x": normal(2, 3, 4)}, opset=opset, attributes=attributes, outputs=outputs,
        constants=batch_parameters(3),
    )  # fmt: skip
    with pytest.raises(converter.ConversionError, match=reason):
        converter.convert_model(model)


def test_batch_normalization_of_other_channels() -> None:
    model = node_model("BatchNormalization", {"x": normal(2, 4, 4)}, opset=15, constants=batch_parameters(3))
    with pytest.raises(converter.ConversionError, match="3 values, but the data has 4 channels"):
        converter.convert_model(model)


# --- InstanceNormalization, GroupNormalization ---


def standardized(x: np.ndarray, axes: tuple[int, ...], epsilon: float) -> np.ndarray:
    wide = x.astype(np.float64)
    return (wide - wide.mean(axes, keepdims=True)) / np.sqrt(wide.var(axes, keepdims=True) + epsilon)


@pytest.mark.parametrize("opset", [1, 6, 22])
@pytest.mark.parametrize("shape", [(2, 3, 7), (2, 3, 4, 5), (2, 3, 2, 3, 2)])
def test_instance_normalization(opset: int, shape: tuple[int, ...]) -> None:
    for dtype in schema_types("InstanceNormalization", opset):
        x, scale, bias = (normal(*s).astype(dtype) for s in (shape, (3,), (3,)))
        made = standardized(x, tuple(range(2, x.ndim)), 0.01)
        expected = (made * placed(scale, x.ndim) + placed(bias, x.ndim)).astype(dtype)
        attributes = {"epsilon": 0.01} | ({"consumed_inputs": [0]} if opset == 1 else {})
        model = node_model(
            "InstanceNormalization", {"x": x}, opset=opset, attributes=attributes,
            constants={"scale": scale, "b": bias}, shapes={"x": ["n", 3, *[None] * (len(shape) - 2)]},
        )  # fmt: skip
        check_node(model, {"x": x}, [expected], **coarse(dtype))


def test_instance_normalization_errors() -> None:
    for x, count, reason in ((normal(2, 3), 3, "at least 3 dimensions"), (normal(2, 3, 4), 2, "one value a channel")):
        constants = {"scale": normal(count), "b": normal(count)}
        model = node_model("InstanceNormalization", {"x": x}, opset=22, constants=constants)
        with pytest.raises(converter.ConversionError, match=reason):
            converter.convert_model(model)


@pytest.mark.parametrize("opset", [18, 21])
@pytest.mark.parametrize("groups", [1, 2, 6])
@pytest.mark.parametrize("shape", [(2, 6), (2, 6, 5), (2, 6, 3, 4)])
def test_group_normalization(opset: int, groups: int, shape: tuple[int, ...]) -> None:
    for dtype in schema_types("GroupNormalization", opset):
        count = groups if opset == 18 else 6
        x, scale, bias = (normal(*s).astype(dtype) for s in (shape, (count,), (count,)))
        made = standardized(x.reshape(2, groups, -1), (2,), 0.01).reshape(shape)
        per_channel = [np.repeat(value, 6 // count) for value in (scale, bias)]
        expected = (made * placed(per_channel[0], x.ndim) + placed(per_channel[1], x.ndim)).astype(dtype)
        model = node_model(
            "GroupNormalization", {"x": x}, opset=opset, attributes={"num_groups": groups, "epsilon": 0.01},
            constants={"scale": scale, "bias": bias}, shapes={"x": ["n", 6, *[None] * (len(shape) - 2)]},
        )  # fmt: skip
        check_node(model, {"x": x}, [expected], **coarse(dtype))


@pytest.mark.parametrize(("opset", "groups", "count"), [(18, 4, 4), (21, 0, 6), (18, 2, 6)])
def test_group_normalization_errors(opset: int, groups: int, count: int) -> None:
    model = node_model(
        "GroupNormalization", {"x": normal(2, 6, 5)}, opset=opset, attributes={"num_groups": groups},
        constants={"scale": normal(count), "bias": normal(count)},
    )  # fmt: skip
    with pytest.raises(converter.ConversionError, match=r"num_groups must divide|one value a group"):
        converter.convert_model(model)


# --- LayerNormalization, RMSNormalization, MeanVarianceNormalization ---


@pytest.mark.parametrize("axis", [None, 0, 1, 2, -2])
@pytest.mark.parametrize("outputs", [1, 2, 3])
@pytest.mark.parametrize("biased", [True, False])
def test_layer_normalization(axis: int | None, outputs: int, biased: bool) -> None:
    at = 2 if axis is None else axis % 3
    for dtype in schema_types("LayerNormalization", 17):
        x = normal(3, 4, 5).astype(dtype)
        constants = {"scale": normal(*x.shape[at:]).astype(dtype), "b": normal(*x.shape[at:]).astype(dtype)}
        if not biased:
            del constants["b"]
        axes = tuple(range(at, 3))
        wide = x.astype(np.float64)
        mean, inverse = wide.mean(axes, keepdims=True), 1 / np.sqrt(wide.var(axes, keepdims=True) + 1e-3)
        made = (wide - mean) * inverse * constants["scale"].astype(np.float64)
        if biased:
            made = made + constants["b"].astype(np.float64)
        expected = [made.astype(dtype), mean.astype(np.float32), inverse.astype(np.float32)][:outputs]
        attributes = {"epsilon": 1e-3} | ({} if axis is None else {"axis": axis})
        model = node_model(
            "LayerNormalization", {"x": x}, opset=17, attributes=attributes, outputs=outputs, constants=constants,
            shapes={"x": ["n", None, "m"]},
        )  # fmt: skip
        check_node(model, {"x": x}, expected, **coarse(dtype))


def test_layer_normalization_stashes_in_another_type() -> None:
    x, scale = normal(3, 4), normal(4)
    model = node_model(
        "LayerNormalization", {"x": x}, opset=17, attributes={"stash_type": 16}, outputs=3, constants={"s": scale}
    )
    made = standardized(x, (1,), 1e-5)
    mean = x.mean(1, keepdims=True).astype(ml_dtypes.bfloat16)
    inverse = (1 / np.sqrt(x.astype(np.float64).var(1, keepdims=True) + 1e-5)).astype(ml_dtypes.bfloat16)
    check_node(model, {"x": x}, [(made * scale).astype(np.float32), mean, inverse])


def test_layer_normalization_by_inputs_agrees_with_onnxruntime() -> None:
    feeds = {"x": normal(2, 3, 4), "scale": normal(4), "b": normal(4)}
    check_node(node_model("LayerNormalization", feeds, opset=17), feeds)


@pytest.mark.parametrize("scale_shape", [(5,), (1, 1, 3, 4), (4, 1)])
def test_layer_normalization_errors(scale_shape: tuple[int, ...]) -> None:
    model = node_model("LayerNormalization", {"x": normal(2, 3, 4)}, opset=17, constants={"s": normal(*scale_shape)})
    with pytest.raises(converter.ConversionError, match="cannot be broadcast to X"):
        converter.convert_model(model)


@pytest.mark.parametrize("axis", [None, 0, 1, -2])
def test_rms_normalization(axis: int | None) -> None:
    at = 2 if axis is None else axis % 3
    for dtype in schema_types("RMSNormalization", 23):
        for other in {dtype, np.dtype(np.float32)}:
            x, scale = normal(3, 4, 5).astype(dtype), normal(*(3, 4, 5)[at:]).astype(other)
            wide = x.astype(np.float64)
            made = wide / np.sqrt((wide * wide).mean(tuple(range(at, 3)), keepdims=True) + 1e-3)
            expected = (made.astype(dtype).astype(np.float64) * scale.astype(np.float64)).astype(other)
            attributes = {"epsilon": 1e-3} | ({} if axis is None else {"axis": axis})
            model = node_model(
                "RMSNormalization", {"x": x}, opset=23, attributes=attributes, constants={"scale": scale},
                shapes={"x": ["n", None, "m"]},
            )  # fmt: skip
            check_node(model, {"x": x}, [expected], **coarse(dtype))


def test_rms_normalization_of_large_float16() -> None:
    x, scale = (normal(2, 8) * 1000).astype(np.float16), np.ones(8, np.float16)
    wide = x.astype(np.float64)
    expected = (wide / np.sqrt((wide * wide).mean(1, keepdims=True))).astype(np.float16)
    check_node(node_model("RMSNormalization", {"x": x, "s": scale}, opset=23), {"x": x, "s": scale}, [expected])


@pytest.mark.parametrize("opset", [9, 13])
@pytest.mark.parametrize("axes", [None, [2, 3], [0, 1, 2, 3], [-1]])
def test_mean_variance_normalization(opset: int, axes: list[int] | None) -> None:
    for dtype in schema_types("MeanVarianceNormalization", opset):
        x = normal(2, 3, 4, 5).astype(dtype)
        attributes = {} if axes is None else {"axes": axes}
        expected = standardized(x, tuple(axes or (0, 2, 3)), 0.0).astype(dtype)
        model = node_model("MeanVarianceNormalization", {"x": x}, opset=opset, attributes=attributes)
        check_node(model, {"x": x}, [expected], **coarse(dtype))


# --- LRN, LpNormalization ---


def lrn(x: np.ndarray, size: int, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0) -> np.ndarray:
    """The schema's formula; onnxruntime takes odd sizes and four dimensions alone."""
    wide = x.astype(np.float64)
    padding = [(0, 0), ((size - 1) // 2, size // 2), *[(0, 0)] * (x.ndim - 2)]
    squares = np.pad(wide * wide, padding)
    sums = sum(squares[:, k : k + x.shape[1]] for k in range(size))
    return (wide / (bias + alpha / size * sums) ** beta).astype(x.dtype)


@pytest.mark.parametrize("opset", [1, 13])
@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 8])
@pytest.mark.parametrize("bias", [1.0, 2.0, 1.5, 0.5])
def test_lrn(opset: int, size: int, bias: float) -> None:
    x = normal(2, 7, 3, 4)
    attributes = {"size": size, "alpha": 0.3, "beta": 0.6, "bias": bias}
    for shapes in (None, {"x": ["n", None, None, "w"]}):
        model = node_model("LRN", {"x": x}, opset=opset, attributes=attributes, shapes=shapes)
        check_node(model, {"x": x}, [lrn(x, size, 0.3, 0.6, bias)])
    if size % 2:
        check_node(model, {"x": x})


@pytest.mark.parametrize("shape", [(2, 7), (2, 7, 5), (2, 7, 2, 3, 2)])
@pytest.mark.parametrize("size", [3, 4])
def test_lrn_of_other_ranks(shape: tuple[int, ...], size: int) -> None:
    x = normal(*shape)
    check_node(node_model("LRN", {"x": x}, opset=13, attributes={"size": size}), {"x": x}, [lrn(x, size)])


@pytest.mark.parametrize("size", [3, 4])
def test_lrn_of_every_type(size: int) -> None:
    for dtype in schema_types("LRN", 13):
        x = normal(2, 7, 3, 4).astype(dtype)
        model = node_model("LRN", {"x": x}, opset=13, attributes={"size": size, "alpha": 0.5})
        check_node(model, {"x": x}, [lrn(x, size, 0.5)])


def test_lrn_errors() -> None:
    with pytest.raises(converter.ConversionError, match="size must be positive"):
        converter.convert_model(node_model("LRN", {"x": normal(2, 7)}, opset=13, attributes={"size": 0}))
    with pytest.raises(converter.ConversionError, match="'size' is required"):
        converter.convert_model(node_model("LRN", {"x": normal(2, 7)}, opset=13))


@pytest.mark.parametrize("opset", [1, 22])
@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("axis", [None, 0, 1, -2])
def test_lp_normalization(opset: int, p: int, axis: int | None) -> None:
    for dtype in schema_types("LpNormalization", opset):
        x = normal(3, 4, 5)
        x[:, 1] = 0
        x = x.astype(dtype)
        wide = x.astype(np.float64)
        norm = np.linalg.norm(wide, p, axis=-1 if axis is None else axis, keepdims=True)
        expected = np.divide(wide, norm, where=norm != 0, out=np.zeros_like(wide)).astype(dtype)
        attributes = {"p": p} | ({} if axis is None else {"axis": axis})
        model = node_model(
            "LpNormalization", {"x": x}, opset=opset, attributes=attributes, shapes={"x": ["n", None, 5]}
        )
        check_node(model, {"x": x}, [expected])


def test_lp_normalization_errors() -> None:
    with pytest.raises(converter.ConversionError, match="p must be 1 or 2"):
        converter.convert_model(node_model("LpNormalization", {"x": normal(2, 3)}, opset=22, attributes={"p": 3}))
    with pytest.raises(converter.ConversionError, match="axis 2 lies outside"):
        converter.convert_model(node_model("LpNormalization", {"x": normal(2, 3)}, opset=22, attributes={"axis": 2}))


def test_common_forms_are_single_layers() -> None:
    batch = converted(node_model("BatchNormalization", {"x": normal(2, 3, 4)}, opset=15, constants=batch_parameters(3)))
    assert batch[0].count(b'type="BatchNormInference"') == 1
    assert batch[0].count(b"<layer ") == 7
    window = converted(node_model("LRN", {"x": normal(2, 7, 3, 4)}, opset=13, attributes={"size": 5}))
    assert window[0].count(b"<layer ") == 4


@pytest.mark.parametrize("shape", [(2, 3, 4), (2, 3, 4, 5)], ids=str)
@pytest.mark.parametrize(
    ("op_type", "parameters", "attributes"),
    [("BatchNormalization", 4, {"training_mode": 1}), ("InstanceNormalization", 2, {"epsilon": 0.01})],
)
def test_unknown_rank(op_type: str, parameters: int, attributes: dict[str, Any], shape: tuple[int, ...]) -> None:
    """The CPU plug-in takes no inputs of unknown rank."""
    rng = np.random.default_rng(8)
    feeds = {"x": rng.uniform(0.1, 1, shape).astype(np.float32)}
    feeds |= {f"p{index}": rng.uniform(0.1, 1, 3).astype(np.float32) for index in range(parameters)}
    outputs = 3 if parameters == 4 else 1
    model = node_model(op_type, feeds, opset=15, attributes=attributes, outputs=outputs, shapes={"x": None})
    check_node(model, feeds, engines=["numpy"])
