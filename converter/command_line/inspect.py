"""``onnx2ir inspect``: what is in a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from converter.command_line.drawing import json_text, new_table, out, size_text
from converter.command_line.program import main
from converter.command_line.state import MODEL_FILE, State, guarded

if TYPE_CHECKING:
    from ir_runtime import Port


@main.command()
@click.argument("ir", type=MODEL_FILE)
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
@guarded
def inspect(state: State, ir: Path, as_json: bool) -> None:
    """Show inputs, outputs, layers and weights of the IR (.xml).

    \b
    Example:
      onnx2ir inspect model.xml
    """
    summary = summary_of(ir)
    if as_json:
        click.echo(json_text(summary))
        return
    from rich.markup import escape

    table = new_table("", "name", "type", "shape")
    for side in ("inputs", "outputs"):
        for port in summary[side]:
            table.add_row(side[:-1], escape(port["name"]), port["type"], port["shape"])
    out().print(table)
    layers = new_table("layer", "count")
    for name, count in summary["layers"].items():
        layers.add_row(name, str(count))
    out().print(layers)
    out().print(f"weights: {size_text(summary['weight_bytes'])}")


def summary_of(ir: Path) -> dict[str, Any]:
    from collections import Counter

    from ir_runtime import read_model
    from ir_runtime.executor import ports_of

    model = read_model(ir)
    inputs, outputs = ports_of(model)

    def described(ports: list[Port]) -> list[dict[str, str]]:
        return [{"name": port.name, "type": str(port.element_type), "shape": str(port.partial_shape)} for port in ports]

    nodes = [node for part in model.all_models() for node in part.nodes()]
    counts = Counter(f"{node.op.type}-{node.op.opset}" for node in nodes)
    return {
        "inputs": described(inputs),
        "outputs": described(outputs),
        "layers": dict(sorted(counts.items())),
        "weight_bytes": sum(node.op.data.byte_size for node in nodes if node.op.data is not None),
    }
