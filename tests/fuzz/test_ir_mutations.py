"""IRs of one layer with attributes, shapes and types changed at random: read, exported and valid ONNX, or refused.

A fault of the exporter's own (:class:`InternalError`), any other exception, and a file that onnx's checker does not
take fail.
"""

from __future__ import annotations

import random
import re

import onnx
import pytest

import converter
import ir_runtime
from ir_runtime.files.xml_writer import model_to_bytes
from tests.converter.to_onnx.single_layers import model_of
from tests.rows.table import layer_table

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
