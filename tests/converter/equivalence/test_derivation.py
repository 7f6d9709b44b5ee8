"""The record of a derivation in ``rt_info``: what it has, and whether its steps give the IR again."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import converter
import ir_runtime
from converter.passes.derivation import Derivation, Step
from ir_runtime.graph.model import Model, RuntimeInfo
from ir_runtime.graph.model_difference import compare_models
from tests.commands import onnx2ir
from tests.converter.language_models.decoders import Decoder
from tests.converter.optimization.models import floats, parse
from tests.engines import core


def network(weight: float = 1.0, epsilon: float = 1e-5, width: int = 4) -> onnx.ModelProto:
    """A convolution behind which a scale can be folded, a GELU in its parts, and a normalization."""
    rng = np.random.default_rng(1)
    w = rng.normal(size=(width, 3, 3, 3)).astype(np.float32) * np.float32(weight)
    s, ones = rng.uniform(0.5, 2, (width, 1, 1)).astype(np.float32), np.ones(width, np.float32)
    text = f"""network (float[n,3,8,8] x) => (y) <float one = {{1}}, float half = {{0.5}}> {{
        c = Conv (x, w) m = Mul (c, s) i = InstanceNormalization <epsilon = {epsilon:.8f}> (m, ones, b)
        d = Div (i, root) e = Erf (d) a = Add (e, one) p = Mul (i, a) y = Mul (p, half) }}"""
    return parse(text, w=w, s=s, b=0 * ones, ones=ones, root=np.float32(np.sqrt(2)))


def product(more: float = 0.0) -> onnx.ModelProto:
    """A matrix multiplication, whose weights the CPU plug-in wants transposed."""
    return parse("g (float[n,64] x) => (float[n,64] y) { y = MatMul (x, w) }", w=floats(64, 64) + np.float32(more))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    onnx.save(network(), tmp_path / "m.onnx")
    return tmp_path / "m.onnx"


def converted(source: Any, folder: Path, saving: dict | None = None, **options: Any) -> Model:
    converter.save_model(converter.convert_model(source, **options), folder / "m.xml", **(saving or {}))
    return ir_runtime.read_model(folder / "m.xml")


def steps_of(source: Any, folder: Path, saving: dict | None = None, **options: Any) -> tuple[Step, ...]:
    return Derivation.of(converted(source, folder, saving, **options)).steps


# name -> (options of the conversion, what the record has of them, options of saving, what the record has of them)
ROWS: dict[str, tuple[dict, dict, dict, dict]] = {
    "plain": ({}, {}, {}, {}),
    "exact": ({"exact": True}, {"exact": True}, {}, {}),
    "no fusion": ({"fuse": False}, {"fuse": False}, {}, {}),
    "any": ({"target": "any", "skip_passes": "gelus"}, {"target": "any", "skip_passes": ["gelus"]}, {}, {}),
    "static": ({"input": {"x": [1, 3, 8, 8]}, "static": True}, {"input": "x[1,3,8,8]", "static": True}, {}, {}),
    "NumPy's": ({"batch": np.int64(2), "output": "m"}, {"batch": 2, "output": ["m"]}, {}, {}),
    "frozen": ({"freeze": {"x": np.ones((1, 3, 8, 8), np.float32)}}, {"freeze": ["x"]}, {}, {}),
    "preprocessed": ({"preprocess": {"x": converter.Preprocess(mean=127.5)}}, {"preprocess": True}, {}, {}),
    "fp16": ({}, {}, {"compress_to_fp16": True}, {"compress_to_fp16": True}),
    "int8": ({"exact": True}, {"exact": True}, {"compress": "int8"}, {"compress": "int8"}),
    "int4": (
        {}, {}, {"compress": converter.WeightCompression(4, np.int64(64))}, {"compress": "int4", "group_size": 64}
    ),
}  # fmt: skip


@pytest.mark.parametrize("row", ROWS)
def test_options_are_recorded_and_give_the_ir_again(row: str, path: Path, tmp_path: Path) -> None:
    options, recorded, saving, saved = ROWS[row]
    first, *others = steps_of(path, tmp_path, saving, **options)
    assert (first.action, first.version, first.source) == ("convert", converter.__version__, "onnx")
    assert first.digest == f"sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}"  # it has no large weights
    assert first.options == recorded
    assert [(step.action, step.options) for step in others] == ([("save", saved)] if saved else [])
    result = converter.derive(tmp_path / "m.xml", path, freeze=options.get("freeze"))
    assert (result.same, result.source_changed, result.notes) == (True, False, ())
    assert result.verdict.startswith("derived: ")


def test_passes_and_rules_are_recorded(path: Path, tmp_path: Path) -> None:
    (plain,), (exact,) = steps_of(path, tmp_path), steps_of(path, tmp_path, exact=True)
    assert plain.passes["gelus"] == plain.passes["folded_scales"] == 1
    assert exact.passes == {name: count for name, count in plain.passes.items() if name != "folded_scales"}
    (plainest,) = steps_of(path, tmp_path, target="any", fuse=False)
    assert ("gelus" in plainest.passes, plainest.rules) == (False, {})
    (step,) = steps_of(product(), tmp_path)
    assert (step.rules, step.digest) == ({"transposed_weights": 1}, "")


def test_the_digest_leaves_out_the_values_of_large_weights(path: Path) -> None:
    def digest(model: onnx.ModelProto) -> str:
        return Derivation.of(converter.convert_model(model.SerializeToString())).steps[0].digest

    large = digest(network(width=64))
    assert large == digest(network(weight=2.0, width=64))
    assert large != digest(network(width=63))
    assert large != digest(network(epsilon=1e-6, width=64))
    assert digest(network()) != digest(network(weight=2.0))  # small weights count
    assert digest(network()) == Derivation.of(converter.convert_model(path)).steps[0].digest


def test_bytes_are_those_of_every_process_and_folder(path: Path, tmp_path: Path) -> None:
    """Neither the folder nor the hashes of strings show; and the command line writes what the API writes."""
    written = []
    for seed in ("1", "2"):
        folder = tmp_path / seed
        folder.mkdir()
        (folder / "m.onnx").write_bytes(path.read_bytes())
        words = f"convert {folder / 'm.onnx'} -o {folder / 'm.xml'} --target any --compress int8".split()
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        subprocess.run([sys.executable, "-m", "converter", *words], check=True, capture_output=True, env=environment)
        written.append((folder / "m.xml").read_bytes())
    converted(path, tmp_path, {"compress": "int8"}, target="any")
    assert written[0] == written[1] == (tmp_path / "m.xml").read_bytes()


def test_reading_and_writing_changes_nothing(path: Path, tmp_path: Path) -> None:
    model = converted(path, tmp_path, {"compress": "int8"}, exact=True)
    text, _ = ir_runtime.model_to_bytes(model)
    assert text == (tmp_path / "m.xml").read_bytes()
    converter.save_model(model, tmp_path / "again.xml")
    assert text == (tmp_path / "again.xml").read_bytes()
    model.reshape({"x": [2, 3, 8, 8]})
    assert [step.action for step in Derivation.of(model).steps] == ["convert", "save"]


@pytest.mark.parametrize("saving", [{}, {"compress_to_fp16": True}])
def test_without_a_record(saving: dict, path: Path, tmp_path: Path) -> None:
    first, second, third = (tmp_path / f"{name}.xml" for name in "mno")
    model = converter.convert_model(path)
    converter.save_model(model, first, **saving)
    converter.save_model(model, second, record=False, **saving)
    assert len(Derivation.of(model).steps) == 1, "the model of the caller is unchanged"
    assert Derivation.of(ir_runtime.read_model(second)) == Derivation()
    assert compare_models(*map(ir_runtime.read_model, (first, second))).same, "a record is no difference"
    assert onnx2ir("diff", str(first), str(second))[0] == 0
    assert onnx2ir("convert", str(path), "-o", str(third), "--no-record")[0] == 0
    assert not any(b"onnx2ir" in file.read_bytes() for file in (second, third))


def test_an_ir_that_is_converted_keeps_its_steps(path: Path, tmp_path: Path) -> None:
    before = steps_of(path, tmp_path, fuse=False)
    document = (tmp_path / "m.xml").read_bytes()
    steps = Derivation.of(converter.convert_model(tmp_path / "m.xml", batch=2)).steps
    assert steps[:-1] == before
    assert (steps[-1].source, steps[-1].options) == ("ir", {"batch": 2})
    assert steps[-1].digest == f"sha256:{hashlib.sha256(document).hexdigest()}"
    assert steps[-1].passes["gelus"] == 1
    converter.save_model(ir_runtime.read_model(tmp_path / "m.xml"), tmp_path / "n.xml", compress_to_fp16=True)
    last = Derivation.of(ir_runtime.read_model(tmp_path / "n.xml")).steps[-1]
    assert last == Step("save", options={"compress_to_fp16": True})
    assert b"sha256:" not in converter.export_model(tmp_path / "n.xml").SerializeToString()


SCALED = (("scaled", "float16"), ("w", "s"))
REVERSED = {"exact": True, "preprocess": {"x": converter.Preprocess(reverse_channels=True)}}


def weights_of(model: Model) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
    """What was done to weights, and to which tensors."""
    found = (Derivation.of(model).weights or {}).values()
    return [(one.steps, one.sources) for one in found if "w" in one.names or one.sources == ("w",)]


@pytest.mark.parametrize(
    ("make", "options", "saving", "expected"),
    [
        (network, {}, {}, [(("scaled",), ("w", "s"))]), (network, {"exact": True}, {}, []),
        (network, {}, {"compress_to_fp16": True}, [SCALED]),
        (network, REVERSED, {}, [(("reversed channels",), ("w",))]),
        (product, {}, {"compress": "int8"},
         [(("Transpose", what), ("w",)) for what in ("u8 codes", "zero points", "scales")]),
    ],
)  # fmt: skip
def test_what_was_done_to_weights_is_recorded(
    make: Callable[[], Any], options: dict, saving: dict, expected: list, tmp_path: Path
) -> None:
    assert weights_of(converted(make(), tmp_path, saving, **options)) == expected


def test_weights_keep_their_sources_in_an_ir_and_when_pickled(path: Path, tmp_path: Path) -> None:
    converted(path, tmp_path)
    pickled = pickle.loads(pickle.dumps(converter.convert_model(path)))
    for model in (converter.convert_model(tmp_path / "m.xml"), pickled):
        converter.save_model(model, tmp_path / "n.xml", compress_to_fp16=True)
        assert weights_of(ir_runtime.read_model(tmp_path / "n.xml")) == [SCALED]


def test_states_and_their_removal_are_recorded(tmp_path: Path) -> None:
    source = tmp_path / "d.onnx"
    onnx.save(Decoder().build(), source)
    model = converted(source, tmp_path, stateful=True)
    (step,), before = Derivation.of(model).steps, Derivation.of(model).weights
    assert (step.options, bool(before)) == ({"stateful": True}, True)
    assert converter.derive(tmp_path / "m.xml", source).same
    assert converter.make_stateless(model) > 0
    assert Derivation.of(model).steps == (step, Step("make_stateless"))
    assert Derivation.of(model).weights == before
    converter.save_model(model, tmp_path / "n.xml")
    assert converter.derive(tmp_path / "n.xml", source).same
    plain = converter.convert_model(source)
    Derivation.of(model).write(plain)
    assert not converter.derive(plain, source).same  # the order of the layers' names tells both apart


def test_constants_in_thousands_of_steps(tmp_path: Path) -> None:
    """Resolving and pickling what a constant was computed from does not recurse."""
    count = 5000
    nodes = " ".join(f"v{at + 1} = Add (v{at}, w{(at + 1) % 2})" for at in range(count))
    ones = dict.fromkeys(("v0", "w0", "w1"), np.ones(3, np.float32))
    proto = parse(f"g (float[3] x) => (float[3] y) {{ {nodes} y = Add (x, v{count}) }}", **ones)
    model = converter.convert_model(proto, target="any")
    (weights,) = Derivation.of(model).weights.values()
    assert (weights.steps, set(weights.sources)) == (("Add",), {"v0", "w0", "w1"})
    assert Derivation.of(pickle.loads(pickle.dumps(model))).weights == Derivation.of(model).weights


def test_a_record_without_weights_says_nothing_of_them(path: Path, tmp_path: Path) -> None:
    model = converted(path, tmp_path)
    Derivation(Derivation.of(model).steps).write(model)
    converter.save_model(model, tmp_path / "n.xml")
    assert Derivation.of(ir_runtime.read_model(tmp_path / "n.xml")).weights is None
    checks = converter.verify(path, tmp_path / "n.xml").weights
    assert [check.state for check in checks if check.name == "w"] == ["scaled"]
    converter.save_model(converter.convert_model(tmp_path / "n.xml"), tmp_path / "o.xml", compress_to_fp16=True)
    assert Derivation.of(ir_runtime.read_model(tmp_path / "o.xml")).weights is None


def test_inspect_shows_the_steps(path: Path, tmp_path: Path) -> None:
    converted(path, tmp_path, {"compress": "int8"}, exact=True)
    converter.save_model(ir_runtime.read_model(tmp_path / "m.xml"), tmp_path / "n.xml", record=False)
    for name, options in (("m.xml", [{"exact": True}, {"compress": "int8"}]), ("n.xml", [])):
        code, text, _ = onnx2ir("inspect", str(tmp_path / name))
        steps = json.loads(onnx2ir("inspect", str(tmp_path / name), "--json")[1])["derivation"]
        assert (code, [step["options"] for step in steps], "onnx2ir" in text) == (0, options, bool(options))
        for what in ('convert from onnx with {"exact": true}', 'save with {"compress": "int8"}') if options else ():
            assert f"{what} (onnx2ir {converter.__version__})" in text


def test_openvino_reads_the_record(path: Path, tmp_path: Path) -> None:
    openvino = pytest.importorskip("openvino")
    ours = Derivation.of(converted(path, tmp_path, {"compress": "int8"}, exact=True, target="any"))
    theirs = core().read_model(tmp_path / "m.xml")
    assert theirs.get_rt_info(["onnx2ir", "step0", "options"]).astype(str) == '{"target": "any", "exact": true}'
    assert theirs.get_rt_info(["onnx2ir", "step0", "source"]).astype(str) == "onnx"
    core().compile_model(theirs, "CPU")
    openvino.save_model(theirs, tmp_path / "n.xml", compress_to_fp16=False)
    assert Derivation.of(ir_runtime.read_model(tmp_path / "n.xml")) == ours


def record_of(**values: str) -> RuntimeInfo:
    step = {"action": "convert", "version": "0.2.0", **values}
    return RuntimeInfo("step0", (), tuple(RuntimeInfo(name, (("value", text),)) for name, text in step.items()))


def test_this_record_can_be_read() -> None:
    record = record_of(options='{"exact": true}', passes='{"a": 1}')
    model = Model(runtime_info=(RuntimeInfo("onnx2ir", (), (record,)),))
    assert Derivation.of(model).steps == (Step("convert", "0.2.0", options={"exact": True}, passes={"a": 1}),)


@pytest.mark.parametrize(
    "infos",
    [
        (record_of(), record_of()), (record_of(), RuntimeInfo("step2", (), record_of().children)), (RuntimeInfo("step0"),),
        (RuntimeInfo("step", (), record_of().children),),
        (RuntimeInfo("step0", (), (RuntimeInfo("action", (("value", "convert"),)),)),),
        *((record_of(**{name: value}),) for name, value in (
            ("unknown", "1"), ("action", "delete"), ("source", "torch"), ("digest", "sha256:abc"), ("options", "{"),
            ("options", "[1]"), ("options", '{"batch": NaN}'), ("version", ""), ("options", "[" * 100_000),
            ("passes", '{"gelus": "many"}'), ("passes", '{"gelus": true}'),
            ("rules", '{"gelus": 1' + "0" * 10_000 + "}"))),
        *((record_of(), RuntimeInfo("weights", value)) for value in (
            (("value", '{"w": {"sources": [1], "steps": []}}'),), (("value", '{"w": ["w"]}'),), ())),
    ],
)  # fmt: skip
def test_a_damaged_record_counts_as_missing(infos: tuple[RuntimeInfo, ...], path: Path) -> None:
    model = converter.convert_model(path)
    model.runtime_info = (RuntimeInfo("onnx2ir", (), infos),)
    assert Derivation.of(model) == Derivation()
    (step,) = Derivation.of(converter.convert_model(model)).steps  # and is replaced
    assert (step.source, step.digest) == ("ir", "")


# --- derive: an IR beside its derivation from the source, bit by bit ---


def test_an_ir_that_was_derived_from_an_ir(path: Path, tmp_path: Path) -> None:
    first, second, other = (tmp_path / f"{name}.xml" for name in ("m", "n", "other"))
    converted(path, tmp_path, fuse=False)
    converter.save_model(converter.convert_model(first, batch=2), second, compress="int8")
    converter.save_model(converter.convert_model(network(2.0)), other)
    for source, expected in ((path, (True, False)), (first, (True, False)), (other, (False, True))):
        result = converter.derive(second, source)
        assert (result.same, result.source_changed) == expected


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("", "", "1 of "), ('eps="', 'eps="1', "eps is "),
        ('"ERF"', '"TANH"', "approximation_mode is TANH where the other model has ERF"),
        ('names="y"', 'names="z"', "tensor names"),
        ('<info name="ir_version" value="', '<info name="ir_version" value="1', "rt_info"),
        ('<net name="network"', '<net name="other"', "its name is 'other' where the other model has "),
    ],
)  # fmt: skip
def test_an_edit_is_named(old: str, new: str, words: str, path: Path, tmp_path: Path) -> None:
    """Of the XML, or a bit of a weight."""
    converted(path, tmp_path)
    text, data = (tmp_path / "m.xml").read_text(), bytearray((tmp_path / "m.bin").read_bytes())
    assert old in text
    data[len(data) // 2] ^= not old
    (tmp_path / "m.xml").write_text(text.replace(old, new, 1))
    (tmp_path / "m.bin").write_bytes(data)
    result = converter.derive(tmp_path / "m.xml", path)
    assert (result.same, result.source_changed) == (False, False)
    changes = [sentence for change in result.difference.changed for sentence in change.what]
    assert any(words in sentence for sentence in changes), changes
    code, text, _ = onnx2ir("derive", str(tmp_path / "m.xml"), "--from", str(path))
    assert (code, "different: the IR was changed after it was derived, or another version" in text) == (1, True)


def test_a_changed_source_is_named(tmp_path: Path, path: Path) -> None:
    """Another source may give the same IR. The digest leaves out the values of large weights."""
    converted(path, tmp_path)
    commented = network()
    commented.graph.node[0].doc_string = "not in the IR"
    for model, same, verdict in (
        (network(epsilon=1e-3), False, "its digest differs"),
        (commented, True, "from a source whose digest is not the recorded one"),
    ):
        onnx.save(model, path)
        result = converter.derive(tmp_path / "m.xml", path)
        assert (result.same, result.source_changed, verdict in result.verdict) == (same, True, True)
    converted(product().SerializeToString(), tmp_path)
    onnx.save(product(1e-7), path)
    (change,) = converter.derive(tmp_path / "m.xml", path).difference.changed
    assert (change.layer, change.type, "values differ, by" in change.what[0]) == ("w", "Const", True)


def test_what_cannot_be_repeated_is_refused(path: Path, tmp_path: Path) -> None:
    values = {"x": np.ones((1, 3, 8, 8), np.float32)}
    converted(path, tmp_path, freeze=values)
    with pytest.raises(converter.VerificationError, match=r"has only the names of freeze: \['x'\]; pass freeze again"):
        converter.derive(tmp_path / "m.xml", path)
    assert converter.derive(tmp_path / "m.xml", path, freeze=values).same
    assert not converter.derive(tmp_path / "m.xml", path, freeze={"x": values["x"] * 2}).same
    converted(path, tmp_path, {"record": False})
    with pytest.raises(converter.VerificationError, match="the IR has no record of how it was derived"):
        converter.derive(tmp_path / "m.xml", path)
    converted(path, tmp_path)
    with pytest.raises(converter.VerificationError, match="was derived from onnx, but the source is ir"):
        converter.derive(tmp_path / "m.xml", tmp_path / "m.xml")


def test_another_version_is_noted(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    converted(path, tmp_path)
    monkeypatch.setattr("converter.equivalence.derivation.rederivation._CURRENT_VERSION", "0.3.0")
    result = converter.derive(tmp_path / "m.xml", path)
    assert result.notes == (f"a step was done by onnx2ir {converter.__version__}, and is repeated by 0.3.0",)


def test_the_command(path: Path, tmp_path: Path) -> None:
    converted(path, tmp_path, {"compress_to_fp16": True}, batch=2)
    words = ["derive", str(tmp_path / "m.xml"), "--from", str(path)]
    code, text, _ = onnx2ir(*words)
    assert (code, text.splitlines()[-1]) == (0, "derived: the recorded steps give this IR again, bit for bit")
    code, text, _ = onnx2ir(*words, "--input", "x[3,3,8,8]", "--json")
    assert (code, json.loads(text)["same"], json.loads(text)["source_changed"]) == (1, False, False)
