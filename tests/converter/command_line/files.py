"""The folder of files that transcripts name, and the schema of what commands print with ``--json``."""

from __future__ import annotations

import copy
import json
import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import onnx
from onnx import TensorProto, helper

import converter
import ir_runtime
from tests.commands import a_model, dense, two_inputs
from tests.converter.language_models.decoders import Decoder, write_folder
from tests.converter.optimization.models import parse
from tests.engines import node_model
from tests.ir_runtime.execution.stateful import growing

SCHEMA: dict[str, Any] = json.loads((Path(__file__).parents[3] / "docs" / "json_output.schema.json").read_text())
POOL = node_model(
    *("AveragePool", {"x": np.zeros((2, 3, 8, 8), np.float32)}),
    opset=19,
    attributes={"kernel_shape": [2, 2]},
    shapes={"x": ["n", 3, 8, 8]},
)


def check(name: str, found: Any) -> None:
    """Raises where ``found`` is not what the command ``name`` prints."""
    jsonschema.Draft202012Validator({"$ref": f"#/$defs/{name}", "$defs": SCHEMA["$defs"]}).validate(found)


def contradictory() -> onnx.ModelProto:
    made = parse("g (float[2] x) => (float[2] y) { h = Abs (x) y = Relu (h) }")
    made.graph.value_info.append(helper.make_tensor_value_info("h", TensorProto.FLOAT, [3]))
    return made


def undecided(by_value: bool) -> onnx.ModelProto:
    """An If whose branches differ in rank, decided by a value or by a dimension."""
    inputs, number = (", int64 rate", "n = Identity (rate)") if by_value else ("", "s = Shape (x) n = Gather (s, zero)")
    return parse(f"""g (float[n,m] x{inputs}) => (y) <int64 zero = {{0}}, int64 three = {{3}}> {{
        {number} is = Equal (n, three)
        [choice] y = If (is) <then_branch = t () => (u) <int64[1] a = {{0}}> {{ u = ReduceSum <keepdims = 0> (x, a) }},
            else_branch = e () => (v) <int64[2] a = {{0, 1}}> {{ v = ReduceSum <keepdims = 0> (x, a) }}> }}""")


def _onnx_models() -> dict[str, onnx.ModelProto]:
    bad = parse("g (float[2] x) => (float[2] y) { [first] t = Nope (x) [last] y = Never (t) }")
    other = copy.deepcopy(POOL)
    other.graph.node[0].attribute[0].ints[:] = [3, 3]
    frozen = parse("g (float[n,3] x, float[3] y, float s) => (w) { z = Add (x, y) w = Mul (z, s) }")
    own, foreign = (
        parse(f"g (float[3] x) => (y) {{ [cube] y = cubes.{op_type} (x) }}", header=', "cubes" : 1')
        for op_type in ("MyCube", "NoCube")
    )
    models = {"m": two_inputs(), "model": a_model(), "other": a_model(), "bad": bad, "pool": POOL, "pool3": other}
    models |= {"f": frozen, "own": own, "foreign": foreign, "decoder": Decoder().build()}
    models |= {"warns": contradictory(), "again": contradictory()}
    models |= {"by_value": undecided(True), "by_shape": undecided(False)}
    models["half"] = parse("g (float[64] x) => (float[64] y) { y = Mul (x, w) }", w=np.arange(64, dtype=np.float32) / 7)
    models["good"] = parse("g (float[2] x) => (float[2] y) { y = Relu (x) }")
    for name, kind in (("calls", "Celu"), ("calls_bad", "NoSuchOp")):
        text = f"""<ir_version: 9, opset_import: ["" : 17, "own" : 1]> g (float[2,4] x) => (float[2,4] y) {{
            m = MeanVarianceNormalization <axes = [1]> (x) y = own.F (m) }}
            <domain: "own", opset_import: ["" : 17]> F (a) => (b) {{ b = {kind} (a) }}"""
        models[name] = onnx.parser.parse_model(text)
    return models


OPERATORS = '''
import converter, ir_runtime
from ir_runtime.operations.elementwise import Abs1, Unary


@ir_runtime.operation("Cube", opset=1)
class Cube1(Unary):
    """x to the third power."""

    def evaluate(self, *inputs):
        return inputs[0] ** 3


@converter.onnx_op("MyCube", domain="cubes", versions=(1,))
def my_cube(ctx, x, *, scale: float = 1.0):
    return ctx.emit(Cube1(), ctx.emit(Abs1(), x))
'''


def prepare(folder: Path) -> None:
    models = _onnx_models()
    for name, model in models.items():
        onnx.save(model, folder / f"{name}.onnx")
    for name in ("m", "model", "other", "pool", "good", "warns"):
        converter.save_model(converter.convert_model(folder / f"{name}.onnx"), folder / f"{name}.xml")
    changed = a_model()
    weight = changed.graph.initializer[1]
    weight.raw_data = (np.frombuffer(weight.raw_data, np.float32) * 2).tobytes()
    converter.save_model(converter.convert_model(changed), folder / "wrong.xml")
    converter.save_model(converter.convert_model(models["decoder"], stateful=True), folder / "decoder.xml")
    converter.save_model(converter.convert_model(models["pool3"]), folder / "pool3.xml")
    ir_runtime.write_model(growing(1, returned=True), folder / "sum.xml")
    write_folder(folder / "llm", Decoder())
    (folder / "cut.onnx").write_bytes(b"nothing of ONNX")
    (folder / "ops.py").write_text("import converter\n")
    (folder / "cube.py").write_text(OPERATORS)
    for name in "abc":
        text = f"import converter\n@converter.onnx_op({name!r}, domain='x{name}', versions=(1,))\ndef f(ctx, x): ...\n"
        (folder / f"{name}.py").write_text(text)
    for name in ("here", "saved"):
        (folder / name).mkdir()
    (folder / "saved/saved_model.pb").write_bytes(b"")
    (folder / "file").write_text("no folder")
    dense(folder / "zoo" / "a" / "model.onnx")
    dense(folder / "zoo" / "model.onnx", 1)
    dense(folder / "deep" / "m.onnx", 2)
    ids = {"input_ids": np.ones((1, 1), np.int64), "attention_mask": np.ones((1, 1), np.int64)}
    np.savez(folder / "step.npz", **ids, position_ids=np.ones((1, 1), np.int64), beam_idx=np.zeros(1, np.int32))
    np.savez(folder / "ones.npz", x=np.ones((1, 3, 8, 8), np.float32))
    np.save(folder / "s.npy", np.float32(3))
    for name, shape, first in (("one", (2, 1, 3), 1), ("prompt", (2, 4, 3), 1), ("token", (2, 1, 3), 100), ("three",
        (3, 2, 1, 3), 1), ("four", (2, 1, 4), 1)):  # fmt: skip
        np.savez(folder / f"{name}.npz", x=np.arange(first, first + np.prod(shape), dtype=np.float32).reshape(shape))


@cache
def _prepared() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="onnx2ir-files-"))
    prepare(folder)
    return folder


def copy_to(folder: Path) -> None:
    shutil.copytree(_prepared(), folder, dirs_exist_ok=True)
