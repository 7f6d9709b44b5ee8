"""Models for the page: MobileNetV3-Large with random weights, a large one, and exported ones from onnx's own tests."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import NodeProto, TensorProto, helper, numpy_helper

DATA = Path(onnx.__file__).parent / "backend" / "test" / "data"

BLOCKS = (
    *((3, 16, 16, False, "Relu", 1), (3, 64, 24, False, "Relu", 2), (3, 72, 24, False, "Relu", 1)),
    *((5, 72, 40, True, "Relu", 2), (5, 120, 40, True, "Relu", 1), (5, 120, 40, True, "Relu", 1)),
    *((3, 240, 80, False, "HardSwish", 2), (3, 200, 80, False, "HardSwish", 1), (3, 184, 80, False, "HardSwish", 1)),
    *((3, 184, 80, False, "HardSwish", 1), (3, 480, 112, True, "HardSwish", 1), (3, 672, 112, True, "HardSwish", 1)),
    *((5, 672, 160, True, "HardSwish", 2), (5, 960, 160, True, "HardSwish", 1), (5, 960, 160, True, "HardSwish", 1)),
)
"""Table 1 of https://arxiv.org/abs/1905.02244: kernel, expansion, channels, squeeze-and-excite, activation, stride."""


class _Network:
    def __init__(self) -> None:
        self.nodes: list[NodeProto] = []
        self.weights: list[TensorProto] = []
        self._random = np.random.default_rng(0)

    def emit(self, op_type: str, *inputs: str, **attributes: object) -> str:
        name = f"{op_type.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op_type, inputs, [name], name=name, **attributes))
        return name

    def weight(self, *shape: int) -> str:
        name = f"weight_{len(self.weights)}"
        values = self._random.normal(0, (2 / max(1, np.prod(shape[1:]))) ** 0.5, shape)
        self.weights.append(numpy_helper.from_array(values.astype(np.float32), name))
        return name

    def convolve(self, x: str, before: int, after: int, kernel: int, stride: int = 1, group: int = 1) -> str:
        weights = self.weight(after, before // group, kernel, kernel), self.weight(after)
        pads = [kernel // 2] * 4
        return self.emit("Conv", x, *weights, kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=pads, group=group)

    def excite(self, x: str, channels: int) -> str:
        squeezed = self.emit("GlobalAveragePool", x)
        reduced = self.emit("Relu", self.convolve(squeezed, channels, channels // 4, 1))
        gate = self.emit("HardSigmoid", self.convolve(reduced, channels // 4, channels, 1), alpha=1 / 6, beta=0.5)
        return self.emit("Mul", gate, x)


def mobilenet_v3() -> onnx.ModelProto:
    """MobileNetV3-Large as torch exports it in opset 17, with random weights: 22 MB."""
    network = _Network()
    x = network.emit("HardSwish", network.convolve("image", 3, 16, 3, 2))
    before = 16
    for kernel, expansion, channels, has_excitation, activation, stride in BLOCKS:
        y = x
        if expansion != before:
            y = network.emit(activation, network.convolve(y, before, expansion, 1))
        y = network.emit(activation, network.convolve(y, expansion, expansion, kernel, stride, expansion))
        if has_excitation:
            y = network.excite(y, expansion)
        y = network.convolve(y, expansion, channels, 1)
        x = network.emit("Add", x, y) if stride == 1 and channels == before else y
        before = channels
    x = network.emit("HardSwish", network.convolve(x, 160, 960, 1))
    x = network.emit("Flatten", network.emit("GlobalAveragePool", x))
    x = network.emit("HardSwish", network.emit("Gemm", x, network.weight(1280, 960), network.weight(1280), transB=1))
    x = network.emit("Gemm", x, network.weight(1000, 1280), network.weight(1000), transB=1)
    graph = helper.make_graph(
        network.nodes,
        "mobilenet_v3_large",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["n", 3, 224, 224])],
        [helper.make_tensor_value_info(x, TensorProto.FLOAT, ["n", 1000])],
        network.weights,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def large(size: int) -> onnx.ModelProto:
    """A chain of matrix multiplications with ``size`` bytes of weights or more."""
    network, width = _Network(), 4096
    x = "x"
    for _ in range(-(-size // (width * width * 4))):
        x = network.emit("Tanh", network.emit("MatMul", x, network.weight(width, width)))
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", width]) for name in ("x", x)]
    graph = helper.make_graph(network.nodes, "large", ports[:1], ports[1:], network.weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def exported() -> dict[str, Path]:
    """100 models that PyTorch exported and light ones, by names that are unique.

    Without PRelu of several slopes: onnxruntime has no kernel of its opset 6, and onnx brings it wrongly to later ones.
    """
    found = [*sorted(DATA.glob("light/*.onnx")), *sorted(DATA.glob("pytorch-*/*/model.onnx"))]
    names = {(path.stem if path.parent.name == "light" else path.parent.name): path for path in found}
    return dict([entry for entry in names.items() if "_multiparam" not in entry[0]][:100])
