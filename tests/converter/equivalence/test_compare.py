"""The comparison of arrays and of models, errors against float64, the account of constants, what reports say."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import converter
import ir_runtime
from benchmarks.injected_faults import faults
from converter.equivalence import DerivationCheck, LayerDifference, Report, WeightAccount
from converter.equivalence.comparison.compare import Errors, Tolerance, compare, errors_of
from converter.equivalence.comparison.exact import ExactModel
from converter.equivalence.reference import ort_values
from converter.equivalence.weights.checks import find_unscaled
from converter.passes.derivation import Derivation
from ir_runtime.execution.wide_floats import in_float64
from ir_runtime.graph.model import Model
from ir_runtime.graph.model_difference import LayerChange, compare_models
from tests.commands import onnx2ir
from tests.converter.command_line.files import check
from tests.converter.equivalence import models
from tests.converter.equivalence.edits import array_of, attributes, bit, constant, damaged, layer, overwrite, scaled
from tests.converter.equivalence.models import WIDTH, f32, pair, real, saved, scaled_network
from tests.converter.optimization.models import parse
from tests.engines import node_model, run_onnxruntime
from tests.rows.formula import Idiom
from tests.rows.idioms.convolutions import IMAGE, convolution, scaled_first
from tests.rows.onnx.control_flow import UNCHANGED

F32 = np.float32


@pytest.mark.parametrize(
    ("expected", "actual", "reason"),
    [
        ([1.0, 2.0], [1.0, 2.0005], ""), ([1.0, 2.0], [1.0, 2.01], "1 of 2 values are beyond the tolerance"),
        ([np.nan, 1.0], [np.nan, 1.0], ""), ([np.nan, 1.0], [0.0, 1.0], "1 NaN or infinite values differ"),
        ([np.inf, 1.0], [-np.inf, 1.0], "1 NaN or infinite values differ"), ([np.inf], [np.inf], ""),
        ([1000.0, 1e-9], [1000.0, 5e-4], ""), ([1e-9], [5e-4], "1 of 1 values are beyond the tolerance"),
        ([0.0, 0.0], np.zeros(3, F32), "shape is [3], expected [2]"),
        ([0.0, 0.0], np.zeros(2), "type is float64, expected float32"),
        (np.zeros((0, 3), F32), np.zeros((0, 3), F32), ""),
        (np.array(["a", "b"], np.object_), np.array(["a", "b"], np.object_), ""),
        (np.array(["a", "b"], np.object_), np.array(["b", "a"], np.object_), "2 of 2 texts differ"),
        (np.array([2**63 - 1, 5]), np.array([2**63 - 1, 5]), ""),
        (np.array([2**63 - 1, 5]), np.array([-(2**63), 5]), "1 of 2 values differ"),
    ],
)  # fmt: skip
def test_arrays(expected: list, actual: list, reason: str) -> None:
    wanted, found = (value if isinstance(value, np.ndarray) else np.array(value, F32) for value in (expected, actual))
    result = compare("t", wanted, found)
    assert (result.passed, result.reason) == (not reason, reason)
    if wanted.dtype == np.int64 and reason:
        assert result.max_absolute == float(2**64), "the difference does not overflow"


def test_figures() -> None:
    result = compare("t", f32(1, 2), np.array([np.nextafter(F32(1), F32(2)), 2], F32), Tolerance(0, 0))
    assert result.max_ulps == 1
    assert result.max_absolute == pytest.approx(2**-23)
    assert compare("t", f32(-0.0), f32(0.0)).max_ulps == 0
    assert compare("t", f32(1, 0), f32(0, 1)).cosine == 0


@pytest.mark.parametrize(("engine", "notes"), [("numpy", 1), ("openvino", 0)])
def test_a_report_says_that_openvino_was_not_asked(engine: str, notes: int, tmp_path: Path) -> None:
    page, proto = tmp_path / "v.html", models.three_layers()
    report = converter.verify(proto, converter.convert_model(proto), engine=engine, report=page)
    (output,) = report.outputs
    assert (report.passed, output.max_ulps <= 4, report.first_divergence) == (True, True, None)
    assert output.cosine == pytest.approx(1)
    for text in (report.to_text(), json.dumps(report.to_dict()), page.read_text(encoding="utf-8")):
        assert text.count("OpenVINO itself was not asked") == notes


def test_pages_and_json_show_both_errors(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    code, printed, _ = onnx2ir("verify", *map(str, pair(models.chaotic(), tmp_path)), "--json", "--report", str(page))
    found = json.loads(printed)
    check("verify", found)
    (output,) = found["outputs"]
    assert (code, output["passed"]) == (0, True)
    text = page.read_text(encoding="utf-8")
    assert "Errors against the result in float64" in text
    assert f"{output['errors']['reference']:.3g}" in text


def test_errors_alone_show_a_small_fault() -> None:
    """Weights off by a hundredth change the output by more than rounding does, which is enlarged as well."""
    proto = models.chaotic()
    right, wrong = converter.convert_model(proto), converter.convert_model(proto)
    scaled("w5", 1.01)(wrong)
    feeds = {"x": np.random.default_rng(3).standard_normal((16, WIDTH)).astype(F32)}
    exact = ExactModel(proto, {}).run(feeds)["y"]
    assert exact.dtype == np.float64
    (expected,) = run_onnxruntime(proto, feeds)
    for model, is_alike in ((right, True), (wrong, False)):
        errors = errors_of(exact, ir_runtime.compile_model(model)(feeds)[0], [expected])
        assert errors is not None
        assert errors.are_alike is is_alike


def test_injected_faults_in_a_model_that_enlarges_rounding() -> None:
    proto = models.chaotic()
    for fault, model, changed, _ in faults(converter.convert_model(proto), np.random.default_rng(0), 8):
        try:
            report = converter.verify(proto, model)
        except converter.VerificationError:
            continue  # the layers cannot be run any more
        assert not report.passed, (fault, changed)


def test_the_definition_decides_for_each_of_the_inputs(monkeypatch: pytest.MonkeyPatch) -> None:
    """An onnxruntime whose results are wrong except for zeros, which lie between inputs that show it."""
    run = ort_values.run

    def wrong(session: Any, feeds: Mapping[str, Any]) -> list[Any]:
        is_wrong = any(np.any(value) for value in feeds.values())
        return [value + value.dtype.type(is_wrong) for value in run(session, feeds)]

    monkeypatch.setattr(ort_values, "run", wrong)
    proto = parse("g (float[20,6] x) => (y) { y = ArgMax (x) }")
    report = converter.verify(proto, converter.convert_model(proto), stress=True)
    assert report.passed, report
    assert any("computes 'y' otherwise than ONNX defines it" in note for note in report.notes)


def test_random_rounding_shows_what_decides_an_output() -> None:
    """Equal logits of 1e8: the last bit of each decides which of them Softmax chooses. Of small ones it does not."""
    feeds = {"x": np.abs(np.random.default_rng(2).standard_normal((4, WIDTH))).astype(F32)}
    for size, least, most in ((1e8, 0.1, 1.0), (1.0, 1e-9, 1e-6)):
        text = f"g (float[n,{WIDTH}] x) => (float[n,{WIDTH}] y) {{ p = MatMul (x, w) y = Softmax (p) }}"
        exact = ExactModel(parse(text, w=np.full((WIDTH, WIDTH), size / WIDTH, F32)), {})
        right = exact.run(feeds)["y"]
        np.testing.assert_allclose(right, 1 / WIDTH)
        moved = [np.abs(exact.run_with_rounding(feeds, seed)["y"] - right).max() for seed in range(3)]
        assert least < min(moved) <= max(moved) <= most, (size, moved)
        assert np.array_equal(exact.run(feeds)["y"], right)


def test_sizes_are_not_rounded_at_random() -> None:
    """A Range up to a width that was cast to float32 keeps its number of elements."""
    exact = ExactModel(models.best_boxes(), {})
    feeds = {"x": np.random.default_rng(0).uniform(0, 1, (2, 3, 48, 64)).astype(F32)}
    assert [exact.run_with_rounding(feeds, seed)["y"].shape for seed in range(4)] == [(2, 20, 6)] * 4


def test_errors_are_not_compared_where_nan_or_shapes_differ() -> None:
    exact = np.array([1.0, np.nan, np.inf])
    same = np.array([1.0 + 1e-7, np.nan, np.inf], F32)
    errors, texts = errors_of(exact, same, [same]), np.array(["a"], np.object_)
    assert errors is not None
    assert errors.are_alike
    for right, found, others in (
        (exact, f32(1, 2, np.inf), [same]), (exact, same, [f32(1, np.nan, -np.inf)]), (exact, same[:2], [same]),
        (texts, texts, []),
    ):  # fmt: skip
        assert errors_of(right, found, others) is None
    # Where onnxruntime is exact, an IR that is not is different.
    for size in (1e-3, 0.0):
        assert Errors(size, size, 0.0, 0.0, 0.0, 0.0, 1.0).are_alike is (size == 0)


def test_a_model_in_float64_rounds_nowhere() -> None:
    """Casts, types of 16 bits and bodies become float64, too; NumPy computes the same by hand."""
    text = """g (float[n] x) => (float[n] y) { half = Cast <to = 10> (x) product = Mul (half, third)
        single = Cast <to = 1> (product)
        y = Loop (times, , single) <body = b (int64 i, bool go, float[n] state) => (bool go_on, float[n] squared) {
            squared = Mul (state, state) go_on = Identity (go) }> }"""
    proto = parse(text, 19, third=np.float16(1 / 3), times=np.int64(3))
    x = f32(1.1, 2.3, 0.7)
    wide = (x.astype(np.float64) * np.float64(np.float16(1 / 3))) ** 8
    np.testing.assert_allclose(ExactModel(proto, {}).run({"x": x})["y"], wide, rtol=1e-14)
    nodes = in_float64(converter.convert_model(proto)).nodes()
    assert {o.element_type.name for n in nodes for o in n.outputs if n.inputs}.isdisjoint({"f32", "f16"})


def test_rounding_that_adds_up_is_no_fault(tmp_path: Path) -> None:
    """A chain that doubles what its rounding costs at each step parts visibly, and every layer is right."""
    steps = models.in_a_row(
        40, "a{n} = Mul ({x}, four) b{n} = Sub (one, {x}) c{n} = Mul (a{n}, b{n}) d{n} = Sin (c{n})", "d"
    )
    proto = parse(f"g (float[64] x) => (d39) {{ {steps} }}", 18, four=f32(3.99), one=f32(1))
    inputs = {"x": np.linspace(0.1, 0.9, 64, dtype="f4")}
    report = converter.verify(proto, converter.convert_model(proto), layers=True, samples=1, inputs=inputs)
    assert (report.first_fault, len(report.layers)) == (None, 160)
    # Not a pass, for nobody can tell; but no layer is to blame.
    parted = replace(report, outputs=(replace(report.outputs[0], passed=False),))
    assert parted.only_adds_up
    assert (parted.verdict, parted.passed) == ("different", False)
    assert parted.reason.startswith("outputs differ, but no single layer is wrong")
    assert parted.to_dict()["only_adds_up"] is True
    assert not replace(parted, layers=()).only_adds_up  # nobody has looked


def test_sentences_name_a_few_of_many() -> None:
    """The share of weights is never rounded up."""
    difference = compare("t", f32(1), f32(2))
    fault = LayerDifference("layer9", "Add", difference, difference, "node", tuple(f"layer{at}" for at in range(180)))
    text = Report("oracle", 0, {}, (difference,), (fault,)).to_text()
    assert [part in text for part in ("one of layer0, layer1,", "layer7 and 172 more", "layer8,")] == [
        True,
        True,
        False,
    ]
    for values, share in (
        ({"file": 10_000_000, "missing": 1}, "99.9 % of 10,000,001 {}"), ({}, "100 % of 0 {} (none)"),
        ({"file": 3, "conversion": 1}, "100 % of 4 {} (3 file, 1 conversion)"),
    ):  # fmt: skip
        account = WeightAccount(values, ("w",) if "missing" in values else ())
        assert account.to_text().startswith(share.format("values of the IR are accounted for"))
    changes = tuple(LayerChange(f"l{index}", f"l{index}", "Add", ("it is Add",)) for index in range(5))
    check = DerivationCheck("different", "the IR is not what its recorded steps give", changes)
    report = converter.Report("onnxruntime", 0, {}, (), derivation=check)
    assert report.reason.count("it is Add") == 3
    assert "and 2 more" in report.reason
    assert [one.layer for one in check.of_part(["l3", "other"])] == ["l3"]
    assert check.of_part(["other"]) == changes
    assert Derivation().steps == ()


def test_the_smallest_part_is_written_and_shows_it(deep: Path, tmp_path: Path) -> None:
    model = converter.convert_model(deep)
    overwrite(model, "w3", np.eye(16, dtype=np.float32))
    folder = tmp_path / "fault"
    report = converter.verify(deep, model, minimise=folder, weights=False)
    assert "1 layer and 1 ONNX nodes; this part alone shows it" in report.minimised
    part = onnx.load(folder / "model.onnx")
    assert [node.op_type for node in part.graph.node] == ["MatMul"]
    assert not converter.verify(folder / "model.onnx", folder / "model.xml", inputs=folder / "inputs.npz").passed
    with np.load(folder / "inputs.npz") as feeds, np.load(folder / "expected.npz") as expected:
        weight = onnx.numpy_helper.to_array(part.graph.initializer[0])
        np.testing.assert_allclose(feeds["t2"] @ weight, expected["p3"], rtol=1e-5, atol=1e-6)


# --- differences of two models ---


FEW, MANY = 10, 40


def image() -> Model:
    return converter.convert_model(models.image())


def changes_of(first: Model, second: Model) -> dict[str, tuple[str, ...]]:
    return {change.layer: change.what for change in compare_models(first, second).changed}


def test_equal_models_whatever_ids_and_order() -> None:
    first, second = image(), image()
    second.parameters = second.parameters[::-1]
    for index, node in enumerate(second.nodes()):
        if node.op.type not in ("Parameter", "Result"):
            node.name = f"renamed{index}"
    found = compare_models(first, second)
    assert (found.same, found.paired) == (True, len(first.nodes()))


def test_what_changed_is_listed() -> None:
    first, second, third = image(), image(), image()
    attributes("conv", pads_begin=[0, 1], pads_end=[2, 1])(second)
    product = layer(second, "Multiply")
    before = [source.node.name for source in product.inputs]
    product.inputs = product.inputs[::-1]
    assert changes_of(first, second) == {
        "conv": (
            "pads_begin is 1, 1 where the other model has 0, 1",
            "pads_end is 1, 1 where the other model has 2, 1",
        ),
        product.name: tuple(
            f"input {at} is output 0 of '{before[at]}' where the other model has output 0 of '{before[1 - at]}'"
            for at in (0, 1)
        ),
    }
    damaged()(third)
    assert changes_of(first, third) == {"k": ("4 of 216 values differ, by 1 at most",)}


@pytest.mark.parametrize("shape", [(1000, 1500), (1500, 700), (7, 3)], ids=str)
def test_weights_that_are_stored_in_other_ways(shape: tuple[int, int], tmp_path: Path) -> None:
    """Of the file, which has gaps as it is transposed, and of the IR; and of weights in memory."""
    values = real(*shape)
    converted = converter.convert_model(node_model("MatMul", {"x": values.T[:2]}, constants={"w": values}, opset=13))
    converter.save_model(converted, tmp_path / "m.xml")
    for second in (ir_runtime.read_model(tmp_path / "m.xml"), converted.clone()):
        assert compare_models(converted, second).same
        other = array_of(second, [2])
        other[-1, -1] += 2.0
        overwrite(second, [2], lambda _, other=other: other)
        (what,) = changes_of(converted, second).values()
        assert what == (f"1 of {values.size} values differ, by 2 at most",)


def test_bodies() -> None:
    first, second = (converter.convert_model(UNCHANGED[0].model) for _ in range(2))
    assert compare_models(first, second).same
    loop = next(node for node in second.nodes() if node.op.subgraphs)
    inner = layer(loop.op.subgraphs[0].body, "Add")
    inner.inputs = (*inner.inputs, inner.inputs[0])
    assert changes_of(first, second) == {f"{loop.name}/{inner.name}": ("it has 2 inputs where the other model has 3",)}


def residual(count: int) -> onnx.ModelProto:
    """``s = s + relu(s @ w)``, again and again: a value is reached over 2 to the power of ``count`` paths."""
    random = np.random.default_rng(0)
    weights = {f"w{at}": (random.standard_normal((64, 64)) / 16).astype(np.float32) for at in range(count)}
    nodes = "[product{n}] p{n} = MatMul ({x}, w{n}) [relu{n}] r{n} = Relu (p{n}) [sum{n}] s{n} = Add ({x}, r{n})"
    return parse(f"g (float[n,64] x) => (s{count - 1}) {{ {models.in_a_row(count, nodes, 's')} }}", **weights)


def nameless(model: Model) -> Model:
    """A copy whose inner layers and tensors have other names than the ONNX model has for them, or none."""
    made = model.clone()
    for node in made.nodes():
        if node.op.type not in ("Parameter", "Result") and node not in [end.inputs[0].node for end in made.results]:
            node.name = f"other/{node.name}"
            for output in node.outputs:
                output.names = []
    return made


def calls_of(work: Callable[[], Any], most: int = 20_000_000) -> tuple[int, Any]:
    """Count calls; what takes 2 to the power of 40 of them is not waited for."""
    count = 0

    def counted(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")
        assert count <= most

    sys.setprofile(counted)
    try:
        found = work()
    finally:
        sys.setprofile(None)
    return count, found


def assert_linear(work: Callable[[int], int]) -> None:
    counts = [work(size) for size in (2, FEW, MANY)]  # the first one imports and caches
    assert counts[2] < 1.25 * counts[1] * MANY / FEW


@pytest.mark.parametrize("layers", [False, True])
@pytest.mark.parametrize("form", ["plain", "int8", "nameless", "damaged"])
def test_a_comparison_is_linear_in_the_number_of_blocks(tmp_path: Path, form: str, layers: bool) -> None:
    """Also with codes that scales widen, of which the last one is damaged, and beside a model without common names."""
    is_int8, is_wrong = form in ("int8", "damaged"), form == "damaged"

    def work(size: int) -> int:
        path, ir = saved(residual(size), tmp_path), tmp_path / "m.xml"
        model = converter.convert_model(path)
        written = nameless(model) if form == "nameless" else model
        converter.save_model(written, ir, compress="int8" if is_int8 else None)
        read = ir_runtime.read_model(ir)
        if is_wrong:
            bit((64, 64), -1, 7)(read)
        count, report = calls_of(lambda: converter.verify(path, read, layers=layers))
        assert report.passed is not is_wrong
        right = {"compressed" if is_int8 else "identical": size - is_wrong}
        assert report.weight_states == {**right, **({"changed": 1} if is_wrong else {})}
        return count

    assert_linear(work)


def test_a_difference_of_models_without_common_names_is_linear() -> None:
    def work(size: int) -> int:
        model = converter.convert_model(residual(size))
        count, found = calls_of(lambda: compare_models(model, nameless(model)))
        assert (found.same, found.paired) == (True, len(model.nodes()))
        return count

    assert_linear(work)


# --- scales that are folded ---


WEIGHTS = ("k", "d", "g")


def layers(model: Model) -> list[str]:
    return [node.op.type for node in model.nodes() if node.op.type not in ("Const", "Parameter", "Result")]


@pytest.mark.parametrize("options", [{}, {"exact": True}, {"fuse": False}], ids=str)
@pytest.mark.parametrize("target", ["cpu", "any"])
def test_every_weight_is_accounted_for(options: dict[str, Any], target: str) -> None:
    model = converter.convert_model(scaled_network(), target=target, **options)
    report = converter.verify(scaled_network(), model)
    assert report.passed
    assert {check.state for check in report.weights if check.name in WEIGHTS} == {"identical" if options else "scaled"}
    assert ("Multiply" in layers(model)) == bool(options)
    # The CPU plug-in's rule leaves the layer where every constant must stay.
    is_kept = "exact" in options or (bool(options) and target == "any")
    assert layers(model).count("BatchNormInference") == is_kept


def test_scaled_weights_are_computed_when_they_are_written(tmp_path: Path) -> None:
    model = converter.convert_model(scaled_network())
    data = constant(model, (128, 16)).op.data
    assert data is not None
    assert data._array is None
    assert data._packed is None
    converter.save_model(model, tmp_path / "m.xml")
    assert converter.verify(scaled_network(), tmp_path / "m.xml").passed


def test_a_factor_in_front_of_a_convolution() -> None:
    """Exact conversions keep it; a scale of preprocessing becomes part of the weights in a second conversion."""
    row = Idiom(scaled_first, inputs=IMAGE, count=3)
    assert len(layers(converter.convert_model(row.model(3), exact=True))) == row.count
    proto = Idiom(convolution, inputs=IMAGE, count=1).model(3)
    first = converter.convert_model(proto, preprocess={"x": converter.Preprocess(scale=255.0)})
    assert len(layers(first)) == 2
    again = converter.convert_model(first)
    assert layers(again) == ["Convolution"]
    for ir in (first, again):
        assert converter.verify(proto.SerializeToString(), ir).passed


# --- scaled weights ---

RNG = np.random.default_rng(7)
# name -> weights [channels, inputs]
KINDS_OF_WEIGHTS = {
    "ordinary": RNG.normal(size=(6, 64)),
    "one value that float16 has": np.where(np.arange(64) == 33, -2.7225886e-07, 1e-9) * np.ones((6, 1)),
    "small numbers of float16": RNG.normal(size=(6, 64)) * 3e-7,
    "both": np.concatenate([RNG.normal(size=(3, 64)), RNG.normal(size=(3, 64)) * 1e-7]),
}
FACTORS = np.array([0.9378595, 1.03, 0.97, 0.9999, 1.5, 0.25])[:, None]
FIRST_TWO = np.array([0.5, 0.5, 1, 1, 1, 1])[:, None]


def wrong_in(weights: np.ndarray, held: np.ndarray) -> list[list[int]]:
    return np.argwhere(find_unscaled(weights, held, (0,))).tolist()


@pytest.mark.parametrize("kind", [np.float32, np.float16])
@pytest.mark.parametrize("name", KINDS_OF_WEIGHTS)
def test_a_wrong_value_is_found_in_any_channel(name: str, kind: type) -> None:
    """Weights that were rounded twice are right."""
    weights = KINDS_OF_WEIGHTS[name].astype(np.float32)
    held = (weights * FACTORS).astype(np.float32).astype(kind)
    assert wrong_in(weights, held) == []
    for channel in range(6) if name == "ordinary" else ():
        spoilt = held.copy()
        spoilt[channel, 5] = np.nextafter(np.nextafter(held[channel, 5], kind(9)), kind(9))
        assert wrong_in(weights, spoilt) == [[channel, 5]]
    if name == "ordinary" and kind is np.float32:
        spoilt = (weights * FIRST_TWO).astype(np.float32)  # beside channels that are not scaled
        spoilt[4, 9] *= np.float32(1 + 2**-20)
        assert wrong_in(weights, spoilt) == [[4, 9]]
