"""Layers and bytes of XML of our IR beside those of the IR that OpenVINO's own converter saves of the same file.

    python benchmarks/layer_counts.py MODEL.onnx ... [--target cpu] [--types MODEL] [--markdown]

Constants, parameters and results do not count, bodies do. Layers that compute weights from constants alone, such as
the Broadcast of one number, stand in a column of their own: they keep the file small, OpenVINO's converter writes the
weights instead. ``--types`` counts each type of layer where both differ. OpenVINO's converter runs in a process of its
own, because some models crash it. Models that it refuses, or that crash it, are listed and left out of the sums.
"""

from __future__ import annotations

import argparse
import collections
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import quiet_peers  # noqa: F401

import converter

_APART = ("Const", "Parameter", "Result")
_THEIRS = """
import openvino, sys
openvino.save_model(openvino.convert_model(sys.argv[1]), sys.argv[2], compress_to_fp16=False)
"""


class Saved(NamedTuple):
    """What a saved IR consists of."""

    types: collections.Counter[str]
    constant: int
    """How many of the layers compute from constants alone."""
    size: int
    """Bytes of XML."""
    weights: int
    """Bytes of the .bin."""

    @property
    def layers(self) -> int:
        return sum(self.types.values())


def constant_layers(graph: ET.Element) -> int:
    """How many layers of one graph have inputs, and constants alone behind them."""
    sources = collections.defaultdict(set)
    for edge in graph.findall("edges/edge"):
        sources[edge.get("to-layer")].add(edge.get("from-layer"))
    constant = set()
    for layer in graph.findall("layers/layer"):  # in an order in which sources come first
        number, kind = layer.get("id"), layer.get("type")
        if kind == "Const" or (sources[number] and sources[number] <= constant and kind != "Result"):
            constant.add(number)
    return sum(
        1 for layer in graph.findall("layers/layer") if layer.get("id") in constant and layer.get("type") != "Const"
    )


def saved(xml: Path) -> Saved:
    """The layers of an IR by type, bodies included."""
    root = ET.parse(xml).getroot()
    types = collections.Counter(layer.get("type", "") for layer in root.iter("layer"))
    for kind in _APART:
        del types[kind]
    constant = sum(constant_layers(graph) for graph in root.iter() if graph.find("layers") is not None)
    return Saved(types, constant, xml.stat().st_size, xml.with_suffix(".bin").stat().st_size)


def theirs(model: Path, folder: Path) -> Saved | None:
    """The IR that OpenVINO's converter saves; None where it does not take the model."""
    xml = folder / "theirs.xml"
    done = subprocess.run([sys.executable, "-c", _THEIRS, model, xml], capture_output=True, check=False)
    return saved(xml) if done.returncode == 0 else None


def ours(model: Path, folder: Path, target: str) -> Saved:
    """The IR that this converter saves."""
    xml = folder / "ours.xml"
    converter.save_model(converter.convert_model(model, target=target), xml)
    return saved(xml)


def table(rows: Iterable[tuple[str, Saved, Saved]], markdown: bool) -> None:
    """A line for each model, and what the issue asks for: how many are at most equal, and the sums."""
    widths = (7, 9, 7, 5, 9, 9, 9, 9)
    cells_of = [f"{{:>{width}}}" for width in widths]
    shown = f"| {' | '.join(['{:45}', *cells_of])} |" if markdown else " ".join(["{:45}", *cells_of])
    heads = ("layers", "constant", "theirs", "ratio", "KB of XML", "theirs", "MB of bin", "theirs")
    print(shown.format("model", *heads))
    if markdown:
        print(f"| --- |{' ---: |' * len(widths)}")
    found = []
    for name, own, other in rows:
        found.append((own, other))
        ratio = own.layers / max(other.layers, 1)
        sizes = (own.size >> 10, other.size >> 10, own.weights >> 20, other.weights >> 20)
        print(shown.format(name, own.layers, own.constant, other.layers, f"{ratio:.2f}", *sizes), flush=True)
    if not found:
        return
    at_most = sum(own.layers <= other.layers for own, other in found)
    print(f"\n{len(found)} models, {at_most} with at most as many layers ({at_most / len(found):.0%})")
    without = sum(own.layers - own.constant <= other.layers - other.constant for own, other in found)
    print(f"without layers that compute from constants alone: {without} ({without / len(found):.0%})")
    layers = [sum(own.layers for own, _ in found), sum(other.layers for _, other in found)]
    totals = [sum(own.size for own, _ in found), sum(other.size for _, other in found)]
    print(f"layers: {layers[0]} / {layers[1]} = {layers[0] / max(layers[1], 1):.3f}")
    print(f"XML: {totals[0] >> 10} / {totals[1] >> 10} KB = {totals[0] / totals[1]:.3f}")


def main() -> None:
    """The table, or with ``--types`` the types of one model."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("models", nargs="*", type=Path)
    arguments.add_argument("--target", default="cpu")
    arguments.add_argument("--types", type=Path)
    arguments.add_argument("--markdown", action="store_true")
    given = arguments.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if given.types:
            own, other = ours(given.types, folder, given.target), theirs(given.types, folder)
            for kind in sorted({*own.types, *(other.types if other else ())}):
                pair = own.types[kind], other.types[kind] if other else 0
                if pair[0] != pair[1]:
                    print(f"{kind:30} {pair[0]:6} {pair[1]:6}")
            print(f"{'in all':30} {own.layers:6} {other.layers if other else 0:6}")
            return
        rows = []
        for path in given.models:
            other = theirs(path, folder)
            if other is None:
                print(f"OpenVINO's converter does not take {path.stem}", file=sys.stderr)
                continue
            try:
                rows.append((path.stem, ours(path, folder, given.target), other))
            except converter.ConversionError as error:
                print(f"{path.stem} is not converted: {error}"[:200], file=sys.stderr)
        table(rows, given.markdown)


if __name__ == "__main__":
    main()
