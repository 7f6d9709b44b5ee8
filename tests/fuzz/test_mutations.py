"""Damaged ONNX files and IRs: what is wrong is found and named."""

from __future__ import annotations

import random
import re
import sys

import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st

import converter
import ir_runtime
from converter.errors import InternalError
from ir_runtime.files.xml_writer import model_to_bytes
from tests.converter.to_onnx.single_layers import model_of
from tests.fuzz import corpus, mutate, mutations
from tests.rows.table import layer_table

# --- damaged files: every one is converted, or refused with an error that a caller expects; see ``mutate.py`` ---

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits of memory are set as on Linux")


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
    data = corpus.onnx_files()[index % len(corpus.onnx_files())]
    document, weights = corpus.irs()[index % len(corpus.irs())]
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


# --- iRs of one layer with attributes, shapes and types changed at random: read, exported and valid ONNX, or refused ---

MUTATIONS = 250
NUMBER = re.compile(r'(?<=["\s,>-])-?\d+(?:\.\d+)?(?=["\s,<])')
DIMENSION = re.compile(r"<dim>\d+</dim>")
NUMBERS = ("0", "1", "-1", "2", "3", "7", "1000", "-5", "9223372036854775807", "0.5", "")
WORDS = (
    *(("f32", "f64"), ("FP32", "FP64"), ("f32", "i32"), ("true", "false"), ("false", "true"), ("i64", "i32")),
    *(("explicit", "same_upper"), ("numpy", "pdpd"), ("numpy", "none"), ("f32", "boolean"), ("f32", "f16")),
    *(("FP32", "FP16"), ("sizes", "scales"), ("I64", "I32"), ("floor", "ceil"), ("forward", "reverse")),
)


def mutated(text: str, rng: random.Random) -> str:
    kind = rng.choice(("numbers", "numbers", "numbers", "words", "dimension"))
    if kind == "words":
        for old, new in rng.sample(WORDS, 2):
            text = text.replace(old, new)
        return text
    pattern, values = (DIMENSION, ("<dim>-1</dim>", "", "<dim>0</dim>", "<dim>1</dim>"))
    if kind == "numbers":
        pattern, values = NUMBER, (*NUMBERS, str(rng.randint(-9, 99)))
    for _ in range(rng.randint(1, 3) if kind == "numbers" else 1):
        places = list(pattern.finditer(text))
        if places:
            place = rng.choice(places)
            text = text[: place.start()] + rng.choice(values) + text[place.end() :]
    return text


@pytest.mark.parametrize("seed", range(20))
def test_mutated_irs_are_exported_or_refused(seed: int) -> None:
    rng = random.Random(seed)
    outcomes = {"unread": 0, "refused": 0, "exported": 0}
    for _ in range(MUTATIONS):
        call = rng.choice(layer_table())
        xml, weights = model_to_bytes(model_of(call, dynamic=rng.random() < 0.6)[0])
        text = mutated(xml.decode(), rng)
        try:
            model = ir_runtime.read_model(text.encode(), weights)
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
    assert outcomes["exported"] > MUTATIONS // 6
    assert outcomes["unread"] > MUTATIONS // 20
