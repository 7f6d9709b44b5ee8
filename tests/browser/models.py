"""Models for the page: MobileNetV3-Large with random weights, a large one, and exported ones from onnx's own tests."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx

from tests.graphs import Graph, Value

DATA = Path(onnx.__file__).parent / "backend" / "test" / "data"

BLOCKS = (
    *((3, 16, 16, False, "Relu", 1), (3, 64, 24, False, "Relu", 2), (3, 72, 24, False, "Relu", 1)),
    *((5, 72, 40, True, "Relu", 2), (5, 120, 40, True, "Relu", 1), (5, 120, 40, True, "Relu", 1)),
    *((3, 240, 80, False, "HardSwish", 2), (3, 200, 80, False, "HardSwish", 1), (3, 184, 80, False, "HardSwish", 1)),
    *((3, 184, 80, False, "HardSwish", 1), (3, 480, 112, True, "HardSwish", 1), (3, 672, 112, True, "HardSwish", 1)),
    *((5, 672, 160, True, "HardSwish", 2), (5, 960, 160, True, "HardSwish", 1), (5, 960, 160, True, "HardSwish", 1)),
)
"""Table 1 of https://arxiv.org/abs/1905.02244: kernel, expansion, channels, squeeze-and-excite, activation, stride."""


class _Network(Graph):
    def __init__(self) -> None:
        super().__init__(opset=17)

    def he(self, *shape: int) -> Value:
        return self.weight(*shape, scale=2**0.5, depth=max(1, int(np.prod(shape[1:]))))

    def convolve(self, x: str, before: int, after: int, kernel: int, stride: int = 1, group: int = 1) -> Value:
        weights = self.he(after, before // group, kernel, kernel), self.he(after)
        pads = [kernel // 2] * 4
        return self("Conv", x, *weights, kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=pads, group=group)

    def excite(self, x: Value, channels: int) -> Value:
        reduced = self.convolve(x.GlobalAveragePool(), channels, channels // 4, 1).Relu()
        return self.convolve(reduced, channels // 4, channels, 1).HardSigmoid(alpha=1 / 6, beta=0.5) * x


def mobilenet_v3() -> onnx.ModelProto:
    """MobileNetV3-Large as torch exports it in opset 17, with random weights: 22 MB."""
    network = _Network()
    x = network.convolve("image", 3, 16, 3, 2).HardSwish()
    before = 16
    for kernel, expansion, channels, has_excitation, activation, stride in BLOCKS:
        y = x
        if expansion != before:
            y = network(activation, network.convolve(y, before, expansion, 1))
        y = network(activation, network.convolve(y, expansion, expansion, kernel, stride, expansion))
        if has_excitation:
            y = network.excite(y, expansion)
        y = network.convolve(y, expansion, channels, 1)
        x = x + y if stride == 1 and channels == before else y
        before = channels
    x = network.convolve(x, 160, 960, 1).HardSwish().GlobalAveragePool().Flatten()
    x = x.Gemm(network.he(1280, 960), network.he(1280), transB=1).HardSwish()
    x = x.Gemm(network.he(1000, 1280), network.he(1000), transB=1)
    return network.model({"image": (np.float32, ["n", 3, 224, 224])}, {"scores": (x, ["n", 1000])})


def large(size: int) -> onnx.ModelProto:
    """A chain of matrix multiplications with ``size`` bytes of weights or more."""
    network, width = _Network(), 4096
    x = network["x"]
    for _ in range(-(-size // (width * width * 4))):
        x = (x @ network.he(width, width)).Tanh()
    return network.model({"x": (np.float32, ["n", width])}, {"y": (x, ["n", width])})


def exported() -> dict[str, Path]:
    """100 models that PyTorch exported and light ones, by names that are unique.

    Without PRelu of several slopes: onnxruntime has no kernel of its opset 6, and onnx brings it wrongly to later ones.
    """
    found = [*sorted(DATA.glob("light/*.onnx")), *sorted(DATA.glob("pytorch-*/*/model.onnx"))]
    names = {(path.stem if path.parent.name == "light" else path.parent.name): path for path in found}
    return dict([entry for entry in names.items() if "_multiparam" not in entry[0]][:100])
