"""derive: an IR beside its derivation from the source, bit by bit."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import converter
import ir_runtime
from converter.derivation import Derivation
from tests.commands import onnx2ir
from tests.converter.option_models import encoder
from tests.converter.test_derivation import ROWS, converted, network, product
from tests.language_models.decoders import Decoder


@pytest.fixture
def path(tmp_path: Path) -> Path:
    onnx.save(network(), tmp_path / "m.onnx")
    return tmp_path / "m.onnx"


@pytest.mark.parametrize("row", ROWS)
def test_recorded_steps_give_the_ir_again(row: str, path: Path, tmp_path: Path) -> None:
    options, _, saving, _ = ROWS[row]
    converted(path, tmp_path, saving, **options)
    result = converter.derive(tmp_path / "m.xml", path, freeze=options.get("freeze"))
    assert (result.same, result.source_changed, result.notes) == (True, False, ())
    assert result.verdict.startswith("derived: ")


@pytest.mark.parametrize("dims", ["1,2,n", "1,2,5"])
@pytest.mark.parametrize("read_again", [False, True])
@pytest.mark.parametrize(
    "condition", ["Greater (ws, eps)", "Less (eps, ws)", "GreaterOrEqual (ws, eps)", "Cast <to = 9> (ws)"]
)
def test_values_that_a_rule_makes_constant(condition: str, read_again: bool, dims: str, tmp_path: Path) -> None:
    """A Slice takes all of a constant, which is known when the length is: readers of its values get other shapes."""
    text = f"""<ir_version: 8, opset_import: ["" : 17]>
    g (float[{dims}] x) => (float[p] out, float[q] more) {{
        s = Shape <start = 2> (x)
        long = Mul (s, twenty)
        ws = Slice (w, zero, long, zero)
        c = {condition}
        nz = NonZero (c)
        at = Transpose <perm = [1, 0]> (nz)
        out = GatherND (w, at)
        more = {"Compress (ws, c)" if read_again else "Relu (ws)"}
    }}"""
    model = onnx.parser.parse_model(text)
    weights = {"w": np.float32([0, *np.linspace(0.5, 1, 19)]), "eps": np.float32(1e-6)}
    weights |= {"zero": np.int64([0]), "twenty": np.int64([20])}
    model.graph.initializer.extend(numpy_helper.from_array(value, name) for name, value in weights.items())
    onnx.save(model, tmp_path / "m.onnx")
    converted(tmp_path / "m.onnx", tmp_path)
    assert converter.derive(tmp_path / "m.xml", tmp_path / "m.onnx").same


def test_states_and_their_removal(tmp_path: Path) -> None:
    source = tmp_path / "d.onnx"
    onnx.save(Decoder().build(), source)
    model = converted(source, tmp_path, stateful=True)
    assert converter.derive(tmp_path / "m.xml", source).same
    converter.make_stateless(model)
    converter.save_model(model, tmp_path / "n.xml")
    assert converter.derive(tmp_path / "n.xml", source).same
    plain = converter.convert_model(source)
    Derivation.of(model).write(plain)
    assert not converter.derive(plain, source).same  # the order of the layers' names tells both apart


def test_an_ir_that_was_derived_from_an_ir(path: Path, tmp_path: Path) -> None:
    converted(path, tmp_path, fuse=False)
    converter.save_model(converter.convert_model(tmp_path / "m.xml", batch=2), tmp_path / "n.xml", compress="int8")
    assert converter.derive(tmp_path / "n.xml", path).same
    result = converter.derive(tmp_path / "n.xml", tmp_path / "m.xml")
    assert (result.same, result.source_changed) == (True, False)
    converter.save_model(converter.convert_model(network(2.0)), tmp_path / "other.xml")
    result = converter.derive(tmp_path / "n.xml", tmp_path / "other.xml")
    assert (result.same, result.source_changed) == (False, True)


def _flip_a_bit(folder: Path) -> None:
    data = bytearray((folder / "m.bin").read_bytes())
    data[len(data) // 2] ^= 1
    (folder / "m.bin").write_bytes(bytes(data))


def _replace(old: str, new: str) -> Callable[[Path], None]:
    def edit(folder: Path) -> None:
        text = (folder / "m.xml").read_text()
        assert old in text, old
        (folder / "m.xml").write_text(text.replace(old, new, 1))

    return edit


# name -> (the edit of m.xml or m.bin, words of the difference)
EDITS: dict[str, tuple[Callable[[Path], None], str]] = {
    "a bit of a weight": (_flip_a_bit, "1 of "),
    "an epsilon": (_replace('eps="', 'eps="1'), "eps is "),
    "a mode": (_replace('"ERF"', '"TANH"'), "approximation_mode is TANH where the other model has ERF"),
    "a tensor name": (_replace('names="y"', 'names="z"'), "tensor names"),
    "the metadata": (_replace('<info name="ir_version" value="', '<info name="ir_version" value="1'), "rt_info"),
    "the name": (
        _replace('<net name="network"', '<net name="other"'),
        "its name is 'other' where the other model has 'network'",
    ),
}


@pytest.mark.parametrize("name", EDITS)
def test_an_edit_is_named(name: str, path: Path, tmp_path: Path) -> None:
    converted(path, tmp_path)
    edit, words = EDITS[name]
    edit(tmp_path)
    result = converter.derive(tmp_path / "m.xml", path)
    assert (result.same, result.source_changed) == (False, False)
    changes = [sentence for change in result.difference.changed for sentence in change.what]
    assert any(words in sentence for sentence in changes), changes
    code, text, _ = onnx2ir("derive", str(tmp_path / "m.xml"), "--from", str(path))
    assert code == 1
    assert "different: the IR was changed after it was derived, or another version derived it" in text


def test_a_changed_source_is_named(tmp_path: Path, path: Path) -> None:
    converted(path, tmp_path)
    onnx.save(network(epsilon=1e-3), path)
    result = converter.derive(tmp_path / "m.xml", path)
    assert (result.same, result.source_changed) == (False, True)
    assert "its digest differs" in result.verdict


def test_another_source_may_give_the_same_ir(tmp_path: Path, path: Path) -> None:
    converted(path, tmp_path)
    model = network()
    model.graph.node[0].doc_string = "not in the IR"
    onnx.save(model, path)
    result = converter.derive(tmp_path / "m.xml", path)
    assert (result.same, result.source_changed) == (True, True)
    assert result.verdict.endswith("from a source whose digest is not the recorded one")


def test_large_weights_of_another_source_are_named(tmp_path: Path) -> None:
    """The digest leaves out the values of large weights."""
    model = product()
    weights = np.random.default_rng(1).normal(size=(64, 64)).astype(np.float32)
    for name, values in (("m", weights), ("n", weights + np.float32(1e-7))):
        model.graph.initializer[0].CopyFrom(numpy_helper.from_array(values, "w"))
        onnx.save(model, tmp_path / f"{name}.onnx")
    converted(tmp_path / "m.onnx", tmp_path)
    result = converter.derive(tmp_path / "m.xml", tmp_path / "n.onnx")
    (change,) = result.difference.changed
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
    monkeypatch.setattr("converter.equivalence.rederivation._CURRENT_VERSION", "0.3.0")
    result = converter.derive(tmp_path / "m.xml", path)
    assert result.notes == (f"a step was done by onnx2ir {converter.__version__}, and is repeated by 0.3.0",)


def test_the_command(path: Path, tmp_path: Path) -> None:
    ir = str(tmp_path / "m.xml")
    converted(path, tmp_path, {"compress_to_fp16": True}, batch=2)
    code, text, _ = onnx2ir("derive", ir, "--from", str(path))
    assert (code, text.splitlines()[-1]) == (0, "derived: the recorded steps give this IR again, bit for bit")
    code, text, _ = onnx2ir("derive", ir, "--from", str(path), "--input", "x[3,3,8,8]", "--json")
    result: dict[str, Any] = json.loads(text)
    assert (code, result["same"], result["source_changed"]) == (1, False, False)
    assert ir_runtime.read_model(ir).inputs


def test_bits_beside_an_element_do_not_count(tmp_path: Path) -> None:
    """In memory an element of 4 bits has a byte, and where it comes from decides about the other half of that."""
    onnx.save(encoder(), tmp_path / "m.onnx")
    converter.save_model(converter.convert_model(tmp_path / "m.onnx"), tmp_path / "m.xml", compress="int4")
    types = {
        str(node.op.data.element_type) for node in ir_runtime.read_model(tmp_path / "m.xml").nodes() if node.op.data
    }
    assert "i4" in types
    assert converter.derive(tmp_path / "m.xml", tmp_path / "m.onnx").same


def test_a_layer_that_reads_another_value_is_named(path: Path, tmp_path: Path) -> None:
    """Nothing else reads the layers before it, so that the edited IR does not have them any more."""
    model = converted(path, tmp_path)
    reader, other = next(
        (node, value)
        for node in model.nodes()
        if node.inputs and len(node.inputs[0].uses) == 1
        for value in node.inputs[0].node.inputs
        if value.type == node.inputs[0].type
    )
    source = reader.inputs[0].node
    reader.replace_input(0, other)
    assert source not in model.nodes()
    difference = converter.derive(model, path).difference
    assert reader.name in {change.layer for change in difference.changed}
