"""verify on devices of OpenVINO: the layer that a device computes wrongly, properties, errors."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import openvino
import openvino.opset13 as ops
import pytest
from onnx import helper

import converter
from converter.equivalence import layers
from converter.equivalence.engines import engine_for
from tests.commands import onnx2ir
from tests.converter.test_verify_layers import deep, saved
from tests.language_models.decoders import Decoder
from tests.rows.onnx.loop_states import UNCHANGED, X
from tests.rows.row import graphs

__all__ = ["deep"]  # a fixture

VIRTUAL = ["AUTO", "AUTO:CPU", "HETERO:CPU", "BATCH:CPU", "MULTI:CPU"]
FaultyDevice = Callable[..., list[str]]


def change_results(model: Any, names: tuple[str, ...], ports: tuple[int, ...]) -> list[str]:
    """Put an Add behind the outputs of the layers called so, in bodies too; the names of those that were changed."""
    changed = []
    for op in model.get_ordered_ops():
        bodies = {"If": ["get_then_body", "get_else_body"], "Loop": ["get_function"]}
        for body in bodies.get(op.get_type_name(), []):
            changed += change_results(getattr(op, body)(), names, ports)
        if op.get_friendly_name() not in names:
            continue
        changed.append(op.get_friendly_name())
        for port in ports:
            output = op.output(port)
            readers = list(output.get_target_inputs())
            tensor_names = set(output.get_names())
            wrong = ops.add(output, ops.constant(np.array(0.25, np.float32)))
            for reader in readers:
                reader.replace_source_output(wrong.output(0))
            if any(reader.get_node().get_type_name() == "Result" for reader in readers):
                output.get_tensor().set_names(set())
                wrong.output(0).get_tensor().set_names(tensor_names)
    return changed


@pytest.fixture
def faulty(monkeypatch: pytest.MonkeyPatch) -> FaultyDevice:
    """The CPU plug-in with wrong results of some layers, whatever model they are in."""

    def install(*names: str, ports: tuple[int, ...] = (0,)) -> list[str]:
        changed: list[str] = []
        compile_model = openvino.Core.compile_model

        def compile_wrongly(core: Any, model: Any, *arguments: Any) -> Any:
            changed.extend(change_results(model, names, ports))
            return compile_model(core, model, *arguments)

        monkeypatch.setattr(openvino.Core, "compile_model", compile_wrongly)
        return changed

    return install


@pytest.mark.parametrize("device", ["CPU", *VIRTUAL])
def test_a_right_model_passes_on_each_device(deep: Path, device: str) -> None:
    report = converter.verify(deep, converter.convert_model(deep, output="t3"), output="t3", device=device)
    assert report.passed, report.reason
    assert f"on {device} in " in report.engine


@pytest.mark.parametrize("device", ["CPU", "AUTO", "HETERO:CPU", "BATCH:CPU"])
def test_the_layer_that_the_device_computes_wrongly_is_named(deep: Path, faulty: FaultyDevice, device: str) -> None:
    assert not faulty("product5")
    model = converter.convert_model(deep)
    report = converter.verify(deep, model, device=device, config={"INFERENCE_PRECISION_HINT": "f32"}, layers=True)
    fault = report.first_fault
    assert fault is not None
    assert (fault.layer, fault.type) == ("product5", "MatMul")
    assert [one.layer for one in report.layers if not one.local.passed] == ["product5"]
    assert (
        f"layer 'product5' is wrong in OpenVINO {openvino.__version__.split('-')[0]} on {device} in f32"
        in report.reason
    )


def test_the_first_of_two_wrong_layers_is_named(deep: Path, faulty: FaultyDevice) -> None:
    faulty("tanh7", "product3")
    report = converter.verify(deep, converter.convert_model(deep), device="CPU", layers=True)
    assert [one.layer for one in report.layers if not one.local.passed] == ["product3", "tanh7"]


@pytest.mark.parametrize("wrong", ["celu/Divide", "celu/Elu", "celu"])
def test_a_layer_within_the_layers_of_one_node_is_named(tmp_path: Path, faulty: FaultyDevice, wrong: str) -> None:
    """The node becomes three layers, of which the last one alone has a tensor of the file."""
    nodes = [helper.make_node("Tanh", ["x"], ["t"]), helper.make_node("Celu", ["t"], ["y"], name="celu", alpha=0.5)]
    path = saved(nodes, {}, tmp_path, ["y"], [4, 8])
    faulty(wrong)
    fault = converter.verify(path, converter.convert_model(path), device="CPU").first_fault
    assert fault is not None
    assert fault.layer == wrong
    assert fault.part == ("celu/Divide", "celu/Elu", "celu")


@pytest.mark.parametrize("ports", [(0,), (1,), (0, 1)], ids=str)
def test_a_layer_with_wrong_outputs_is_named(tmp_path: Path, faulty: FaultyDevice, ports: tuple[int, ...]) -> None:
    nodes = [
        helper.make_node("Split", ["x"], ["a", "b"], name="split", axis=0, num_outputs=2),
        helper.make_node("Sigmoid", ["a"], ["y"], name="y"),
        helper.make_node("Tanh", ["b"], ["z"], name="z"),
    ]
    path = saved(nodes, {}, tmp_path, ["y", "z"], [4, 8])
    faulty("split", ports=ports)
    report = converter.verify(path, converter.convert_model(path), device="CPU")
    assert [one.name for one in report.outputs if not one.passed] == [("y", "z")[port] for port in ports]
    assert {one.layer for one in report.layers if not one.local.passed} == {"split"}


@pytest.mark.parametrize("body", ["Loop", "If"])
def test_a_layer_in_a_body_is_named(tmp_path: Path, faulty: FaultyDevice, body: str) -> None:
    row = UNCHANGED[0] if body == "Loop" else next(graphs(BRANCHING, label="if", c=np.array(True), x=X))
    proto, feeds = row.model, row.feeds
    model = converter.convert_model(proto)
    (outer,) = [node for node in model.nodes() if node.op.type == body]
    inner = next(node for node in outer.op.subgraphs[0].body.nodes() if node.op.type == "Add")
    assert converter.verify(proto, model, inputs=feeds, device="CPU").passed
    changed = faulty(inner.name)
    fault = converter.verify(proto, model, inputs=feeds, device="CPU").first_fault
    assert changed
    assert fault is not None
    assert (fault.layer, fault.type) == (f"{outer.name}/{inner.name}", "Add")


BRANCHING = """g (bool c, float[2,3] x) => (float[] y) {
    y = If (c) <then_branch = g1 () => (float[] u) { t = Tanh (x)  u = Add (t, x) },
                else_branch = g2 () => (float[] v) { v = Neg (x) }>
}"""


def test_segments_hold_their_own_tensors_alone(deep: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One model is compiled for each segment, and one for each tensor that is wrong in its segment."""
    monkeypatch.setattr(layers, "_SEGMENT_NODES", 6)
    compiled: list[int] = []
    compile_model = openvino.Core.compile_model

    def counted(core: Any, model: Any, *arguments: Any) -> Any:
        compiled.append(len(model.outputs))
        return compile_model(core, model, *arguments)

    monkeypatch.setattr(openvino.Core, "compile_model", counted)
    report = converter.verify(deep, converter.convert_model(deep), device="CPU", engine="openvino", layers=True)
    assert not report.layers_problem
    assert (report.first_fault, len(report.layers)) == (None, 25)
    assert compiled[0] == 1  # the model itself
    assert max(compiled) == 6
    assert len(compiled) == 1 + 2 * 5  # the runs of both sizes, in segments


def test_properties_reach_the_device(deep: Path, tmp_path: Path) -> None:
    model = converter.convert_model(deep)
    for device in ("CPU", "AUTO:CPU", "HETERO:CPU", "BATCH:CPU"):
        for precision in ("f32", "bf16"):
            engine = engine_for(
                "openvino-default", model, device=device, config={"INFERENCE_PRECISION_HINT": precision}
            )
            assert engine.name.endswith(f"on {device} in {precision}")
            assert engine.precision == precision
    one = engine_for(
        "openvino-default", model, device="HETERO:CPU", config={"CPU": {"INFERENCE_PRECISION_HINT": "f32"}}
    )
    assert one.name.endswith("in f32")
    assert engine_for("openvino", model, device="AUTO").name.endswith("on AUTO in f32")


def test_devices_on_the_command_line(deep: Path, tmp_path: Path) -> None:
    converter.save_model(converter.convert_model(deep), tmp_path / "m.xml")
    (tmp_path / "c.json").write_text(json.dumps({"INFERENCE_PRECISION_HINT": "bf16", "NUM_STREAMS": 1}))
    command = ["verify", str(deep), str(tmp_path / "m.xml"), "--device", "CPU", "--config", str(tmp_path / "c.json")]
    code, out, _ = onnx2ir(*command, "--config", "INFERENCE_PRECISION_HINT=f32", "--json")
    assert code == 0
    assert json.loads(out)["engine"].endswith("on CPU in f32")
    code, out, _ = onnx2ir(*command, "--json")
    assert json.loads(out)["engine"].endswith("on CPU in bf16")
    for text, expected in (
        ("FOO=1", "CPU of OpenVINO .* has no property 'FOO'"),
        ("NUM_STREAM=1", "no property 'NUM_STREAM': it has NUM_STREAMS"),
        ("NUM_STREAMS=abc", "the property NUM_STREAMS of CPU cannot be 'abc': Could not read number of streams"),
        ("=1", "--config must be KEY=VALUE or a JSON file"),
        ("missing.json", "the configuration missing.json cannot be read: No such file"),
        (str(tmp_path / "m.xml"), "is no JSON"),
    ):
        code, _, error = onnx2ir(*command, "--config", text)
        assert code in (1, 2)
        assert re.search(expected, error), error


@pytest.mark.parametrize(
    ("device", "config", "expected"),
    [
        ("TPU", {}, r"has no device 'TPU' here \(Device with \"TPU\" name is not registered.*\); it has CPU"),
        ("HETERO:TPU,CPU", {}, "has no device 'TPU' here"),
        ("AUTO:CPU", {"FOO": "1"}, "CPU of OpenVINO .* has no property 'FOO'"),
        ("HETERO:CPU", {"GPU": {"NUM_STREAMS": 1}}, "properties for the device 'GPU', but HETERO:CPU computes on CPU"),
        ("CPU", {"PERF_COUNT": object()}, "the property PERF_COUNT of CPU cannot be <object"),
        ("", {}, "device must be the name of a device"),
        (None, {"PERF_COUNT": True}, "give a device, or the engine openvino"),
        ("CPU", [1], "the configuration"),
    ],
)
def test_what_openvino_does_not_have_is_an_error(deep: Path, device: Any, config: Any, expected: str) -> None:
    with pytest.raises(converter.VerificationError, match=expected):
        converter.verify(deep, converter.convert_model(deep), device=device, config=config)


def test_openvino_is_not_installed(deep: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openvino", None)
    with pytest.raises(converter.VerificationError, match="not installed: pip install openvino"):
        converter.verify(deep, converter.convert_model(deep), device="GPU")


def test_steps_on_a_device(tmp_path: Path) -> None:
    model = Decoder().build()
    report = converter.verify_steps(model, converter.convert_model(model, stateful=True), steps=1, device="CPU")
    assert report.passed, report.reason
    assert " on CPU in " in report.engine
