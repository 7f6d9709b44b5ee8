"""Models that show why rules are there, beside the probes: quantised, slow or new plain layers; the installed release."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import openvino

from converter.targets.registry import RULES
from ir_runtime.rewriting.pipeline import release_of
from tests.converter.optimization.models import parse
from tests.converter.targets.probes.rows import Probe, probe, single
from tests.engines import core
from tests.graphs import Graph, Value
from tests.random_data import generator
from tests.rows.row import const

INSTALLED = release_of(openvino.__version__.split("-")[0])
NEEDED = {rule.name for pipeline in RULES for rule in pipeline.all() if rule.holds_for(INSTALLED)}
"""The names of the rules that the installed release needs."""
MEASURED = ("2023.3", "2024.6", "2025.4", "2026.4")
"""The releases in which every probe was run."""
MICROSOFT = "com.microsoft"
Built = tuple[onnx.ModelProto, dict[str, np.ndarray], float]
"""A model, its inputs, and the size of one quantization step of its output."""
Ir = tuple[bytes, bytes]

# --- quantised models of a few layers, as onnxruntime's tools write them ---


class Quantized(Graph):
    """A graph of opset 17 with an input ``x``."""

    def __init__(self, seed: int) -> None:
        super().__init__(opset=17)
        self.r, self.x = generator(seed), self["x"]

    def number(self, value: Any, dtype: Any = np.float32) -> Value:
        return self.constant(np.asarray(value, dtype), dtype)

    def steps(self, x: Value, scale: Any, zero: Any, dtype: Any = np.uint8) -> Value:
        """A value quantised and dequantised, as a QDQ model has it."""
        how = (self.number(scale), self.number(zero, dtype))
        return x.QuantizeLinear(*how, axis=1).DequantizeLinear(*how, axis=1)

    def codes(self, *shape: int) -> Value:
        """Random weights of 7 bits in a type of 8 bits.

        On x64 processors without VNNI instructions the plug-in's sums of products of full 8 bits saturate; nncf's
        overflow fix avoids that in the same way.
        """
        return self.number(self.r.integers(-64, 63, shape, endpoint=True), np.int8)

    def weights(self, *shape: int, by: Any = 0.004, axis: int = 0) -> Value:  # type: ignore[override]
        """Stored 8-bit weights, dequantised by a scale or by as many as ``by`` lists."""
        zeros = self.number(np.zeros(np.shape(by)), np.int8)
        return self.codes(*shape).DequantizeLinear(self.number(by), zeros, axis=axis)

    def scales(self, count: int) -> Any:
        return self.r.uniform(0.001, 0.01, count)

    def built(self, y: Value, step: float, *shape: int) -> Built:
        model = self.model({"x": (np.float32, shape)}, {"y": (y, None)})
        return model, {"x": self.r.normal(size=shape).astype(np.float32)}, step


def convolution(dtype: Any, zero: int, per_channel: bool) -> Built:
    g = Quantized(3)
    weights = g.weights(8, 4, 3, 3, by=g.scales(8) if per_channel else 0.004)
    y = g.steps(g.x, 0.02, zero, dtype).Conv(weights, g.number(g.r.normal(size=8))).Relu()
    return g.built(g.steps(y, 0.03, zero, dtype), 0.03, 1, 4, 12, 12)


def qlinear(group: int, residual: bool = False) -> Built:
    """A QOperator file: convolution, pooling and a product, all in 8 bits."""
    g = Quantized(8)
    x, a, b, y = ((g.number(scale), g.number(zero, np.uint8))
                  for scale, zero in ((0.02, 12), (0.05, 3), (0.06, 50), (0.08, 60)))  # fmt: skip
    bias, steps, none = g.r.integers(-3000, 3000, 8), g.r.uniform(0.004, 0.012, 8), np.zeros(8)
    q, how = g.x.QuantizeLinear(*x), (g.number(steps), g.number(none, np.int8))
    codes = g.codes(8, 8 // group, 3, 3)
    made = g("QLinearConv", q, *x, codes, *how, *a, g.number(bias, np.int32), group=group, pads=[1, 1, 1, 1])
    if residual:
        made = g("QLinearAdd", made, *a, q, *x, *b, domain=MICROSOFT)
    made, of = made.MaxPool(kernel_shape=[2, 2], strides=[2, 2]), b if residual else a
    if residual:  # what was pooled is read by two layers of other scales
        made = g("QLinearAdd", made, *b, made, x[0], b[1], *b, domain=MICROSOFT)
    made = made.Flatten().QLinearMatMul(*of, g.codes(72, 16), g.number(0.006), g.number(0, np.int8), *y)
    return g.built(made.DequantizeLinear(*y), 0.08, 1, 8, 6, 6)


def ran_in_8_bits(ir: Ir) -> Counter[str]:
    infos = [layer.get_rt_info() for layer in runtime_layers(ir)]
    narrow = [
        info for info in infos if "runtimePrecision" in info and info["runtimePrecision"].astype(str) in ("u8", "i8")
    ]
    return Counter(info["layerType"].astype(str) for info in narrow)


def runtime_layers(ir: Ir) -> Sequence[Any]:
    compiled = core().compile_model(core().read_model(*ir), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    return compiled.get_runtime_model().get_ops()


def executed(ir: Ir) -> Counter[str]:
    return Counter(layer.get_rt_info()["layerType"].astype(str) for layer in runtime_layers(ir))


W = np.arange(12, dtype=np.float32).reshape(4, 3)


def graph(nodes: str, outputs: Sequence[str], **constants: Any) -> onnx.ModelProto:
    return parse(f"g (float[2, 4] x) => ({', '.join(outputs)}) {{ {nodes} }}", **constants)


def there_and_back(*outputs: str) -> onnx.ModelProto:
    """Whole numbers that become integers and floats again."""
    return graph("r = Round (x) m = MatMul (r, w) i = Cast <to = 6> (m) y = Cast <to = 1> (i)", outputs, w=W)


# --- models whose plain layers the plug-in runs slowly, and what tells that it does not run them so ---


@dataclass(frozen=True)
class SpeedRow:
    """A model that the plug-in runs fast only where the rule has changed it."""

    rule: str
    build: Callable[[], onnx.ModelProto]
    is_fast: Callable[[Ir], bool]

    def __str__(self) -> str:
        return self.rule


def gated_delta_rule() -> onnx.ModelProto:
    """Linear attention with one decay for each head, which exporters scale by another factor than the usual one."""
    return parse("""g (float[b, t, 16] q, float[b, t, 16] k, float[b, t, 8] v, float[b, 2, 8, 4] state,
        float[b, t, 2] decay, float[b, t, 2] beta) => (float[b, t, 8] y, float[b, 2, 8, 4] next) {
        y, next = com.microsoft.LinearAttention <q_num_heads = 2, kv_num_heads = 2, scale = 0.5>
        (q, k, v, state, decay, beta) }""", 21, ', "com.microsoft" : 1')  # fmt: skip


def makes_no_layers(ir: Ir) -> bool:
    """Whether every layer that the plug-in runs is one of the IR, or several of them."""
    known = {layer.get_friendly_name() for layer in core().read_model(*ir).get_ops()}
    run = [layer.get_rt_info() for layer in runtime_layers(ir)]
    names = [info["originalLayersNames"].astype(str) for info in run if info["layerType"].astype(str) != "Const"]
    return {name for joined in names if joined for name in joined.split(",")} <= known


NORMALIZATION = """t (float[n, 3, 9] x) => (float[n, 3, 9] y) {
    s = Conv(x, w) r = Relu(s) u = BatchNormalization(r, f, f, f, f) y = Relu(u) }"""
KERNEL, FACTORS = np.arange(1, 10, dtype=np.float32).reshape(3, 3, 1), np.float32([2, 3, 4])
BEST = "g (float[1, 40000] x) => (float[1, 250] values, int64[1, 250] indices) { values, indices = TopK(x, count) }"
PRODUCT = "g (float[n, 3, 16] x) => (float[n, 3, 8] y) { y = MatMul(x, w) }"
SLOW = [
    SpeedRow("batch_normalizations", lambda: parse(NORMALIZATION, w=KERNEL, f=FACTORS), makes_no_layers),
    SpeedRow("fake_quantize", lambda: convolution(np.uint8, 117, True)[0],
             lambda ir: ran_in_8_bits(ir)["Convolution"] == 1),
    SpeedRow("gated_delta_net_loops", gated_delta_rule, lambda ir: executed(ir)["GatedDeltaNet"] == 1),
    SpeedRow("quantized_products", lambda: qlinear(1)[0], lambda ir: ran_in_8_bits(ir)["Convolution"] == 1),
    # Three TopK layers that sort fast run in place of one that is slow (2.7 and 639 ms for 300 of 672000).
    SpeedRow("stable_top_k", lambda: parse(BEST, count=[250]), lambda ir: executed(ir)["TopK"] == 3),
    SpeedRow("transposed_weights", lambda: parse(PRODUCT, w=np.ones((16, 8), np.float32)),
             lambda ir: executed(ir)["Transpose"] == 0),
    SpeedRow("integer_round_trips", lambda: there_and_back("y"), lambda ir: executed(ir)["Convert"] == 0),
]  # fmt: skip

# --- models whose plain layers are newer than a release, and the rules that express them by older ones ---


def rounded_up(
    name: str, op_type: str, kernel: Any, strides: Any, pads: Any, *, dims: Any = None, **more: Any
) -> Probe:
    x, outputs = generator(5).normal(size=(1, 2, 6, 11)).astype(np.float32), 2 if op_type == "MaxPool" else 1
    sizes = {"kernel_shape": kernel, "strides": strides, "pads": pads, "ceil_mode": 1, **more}
    row = single(op_type, 19, x=x, outputs=outputs, dims=dims, **sizes)
    return probe(f"rounded_up_poolings: {op_type}-{name}", "", row)


def shifted(name: str, amounts: Any, dtype: Any = np.uint32) -> Probe:
    x = generator(4).integers(2**29, 2**31, 6).astype(dtype)
    row = single("BitShift", 11, x=x, n=const(amounts, dtype), direction="RIGHT")
    return probe(f"bitwise_shifts{name}", "", row)


MANY = generator(2).integers(-(2**20), 2**20, (2, 3000)).astype(np.int32)
"""Their sum is made of groups of bits, which are put together by shifts."""
RULED = [
    *(rounded_up(f"{name}{'-dynamic' if dims else ''}", op_type, *windows, dims=dims)
      for dims in (None, {"x": [None] * 4}) for op_type in ("AveragePool", "MaxPool") for name, windows in (
        ("none-behind", ([2, 3], [2, 2], [0, 0, 0, 1])), ("some-behind", ([2, 2], [4, 3], [1, 1, 1, 1])),
        ("not-padded", ([2, 2], [5, 4], [0, 0, 0, 0]))) if (op_type, name) != ("MaxPool", "none-behind")),
    rounded_up("pads-count", "AveragePool", [4, 3], [1, 2], [3, 1, 3, 0], count_include_pad=1),
    rounded_up("dilated", "MaxPool", [2, 3], [3, 2], [1, 1, 1, 1], dilations=[2, 2]),
    probe("bitwise_shifts: of a sum", "", single("ReduceSum", 11, x=MANY, axes=[1], keepdims=0)),
    shifted("", [3]), shifted(": far", [8, 9, 15, 16, 29, 30]), shifted(": little", [0, 1, 2, 7, 8, 5]),
    shifted(": i64", [5], np.uint64),
]  # fmt: skip
