"""Verdicts of `verify`, each row of the tables; values and sizes of inputs, and what is refused."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import converter
import ir_runtime
from converter.equivalence.inputs import cost
from converter.equivalence.inputs.cost import Cost, types_for_shapes
from converter.equivalence.inputs.dimensions import ShapeCandidates
from converter.equivalence.inputs.input_values import fitting, values_of
from converter.equivalence.inputs.required_values import RequiredValues
from converter.equivalence.reference.engines import engine_for
from converter.equivalence.reference.reference_model import ReferenceModel
from converter.passes.derivation import Derivation, Step, without_record
from ir_runtime.execution.ports import ports_of
from ir_runtime.graph.model import Model
from ir_runtime.graph.operation import Required
from tests import engines
from tests.commands import PEAK, onnx2ir
from tests.converter.equivalence import inputs, models, verdicts
from tests.converter.equivalence.edits import all_of, attributes, exchanged_names, layer, names_of_ends, overwrite
from tests.converter.equivalence.inputs import INDEXED, embedding, indexed
from tests.converter.equivalence.models import attending, f32, pair, saved
from tests.converter.equivalence.row import DERIVED, EQUAL, Verdict, text
from tests.converter.optimization.models import parse
from tests.engines import ENGINES

TABLES = {**verdicts.TABLES, **inputs.TABLES}
ROWS = [
    pytest.param(replace(row, group=f"verdicts/{table}, {row.verdict}"), id=f"{table}: {row.name}")
    for table, rows in TABLES.items()
    for row in rows
]


@pytest.mark.parametrize("row", ROWS)
def test_verdict(row: Verdict, tmp_path: Path) -> None:
    path = saved(row.model(), tmp_path)
    model = converter.convert_model(saved(row.of(), tmp_path, "of.onnx") if row.of else path, **row.convert)
    if row.saving is not None:
        converter.save_model(model, tmp_path / "m.xml", **row.saving)
        model = ir_runtime.read_model(tmp_path / "m.xml")
    if row.edit is not None:
        row.edit(model)
    if not row.record:
        model = without_record(model)
    options = dict(row.options)
    if "minimise" in options:
        options["minimise"] = tmp_path / "part"
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
        check_command(row, model, tmp_path)


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
    proto = make()
    found = values_of(ReferenceModel(proto))
    if name in ("ids", "kinds"):  # as the layers of the IR require
        ir = converter.convert_model(proto)
        required = RequiredValues(ir).of({output: output.type for layer in ir.nodes() for output in layer.outputs})
        found = {ir.parameters[index].end_names[0]: fitting(of_input) for index, of_input in required.items()}
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
    found = ShapeCandidates(ports, ReferenceModel(proto), {port.name: port.name for port in ports}, ())
    for shapes in (next(found.usual()), next(found.others({}))):
        assert shapes["a"][0] == shapes["b"][0] == shapes["c"][0]
        assert shapes["c"][1] == shapes["a"][1] + shapes["b"][1]


def test_parts_of_old_models_are_of_an_ir_version_whose_weights_need_not_be_inputs() -> None:
    """Before version 4 of ONNX's IR every initializer had to be listed among the inputs, too."""
    assert ReferenceModel(embedding(ir_version=3)).whole({}).ir_version == 4
    assert ReferenceModel(embedding(ir_version=9)).whole({}).ir_version == 9


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


# --- what is refused, and the inputs of the caller ---


X = np.ones((1, 4), np.float32)
OTHER_NAMES = names_of_ends({}, {"first": "one", "second": "other"})
SAME = text(
    "g (float[n,4] x) => (float[n,4] y, float[n,4] z) { y = Add (x, one) z = Identity (y) }", one=f32(1, 1, 1, 1)
)
PRIMES = text("""g (int64[n] counts, float[m] data) => (y) { total = ReduceSum <keepdims = 0> (counts)
              length = Unsqueeze (total, first) shape = Mul (length, prime) y = Reshape (data, shape) }""",
              first=[0], prime=[10007])  # fmt: skip
WIDTHS = text("g (float[n,k] x) => (y) { y = Reshape (x, shape) }", shape=[-1, 777])
GATHER = text("g (float[5] data, int64[3] indices) => (y) { y = Gather (data, indices) }")


def named(result: int, name: str) -> Callable[[Model], None]:
    return lambda model: setattr(model.results[result], "output_names", [name])


OPEN = {"input": {"x": [-1, -1]}, "target": "any"}
REFUSED: dict[str, tuple[Any, Any, dict[str, Any], dict[str, Any], str]] = {
    # the model, an edit of its IR, options of convert and of verify, the message
    "an unknown input": (models.three_layers, None, {}, {"inputs": {"z": X}}, r"the model has no inputs \['z'\]"),
    "no input": (models.three_layers, None, {}, {"inputs": {}}, r"no values were given for the inputs \['x'\]"),
    "a type": (models.three_layers, None, {}, {"inputs": {"x": X.astype(np.float64)}},
               r"input 'x' must have dtype float32 \(f32\), but has float64"),
    "a shape": (models.three_layers, None, {}, {"inputs": {"x": np.ones((1, 5), np.float32)}},
                r"input 'x' must have the shape \[\?,4\], but has \[1, 5\]"),
    "no output": (models.three_layers, named(0, "other"), {}, {}, r"the IR has no outputs \['y'\]"),
    "an engine": (models.image, None, {}, {"engine": "cuda"}, "the engine must be numpy, openvino, openvino-default"),
    "fewer ends": (models.two_ends, all_of(OTHER_NAMES, lambda model: setattr(model, "results", model.results[:1])), {},
                   {}, "the IR has no outputs"),
    "a name of another tensor": (models.two_ends, all_of(names_of_ends({}, {"second": "state"}), lambda model:
                                 model.parameters[0].outputs[0].add_name("second")), {}, {}, "the IR has no outputs"),
    "a layer's inputs": (models.deep, lambda model: overwrite(model, "w7", np.ones((8, 16), np.float32)), {}, {},
                         r"first layer that is wrong .* is 'product7'"),
    "a batch": (models.image, None, {"batch": 1}, {"batch": 7},
        "batch is 7, but the input 'x' of the IR has the shape"),
    "values of an unknown input": (models.image, None, {}, {"values": {"z": "ones"}},
                                   "values are given for 'z', but the IR's inputs are"),
    "dimensions": (WIDTHS, None, OPEN, {}, r"(?s)no dimensions were found .* give the shapes with --input"),
    "twice a dimension": (text("g (float[n,k] x) => (y) { c = Concat <axis = 1> (x, x) y = MatMul (c, w) }",
                               w=np.ones((10, 3), np.float32)), None, {}, {}, "no dimensions were found"),
    "arrays": (PRIMES, None, {}, {},
               r"no dimensions were found.*--inputs with an .npz that holds counts \(i64\[\?\]\), "
               r"data \(f32\[\?\]\)"),
    "indices": (GATHER, None, {}, {"values": {"indices": "90..99"}}, r"indices|outside|bounds"),
    **{f"values of {wrong}": (GATHER, None, {}, {"values": {"data": wrong}}, "values must be .* or a range such as 0")
       for wrong in ("2..1", "many", "..", "1..x")},
    **{f"{what}, {engine}": (model, edit, {}, {"engine": engine}, message) for engine in ENGINES for what, model, edit,
        message in (
        # OpenVINO then has the name of one of them alone; both have the right values.
        ("two names of a tensor", SAME, lambda model: model.results[1].replace_input(0, model.results[0].inputs[0]),
         r"\['y'\] and \['z'\] of the IR share one tensor"),
        ("one name of two outputs", models.two_results, named(1, "y"), "two outputs of the IR are called 'y'"))},
    **{f"device {device!r}, {index}": (models.deep, None, {}, {"device": device, "config": config}, message)
       for index, (device, config, message) in enumerate((
        ("TPU", {}, r"has no device 'TPU' here \(Device with \"TPU\" name is not registered.*\); it has CPU"),
        ("HETERO:TPU,CPU", {}, "has no device 'TPU' here"),
        ("AUTO:CPU", {"FOO": "1"}, "CPU of OpenVINO .* has no property 'FOO'"),
        ("HETERO:CPU", {"GPU": {"NUM_STREAMS": 1}}, "properties for the device 'GPU', but HETERO:CPU computes on CPU"),
        ("CPU", {"PERF_COUNT": object()}, "the property PERF_COUNT of CPU cannot be <object"),
        ("", {}, "device must be the name of a device"),
        (None, {"PERF_COUNT": True}, "give a device, or the engine openvino"),
        ("CPU", [1], "the configuration")))},
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    make, edit, convert, options, message = REFUSED[name]
    proto = make()
    model = converter.convert_model(proto, **convert)
    if name.startswith("two names"):
        model = converter.convert_model(models.two_results())
    if edit is not None:
        edit(model)
    with pytest.raises(converter.VerificationError, match=message):
        converter.verify(proto, model, **options)


def test_inputs_of_the_user(tmp_path: Path) -> None:
    path, ir = pair(models.three_layers(), tmp_path)
    x, npy, npz = np.ones((5, 4), np.float32), tmp_path / "x.npy", tmp_path / "x.npz"
    np.save(npy, x)
    np.savez(npz, x=x)
    for source in ({"x": x}, npy, npz):
        report = converter.verify(path, ir, inputs=source)
        assert (report.passed, report.seed, report.inputs) == (True, None, {"x": [5, 4]})
    first, second = (converter.verify(path, ir, seed=3) for _ in range(2))
    assert (first == second, first.seed, first.inputs) == (True, 3, {"x": [2, 4]})
    (tmp_path / "x.npz").write_bytes(b"no archive")
    with pytest.raises(converter.VerificationError, match="cannot be read as"):
        converter.verify(path, ir, inputs=tmp_path / "x.npz")


def test_a_model_without_outputs_proves_nothing(tmp_path: Path) -> None:
    """Bytes that are a model by their form, but have no graph."""
    (tmp_path / "cut.onnx").write_bytes(b"\x08\x09")
    ir = converter.convert_model(parse("g (float[2] x) => (float[2] y) { y = Relu (x) }"))
    with pytest.raises(converter.InvalidModelError, match="the model has no graph"):
        converter.verify(tmp_path / "cut.onnx", ir)
    without = parse("g (float[2] x) => (float[2] z) { z = Relu (x) }")
    del without.graph.output[:]
    with pytest.raises(converter.VerificationError, match="has no outputs, so that there is nothing to compare"):
        converter.verify(without, ir)


def test_too_little_memory_is_an_error_that_tells_what_to_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cost, "available_memory", lambda: 1000)
    proto = models.attending("1,3,64,64")
    with pytest.raises(converter.VerificationError, match=r"not enough memory.*x\[1, 3, 64, 64\].*GiB.*--input"):
        converter.verify(proto, converter.convert_model(proto))


def test_the_command_asks_for_the_input_that_the_ir_lacks(image: Path, tmp_path: Path) -> None:
    words = ["--input", "x[2,3,16,16],rate=3", "--output", "g"]
    xml = str(tmp_path / "o.xml")
    for command in (["convert", str(image), "-o", xml, *words, "--verify"], ["verify", str(image), xml, *words]):
        code, out, messages = onnx2ir(*command)
        assert (code, "PASSED" in out) == (0, True), messages
    code, _, messages = onnx2ir("verify", str(image), xml, "--output", "y")
    assert (code, "the IR has no inputs ['rate'], which the ONNX model needs" in messages) == (1, True)
    assert '--input "rate=..."' in messages


def test_a_name_that_the_compiled_model_lacks_is_in_the_message(tmp_path: Path) -> None:
    """The file, which OpenVINO reads, has other names than the model that was read of it before."""
    _, xml = pair(models.two_results(), tmp_path)
    read = ir_runtime.read_model(xml)
    xml.write_text(xml.read_text().replace('names="z"', 'names="other"'))
    with pytest.raises(converter.VerificationError, match=r"no output 'z'; its outputs are \[\['y'\], \['other'\]\]"):
        engine_for("openvino", read, xml)


def test_rows_of_tests_compare_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """An IR whose outputs have each other's names is wrong although every place has the right values."""
    model = converter.convert_model(models.two_results())
    exchanged_names(model)
    monkeypatch.setattr(engines, "converted", lambda *_: ir_runtime.model_to_bytes(model))
    for engine in ENGINES:
        with pytest.raises(AssertionError, match=f"{engine}, output 'y'"):
            engines.check_node(models.two_results(), {"x": np.zeros((2, 4), np.float32)}, engines=[engine])


@pytest.mark.parametrize("is_saved", [False, True])
def test_a_renamed_onnx_model_is_paired_in_its_order(is_saved: bool, tmp_path: Path) -> None:
    model = models.two_ends("hidden", "offset", "state")
    other: Any = str(saved(model, tmp_path, "renamed.onnx")) if is_saved else model
    found = converter.verify(saved(models.two_ends(), tmp_path), other)
    assert found.verdict == "equal"
    pairs = "'hidden' with 'x', 'offset' with 'z'"
    assert f"inputs have other names, and were paired in their order: {pairs}" in found.notes
    assert "outputs have other names, and were paired in their order: 'state' with 'second'" in found.notes


@pytest.mark.parametrize(
    "options",
    [
        {"extensions": ["evil.py"], "exact": True}, {"input": "x=secret.npy"}, {"freeze": {"x": "secret.npy"}},
        {"input": {"x": "secret.npy"}}, {"target": "any", "unknown": 1},
    ],
)  # fmt: skip
def test_a_record_cannot_name_files(options: dict, monkeypatch: pytest.MonkeyPatch) -> None:
    """What cannot be repeated is not repeated in part."""
    model = converter.convert_model(models.detector())
    Derivation((Step("convert", source="onnx", options=options),)).write(model)
    conversions = counted_conversions(monkeypatch)
    report = converter.verify(models.detector(), model)
    assert (report.verdict, report.derivation.state) == ("equal", "inapplicable")
    assert conversions == []


def counted_conversions(monkeypatch: pytest.MonkeyPatch) -> list[dict]:
    conversions: list[dict] = []

    def convert_model(source: Any, **keywords: Any) -> Model:
        conversions.append(keywords)
        return converter.convert_model(source, **keywords)

    monkeypatch.setattr("converter.equivalence.derivation.rederivation.convert_model", convert_model)
    return conversions


@pytest.mark.parametrize(("saving", "verdict"), [({"record": False}, "equal"), ({}, "derived")])
def test_the_model_is_converted_once_more_where_there_is_a_record(
    saving: dict[str, Any], verdict: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, xml = pair(models.detector(), tmp_path, saving, target="any", output="large")
    conversions = counted_conversions(monkeypatch)
    assert converter.verify(path, xml, output="large").verdict == verdict
    assert len(conversions) == (verdict == "derived")


def test_the_callers_tolerance_is_not_circumvented() -> None:
    """With a tolerance of 100 from the caller no larger inputs are tried, whose outputs would differ by more."""
    path = models.scaled_by(2)
    model = converter.convert_model(path)
    assert len(converter.verify(path, model, atol=100.0).samples) == len(converter.verify(path, model).samples)


def test_another_version_or_source_gives_no_derivation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, xml = pair(models.small_network(), tmp_path)
    other = onnx.load(path)
    other.graph.node[-1].attribute[1].f *= 1.01
    report = converter.verify(saved(other, tmp_path, "other.onnx"), xml)
    assert (report.verdict, report.derivation.state) == ("equal", "inapplicable")
    assert "was derived from another source, whose digest differs" in report.reason
    monkeypatch.setattr("converter.equivalence.derivation.rederivation._CURRENT_VERSION", "0.3.0")
    renamed, edited = ir_runtime.read_model(xml), ir_runtime.read_model(xml)
    layer(renamed, "Const").name = "renamed"
    attributes("MVN", eps=lambda eps: eps * 1.01)(edited)
    for model, state in ((renamed, "equivalent"), (edited, "inapplicable")):
        report = converter.verify(path, model)
        assert (report.verdict, report.derivation.state) == ("equal", state)
    assert f"onnx2ir {converter.__version__} derived the IR, and 0.3.0 gives another one" in report.reason
