"""The record of a derivation in ``rt_info``: what it has after each conversion, and what becomes of it afterwards."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import converter
import ir_runtime
from converter.derivation import Derivation, Step
from ir_runtime.graph.model import Model, RuntimeInfo
from ir_runtime.graph.model_difference import compare_models
from ir_runtime.graph.provenance import Computed
from tests.commands import onnx2ir
from tests.engines import core
from tests.language_models.decoders import Decoder


def network(weight: float = 1.0, epsilon: float = 1e-5, width: int = 4) -> onnx.ModelProto:
    """A convolution behind which a scale can be folded, a GELU in its parts, and a normalization."""
    rng = np.random.default_rng(1)
    tensors = {
        "w": rng.normal(size=(width, 3, 3, 3)).astype(np.float32) * np.float32(weight),
        "s": rng.uniform(0.5, 2, (width, 1, 1)).astype(np.float32),
        "b": np.zeros(width, np.float32),
        "ones": np.ones(width, np.float32),
        "root": np.float32(np.sqrt(2)),
        "one": np.float32(1),
        "half": np.float32(0.5),
    }
    node = helper.make_node
    nodes = [
        node("Conv", ["x", "w"], ["c"]),
        node("Mul", ["c", "s"], ["m"]),
        node("InstanceNormalization", ["m", "ones", "b"], ["i"], epsilon=epsilon),
        node("Div", ["i", "root"], ["d"]),
        node("Erf", ["d"], ["e"]),
        node("Add", ["e", "one"], ["a"]),
        node("Mul", ["i", "a"], ["p"]),
        node("Mul", ["p", "half"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "network",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in tensors.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def product() -> onnx.ModelProto:
    """A matrix multiplication, whose weights the CPU plug-in wants transposed."""
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    weights = numpy_helper.from_array(np.random.default_rng(1).normal(size=(64, 64)).astype(np.float32), "w")
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 64]) for name in "xy"]
    return helper.make_model(helper.make_graph(nodes, "g", ends[:1], ends[1:], [weights]), ir_version=9)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    onnx.save(network(), tmp_path / "m.onnx")
    return tmp_path / "m.onnx"


def converted(source: Any, folder: Path, saving: dict | None = None, **options: Any) -> Model:
    """The IR as it is read from its file."""
    converter.save_model(converter.convert_model(source, **options), folder / "m.xml", **(saving or {}))
    return ir_runtime.read_model(folder / "m.xml")


# name -> (options of the conversion, what the record has of them, options of saving, what the record has of them)
ROWS: dict[str, tuple[dict, dict, dict, dict]] = {
    "plain": ({}, {}, {}, {}),
    "exact": ({"exact": True}, {"exact": True}, {}, {}),
    "no fusion": ({"fuse": False}, {"fuse": False}, {}, {}),
    "any": ({"target": "any", "skip_passes": "gelus"}, {"target": "any", "skip_passes": ["gelus"]}, {}, {}),
    "static": ({"input": {"x": [1, 3, 8, 8]}, "static": True}, {"input": "x[1,3,8,8]", "static": True}, {}, {}),
    "NumPy's": ({"batch": np.int64(2), "output": "m"}, {"batch": 2, "output": ["m"]}, {}, {}),
    "frozen": ({"freeze": {"x": np.ones((1, 3, 8, 8), np.float32)}}, {"freeze": ["x"]}, {}, {}),
    "preprocessed": (
        {"preprocess": {"x": converter.Preprocess(mean=127.5)}}, {"preprocess": True}, {}, {}
    ),
    "fp16": ({}, {}, {"compress_to_fp16": True}, {"compress_to_fp16": True}),
    "int8": ({"exact": True}, {"exact": True}, {"compress": "int8"}, {"compress": "int8"}),
    "int4": (
        {}, {}, {"compress": converter.WeightCompression(4, np.int64(64))}, {"compress": "int4", "group_size": 64}
    ),
}  # fmt: skip


@pytest.mark.parametrize("row", ROWS)
def test_options_are_recorded(row: str, path: Path, tmp_path: Path) -> None:
    options, recorded, saving, saved = ROWS[row]
    first, *others = Derivation.of(converted(path, tmp_path, saving, **options)).steps
    assert (first.action, first.version, first.source) == ("convert", converter.__version__, "onnx")
    assert first.digest == f"sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}"  # it has no large weights
    assert first.options == recorded
    assert [(step.action, step.options) for step in others] == ([("save", saved)] if saved else [])


def test_states_are_recorded(tmp_path: Path) -> None:
    onnx.save(Decoder().build(), tmp_path / "d.onnx")
    (step,) = Derivation.of(converted(tmp_path / "d.onnx", tmp_path, stateful=True)).steps
    assert step.options == {"stateful": True}
    assert converter.make_stateless(model := ir_runtime.read_model(tmp_path / "m.xml")) > 0
    assert Derivation.of(model).steps == (step, Step("make_stateless"))


def test_passes_and_rules_are_recorded(path: Path, tmp_path: Path) -> None:
    (plain,) = Derivation.of(converted(path, tmp_path)).steps
    assert plain.passes["gelus"] == plain.passes["folded_scales"] == 1
    (exact,) = Derivation.of(converted(path, tmp_path, exact=True)).steps
    assert exact.passes == {name: count for name, count in plain.passes.items() if name != "folded_scales"}
    (plainest,) = Derivation.of(converted(path, tmp_path, target="any", fuse=False)).steps
    assert "gelus" not in plainest.passes
    assert plainest.rules == {}
    (step,) = Derivation.of(converted(product(), tmp_path)).steps
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
        words = [
            *("convert", str(folder / "m.onnx"), "-o", str(folder / "m.xml"), "--target", "any", "--compress"),
            "int8",
        ]
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        command = [sys.executable, "-m", "converter", *words]
        subprocess.run(command, check=True, capture_output=True, env=environment)
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
    model = converter.convert_model(path, exact=True)
    converter.save_model(model, tmp_path / "m.xml", record=False, **saving)
    assert b"onnx2ir" not in (tmp_path / "m.xml").read_bytes()
    assert Derivation.of(ir_runtime.read_model(tmp_path / "m.xml")) == Derivation()
    assert len(Derivation.of(model).steps) == 1, "the model of the caller is unchanged"
    code, _, _ = onnx2ir("convert", str(path), "-o", str(tmp_path / "n.xml"), "--no-record")
    assert code == 0
    assert b"onnx2ir" not in (tmp_path / "n.xml").read_bytes()


def test_a_record_is_no_difference(path: Path, tmp_path: Path) -> None:
    model = converter.convert_model(path)
    converter.save_model(model, tmp_path / "m.xml")
    converter.save_model(model, tmp_path / "n.xml", record=False)
    assert compare_models(*(ir_runtime.read_model(tmp_path / name) for name in ("m.xml", "n.xml"))).same
    code, _, _ = onnx2ir("diff", str(tmp_path / "m.xml"), str(tmp_path / "n.xml"))
    assert code == 0


def test_an_ir_that_is_converted_keeps_its_steps(path: Path, tmp_path: Path) -> None:
    before = Derivation.of(converted(path, tmp_path, fuse=False)).steps
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


# name -> (options of the conversion, of saving, what the record has of the convolution's weights, of their factors)
WEIGHTS: dict[str, tuple[dict, dict, dict[str, tuple[tuple[str, ...], tuple[str, ...]]]]] = {
    "scaled": ({}, {}, {"w/scaled": (("scaled",), ("w", "s"))}),
    "exact": ({"exact": True}, {}, {}),
    "float16": ({}, {"compress_to_fp16": True}, {"w/scaled_compressed": (("scaled", "float16"), ("w", "s"))}),
    "reversed channels": (
        {"exact": True, "preprocess": {"x": converter.Preprocess(reverse_channels=True)}},
        {},
        {"w": (("reversed channels",), ("w",))},
    ),
}


@pytest.mark.parametrize("row", WEIGHTS)
def test_what_was_done_to_weights_is_recorded(row: str, path: Path, tmp_path: Path) -> None:
    options, saving, expected = WEIGHTS[row]
    weights = Derivation.of(converted(path, tmp_path, saving, **options)).weights
    assert {name: (one.steps, one.sources) for name, one in weights.items() if "w" in one.names} == expected


def test_codes_and_scales_are_recorded(tmp_path: Path) -> None:
    weights = Derivation.of(converted(product(), tmp_path, {"compress": "int8"})).weights
    assert [(one.steps, one.sources) for one in weights.values()] == [
        (("Transpose", "u8 codes"), ("w",)),
        (("Transpose", "zero points"), ("w",)),
        (("Transpose", "scales"), ("w",)),
    ]


def test_weights_of_an_ir_keep_their_sources(path: Path, tmp_path: Path) -> None:
    converted(path, tmp_path)
    converter.save_model(converter.convert_model(tmp_path / "m.xml"), tmp_path / "n.xml", compress_to_fp16=True)
    weights = Derivation.of(ir_runtime.read_model(tmp_path / "n.xml")).weights
    assert weights["w/scaled_compressed"] == Computed(("scaled", "float16"), ("w", "s"))
    (tmp_path / "d").mkdir()
    onnx.save(Decoder().build(), tmp_path / "d.onnx")
    before = Derivation.of(converted(tmp_path / "d.onnx", tmp_path / "d", stateful=True)).weights
    assert before
    assert converter.make_stateless(model := ir_runtime.read_model(tmp_path / "d" / "m.xml")) > 0
    assert Derivation.of(model).weights == before


def test_weights_keep_their_sources_when_pickled(path: Path, tmp_path: Path) -> None:
    model = pickle.loads(pickle.dumps(converter.convert_model(path)))
    converter.save_model(model, tmp_path / "m.xml", compress_to_fp16=True)
    weights = Derivation.of(ir_runtime.read_model(tmp_path / "m.xml")).weights
    assert weights["w/scaled_compressed"] == Computed(("scaled", "float16"), ("w", "s"))


def test_constants_in_thousands_of_steps(tmp_path: Path) -> None:
    """Resolving and pickling what a constant was computed from does not recurse."""
    count = 5000
    nodes = [helper.make_node("Add", [f"v{at}", "w0" if at % 2 else "w1"], [f"v{at + 1}"]) for at in range(count)]
    nodes.append(helper.make_node("Add", ["x", f"v{count}"], ["y"]))
    tensors = [numpy_helper.from_array(np.ones(3, np.float32), name) for name in ("v0", "w0", "w1")]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [3]) for name in "xy"]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], tensors)
    model = converter.convert_model(helper.make_model(graph, ir_version=9), target="any")
    (weights,) = Derivation.of(model).weights.values()
    assert (weights.steps, set(weights.sources)) == (("Add",), {"v0", "w0", "w1"})
    assert Derivation.of(pickle.loads(pickle.dumps(model))).weights == Derivation.of(model).weights


def test_channels_are_only_scaled_where_that_is_recorded(path: Path, tmp_path: Path) -> None:
    """A factor of a whole channel cannot be told from a scale that was folded, unless the record says so."""
    model = converted(path, tmp_path, exact=True)
    (node,) = (node for node in model.nodes() if node.name == "w")
    values = node.op.data.array().copy()
    values[1] *= np.float32(1.5)
    document = bytearray((tmp_path / "m.bin").read_bytes())
    start = bytes(document).index(node.op.data.array().tobytes())
    document[start : start + values.nbytes] = values.tobytes()
    (tmp_path / "m.bin").write_bytes(document)
    (check,) = (check for check in converter.verify(path, tmp_path / "m.xml").weights if check.name == "w")
    assert check.state == "changed"


def test_a_record_without_weights_says_nothing_of_them(path: Path, tmp_path: Path) -> None:
    model = converted(path, tmp_path)
    Derivation(Derivation.of(model).steps).write(model)
    converter.save_model(model, tmp_path / "n.xml")
    assert Derivation.of(ir_runtime.read_model(tmp_path / "n.xml")).weights is None
    assert [check.state for check in converter.verify(path, tmp_path / "n.xml").weights if check.name == "w"] == [
        "scaled"
    ]
    converter.save_model(converter.convert_model(tmp_path / "n.xml"), tmp_path / "o.xml", compress_to_fp16=True)
    assert Derivation.of(ir_runtime.read_model(tmp_path / "o.xml")).weights is None


def test_inspect_shows_the_steps(path: Path, tmp_path: Path) -> None:
    converted(path, tmp_path, {"compress": "int8"}, exact=True)
    code, text, _ = onnx2ir("inspect", str(tmp_path / "m.xml"))
    assert code == 0
    assert f'convert from onnx with {{"exact": true}} (onnx2ir {converter.__version__})' in text
    assert f'save with {{"compress": "int8"}} (onnx2ir {converter.__version__})' in text
    converter.save_model(ir_runtime.read_model(tmp_path / "m.xml"), tmp_path / "n.xml", record=False)
    assert "onnx2ir" not in onnx2ir("inspect", str(tmp_path / "n.xml"))[1]
    assert json.loads(onnx2ir("inspect", str(tmp_path / "n.xml"), "--json")[1])["derivation"] == []
    steps = json.loads(onnx2ir("inspect", str(tmp_path / "m.xml"), "--json")[1])["derivation"]
    assert [step["options"] for step in steps] == [{"exact": True}, {"compress": "int8"}]


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
    model = Model(
        runtime_info=(RuntimeInfo("onnx2ir", (), (record_of(options='{"exact": true}', passes='{"a": 1}'),)),)
    )
    assert Derivation.of(model).steps == (Step("convert", "0.2.0", options={"exact": True}, passes={"a": 1}),)


@pytest.mark.parametrize(
    "infos",
    [
        (record_of(), record_of()),
        (record_of(), RuntimeInfo("step2", (), record_of().children)),
        (RuntimeInfo("step0"),),
        (RuntimeInfo("step", (), record_of().children),),
        (record_of(unknown="1"),),
        (record_of(action="delete"),),
        (record_of(source="torch"),),
        (record_of(digest="sha256:abc"),),
        (record_of(options="{"),),
        (record_of(options="[1]"),),
        (record_of(options='{"batch": NaN}'),),
        (record_of(version=""),),
        (RuntimeInfo("step0", (), (RuntimeInfo("action", (("value", "convert"),)),)),),
        (record_of(options="[" * 100_000),),
        (record_of(passes='{"gelus": "many"}'),),
        (record_of(passes='{"gelus": true}'),),
        (record_of(rules='{"gelus": 1' + "0" * 10_000 + "}"),),
        (record_of(), RuntimeInfo("weights", (("value", '{"w": {"sources": [1], "steps": []}}'),))),
        (record_of(), RuntimeInfo("weights", (("value", '{"w": ["w"]}'),))),
        (record_of(), RuntimeInfo("weights")),
    ],
)  # fmt: skip
def test_a_damaged_record_counts_as_missing(infos: tuple[RuntimeInfo, ...], path: Path) -> None:
    model = converter.convert_model(path)
    model.runtime_info = (RuntimeInfo("onnx2ir", (), infos),)
    assert Derivation.of(model) == Derivation()
    (step,) = Derivation.of(converter.convert_model(model)).steps  # and is replaced
    assert (step.source, step.digest) == ("ir", "")
