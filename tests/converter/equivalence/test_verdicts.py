"""Verdicts of ``verify``, each row of the tables, and the values and sizes that it chooses for inputs."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest

import converter
import ir_runtime
from converter.derivation import without_record
from converter.equivalence import cost
from converter.equivalence.cost import Cost, types_for_shapes
from converter.equivalence.dimensions import ShapeCandidates
from converter.equivalence.input_values import values_of
from converter.equivalence.onnx_graph import OnnxGraph
from converter.equivalence.required_values import RequiredValues
from ir_runtime.execution.ports import ports_of
from ir_runtime.graph.operation import Required
from tests.commands import PEAK, onnx2ir
from tests.converter.equivalence import inputs, models, verdicts
from tests.converter.equivalence.inputs import INDEXED, embedding, indexed
from tests.converter.equivalence.models import attending, saved
from tests.converter.equivalence.row import DERIVED, EQUAL, Verdict, text
from tests.converter.optimization.models import parse

TABLES = {**verdicts.TABLES, **inputs.TABLES}
ROWS = [pytest.param(row, id=f"{table}: {row.name}") for table, rows in TABLES.items() for row in rows]


@pytest.mark.parametrize("row", ROWS)
def test_verdict(row: Verdict, tmp_path: Path) -> None:
    check(row, tmp_path)


def check(row: Verdict, folder: Path) -> None:
    proto = row.model()
    path = saved(proto, folder)
    model = converter.convert_model(saved(row.of(), folder, "of.onnx") if row.of else path, **row.convert)
    if row.saving is not None:
        converter.save_model(model, folder / "m.xml", **row.saving)
        model = ir_runtime.read_model(folder / "m.xml")
    if row.edit is not None:
        row.edit(model)
    if not row.record:
        model = without_record(model)
    options = dict(row.options)
    if "minimise" in options:
        options["minimise"] = folder / "part"
    if "against" in options:  # an edit of the other IR
        edit, options["against"] = options["against"], converter.convert_model(path)
        edit(options["against"])
    report = converter.verify(path, model, **options)
    found = str(report)
    assert report.verdict in row.verdict.split(), found
    assert report.passed == row.passed, found
    assert row.reason in report.reason
    assert any(row.note in note for note in (*report.notes, *[""] * (not row.note))), report.notes
    assert report.oracle.startswith(row.oracle)
    fault = report.first_fault
    if report.verdict in (DERIVED, EQUAL):
        assert fault is None, found
    if row.first is not None:
        assert (fault.layer if fault else "") == row.first, found
    if row.changed is not None:
        assert [one.name for one in report.weights if not one.passed] == row.changed.split(), found
    if row.differ is not None:
        assert [one.name for one in report.outputs if not one.passed] == row.differ.split(), found
    assert row.look is None or row.look(report), found
    if row.command is not None:
        check_command(row, model, folder)


def check_command(row: Verdict, model: ir_runtime.Model, folder: Path) -> None:
    ir_runtime.write_model(model, folder / "m.xml")
    words = ["verify", str(folder / "m.onnx"), str(folder / "m.xml"), *row.words]
    code, out, messages = onnx2ir(*words, "--report", str(folder / "page.html"))
    assert code == (not row.passed), messages
    for part in row.command.split("|"):
        assert part in " ".join(out.split())
    headline = "PASSED" if row.passed else "UNPROVEN" if row.verdict == "unproven" else "FAILED"
    assert headline in (folder / "page.html").read_text()
    found = json.loads(onnx2ir(*words, "--json")[1])
    assert (found["verdict"] in row.verdict, found["passed"]) == (True, row.passed)


# --- values and sizes of inputs, by an estimate of what they take ---


IMAGE = "g ({} x) => (y) {{ y = Cast <to = 1> (x) }}"
SIZED = ["Reshape (x, s)", "Expand (x, s)", "ConstantOfShape (s)", "Tile (x, s)", "TopK (x, s)", "Resize (x, , , s)"]


@pytest.mark.parametrize(
    ("make", "name", "low", "high"),
    [
        # token ids stay below the rows, masks are ones and zeros, images have bytes or shares of one
        (embedding, "ids", 0, 39), (embedding, "kinds", 0, 1), (embedding, "mask", 0, 1),
        *((text(IMAGE.format(declared)), "x", 0, high) for declared, high in (
            ("float[n,3,h,w]", 1), ("float[n,h,w,3]", 1), ("uint8[1,h,w,3]", 255))),
        *((text(IMAGE.format(declared)), "", 0, 0) for declared in ("float[n,16,h,w]", "float[n,steps]")),
        # sizes that are inputs are small
        *((text(f"g (float[n] x, int64[1] s) => (y) {{ y = {call} }}"), "s", 1, 2) for call in SIZED),
    ],
)  # fmt: skip
def test_values(make: Callable[[], onnx.ModelProto], name: str, low: int, high: int) -> None:
    found = values_of(OnnxGraph(make()))
    if not name:
        assert found == {}
        return
    values = found[name].make(np.random.default_rng(0), (50, 60))
    assert low <= values.min() < low + (high - low) / 10
    assert high - (high - low) / 10 < values.max() <= high
    if name == "mask":
        assert values[:, 0].all()
        assert (np.diff(values) <= 0).all()
        assert set(np.unique(values)) == {0, 1}


@pytest.mark.every_row
@pytest.mark.parametrize(
    ("op", "most"),
    [("ScatterElements <axis = -1>", 3), ("ScatterND", 2), ("GatherElements <axis = -1>", 3), ("GatherND", 2)],
)
def test_bounds_of_indices(op: str, most: int) -> None:
    ir = converter.convert_model(indexed(op, *INDEXED[op])())
    types = {output: output.type for layer in ir.nodes() for output in layer.outputs}
    assert RequiredValues(ir).of(types) == {1: Required(0, most - 1)}


def test_dimensions_of_one_name_are_alike_and_sums_are_sums() -> None:
    proto = parse("g (float[n,p] a, float[n,q] b, float[n,r] c) => (y) { s = Concat <axis = 1> (a, b) y = Add (s, c) }")
    proto.graph.input[2].type.tensor_type.shape.dim[1].dim_param = "p + q"
    ports, _ = ports_of(converter.convert_model(proto))
    found = ShapeCandidates(ports, OnnxGraph(proto), {port.name: port.name for port in ports}, ())
    for shapes in (next(found.usual()), next(found.others({}))):
        assert shapes["a"][0] == shapes["b"][0] == shapes["c"][0]
        assert shapes["c"][1] == shapes["a"][1] + shapes["b"][1]


def test_parts_of_old_models_are_of_an_ir_version_whose_weights_need_not_be_inputs() -> None:
    """Before version 4 of ONNX's IR every initializer had to be listed among the inputs, too."""
    assert OnnxGraph(embedding(ir_version=3)).whole({}).ir_version == 4
    assert OnnxGraph(embedding(ir_version=9)).whole({}).ir_version == 9


def peak_of(path: Path, more: str = "") -> int:
    code = f"{PEAK}\nimport converter\nm = {str(path)!r}\nmodel = converter.convert_model(m)\nbefore = 0\n{more}\n"
    code += f"r = converter.verify(m, model{', samples=1, layers=True' if more else ''})\nassert r.passed, r\n"
    code += f"assert not {bool(more)} or len(r.layers) == 25, r\nprint(peak() - before)"
    return int(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)


def test_images_are_small_where_larger_ones_need_gigabytes(tmp_path: Path) -> None:
    assert peak_of(saved(attending(), tmp_path)) < 1_500_000


@pytest.mark.full
def test_activations_of_gigabytes_are_compared_in_little_memory(tmp_path: Path) -> None:
    """24 layers of 32 MiB each: held at once they would take three quarters of a GB on each side."""
    layers = models.in_a_row(12, "s{n} = Neg ({x}) t{n} = Tanh (s{n})", "t")
    proto = parse(f"g (float[8,1024,1024] x) => (y) {{ {layers} y = ReduceMean <keepdims = 0> (t11) }}", 18)
    assert peak_of(saved(proto, tmp_path), "converter.verify(m, model, samples=1)\nbefore = peak()") < 500 * 1024


@pytest.mark.parametrize(("dims", "shape"), [("2,3,16,16", [2, 3, 16, 16]), ("n,3,h,w", [1, 3, 1, 1])])
def test_shapes_where_all_are_expensive(dims: str, shape: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Declared ones are taken, and of others the cheapest."""
    monkeypatch.setattr(cost, "_MOST_OPERATIONS", 1.0)
    proto = attending(dims)
    report = converter.verify(proto, converter.convert_model(proto))
    assert (report.passed, report.inputs) == (True, {"x": shape})


def test_the_estimate_is_that_of_the_arrays() -> None:
    """Scores and shares live at once, beside the queries: 2 x 1024 x 1024 and 2 x 1024 x 8 floats."""
    model = converter.convert_model(attending())
    types = types_for_shapes(model, {0: (2, 3, 32, 32)})
    assert types is not None
    estimate = Cost.of(model, types)
    assert 2 * 2 * 1024**2 * 4 <= estimate.peak <= 2 * 2 * 1024**2 * 4 + 4 * 2 * 1024 * 8 * 4
    products = 2 * 2 * 1024**2 * 8
    assert products <= estimate.operations <= 1.3 * products
    assert types_for_shapes(model, {0: (2, 4, 32, 32)}) is None


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no /proc/meminfo")
def test_available_memory_is_less_than_all_of_it() -> None:
    memory = cost.available_memory()
    assert memory is not None
    total = int(Path("/proc/meminfo").read_text(encoding="ascii").splitlines()[0].split()[1]) * 1024
    assert 0 < memory <= total
