"""Damaged ONNX files and IRs: what is wrong is found and named."""

from __future__ import annotations

import random
import sys

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st

import converter
import ir_runtime
from converter.errors import InternalError
from ir_runtime import model_to_bytes
from tests.converter.to_onnx.graphs import model_of
from tests.fuzz import mutate, mutations
from tests.rows.table import layer_table

# --- damaged files: every one is converted, or refused with an error that a caller expects; see ``mutate.py`` ---


@pytest.mark.skipif(sys.platform != "linux", reason="limits of memory are set as on Linux")
def test_mutations_end_well(is_full: bool) -> None:
    """``mutate.py``, run as a program, takes any number of them."""
    count = 1000 if is_full else 100
    outcomes, faults = mutate.run(count, seed=11)
    assert not faults
    assert sum(outcomes.values()) == count
    assert outcomes["success"] > count // 50
    assert outcomes["refused"] > count // 2


@given(rng=st.randoms(use_true_random=False), index=st.integers(0, 1000))
def test_models_and_documents_with_faults_of_choice(rng: random.Random, index: int) -> None:
    data = mutate.onnx_files()[index % len(mutate.onnx_files())]
    document, weights = mutate.irs()[index % len(mutate.irs())]
    try:
        converter.convert_model(mutations.mutated_onnx(data, rng))
    except (converter.ConversionError, ir_runtime.ModelError) as error:
        assert not isinstance(error, InternalError), error  # noqa: PT017
    try:
        ir_runtime.compile_model(ir_runtime.read_model(mutations.mutated_xml(document, rng), weights))
    except ir_runtime.ModelError as error:
        assert not isinstance(error, InternalError), error  # noqa: PT017
        assert "cannot use what it was given" not in str(error)  # noqa: PT017


@given(data=st.binary(max_size=200))
def test_any_bytes(data: bytes) -> None:
    for read in (converter.convert_model, ir_runtime.read_model):
        with pytest.raises((converter.ConversionError, ir_runtime.ModelError)) as caught:
            read(data)
        assert not isinstance(caught.value, InternalError), caught.value
        assert "cannot use what it was given" not in str(caught.value)


def test_more_dimensions_than_an_array_has_are_refused() -> None:
    constant = onnx.helper.make_tensor("w", onnx.TensorProto.FLOAT, [1] * 113, [1.0])
    ports = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in "xy"]
    node = onnx.helper.make_node("Add", ["x", "w"], ["y"])
    graph = onnx.helper.make_graph([node], "g", ports[:1], ports[1:], [constant])
    with pytest.raises(converter.UnsupportedModelError, match="tensor 'w' has 113 dimensions"):
        converter.convert_model(onnx.helper.make_model(graph))


@pytest.mark.skipif(sys.platform != "linux", reason="limits of memory are set as on Linux")
def test_a_process_that_dies_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the other tests rest on: crashes, silence and strange errors are seen."""
    source = "import os, sys, time\nfor i in range(int(sys.argv[4]), int(sys.argv[4]) + int(sys.argv[6])):\n"
    source += "    print(i, flush=True)\n    if i == 3: os.abort()\n    if i == 5: time.sleep(60)\n"
    source += '    print(\'{"kind": "k", "what": "w"}\' if i == 7 else \'refused\', flush=True)\n'
    popen = mutate.subprocess.Popen

    def stand_in(command: list[str], **options: object) -> object:
        return popen([sys.executable, "-c", source, *command[2:]], **options)  # type: ignore[call-overload]

    monkeypatch.setattr(mutate.subprocess, "Popen", stand_in)
    monkeypatch.setattr(mutate, "SECONDS", 2)
    outcomes, faults = mutate.run(10, seed=0)
    assert outcomes == {"refused": 7}
    assert [(fault.index, fault.kind) for fault in faults] == [(3, "signal 6"), (5, "time"), (7, "k")]


# --- IRs of one layer: read, exported and valid ONNX, or refused ---

MUTATIONS = 400


@pytest.mark.parametrize("seed", range(20))
def test_mutated_irs_are_exported_or_refused(seed: int) -> None:
    rng = random.Random(seed)
    outcomes = {"unread": 0, "refused": 0, "exported": 0}
    for _ in range(MUTATIONS):
        xml, weights = model_to_bytes(model_of(rng.choice(layer_table()), dynamic=rng.random() < 0.6)[0])
        try:
            model = ir_runtime.read_model(mutations.damaged_xml(xml.decode(), rng).encode(), weights)
            exported = converter.export_model(model, fp16=rng.choice(("keep", "model", "unfold")))
        except converter.InternalError:
            raise
        except ir_runtime.ModelError:
            outcomes["unread"] += 1
        except converter.ConversionError:
            outcomes["refused"] += 1
        else:
            outcomes["exported"] += 1
            ends = (*model.inputs, *model.outputs)
            if all(end.shape.has_rank for end in ends):  # onnx's checker knows no unknown number of dimensions
                onnx.checker.check_model(exported, full_check=True)
    assert outcomes["exported"] > MUTATIONS // 10
    assert outcomes["unread"] > MUTATIONS // 20


# --- files that lie: every one raises ModelError with the layer named ---

XML = """<?xml version="1.0"?>
<net name="m" version="11">
 <layers>
  <layer id="0" name="x" type="Parameter" version="opset1"><data shape="2,4" element_type="f32"/>
   <output><port id="0" precision="FP32" names="x"><dim>2</dim><dim>4</dim></port></output></layer>
  <layer id="1" name="c" type="Const" version="opset1"><data element_type="f32" shape="4" offset="0" size="16"/>
   <output><port id="0" precision="FP32"><dim>4</dim></port></output></layer>
  <layer id="2" name="add" type="Add" version="opset1"><data auto_broadcast="numpy"/>
   <input><port id="0" precision="FP32"/><port id="1" precision="FP32"/></input>
   <output><port id="2" precision="FP32" names="y"><dim>2</dim><dim>4</dim></port></output></layer>
  <layer id="3" name="r" type="Result" version="opset1" output_names="y">
   <input><port id="0" precision="FP32"><dim>2</dim><dim>4</dim></port></input></layer>
 </layers>
 <edges>
  <edge from-layer="0" from-port="0" to-layer="2" to-port="0"/>
  <edge from-layer="1" from-port="0" to-layer="2" to-port="1"/>
  <edge from-layer="2" from-port="2" to-layer="3" to-port="0"/>
 </edges>
 <rt_info/>
</net>"""
BIN = np.array([1, 2, 3, 4], np.float32).tobytes()


def test_the_original_is_valid() -> None:
    result = ir_runtime.compile_model(ir_runtime.read_model(XML.encode(), BIN))({"x": np.ones((2, 4), np.float32)})
    assert result["y"].tolist() == [[2, 3, 4, 5]] * 2


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('<?xml version="1.0"?>', '<?xml version="1.0"?><!DOCTYPE net [<!ENTITY a "b">]>', "DOCTYPE"),
        ('<?xml version="1.0"?>', '<?xml version="1.0"?><!DOCTYPE net SYSTEM "file:///etc/passwd">', "DOCTYPE"),
        ("<net ", "<nut ", "not well-formed"),
        ('version="11">', 'version="12">', "IR version 10 or 11 is required"),
        ('version="11">', 'version="x">', "'version' must be a whole number"),
        ('id="1" name="c"', 'id="0" name="c"', "its id is also that of"),
        ('id="1" name="c"', 'id="-1" name="c"', "'id' must be a whole number"),
        ('id="1" name="c"', 'id="1"', "has no attribute 'name'"),
        ('type="Add"', 'type="Addd"', "layer 'add'.*line 8.*operation Addd of opset1 is not known"),
        ('type="Add" version="opset1"', 'type="Add" version="extension"', "operation Add of an extension is not known"),
        ('auto_broadcast="numpy"', 'auto_broadcast="numpi"', "must be one of none, numpy, pdpd"),
        ('auto_broadcast="numpy"', 'auto_brodcast="numpy"', "has no attribute called 'auto_brodcast'"),
        ('from-layer="1" from-port="0"', 'from-layer="9" from-port="0"', "names layer 9, which does not exist"),
        ('from-layer="1" from-port="0"', 'from-layer="1" from-port="5"', "leaves layer 'c'.*at port 5"),
        ('to-layer="2" to-port="1"', 'to-layer="2" to-port="7"', "enters layer 'add'.*at port 7"),
        ('to-layer="2" to-port="1"', 'to-layer="2" to-port="0"', "is the second one into port 0"),
        ('  <edge from-layer="1" from-port="0" to-layer="2" to-port="1"/>', "", "no edge leads to input 1"),
        ('from-layer="1" from-port="0" to-layer="2"', 'from-layer="2" from-port="2" to-layer="2"', "part of a cycle"),
        ('shape="4" offset', 'shape="5" offset', "needs 20 bytes, but size is 16"),
        ('shape="4" offset', 'shape="-4" offset', "must be known numbers"),
        ('shape="4" offset', 'shape="4294967296,4294967296,4294967296" offset', "more elements than memory"),
        ('shape="4" offset', 'shape="2.5" offset', "must be known numbers"),
        ('shape="4" offset', f'shape="4{",1" * 100}" offset', "layer 'c'.*101 dimensions are too many"),
        ('offset="0"', 'offset="4"', "its data ends at byte 20, but the weights have 16"),
        ('offset="0"', 'offset="-4"', "'offset' must be a whole number"),
        ('offset="0"', 'offset="9223372036854775800"', "the weights have 16"),
        ('offset="0"', 'offset="0x0"', "'offset' must be a whole number"),
        ('size="16"', 'size="99999999999999999999999"', "'size' must be a whole number"),
        ('offset="0" size="16"', 'offset="0" size="16" value="abc"', "not in 'value'"),
        ('element_type="f32" shape="4"', 'element_type="f33" shape="4"', "'f33' is not a precision"),
        ('element_type="f32" shape="4"', 'element_type="dynamic" shape="4"', "of the dynamic type must have shape"),
        ('shape="2,4"', 'shape="2,zz"', "'zz' in the shape '2,zz' is not a dimension"),
        ('shape="2,4"', 'shape="10..1"', "runs backwards"),
        ('shape="2,4"', 'shape="99999999999999999999"', "beyond 2\\^63 - 1"),
        ('shape="2,4"', 'shape="2,3"', "output 0 is declared"),
        ('precision="FP32" names="x"', 'precision="FP33" names="x"', "'FP33' is not a precision"),
        ('precision="FP32" names="x"', 'precision="I64" names="x"', "is declared i64, but is f32"),
        ("<dim>2</dim><dim>4</dim></port></output></layer>\n  <layer id=\"1\"", "<dim>2</dim><dim>q</dim></port></output></layer>\n  <layer id=\"1\"", "'q' is not a dimension"),
        ("<layers>", "<Layers>", "not well-formed"),
    ],
)  # fmt: skip
def test_lies_are_found_and_named(old: str, new: str, message: str) -> None:
    assert old in XML
    with pytest.raises(ir_runtime.ModelError, match=f"(?s){message}"):
        ir_runtime.read_model(XML.replace(old, new, 1).encode(), BIN)


@pytest.mark.parametrize("weights", [None, b"", BIN[:10]])
def test_missing_or_short_weights(weights: bytes | None) -> None:
    with pytest.raises(ir_runtime.FormatError, match="layer 'c'"):
        ir_runtime.read_model(XML.encode(), weights)


def test_utf16_and_comments_are_fine() -> None:
    text = XML.replace('<?xml version="1.0"?>', '<?xml version="1.0" encoding="UTF-16"?><!-- hello -->')
    assert ir_runtime.read_model(text.encode("utf-16"), BIN).inputs[0].names == ["x"]


def test_missing_file_is_a_model_error(tmp_path) -> None:
    with pytest.raises(ir_runtime.ModelError, match="cannot be read"):
        ir_runtime.read_model(tmp_path / "none.xml")
