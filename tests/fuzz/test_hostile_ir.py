"""Files that lie: every one raises ModelError with the layer named, and none harms."""

from __future__ import annotations

import random
import re

import numpy as np
import pytest

import ir_runtime

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


@pytest.mark.parametrize(
    "document", [b"", b"\x00" * 100, b"<net", b"PK\x03\x04", b"<net/>", "<net version='11'/>".encode("utf-16")]
)
def test_other_files(document: bytes) -> None:
    with pytest.raises(ir_runtime.ModelError):
        ir_runtime.read_model(document, b"")


def test_utf16_and_comments_are_fine() -> None:
    text = XML.replace('<?xml version="1.0"?>', '<?xml version="1.0" encoding="UTF-16"?><!-- hello -->')
    assert ir_runtime.read_model(text.encode("utf-16"), BIN).inputs[0].names == ["x"]


def test_deep_nesting_is_refused() -> None:
    with pytest.raises(ir_runtime.ModelError):
        ir_runtime.read_model(b'<net version="11">' + b"<layers>" * 100_000, b"")


def test_missing_file_is_a_model_error(tmp_path) -> None:
    with pytest.raises(ir_runtime.ModelError, match="cannot be read"):
        ir_runtime.read_model(tmp_path / "none.xml")


def test_random_damage_never_raises_anything_else() -> None:
    """Tokens deleted, doubled, swapped, digits changed: a model or a ModelError, nothing else."""
    tokens = re.split(r"(\W)", XML)
    outcomes = {"read": 0, "refused": 0}
    for seed in range(1500):
        rng = random.Random(seed)
        damaged = list(tokens)
        for _ in range(rng.randint(1, 3)):
            at = rng.randrange(len(damaged))
            what = rng.randrange(4)
            if what == 0:
                damaged[at] = ""
            elif what == 1:
                damaged[at] *= 2
            elif what == 2:
                damaged[at] = rng.choice(tokens)
            else:
                damaged[at] = re.sub(r"\d", str(rng.randrange(10)), damaged[at])
        try:
            ir_runtime.compile_model(ir_runtime.read_model("".join(damaged).encode(), BIN))
            outcomes["read"] += 1
        except ir_runtime.ModelError:
            outcomes["refused"] += 1
    assert outcomes["refused"] > 500
    assert outcomes["read"] > 50
