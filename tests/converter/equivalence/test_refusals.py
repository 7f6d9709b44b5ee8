"""What ``verify`` refuses, and the inputs of the caller that it takes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import converter
import ir_runtime
from converter.derivation import Derivation, Step
from converter.equivalence import cost
from converter.equivalence.engines import engine_for
from ir_runtime.graph.model import Model
from tests import engines
from tests.commands import onnx2ir
from tests.converter.equivalence import models
from tests.converter.equivalence.edits import all_of, attributes, exchanged_names, layer, names_of_ends, overwrite
from tests.converter.equivalence.models import f32, pair, saved
from tests.converter.equivalence.row import text
from tests.converter.optimization.models import parse
from tests.engines import ENGINES

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
    "fewer ends": (models.two_ends, all_of(OTHER_NAMES, lambda model: setattr(model, "results", model.results[:1])), {}, {},
                   "the IR has no outputs"),
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
    **{f"values of {wrong}": (GATHER, None, {}, {"values": {"data": wrong}}, "values must be .* or a range such as 0..1")
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
    with pytest.raises(converter.VerificationError, match="has no outputs, so that there is nothing to compare"):
        converter.verify(tmp_path / "cut.onnx", ir)


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

    monkeypatch.setattr("converter.equivalence.rederivation.convert_model", convert_model)
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
    monkeypatch.setattr("converter.equivalence.rederivation._CURRENT_VERSION", "0.3.0")
    renamed, edited = ir_runtime.read_model(xml), ir_runtime.read_model(xml)
    layer(renamed, "Const").name = "renamed"
    attributes("MVN", eps=lambda eps: eps * 1.01)(edited)
    for model, state in ((renamed, "equivalent"), (edited, "inapplicable")):
        report = converter.verify(path, model)
        assert (report.verdict, report.derivation.state) == ("equal", state)
    assert f"onnx2ir {converter.__version__} derived the IR, and 0.3.0 gives another one" in report.reason
