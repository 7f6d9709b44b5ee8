"""Bodies of iterations that translators spell out themselves."""

from __future__ import annotations

from ir_runtime.graph import Model


def name_layers(body: Model) -> None:
    """Names made of type and number: no node of the ONNX graph stands for these layers."""
    for number, node in enumerate(body.nodes()):
        node.name = f"{node.op.type}_{number}"
