"""Bugs planted in the code on purpose: do the tests that a contributor runs find them?

The places were drawn at random with a fixed seed; each bug is a change of one line that a person could have written.
It is found if a test fails that passes without it. Each is tried in a copy of the checkout by three commands:
``guide``, the line of the table "What to run first after a change" in docs/architecture.md; ``file``, the same test
file with the rows that run without ``--full``; and ``folder``, all files of the folder, with the same rows.

    python benchmarks/planted_bugs.py [--scope guide file folder] [--only PART]
"""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Bug:
    """A string of a file and its replacement; ``guide`` are pytest's arguments in the table's line for ``change``.

    ``rows`` is the test file that has the rows of the changed code, where ``guide`` names a folder.
    """

    change: str
    file: str
    before: str
    after: str
    guide: str
    rows: str = ""

    @property
    def test_file(self) -> str:
        """The file of the rows: the first one that the guide names, unless it names a folder."""
        return self.rows or next(word for word in self.guide.split() if word.startswith("tests/"))

    @property
    def folder(self) -> str:
        """The folder of :attr:`test_file`."""
        return "/".join(self.test_file.split("/")[:2])


_IDIOMS = '--full tests/test_rows.py -k "idioms and -0"'
_KERNELS = '--full tests/ir_runtime -k "kernel or plan or cache"'
_VALUES = '--full tests/ir_runtime -k "symbolic or polynomial or arithmetic"'
_FILES = "tests/ir_runtime/files/test_files.py tests/converter/onnx_file tests/converter/test_saving.py"
_REQUESTS = "compressed weights, preprocessing, states"
BUGS = [
    Bug(
        "a pass",
        "converter/passes/selects.py",
        'match["condition"], match["b"], match["a"])',
        'match["condition"], match["a"], match["b"])',
        _IDIOMS,
    ),
    Bug(
        "a pass",
        "converter/passes/normalizations.py",
        "if x.element_type not in (element_types.f32, element_types.f64):",
        "if x.element_type not in (element_types.f32, element_types.f64, element_types.f16):",
        _IDIOMS,
    ),
    Bug(
        "a pass",
        "converter/passes/attentions.py",
        "if not has_one_element(other) or not _is_of_higher_rank(x, other) or not may_be_scale(other):",
        "if not has_one_element(other) or not _is_of_higher_rank(x, other):",
        _IDIOMS,
    ),
    Bug(
        "a pass",
        "converter/passes/shape_arithmetic.py",
        "for element in elements[at : at + count]]",
        "for element in elements[:count]]",
        _IDIOMS,
    ),
    Bug(
        "a kernel, a plan",
        "ir_runtime/execution/kernels/caches.py",
        "Prepared(_Gather(gather.op, op.axis))",
        "Prepared(_Gather(gather.op, 0))",
        _KERNELS,
        "tests/ir_runtime/execution/test_session_states.py",
    ),
    Bug(
        "a kernel, a plan",
        "ir_runtime/execution/kernels/formulas.py",
        "np.sqrt(variance + op.epsilon)",
        "(np.sqrt(variance) + op.epsilon)",
        _KERNELS,
        "tests/ir_runtime/execution/test_kernels.py",
    ),
    Bug(
        "a kernel, a plan",
        "ir_runtime/execution/kernels/formulas.py",
        "    for coefficient in coefficients[1:-1]:\n",
        "    for coefficient in coefficients[2:-1]:\n",
        _KERNELS,
        "tests/ir_runtime/execution/test_kernels.py",
    ),
    Bug(
        "a kernel, a plan",
        "ir_runtime/execution/static_plans/plan.py",
        "    if target is not out:\n",
        "    if target is out:\n",
        _KERNELS,
        "tests/ir_runtime/execution/test_static_plans.py",
    ),
    Bug(
        "a kernel, a plan",
        "ir_runtime/execution/static_plans/depthwise.py",
        "apart = (taps[1] - taps[0]) * x.dilation // x.stride if",
        "apart = (taps[1] - taps[0]) * x.dilation if",
        _KERNELS,
        "tests/ir_runtime/execution/test_static_plans.py",
    ),
    Bug(
        "a rule",
        "converter/targets/openvino_cpu/integers.py",
        "b.shape.dims[2 if isinstance(node.op, GroupConvolution1) else 1 :]",
        "b.shape.dims[2:]",
        "tests/test_rows.py tests/converter/targets",
    ),
    Bug(
        "a rule",
        "converter/targets/openvino_cpu/integers.py",
        "left + where(wrong, b, zero)",
        "left + where(wrong, a, zero)",
        "tests/test_rows.py tests/converter/targets",
    ),
    Bug(
        "a rule",
        "converter/targets/openvino_cpu/element_types.py",
        "return [in_type(builder, value, element_type) for value in builder.emit_all(node.op, *widened)]",
        "return builder.emit_all(node.op, *widened)",
        "--full tests/converter/targets -k narrow",
        "tests/converter/targets/test_plain_layers.py",
    ),
    Bug(
        "an exporter, a decomposition",
        "converter/passes/before_export/normalizations.py",
        "if node.outputs[0].shape.rank != rank:",
        "if node.outputs[0].shape.rank < rank:",
        "--full tests/converter/to_onnx -k normali",
        "tests/converter/to_onnx/test_fused_layers.py",
    ),
    Bug(
        "an exporter, a decomposition",
        "converter/passes/before_export/attentions.py",
        "if not scale:",
        "if scale is None:",
        "--full tests/converter/to_onnx -k attention",
        "tests/converter/to_onnx/test_attention.py",
    ),
    Bug(
        "an exporter, a decomposition",
        "converter/to_onnx/operations/quantization.py",
        "_Grid(element_type, scale.reshape(-1), zero.reshape(-1), axes[0])",
        "_Grid(element_type, scale.reshape(-1), zero.reshape(-1), 1)",
        "--full tests/test_rows.py -k FakeQuantize",
    ),
    Bug(
        "a translator",
        "converter/from_onnx/operators/microsoft/packed_weights.py",
        "np.full((1, 1, 1), 8, np.float32)",
        "np.zeros((1, 1, 1), np.float32)",
        "--full tests/test_rows.py -k microsoft/fused",
    ),
    Bug(
        "a translator",
        "converter/from_onnx/operators/onnx/rotary.py",
        "arange(ctx, dim_of(ctx, x, sequence_at))",
        "arange(ctx, dim_of(ctx, x, 1))",
        "--full tests/test_rows.py -k microsoft/attention/RotaryEmbedding",
    ),
    Bug(
        "an operation",
        "ir_runtime/operations/position_sensitive.py",
        "break  # The list of regions ends here.",
        "continue",
        "--full tests/test_rows.py -k PSROIPooling-1",
    ),
    Bug(
        "an operation",
        "ir_runtime/operations/type_promotion.py",
        "if a is b or b is element_types.boolean:",
        "if a is b:",
        "--full tests/ir_runtime/operations -k promotion",
    ),
    Bug(
        "an exporter, a decomposition",
        "converter/passes/decomposition/normalization.py",
        "(op.alpha / op.size ** len(over))",
        "(op.alpha / op.size)",
        "--full tests/test_rows.py -k LRN",
    ),
    Bug(
        "an exporter, a decomposition",
        "converter/passes/decomposition/stft.py",
        "count = (signal.size(axis) - size) // step + 1",
        "count = (signal.size(axis) - size) // step",
        "--full tests/test_rows.py -k STFT",
    ),
    Bug(
        "what is known of values",
        "ir_runtime/analysis/symbolic_elements.py",
        "_decide(shapes, node.op, x - y)",
        "_decide(shapes, node.op, y - x)",
        _VALUES,
        "tests/ir_runtime/analysis/test_symbolic_shapes.py",
    ),
    Bug(
        "an option",
        "converter/options/values.py",
        "return None if value is None else bool(value)",
        "return True",
        '--full tests/test_branches.py -k "words or -record"',
        "tests/converter/equivalence/test_derivation.py",
    ),
    Bug(
        "files",
        "ir_runtime/files/xml_reader.py",
        'output.names = split_names(port.get("names", ""))',
        'output.names = port.get("names", "").split(",")',
        _FILES,
    ),
    Bug(
        "`verify`",
        "converter/equivalence/verdict/findings.py",
        "            if run.passed:\n                continue\n            try:",
        "            if run.passed:\n                return\n            try:",
        "tests/converter/equivalence",
        "tests/converter/equivalence/test_compare.py",
    ),
    Bug(
        _REQUESTS,
        "converter/passes/compression/weight_compression.py",
        "tuple(axes[axis] for axis in order))",
        "tuple(order))",
        "tests/converter/compression/test_weights.py",
    ),
    Bug(
        _REQUESTS,
        "converter/passes/preprocessing/resolution.py",
        "own[moved] = shape[place]",
        "own[place] = shape[moved]",
        "tests/converter/preprocessing",
        "tests/converter/preprocessing/test_options.py",
    ),
    Bug(
        _REQUESTS,
        "converter/passes/states/position_inputs.py",
        "((3, 4), (0, 5), (1 << 20, 2))",
        "((3, 4), (0, 5), (1 << 2, 2))",
        "tests/converter/language_models/test_states.py",
    ),
    Bug(
        "`edit`, `optimize`",
        "converter/editing/operators.py",
        "self.schema(opset), len(self.inputs) + 1",
        "self.schema(opset), len(self.inputs)",
        "tests/converter/editing tests/converter/optimization",
        "tests/converter/editing/test_edits.py",
    ),
    Bug(
        "`edit`, `optimize`",
        "converter/editing/source.py",
        "bound.shapes or bound.element_types or bound.frozen or bound.batch is not None",
        "bound.shapes or bound.element_types or bound.batch is not None",
        "tests/converter/editing tests/converter/optimization",
        "tests/converter/optimization/test_files.py",
    ),
]


def main() -> None:
    """Print a line for each bug, and how many each command found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--scope", nargs="+", choices=["guide", "file", "folder"], default=["guide", "file", "folder"])
    parser.add_argument("--only", default="", help="bugs whose file or change has this in its name")
    arguments = parser.parse_args()
    bugs = [bug for bug in BUGS if arguments.only in bug.file or arguments.only in bug.change]
    print(
        f"| change | file | {' | '.join(arguments.scope)} |\n| --- | --- |{' --- |' * len(arguments.scope)}", flush=True
    )
    counts = dict.fromkeys(arguments.scope, 0)
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "copy"
        subprocess.run(["git", "clone", "-q", str(ROOT), str(copy)], check=True)
        for bug in bugs:
            results = []
            for scope in arguments.scope:
                is_found, seconds = try_to_find(copy, bug, scope)
                counts[scope] += is_found
                results.append(f"{'yes' if is_found else '**no**'}, {seconds:.0f} s")
            print(f"| {bug.change} | {bug.file} | {' | '.join(results)} |", flush=True)
    print(f"\n{len(bugs)} bugs: " + ", ".join(f"{scope} {count}" for scope, count in counts.items()))


def try_to_find(copy: Path, bug: Bug, scope: str) -> tuple[bool, float]:
    """Plant the bug in ``copy`` and run a command; return True if a test fails, and the seconds that it took."""
    path = copy / bug.file
    source = path.read_text()
    assert source.count(bug.before) == 1, f"{bug.file} has {bug.before!r} {source.count(bug.before)} times"
    test_arguments = {"guide": shlex.split(bug.guide), "file": [bug.test_file], "folder": [bug.folder]}[scope]
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-n", "0", *test_arguments]
    start = time.perf_counter()
    try:
        path.write_text(source.replace(bug.before, bug.after))
        process = subprocess.run(command, cwd=copy, capture_output=True, text=True, check=False)
    finally:
        path.write_text(source)
    is_found = process.returncode == 1 or process.returncode < 0  # a plug-in may end the process
    assert is_found or process.returncode == 0, process.stdout[-2000:] + process.stderr[-2000:]
    return is_found, time.perf_counter() - start


if __name__ == "__main__":
    main()
