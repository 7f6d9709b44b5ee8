"""Caches of keys and values in 8 and 4 bits, and those that another layer fills, against onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

import converter
from tests.engines import ENGINES, assert_close, check_node, converted, node_model, run, run_onnxruntime
from tests.random_data import generator

RNG = generator(67)
HEADS, SHARED, WIDTH = 4, 2, 8


def f(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def model(
    feeds: dict[str, Any], scales: dict[str, Any], *, packed: bool, shapes: Any = None, **given: Any
) -> onnx.ModelProto:
    parts = ["q", "", ""] if packed else ["q", "k", "v"]
    order = [*parts, "pk", "pv", "lengths", "total", *([""] * 5 + list(scales) if scales else [])]
    return node_model(
        "GroupQueryAttention",
        feeds,
        constants=scales,
        order=order,
        attributes={"num_heads": HEADS, "kv_num_heads": SHARED, **given},
        opset=1,
        outputs=3,
        domain="com.microsoft",
        shapes=shapes,
    )


def step(steps: int, past: int, bits: int, room: int = 0) -> dict[str, Any]:
    """Queries with their keys and values, and a cache of ``past`` keys with some room behind them."""
    kind = np.int8 if bits == 8 else np.uint8
    shape = (1, SHARED, past + room, WIDTH * bits // 8)
    info = np.iinfo(kind)
    held = [RNG.integers(info.min, info.max + 1, shape).astype(kind) for _ in range(2)]
    return {
        "q": f(1, steps, (HEADS + 2 * SHARED) * WIDTH),
        "pk": held[0],
        "pv": held[1],
        "lengths": np.array([past + steps - 1], np.int32),
        "total": np.array(past + steps, np.int32),
    }


def scales_of(mode: str) -> dict[str, np.ndarray]:
    shape = (1,) if mode == "PER_TENSOR" else (SHARED * WIDTH,)
    return {name: RNG.uniform(0.02, 0.3, shape).astype(np.float32) for name in ("ks", "vs")}


@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.parametrize("mode", ["PER_TENSOR", "PER_CHANNEL"])
@pytest.mark.parametrize("steps", [1, 3])
@pytest.mark.parametrize("dynamic", [False, True])
def test_quantised(bits: int, mode: str, steps: int, dynamic: bool) -> None:
    feeds, width = step(steps, 5, bits), WIDTH * bits // 8
    whole = (HEADS + 2 * SHARED) * WIDTH
    shapes = {"q": [1, "s", whole], "pk": [1, SHARED, "p", width], "pv": [1, SHARED, "p", width]} if dynamic else None
    given = {"k_quant_type": mode, "v_quant_type": mode, "kv_cache_bit_width": bits}
    check_node(model(feeds, scales_of(mode), packed=True, shapes=shapes, **given), feeds)


@pytest.mark.parametrize("bits", [8, 4])
def test_quantised_with_room(bits: int) -> None:
    """What stands behind the keys is not defined."""
    feeds = step(1, 3, bits, room=4)
    given = {"k_quant_type": "PER_TENSOR", "v_quant_type": "PER_TENSOR", "kv_cache_bit_width": bits}
    made = model(feeds, scales_of("PER_TENSOR"), packed=True, local_window_size=2, **given)
    check_node(made, feeds, run_onnxruntime(made, feeds)[:1])


@pytest.mark.parametrize("dynamic", [False, True])
def test_keys_of_another_layer(dynamic: bool) -> None:
    """No keys come with the queries: they stand in the cache already."""
    feeds = {
        "q": f(1, 1, HEADS * WIDTH),
        "k": f(1, 0, SHARED * WIDTH),
        "v": f(1, 0, SHARED * WIDTH),
        "pk": f(1, SHARED, 4, WIDTH),
        "pv": f(1, SHARED, 4, WIDTH),
        "lengths": np.array([3], np.int32),
        "total": np.array(4, np.int32),
    }
    shapes = {"q": [1, "s", HEADS * WIDTH], "pk": [1, SHARED, "p", WIDTH], "pv": [1, SHARED, "p", WIDTH]}
    check_node(model(feeds, {}, packed=False, shapes=shapes if dynamic else None), feeds)


@pytest.mark.parametrize(
    ("bits", "given", "with_scales", "message"),
    [
        (8, {"k_quant_type": "PER_ROW"}, True, "k_quant_type must be one of"),
        (8, {}, True, "k_scale is given"),
        (8, {"k_quant_type": "PER_TENSOR", "v_quant_type": "PER_TENSOR", "kv_cache_bit_width": 8}, False, "needs both"),
        (
            4,
            {"k_quant_type": "PER_TENSOR", "v_quant_type": "PER_TENSOR", "kv_cache_bit_width": 8},
            True,
            "u8 with 8 bits",
        ),
    ],
)
def test_contradictions(bits: int, given: dict[str, Any], with_scales: bool, message: str) -> None:
    scales = scales_of("PER_TENSOR") if with_scales else {}
    with pytest.raises(converter.ConversionError, match=message):
        converter.convert_model(model(step(1, 3, bits), scales, packed=True, **given))


def cached_keys(total: int, capacity: int, window: int) -> int:
    """How many keys the cache of a window has after ``total`` of them."""
    group = capacity - window + 1
    return total if total <= capacity else total - group * -(-(total - capacity) // group)


WINDOWS = [
    *((4, 4, total, 1) for total in (1, 3, 4, 5, 9)),
    *((6, 4, total, 1) for total in (5, 6, 7, 8, 9, 10)),
    (4, 2, 3, 3),
    (4, 2, 6, 6),
    (5, 3, 9, 3),
    (8, 3, 12, 5),
    (1, 1, 4, 1),
]


@pytest.mark.parametrize(("capacity", "window", "total", "steps"), WINDOWS)
@pytest.mark.parametrize("form", ["plain", "dynamic", "rotary", "quantised"])
def test_cache_of_a_window(capacity: int, window: int, total: int, steps: int, form: str) -> None:
    """The keys of the cache are compared as far as there are any."""
    width, bits = 16 if form in ("rotary", "quantised") else WIDTH, 8
    whole = (HEADS + 2 * SHARED) * width
    given: dict[str, Any] = {"local_window_size": window, "sliding_window_cache": 1}
    cache = (1, SHARED, capacity, width)
    feeds: dict[str, Any] = {"q": f(1, steps, whole), "pk": f(*cache), "pv": f(*cache)}
    scales: dict[str, Any] = {}
    if form == "quantised":
        feeds |= {name: RNG.integers(-128, 128, cache).astype(np.int8) for name in ("pk", "pv")}
        scales = scales_of("PER_TENSOR")
        given |= {"k_quant_type": "PER_TENSOR", "v_quant_type": "PER_TENSOR", "kv_cache_bit_width": bits}
    feeds |= {"lengths": np.array([total - 1], np.int32), "total": np.array(total, np.int32)}
    shapes = {"q": [1, "s", whole], "pk": [1, SHARED, "c", width], "pv": [1, SHARED, "c", width]}
    if form == "rotary":
        feeds |= {"cos": f(32, 8), "sin": f(32, 8)}
        given["do_rotary"] = 1
    made = model(feeds, scales, packed=True, shapes=shapes if form == "dynamic" else None, **given)
    if form == "rotary":
        made.graph.node[0].input.extend(["cos", "sin"])
    wanted, left = run_onnxruntime(made, feeds), cached_keys(total, capacity, window)
    ir = converted(made)
    for engine in ENGINES:
        y, *present = run(engine, ir, feeds)
        assert_close(y, wanted[0])
        for mine, theirs in zip(present, wanted[1:]):
            assert mine.shape == theirs.shape
            assert_close(mine[:, :, :left], theirs[:, :, :left])


def test_window_of_a_batch() -> None:
    """Rows of their own lengths, one key each; those of the cache are compared as far as there are any."""
    totals, capacity, window = [3, 5, 8], 4, 3
    cache = (3, SHARED, capacity, WIDTH)
    feeds = {
        "q": f(3, 1, (HEADS + 2 * SHARED) * WIDTH),
        "pk": f(*cache),
        "pv": f(*cache),
        "lengths": np.array(totals, np.int32) - 1,
        "total": np.array(max(totals), np.int32),
    }
    made = model(feeds, {}, packed=True, local_window_size=window, sliding_window_cache=1)
    wanted, ir = run_onnxruntime(made, feeds), converted(made)
    for engine in ENGINES:
        y, *present = run(engine, ir, feeds)
        assert_close(y, wanted[0])
        for mine, theirs in zip(present, wanted[1:]):
            for row, total in enumerate(totals):
                left = cached_keys(total, capacity, window)
                assert_close(mine[row, :, :left], theirs[row, :, :left])


@pytest.mark.parametrize("window", [-1, 0, 5])
def test_window_that_the_cache_has_no_room_for(window: int) -> None:
    feeds = step(1, 4, 8)
    feeds |= {name: f(1, SHARED, 4, WIDTH) for name in ("pk", "pv")}
    made = model(feeds, {}, packed=True, local_window_size=window, sliding_window_cache=1)
    with pytest.raises(converter.ConversionError, match="a cache with room"):
        converter.convert_model(made)


def normed(packed: np.ndarray, weights: dict[str, np.ndarray], epsilons: tuple[float, float]) -> np.ndarray:
    """Queries, keys and values with every head of the first two divided by its root mean square, by hand."""
    heads = packed.reshape(*packed.shape[:2], -1, WIDTH).astype(np.float64)
    for part, name, epsilon in ((slice(0, HEADS), "qn", epsilons[0]), (slice(HEADS, -SHARED), "kn", epsilons[1])):
        mean = np.mean(heads[:, :, part] ** 2, -1, keepdims=True)
        heads[:, :, part] *= weights[name] / np.sqrt(mean + epsilon)
    return heads.reshape(packed.shape).astype(np.float32)


@pytest.mark.parametrize(
    ("given", "epsilons"),
    [
        ({}, (0.1, 0.1)),
        ({"q_norm_epsilon": 1e-3}, (1e-3, 0.1)),
        ({"q_norm_epsilon": 0.5, "k_norm_epsilon": 1e-4}, (0.5, 1e-4)),
    ],
)
def test_each_normalisation_has_its_epsilon(given: dict[str, float], epsilons: tuple[float, float]) -> None:
    """onnxruntime's CPU kernel does not normalise: it gets what is normalised already."""
    feeds = {
        "q": f(1, 3, (HEADS + 2 * SHARED) * WIDTH) * 0.1,
        **{name: f(1, SHARED, 0, WIDTH) for name in ("pk", "pv")},
    }
    feeds |= {"lengths": np.array([2], np.int32), "total": np.array(3, np.int32)}
    weights = {"qn": f(WIDTH), "kn": f(WIDTH)}
    order = ["q", "", "", "pk", "pv", "lengths", "total", *[""] * 7, "qn", "kn"]
    made = node_model(
        "GroupQueryAttention",
        feeds,
        constants=weights,
        order=order,
        attributes={"num_heads": HEADS, "kv_num_heads": SHARED, "qk_norm_epsilon": 0.1, **given},
        opset=1,
        outputs=3,
        domain="com.microsoft",
    )
    ready = {**feeds, "q": normed(feeds["q"], weights, epsilons)}
    check_node(made, feeds, run_onnxruntime(model(ready, {}, packed=True), ready))


def filled_up(form: str) -> tuple[onnx.ModelProto, dict[str, Any], list[int]]:
    """Chunks of three rows in which some queries only fill up, and how many keys each row has after it."""
    valid, totals = [4, 2, 0], [4, 7, 3]
    if form == "first":
        valid, totals = [4, 2, 1], [4, 2, 1]
    steps, room, width = 4, 12, 16
    whole, cache = (HEADS + 2 * SHARED) * width, (3, SHARED, room, width)
    feeds: dict[str, Any] = {"q": f(3, steps, whole), "pk": f(*cache), "pv": f(*cache)}
    feeds |= {"lengths": np.array(totals, np.int32) - 1, "total": np.array(max(totals), np.int32)}
    feeds |= {"cos": f(32, 8), "sin": f(32, 8), "valid": np.array(valid, np.int32)}
    given: dict[str, Any] = {"do_rotary": 1}
    if form == "windowed":
        given["local_window_size"] = 2
    if form == "window of a cache":
        given |= {"local_window_size": 3, "sliding_window_cache": 1}
        for name in ("pk", "pv"):
            feeds[name] = feeds[name][:, :, :5]
    order = ["q", "", "", "pk", "pv", "lengths", "total", "cos", "sin", *[""] * 7, "valid"]
    attributes = {"num_heads": HEADS, "kv_num_heads": SHARED, **given}
    shapes = {"q": ["b", "s", whole], **{name: ["b", SHARED, "c", width] for name in ("pk", "pv")}}
    made = node_model(
        "GroupQueryAttention",
        feeds,
        order=order,
        attributes=attributes,
        opset=1,
        outputs=3,
        domain="com.microsoft",
        shapes=shapes if form == "open" else None,
    )
    return made, feeds, totals


@pytest.mark.parametrize("form", ["first", "later", "open", "windowed", "window of a cache"])
def test_chunks_that_are_filled_up(form: str) -> None:
    """What comes of the queries that fill up, and what stands behind the keys, is not defined."""
    made, feeds, totals = filled_up(form)
    wanted, ir = run_onnxruntime(made, feeds), converted(made)
    room = feeds["pk"].shape[2]
    for engine in ENGINES:
        found = run(engine, ir, feeds)
        for mine, theirs in zip(found, wanted, strict=True):
            assert mine.shape == theirs.shape
        for row, (valid, total) in enumerate(zip(feeds["valid"], totals)):
            assert_close(found[0][row, :valid], wanted[0][row, :valid])
            left = cached_keys(total, room, 3) if form == "window of a cache" else total
            for mine, theirs in zip(found[1:], wanted[1:]):
                assert_close(mine[row, :, :left], theirs[row, :, :left])


def test_chunks_that_are_filled_up_need_a_past() -> None:
    made, _, _ = filled_up("later")
    made.graph.node[0].attribute.append(onnx.helper.make_attribute("causal", 0))
    with pytest.raises(converter.ConversionError, match="query_seqlens goes with causal attention"):
        converter.convert_model(made)
