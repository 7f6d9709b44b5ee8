"""Compressed weights: sizes and errors of ours beside those of nncf's `compress_weights` on the same IR.

The errors are those that `verify` measures against onnxruntime, the worst output of each: the largest difference
as a share of the largest value, and 1 - cosine, each the mean over the seeds. Sizes are those of .xml and .bin
together, in kB. Where a group does not fit, nncf runs with its option to adjust it; without that it refuses.

    pip install -e ".[test]"
    python benchmarks/weight_compression.py MODEL.onnx ... [--seeds 3]
"""

from __future__ import annotations

import argparse
import contextlib
import io
import logging
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import quiet_peers  # noqa: F401

import converter
import ir_runtime
from converter.equivalence.inputs.arrays import random_inputs
from converter.equivalence.reference.references import reference_for
from converter.errors import VerificationError

MODES = {"int8": "INT8_ASYM", "int4": "INT4_SYM"}


def main() -> None:
    """One row of a Markdown table for each model and mode."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("models", nargs="+", type=Path)
    arguments.add_argument("--seeds", type=int, default=3)
    given = arguments.parse_args()
    print("| model | float32 | weights | size | nncf | ratio | error | nncf | 1 - cosine | nncf |")
    print("| --- | ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    with tempfile.TemporaryDirectory() as folder:
        for path in given.models:
            plain = Path(folder) / "plain.xml"
            model = converter.convert_model(path)
            converter.save_model(model, plain)
            for mode, theirs_mode in MODES.items():
                ours, theirs = Path(folder) / "ours.xml", Path(folder) / "theirs.xml"
                converter.save_model(model, ours, compress=mode)
                _nncf(plain, theirs, theirs_mode)
                sizes = [_size(one) for one in (plain, ours, theirs)]
                try:
                    errors = [_errors(path, one, given.seeds) for one in (ours, theirs)]
                except VerificationError as error:
                    print(f"{path.stem}: {error}", file=sys.stderr)
                    continue
                cells = [path.stem, f"{sizes[0]:.0f}", mode, f"{sizes[1]:.1f}", f"{sizes[2]:.1f}"]
                cells += [f"{sizes[1] / sizes[2]:.3f}"]
                cells += [f"{error[i]:.2e}" for i in (0, 1) for error in errors]
                print("| " + " | ".join(cells) + " |", flush=True)


def _nncf(plain: Path, path: Path, mode: str) -> None:
    import nncf
    import openvino
    from nncf.quantization.advanced_parameters import AdvancedCompressionParameters, GroupSizeFallbackMode

    nncf.set_log_level(logging.ERROR)
    adjusted = AdvancedCompressionParameters(group_size_fallback_mode=GroupSizeFallbackMode.ADJUST)
    model = openvino.Core().read_model(plain)
    with contextlib.redirect_stdout(io.StringIO()):  # its bars would break the table
        made = nncf.compress_weights(model, mode=nncf.CompressWeightsMode[mode], advanced_parameters=adjusted)
    openvino.save_model(made, path, compress_to_fp16=False)


def _size(path: Path) -> float:
    return (path.stat().st_size + path.with_suffix(".bin").stat().st_size) / 1000


def _errors(model: Path, ir: Path, seeds: int) -> tuple[float, float]:
    ports = ir_runtime.compile_model(ir_runtime.read_model(ir)).inputs
    found = []
    for seed in range(seeds):
        feeds = random_inputs(ports, seed)
        try:
            outputs = _compared(model, ir, feeds)
        except VerificationError:
            # Indices into tables of two rows, such as a sentence's number.
            outputs = _compared(model, ir, {n: v % 2 if v.dtype.kind == "i" else v for n, v in feeds.items()})
        found.append(np.max([(0.0, 0.0), *outputs], axis=0))
    mean = np.mean(found, axis=0)
    return float(mean[0]), float(mean[1])


def _compared(model: Path, ir: Path, feeds: Mapping[str, Any]) -> list[tuple[float, float]]:
    report = converter.verify(model, ir, inputs=feeds, rtol=1.0, layers=False)
    largest = {name: _largest(value) for name, value in _expected(model, feeds).items()}
    return [
        (out.max_absolute / largest[out.name], 0.0 if out.cosine is None else max(0.0, 1 - out.cosine))
        for out in report.outputs
        if out.element_type.startswith("float") and largest[out.name]
    ]


def _largest(value: Any) -> float:
    return float(np.abs(value).max(initial=0)) if value.dtype.kind == "f" else 0.0


def _expected(model: Path, feeds: Mapping[str, Any]) -> dict[str, Any]:
    return reference_for(model).run(feeds)


if __name__ == "__main__":
    main()
