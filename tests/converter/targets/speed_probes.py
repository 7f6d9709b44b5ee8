"""Quantised models whose plain layers the plug-in runs slowly, and what tells that it does not run them so."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import onnx

from tests.engines import core

from .quantized_models import convolution, qlinear, ran_in_8_bits, there_and_back

Ir = tuple[bytes, bytes]


@dataclass(frozen=True)
class SpeedRow:
    """A model that the plug-in runs fast only where the rule has changed it."""

    rule: str
    build: Callable[[], onnx.ModelProto]
    is_fast: Callable[[Ir], bool]

    def __str__(self) -> str:
        return self.rule


def executed(ir: Ir) -> Counter[str]:
    """How many layers of each kind the plug-in runs."""
    compiled = core().compile_model(core().read_model(*ir), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    layers = compiled.get_runtime_model().get_ops()
    return Counter(layer.get_rt_info()["layerType"].astype(str) for layer in layers)


def is_convolution_in_8_bits(ir: Ir) -> bool:
    return ran_in_8_bits(ir)["Convolution"] == 1


def converts_nothing(ir: Ir) -> bool:
    return executed(ir)["Convert"] == 0


def transposes_nothing(ir: Ir) -> bool:
    return executed(ir)["Transpose"] == 0


def product() -> onnx.ModelProto:
    """A product with constant weights, a column for each output."""
    return onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[n, 3, 16] x) => (float[n, 3, 8] y) <float[16, 8] w = {WEIGHTS}> { y = MatMul(x, w) }
        """.replace("WEIGHTS", ", ".join(["1"] * 128))
    )


def gated_delta_rule() -> onnx.ModelProto:
    """Linear attention with one decay for each head, which exporters scale by another factor than the usual one."""
    return onnx.parser.parse_model(
        """<ir_version: 10, opset_import: ["" : 21, "com.microsoft" : 1]>
        g (float[b, t, 16] q, float[b, t, 16] k, float[b, t, 8] v, float[b, 2, 8, 4] state, float[b, t, 2] decay,
           float[b, t, 2] beta) => (float[b, t, 8] y, float[b, 2, 8, 4] next) {
            y, next = com.microsoft.LinearAttention <q_num_heads = 2, kv_num_heads = 2, scale = 0.5>
                (q, k, v, state, decay, beta) }
        """
    )


def runs_one_layer_for_the_loop(ir: Ir) -> bool:
    return executed(ir)["GatedDeltaNet"] == 1


def makes_no_layers(ir: Ir) -> bool:
    """Whether every layer that the plug-in runs is one of the IR, or several of them."""
    model = core().read_model(*ir)
    known = {layer.get_friendly_name() for layer in model.get_ops()}
    compiled = core().compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    run = [layer.get_rt_info() for layer in compiled.get_runtime_model().get_ops()]
    names = [info["originalLayersNames"].astype(str) for info in run if info["layerType"].astype(str) != "Const"]
    return {name for joined in names if joined for name in joined.split(",")} <= known


def normalization() -> onnx.ModelProto:
    """A batch normalization between two activations."""
    constants = " ".join(f"{name} = Constant<value_floats=[2.0, 3.0, 4.0]>()" for name in "gbmv")
    return onnx.parser.parse_model(
        f"""<ir_version: 8, opset_import: ["" : 17]> t (float[n, 3, 9] x) => (float[n, 3, 9] y) {{
            {constants} w = Constant<value = float[3, 3, 1] {{1, 2, 3, 4, 5, 6, 7, 8, 9}}>()
            s = Conv(x, w) r = Relu(s) u = BatchNormalization(r, g, b, m, v) y = Relu(u) }}"""
    )


def best_of_many() -> onnx.ModelProto:
    """The best boxes of a detector."""
    return onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[1, 40000] x) => (float[1, 250] values, int64[1, 250] indices) <int64[1] count = {250}> {
            values, indices = TopK(x, count) }
        """
    )


def sorts_by_keys(ir: Ir) -> bool:
    """Whether three TopK layers that sort fast run in place of one that is slow (2.7 and 639 ms for 300 of 672000)."""
    return executed(ir)["TopK"] == 3


ROWS = [
    SpeedRow("batch_normalizations", normalization, makes_no_layers),
    SpeedRow("fake_quantize", lambda: convolution(np.uint8, 117, True)[0], is_convolution_in_8_bits),
    SpeedRow("gated_delta_net_loops", gated_delta_rule, runs_one_layer_for_the_loop),
    SpeedRow("quantized_products", lambda: qlinear(1)[0], is_convolution_in_8_bits),
    SpeedRow("stable_top_k", best_of_many, sorts_by_keys),
    SpeedRow("transposed_weights", product, transposes_nothing),
    SpeedRow("integer_round_trips", lambda: there_and_back("y"), converts_nothing),
]
