"""What nncf makes of our IR beside what it makes of the IR that OpenVINO's own converter saves of the same file.

`nncf.quantize` and `nncf.compress_weights` take both IRs. Counted are the inputs of layers that read 8 bits (through
layers that only move numbers), and the compressed weights, by the type of layer that reads them. Errors are those of
the outputs in OpenVINO against the float model in onnxruntime, on inputs that calibrated nothing: the norm of the
difference as a share of the norm, and how often the largest number of the last dimension stands in the same place.
Types of which both IRs have as many are left out.

    pip install -e ".[test]"
    python benchmarks/nncf_parity.py MODEL.onnx ... [--samples 4] [--runs 4]
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import io
import logging
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import nncf
import numpy as np
import openvino
from nncf.quantization.advanced_parameters import AdvancedCompressionParameters, GroupSizeFallbackMode

import converter
import ir_runtime
from converter.equivalence.inputs.arrays import random_inputs
from converter.equivalence.inputs.input_values import values_of
from converter.equivalence.reference.references import OnnxReference

Feeds = dict[str, np.ndarray]
Counts = collections.Counter[str]

_THEIRS = """
import openvino, sys
openvino.save_model(openvino.convert_model(sys.argv[1]), sys.argv[2], compress_to_fp16=False)
"""
_MOVING = {
    *("Broadcast", "Concat", "Gather", "Pad", "Reshape", "Slice", "Split", "Squeeze", "StridedSlice", "Tile"),
    *("MaxPool", "ReduceMax", "ScatterNDUpdate", "Transpose", "Unsqueeze", "VariadicSplit"),
}
_DECOMPRESSING = {"Convert", "Multiply", "Reshape", "Subtract", "Transpose"}
_SMALL = {"i8", "u8", "i4", "u4"}


class Made(NamedTuple):
    """What nncf made of one IR."""

    activations: Counts
    """Inputs that read 8 bits, by type of layer."""
    weights: Counts
    """Small weights, by type of layer and element type."""
    error: float
    agreeing: float


class Data(NamedTuple):
    """Inputs of a model, and its outputs by the names of its results."""

    calibration: Sequence[Feeds]
    runs: Sequence[tuple[Feeds, Feeds]]


def data_of(path: Path, xml: Path, samples: int, runs: int) -> Data:
    """Random inputs of the kind that the graph shows, the first ones for calibration, with onnxruntime's outputs."""
    reference = OnnxReference(path)
    ports, values = ir_runtime.compile_model(ir_runtime.read_model(xml)).inputs, values_of(reference.graph)
    feeds = [random_inputs(ports, seed, values) for seed in range(samples + runs)]
    return Data(feeds[:samples], [(one, reference.run(one)) for one in feeds[samples:]])


def activations(model: openvino.Model) -> Counts:
    """How many inputs read what a FakeQuantize gives, also through layers that only move it."""
    found: dict[tuple[str, int], str] = {}
    for layer in model.get_ops():
        if layer.get_type_name() == "FakeQuantize" and layer.input_value(0).get_node().get_type_name() != "Constant":
            found |= {(name, port): kind for name, port, kind in _readers(layer, _MOVING)}
    return collections.Counter(kind for kind in found.values() if kind != "ShapeOf")


def weights(model: openvino.Model) -> Counts:
    """Inputs that read constants of 8 or 4 bits as numbers."""
    found: Counts = collections.Counter()
    for layer in model.get_ops():
        if layer.get_type_name() == "Constant" and (bits := layer.get_element_type().get_type_name()) in _SMALL:
            readers = list(_readers(layer, _DECOMPRESSING))
            if ("Subtract", 1) not in {(kind, port) for _, port, kind in readers}:  # a zero point
                found.update(f"{kind} {bits}" for _, _, kind in readers)
    return found


def _readers(layer: Any, passing: set[str]) -> Iterator[tuple[str, int, str]]:
    """Name, port and type of what reads a layer directly or through types that pass its values on."""
    waiting, seen = [layer], set[str]()
    while waiting:
        for output in waiting.pop().outputs():
            for read in output.get_target_inputs():
                node, port = read.get_node(), read.get_index()
                name, kind = node.get_friendly_name(), node.get_type_name()
                if kind not in passing or (kind == "Subtract" and port == 1):
                    yield name, port, kind
                elif name not in seen:
                    seen.add(name)
                    waiting.append(node)


def judged(made: openvino.Model, data: Data) -> Made:
    """What there is in 8 bits, and what it costs."""
    compiled = openvino.Core().compile_model(made, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    request, names = compiled.create_infer_request(), [port.get_any_name() for port in compiled.inputs]
    difference = size = agreeing = places = 0.0
    for feeds, expected in data.runs:
        request.infer({name: feeds[name] for name in names})
        for port, (_, value) in zip(compiled.outputs, expected.items(), strict=True):
            found = request.get_tensor(port).data
            difference += float(np.sum((found.astype(np.float64) - value) ** 2))
            size += float(np.sum(value.astype(np.float64) ** 2))
            agreeing += float(np.sum(found.argmax(-1) == value.argmax(-1)))
            places += value.size / value.shape[-1]
    return Made(activations(made), weights(made), (difference / max(size, 1e-30)) ** 0.5, agreeing / max(places, 1))


def quantized(xml: Path, data: Data, transformer: bool) -> openvino.Model:
    """What `nncf.quantize` makes."""
    return nncf.quantize(
        openvino.Core().read_model(xml),
        nncf.Dataset(list(data.calibration)),
        subset_size=len(data.calibration),
        model_type=nncf.ModelType.TRANSFORMER if transformer else None,
    )


def compressed(xml: Path, mode: str) -> openvino.Model:
    """What `nncf.compress_weights` makes; groups of 64 for weights of 4 bits, smaller ones where these do not fit."""
    adjusted = AdvancedCompressionParameters(group_size_fallback_mode=GroupSizeFallbackMode.ADJUST)
    options = {"group_size": 64, "advanced_parameters": adjusted} if mode.startswith("INT4") else {}
    return nncf.compress_weights(openvino.Core().read_model(xml), mode=nncf.CompressWeightsMode[mode], **options)


def has_attention(xml: Path) -> bool:
    """Whether nncf should be told that the model is a transformer: it has a layer of it, or spells it out."""
    return any(
        layer.get_type_name() == "ScaledDotProductAttention"
        or (layer.get_type_name() == "Softmax" and "MatMul" in {kind for *_, kind in _readers(layer, _MOVING)})
        for layer in openvino.Core().read_model(xml).get_ops()
    )


def row(path: Path, folder: Path, samples: int, runs: int) -> Iterator[list[str]]:
    """The cells of a model, a row for each thing that nncf does."""
    pair = [folder / "ours.xml", folder / "theirs.xml"]
    converter.save_model(converter.convert_model(path, target="cpu"), pair[0])
    subprocess.run([sys.executable, "-c", _THEIRS, path, pair[1]], capture_output=True, check=True)
    data = data_of(path, pair[0], samples, runs)
    transformer = any(has_attention(xml) for xml in pair)
    for mode in ("quantize", "INT8_ASYM", "INT4_SYM"):
        made = []
        for xml in pair:
            with contextlib.redirect_stdout(io.StringIO()):  # its bars would break the table
                done = quantized(xml, data, transformer) if mode == "quantize" else compressed(xml, mode)
            made.append(judged(done, data))
        ours, theirs = made
        read = differing(ours.activations, theirs.activations) if mode == "quantize" else "-"
        yield [
            *(path.stem, mode, read, differing(ours.weights, theirs.weights)),
            *(f"{one.error:.4f}" for one in made),
            *(f"{one.agreeing:.0%}" for one in made),
        ]


def differing(ours: Counts, theirs: Counts) -> str:
    """All together, and the types of which one side has more."""
    types = [f"{kind} {ours[kind]}/{theirs[kind]}" for kind in sorted({*ours, *theirs}) if ours[kind] != theirs[kind]]
    return f"{ours.total()}/{theirs.total()}" + (f" ({', '.join(types)})" if types else "")


def main() -> None:
    """Three rows of a Markdown table for each model."""
    import quiet_peers  # noqa: F401 - tests import this module from elsewhere

    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("models", nargs="+", type=Path)
    arguments.add_argument("--samples", type=int, default=4, help="inputs that calibrate")
    arguments.add_argument("--runs", type=int, default=4, help="inputs that are compared")
    given = arguments.parse_args()
    nncf.set_log_level(logging.ERROR)
    print("| model | nncf | inputs in 8 bits | small weights | error | theirs | same place | theirs |")
    print("| --- | --- | --- | --- | ---: | ---: | ---: | ---: |")
    for path in given.models:
        with tempfile.TemporaryDirectory() as folder:
            try:
                for cells in row(path, Path(folder), given.samples, given.runs):
                    print("| " + " | ".join(cells) + " |", flush=True)
            except (subprocess.CalledProcessError, converter.ConversionError, RuntimeError) as error:
                print(f"left out {path.stem}: {str(error)[:200]}", file=sys.stderr)


if __name__ == "__main__":
    main()
