"""Variables as inputs and outputs again: of our stateful IRs, and of those of others."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import openvino
import pytest
from click.testing import CliRunner
from openvino import opset13 as ops

import converter
import ir_runtime
from converter.command_line import main

from .decoders import DECODERS, Decoder
from .running import OnnxDecoder, prompt_of


def names_of(nodes: list[ir_runtime.graph.model.Node]) -> set[str]:
    return {node.end_names[0] for node in nodes}


@pytest.mark.parametrize("decoder", DECODERS.values(), ids=DECODERS)
def test_there_and_back(decoder: Decoder) -> None:
    source = decoder.build()
    model = converter.convert_model(source, stateful=True)
    assert converter.make_stateless(model) == len(decoder.caches)
    presents = {name.replace("past_key_values", "present") for name in decoder.caches}
    assert names_of(model.results) == {"logits", *presents}
    assert names_of(model.parameters) == {"input_ids", "attention_mask", "position_ids", *decoder.caches}
    assert not model.sinks
    compiled = ir_runtime.compile_model(ir_runtime.read_model(*ir_runtime.model_to_bytes(model)))
    onnx_side, tokens = OnnxDecoder(decoder, source), prompt_of(9)
    caches = {name: value.astype(np.float32) for name, value in decoder.empty_caches(1).items()}
    length = 0
    for _ in range(3):
        length += tokens.shape[1]
        feeds = {
            "input_ids": tokens,
            "attention_mask": np.ones((1, length), np.int64),
            "position_ids": np.arange(length - tokens.shape[1], length)[None],
            **caches,
        }
        found = compiled(feeds)
        wanted = onnx_side(tokens)
        np.testing.assert_allclose(found["logits"], wanted, atol=5e-2 if decoder.kind == np.float16 else 2e-4)
        caches = {name: found[name.replace("past_key_values", "present")] for name in caches}
        tokens = wanted[:, -1:].argmax(-1)


def test_a_model_of_openvino(tmp_path: Path) -> None:
    """A counter: what it returns is also what it keeps, and its variable has a name of its own."""
    x = ops.parameter([2], np.float32, name="x")
    read = ops.read_value(ops.constant(np.zeros(2, np.float32)), "sum", np.float32, [2])
    total = ops.add(read, x)
    model = openvino.Model([ops.result(total, name="y")], [ops.assign(total, "sum")], [x], "counter")
    model.outputs[0].get_tensor().set_names({"y"})
    model.inputs[0].get_tensor().set_names({"x"})
    openvino.save_model(model, tmp_path / "counter.xml", compress_to_fp16=False)
    read_back = ir_runtime.read_model(tmp_path / "counter.xml")
    assert converter.make_stateless(read_back) == 1
    found = ir_runtime.compile_model(read_back)({"x": np.ones(2, np.float32), "sum": np.full(2, 3, np.float32)})
    assert found["y"].tolist() == found["sum.next"].tolist() == [4, 4]


def test_a_model_without_variables() -> None:
    model = converter.convert_model(DECODERS["spelled"].build())
    with pytest.raises(converter.ConversionError, match="has no variables: it is stateless already"):
        converter.make_stateless(model)


def run(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(main, [str(argument) for argument in arguments])
    return result.exit_code, result.output


def test_the_command(tmp_path: Path) -> None:
    converter.save_model(converter.convert_model(Decoder().build(), stateful=True), tmp_path / "decoder.xml")
    code, text = run("convert", tmp_path / "decoder.xml", "--stateless", "-o", tmp_path / "plain.xml")
    assert code == 0, text
    assert "4 variables are inputs and outputs" in text
    assert "past_key_values.1.value" in names_of(ir_runtime.read_model(tmp_path / "plain.xml").parameters)
    code, text = run("convert", tmp_path / "plain.xml", "--stateless", "-o", tmp_path / "again.xml")
    assert code == 1
    assert "has no variables" in text
    code, text = run("convert", tmp_path / "decoder.xml", "--stateless", "--batch", 2, "-o", tmp_path / "again.xml")
    assert code == 2
    assert "--batch cannot be used with --stateless" in text
    assert not (tmp_path / "again.xml").exists()
