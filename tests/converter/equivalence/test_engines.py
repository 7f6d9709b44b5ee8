"""``verify`` in OpenVINO, on its devices, and without onnxruntime: who computes, and what is wrong."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import openvino
import openvino.opset13 as ops
import pytest

import converter
import ir_runtime
from converter.equivalence.comparison import layers
from converter.equivalence.reference.engines import engine_for
from tests.commands import onnx2ir
from tests.converter.equivalence import models
from tests.converter.equivalence.edits import damaged
from tests.converter.equivalence.models import pair, saved
from tests.converter.language_models.decoders import Decoder
from tests.converter.optimization.models import parse
from tests.converter.option_models import encoder, feeds_for
from tests.engines import node_model
from tests.rows.onnx.control_flow import UNCHANGED, X
from tests.rows.row import Row, graphs

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
def compiling(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[Any], Any]], None]:
    """Install what is called with each model before OpenVINO compiles it."""

    def install(before: Callable[[Any], Any]) -> None:
        compile_model = openvino.Core.compile_model

        def compile_after(core: Any, model: Any, *arguments: Any) -> Any:
            before(model)
            return compile_model(core, model, *arguments)

        monkeypatch.setattr(openvino.Core, "compile_model", compile_after)

    return install


@pytest.fixture
def faulty(compiling: Callable[..., None]) -> FaultyDevice:
    """The CPU plug-in with wrong results of some layers, whatever model they are in."""

    def install(*names: str, ports: tuple[int, ...] = (0,)) -> list[str]:
        changed: list[str] = []
        compiling(lambda model: changed.extend(change_results(model, names, ports)))
        return changed

    return install


@pytest.mark.parametrize("device", ["CPU", "AUTO", "AUTO:CPU", "HETERO:CPU", "BATCH:CPU", "MULTI:CPU"])
def test_devices(deep: Path, faulty: FaultyDevice, device: str) -> None:
    """A right model passes, and the layer that the device computes wrongly is named."""
    report = converter.verify(deep, converter.convert_model(deep, output="t3"), output="t3", device=device)
    assert report.passed, report.reason
    assert f"on {device} in " in report.engine
    if device in ("AUTO:CPU", "MULTI:CPU"):
        return  # as AUTO
    faulty("product5")
    model = converter.convert_model(deep)
    report = converter.verify(deep, model, device=device, config={"INFERENCE_PRECISION_HINT": "f32"}, layers=True)
    assert report.first_fault is not None
    assert (report.first_fault.layer, report.first_fault.type) == ("product5", "MatMul")
    assert [one.layer for one in report.layers if not one.local.passed] == ["product5"]
    version = openvino.__version__.split("-")[0]
    assert f"layer 'product5' is wrong in OpenVINO {version} on {device} in f32" in report.reason


CELU = "g (float[4,8] x) => (y) { t = Tanh (x) [celu] y = Celu <alpha = 0.5> (t) }"
SPLIT = """g (float[4,8] x) => (y, z) { [split] a, b = Split <axis = 0, num_outputs = 2> (x)
           [y] y = Sigmoid (a) [z] z = Tanh (b) }"""


@pytest.mark.parametrize(
    ("graph", "wrong", "ports", "differ"),
    [
        ("", ["product3", "tanh7"], (0,), ""),
        # The node becomes three layers, of which the last one alone has a tensor of the file.
        *((CELU, [name], (0,), "y") for name in ("celu/Divide", "celu/Elu", "celu")),
        *((SPLIT, ["split"], ports, "".join("yz"[port] for port in ports)) for ports in ((0,), (1,), (0, 1))),
    ],
)  # fmt: skip
def test_wrong_layers(graph: str, wrong: list[str], ports: Any, differ: str, faulty: FaultyDevice) -> None:
    """Some outputs differ, and exactly the wrong layers are wrong by themselves."""
    proto = parse(graph, 18) if graph else models.deep()
    faulty(*wrong, ports=ports)
    report = converter.verify(proto, converter.convert_model(proto), device="CPU", layers=True)
    assert [one.name for one in report.outputs if not one.passed] == [*differ]
    assert sorted({one.layer for one in report.layers if not one.local.passed}) == wrong
    if graph is CELU:
        assert report.first_fault is not None
        assert report.first_fault.part == ("celu/Divide", "celu/Elu", "celu")


BRANCHING = """g (bool c, float[2,3] x) => (float[] y) { y = If (c) <then_branch = g1 () => (float[] u) {
    t = Tanh (x)  u = Add (t, x) }, else_branch = g2 () => (float[] v) { v = Neg (x) }> }"""


@pytest.mark.parametrize(
    "row", [UNCHANGED[0], *graphs(BRANCHING, label="if", c=np.array(True), x=X)], ids=["Loop", "If"]
)
def test_a_layer_in_a_body_is_named(faulty: FaultyDevice, row: Row) -> None:
    model = converter.convert_model(row.model)
    (outer,) = [node for node in model.nodes() if node.op.subgraphs]
    inner = next(node for node in outer.op.subgraphs[0].body.nodes() if node.op.type == "Add")
    assert converter.verify(row.model, model, inputs=row.feeds, device="CPU").passed
    changed = faulty(inner.name)
    fault = converter.verify(row.model, model, inputs=row.feeds, device="CPU").first_fault
    assert changed
    assert fault is not None
    assert (fault.layer, fault.type) == (f"{outer.name}/{inner.name}", "Add")


def test_segments_hold_their_own_tensors_alone(
    deep: Path, monkeypatch: pytest.MonkeyPatch, compiling: Callable[..., None]
) -> None:
    """One model is compiled for each segment, and one for each tensor that is wrong in its segment."""
    monkeypatch.setattr(layers, "_SEGMENT_NODES", 6)
    compiled: list[int] = []
    compiling(lambda model: compiled.append(len(model.outputs)))
    report = converter.verify(deep, converter.convert_model(deep), device="CPU", engine="openvino", layers=True)
    assert not report.layers_problem
    assert (report.first_fault, len(report.layers)) == (None, 25)
    assert compiled[0] == 1  # the model itself
    assert max(compiled) == 6
    assert len(compiled) == 1 + 2 * 5  # the runs of both sizes, in segments


def test_the_ir_is_compiled_anew_once_inputs_were_refused(compiling: Callable[..., None]) -> None:
    """Of a Mamba model the plug-in's next results were read from memory that nobody wrote."""
    x = np.ones((2, 3), np.float32)
    model = node_model("Add", {"x": x, "y": x}, opset=18, shapes={"x": ["n", 3], "y": ["m", 3]})
    compiled: list[Any] = []
    compiling(compiled.append)
    engine = engine_for("openvino", converter.convert_model(model))
    with pytest.raises(converter.VerificationError, match="cannot run the IR on these inputs"):
        engine.run({"x": x, "y": np.ones((3, 3), np.float32)})
    np.testing.assert_array_equal(engine.run({"x": x, "y": x})[0], x + x)
    np.testing.assert_array_equal(engine.run({"x": x, "y": -x})[0], x - x)
    assert len(compiled) == 2


def test_openvino_computes_in_float32_with_compressed_weights(tmp_path: Path) -> None:
    """By default its products with weights of 8 bits round the data to 8 bits, too: the outputs differ by 0.03."""
    _, xml = pair(encoder(), tmp_path, {"compress": "int8"})
    feeds, model = feeds_for(encoder(), {"n": 2, "s": 6}), ir_runtime.read_model(xml)
    ours = engine_for("numpy", model).run(feeds)
    for value, other in zip(ours, engine_for("openvino", model, xml).run(feeds)):
        np.testing.assert_allclose(other, value, rtol=0, atol=2e-5)


def test_irs_of_openvino(image: Path, tmp_path: Path) -> None:
    """As the reference, as the other IR, and with names that its writer changed."""
    ours, theirs, again = (tmp_path / f"{name}.xml" for name in ("ours", "theirs", "again"))
    converter.save_model(converter.convert_model(image), ours)
    openvino.save_model(openvino.convert_model(image), theirs, compress_to_fp16=False)
    assert converter.verify(image, ours, against=theirs).passed
    assert converter.verify(theirs, ours).passed
    model = ir_runtime.read_model(ours)
    damaged()(model)
    assert not converter.verify(theirs, model).passed
    openvino.save_model(openvino.Core().read_model(str(ours)), again, compress_to_fp16=False)
    report = converter.verify(image, again)
    assert (report.verdict, report.derivation.state) == ("equal", "equivalent")
    assert "only names and rt_info differ" in report.reason


def test_properties_reach_the_device(deep: Path) -> None:
    model, hint = converter.convert_model(deep), "INFERENCE_PRECISION_HINT"
    for device, precision in itertools.product(("CPU", "AUTO:CPU", "HETERO:CPU", "BATCH:CPU"), ("f32", "bf16")):
        engine = engine_for("openvino-default", model, device=device, config={hint: precision})
        assert (engine.name.endswith(f"on {device} in {precision}"), engine.precision) == (True, precision)
    one = engine_for("openvino-default", model, device="HETERO:CPU", config={"CPU": {hint: "f32"}})
    assert one.name.endswith("in f32")
    assert engine_for("openvino", model, device="AUTO").name.endswith("on AUTO in f32")


def test_devices_on_the_command_line(tmp_path: Path) -> None:
    files = pair(models.deep(), tmp_path)
    (tmp_path / "c.json").write_text(json.dumps({"INFERENCE_PRECISION_HINT": "bf16", "NUM_STREAMS": 1}))
    command = ["verify", *map(str, files), "--device", "CPU", "--config", str(tmp_path / "c.json")]
    for more, precision in ((["--config", "INFERENCE_PRECISION_HINT=f32"], "f32"), ([], "bf16")):
        code, out, _ = onnx2ir(*command, *more, "--json")
        assert (code, json.loads(out)["engine"].endswith(f"on CPU in {precision}")) == (0, True)
    for text, expected in (
        ("NUM_STREAM=1", "no property 'NUM_STREAM': it has NUM_STREAMS"), (str(files[1]), "is no JSON"),
        ("NUM_STREAMS=abc", "the property NUM_STREAMS of CPU cannot be 'abc': Could not read number of streams"),
        ("=1", "--config must be KEY=VALUE or a JSON file"), ("missing.json", "missing.json cannot be read: No such"),
    ):  # fmt: skip
        code, _, error = onnx2ir(*command, "--config", text)
        assert (code in (1, 2), expected in error) == (True, True), error


def test_openvino_is_not_installed(deep: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openvino", None)
    with pytest.raises(converter.VerificationError, match="not installed: pip install openvino"):
        converter.verify(deep, converter.convert_model(deep), device="GPU")


def test_steps_on_a_device() -> None:
    model = Decoder().build()
    report = converter.verify_steps(model, converter.convert_model(model, stateful=True), steps=1, device="CPU")
    assert report.passed, report.reason
    assert " on CPU in " in report.engine


@pytest.mark.parametrize("domain", ["", "com.microsoft"])
def test_without_onnxruntime(domain: str, tmp_path: Path) -> None:
    """The reference evaluator is used and named; it does not know the operators of com.microsoft."""
    gelu = parse("g (float[4] x) => (float[4] y) { y = com.microsoft.Gelu (x) }", header=', "com.microsoft" : 1')
    path = saved(gelu if domain else models.three_layers(), tmp_path)
    code = (
        "import sys, importlib.util as u; real = u.find_spec\n"
        "u.find_spec = lambda name, *a: None if name == 'onnxruntime' else real(name, *a)\n"
        "sys.modules['onnxruntime'] = None\n"
        f"import converter\nm = {str(path)!r}\n"
        "try: r = converter.verify(m, converter.convert_model(m)); print(r.passed, r.oracle)\n"
        "except converter.VerificationError as error: print(error)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "pip install 'onnx2ir[verify]'" in out if domain else out.startswith("True onnx ReferenceEvaluator ")
