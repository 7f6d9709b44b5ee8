"""Every recipe of docs/editing.md does what stands beside it: from the command line to numbers in onnxruntime."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import ir_runtime
from tests.commands import onnx2ir
from tests.converter.editing.models import IMAGE, W, classifier, ends, floats, shape_of, weight, write_files
from tests.converter.optimization.models import run

FEATURES, WIDE = floats(1, 32, 6, 6), np.ones((1, 3, 16, 12), np.float32)
PAIR = np.concatenate([IMAGE, IMAGE])
PIXELS = np.random.default_rng(1).integers(0, 9, (1, 8, 8, 3)).astype(np.uint8)
BOXES = np.array([[0, 0, 1, 1], [0, 0, 1, 1.1], [5, 5, 6, 6], [8, 8, 9, 9], [0, 5, 1, 6], [3, 0, 4, 1]], np.float32)
SCORED = np.concatenate([BOXES, np.array([[0.9], [0.8], [0.7], [0.1], [0.2], [0.3]], np.float32)], 1)[None]


def computed(image: Any) -> dict[str, Any]:
    """What the classifier computes, and its embedding."""
    model = classifier()
    model.graph.output.append(onnx.helper.make_tensor_value_info("embedding", 1, None))
    return run(model, {"image": image})


KNOWN = computed(IMAGE)
LOGITS, AUX, EMBEDDING = KNOWN["logits"], KNOWN["aux"], KNOWN["embedding"]
SOFTMAX = np.exp(LOGITS - LOGITS.max()) / np.exp(LOGITS - LOGITS.max()).sum()
OF_PIXELS = computed(PIXELS.transpose(0, 3, 1, 2).astype(np.float32))["logits"]


@dataclass(frozen=True)
class R:
    """What a recipe gives: inputs and outputs, operators, shapes, and numbers of some inputs."""

    ends: str = ""
    operators: str = ""
    shapes: Mapping[str, list[Any]] = field(default_factory=dict)
    feeds: Mapping[str, Any] = field(default_factory=lambda: {"image": IMAGE})
    gives: Mapping[str, Any] = field(default_factory=dict)
    look: Callable[[onnx.ModelProto], object] = lambda model: True
    files: str = ""

    def check(self, model: onnx.ModelProto) -> None:
        assert not self.ends or " to ".join(" ".join(side) for side in ends(model)) == self.ends
        assert not self.operators or " ".join(node.op_type for node in model.graph.node) == self.operators
        assert {name: shape_of(model, name) for name in self.shapes} == self.shapes
        assert self.look(model)
        assert not self.files or " ".join(sorted(path.name for path in Path().glob("out.onnx*"))) == self.files
        found = run("out.onnx", self.feeds) if self.gives else {}
        for name, expected in self.gives.items():
            np.testing.assert_allclose(found[name], expected, rtol=1e-4, atol=1e-6)


def has_no(*words: bytes) -> Callable[[onnx.ModelProto], bool]:
    return lambda model: not any(word in model.SerializeToString() for word in (b"described", *words))


SAME = {"logits": LOGITS}
RECIPES: dict[str, R] = {
    "model.onnx --cut :embedding": R("image to embedding", gives={"embedding": EMBEDDING}),
    "model.onnx --cut embedding:": R("embedding to logits aux", shapes={"embedding": [1, 32]}, feeds={"embedding": EMBEDDING}, gives=SAME),
    "model.onnx --cut features:embedding": R(operators="ReduceMean", feeds={"features": FEATURES}, gives={"embedding": FEATURES.mean((2, 3))}),
    "text.onnx --cut ids:embedded": R(operators="Gather", shapes={"embedded": ["batch", "tokens", 8]}),
    "model.onnx --add-output features": R("image to logits aux features", shapes={"features": [1, 32, 6, 6]}),
    "model.onnx --remove-output logits": R("image to aux", "Conv Relu ReduceMean ReduceMax", gives={"aux": AUX}),
    "model.onnx --rename image=pixels": R("pixels to logits aux", feeds={"pixels": IMAGE}, gives=SAME),
    "model.onnx --rename image=x,logits=y,head_weight=w": R(
        "x to y aux", feeds={"x": IMAGE}, gives={"y": LOGITS}, look=lambda model: np.array_equal(weight(model, "w"), W)),
    "model.onnx --rename logits=aux,aux=logits": R(gives={"logits": AUX, "aux": LOGITS}),
    r"tensorflow.onnx --cut 'x\:0:y\:0'": R("x:0 to y:0", "Relu"),
    "model.onnx --set-dim image:0=batch": R(shapes={"image": ["batch", 3, 8, 8], "logits": ["batch", 10], "aux": ["batch"]},
                                            feeds={"image": PAIR}, gives={"logits": np.concatenate([LOGITS, LOGITS])}),
    "text.onnx --set-dim batch=1": R(shapes={"ids": [1, "tokens"], "y": [1, 8]}),
    "text.onnx --set-dim tokens=sequence_length": R(shapes={"ids": ["batch", "sequence_length"]}),
    "model.onnx --set-dim image:2=16,image:3=12": R(
        shapes={"image": [1, 3, 16, 12]}, look=lambda model: run(model, {"image": WIDE})),
    'model.onnx --insert-after "logits=Softmax(axis=-1)"': R("image to logits aux", gives={"logits": SOFTMAX}),
    'model.onnx --insert-after "logits=ArgMax(axis=-1, keepdims=0)"': R(shapes={"logits": [1]}, gives={"logits": LOGITS.argmax(-1)}),
    'model.onnx --insert-after "image=Div(255)"': R("image to logits aux", feeds={"image": IMAGE * 255}, gives=SAME),
    'model.onnx --insert-after "logits=Cast(to=float16)"': R(gives={"logits": LOGITS.astype(np.float16)}),
    'model.onnx --insert-after "embedding=com.microsoft.FastGelu()"': R(operators="Conv Relu ReduceMean FastGelu ReduceMax MatMul"),
    'model.onnx --insert-after "logits=Add(head_bias)"': R(gives={"logits": LOGITS + np.arange(10)}),
    "pre.onnx --merge model.onnx --connect ready=image": R(
        "pixels to logits aux", feeds={"pixels": PIXELS}, gives={"logits": OF_PIXELS},
        look=lambda model: {"features", "model/features"} <= {name for node in model.graph.node for name in node.output}),
    "detector.onnx --merge nms.onnx --connect boxes=boxes,scores=scores": R(
        "image to kept", feeds={"image": SCORED}, gives={"kept": [[0, 0, 0], [0, 0, 2], [0, 0, 5]]}),
    "model.onnx --replace-weight head_weight=w.npy": R(gives={"logits": LOGITS * 2}),
    "model.onnx --replace-weight head_weight=w64.npy --cast-weights": R(gives={"logits": LOGITS * 2}),
    "model.onnx --metadata author=me --metadata labels=": R(look=lambda model: (
        {entry.key: entry.value for entry in model.metadata_props} == {"owner": "cat,dog", "author": "me"})),
    "model.onnx --strip docs": R(gives=SAME, look=has_no()),
    "model.onnx --strip names,docs,metadata": R(gives=SAME, look=has_no(b"node0", b"head", b"embedding", b"labels", b"cat")),
    "model.onnx --external-data": R(gives=SAME, files="out.onnx out.onnx.data"),
    "model.onnx --split-size 4KB": R(gives=SAME, files="out.onnx out.onnx.data out.onnx.data_1"),
    "external.onnx --no-external-data": R(gives=SAME, files="out.onnx"),
}  # fmt: skip
"""Recipes for ONNX, and what the result is."""
OF_IRS: dict[str, tuple[dict[str, Any], str, Any]] = {
    "model.xml --cut features:embedding": ({"features": FEATURES}, "embedding", FEATURES.mean((2, 3))),
    'model.xml --insert-after "logits=Softmax(axis=-1)" --rename image=x': ({"x": IMAGE}, "logits", SOFTMAX),
    "model.xml --set-dim image:0=?": ({"image": PAIR}, "logits", np.concatenate([LOGITS, LOGITS])),
}
"""Inputs, and an output."""
LINES = re.findall(r"\| `onnx2ir edit (.*?) -o out\.\w+` \|", Path("docs/editing.md").read_text())


def test_each_recipe_has_a_check() -> None:
    assert sorted(LINES) == sorted([*RECIPES, *OF_IRS])
    assert len(LINES) >= 25


@pytest.mark.parametrize("line", [*RECIPES, *OF_IRS])
def test_recipe(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_files(tmp_path)
    monkeypatch.chdir(tmp_path)
    name = "out.onnx" if line in RECIPES else "out.xml"
    code, _, messages = onnx2ir("edit", *shlex.split(line), "-o", name)
    assert code == 0, messages
    if line in RECIPES:
        onnx.checker.check_model("out.onnx", full_check=True)
        RECIPES[line].check(onnx.load("out.onnx"))
        return
    feeds, output, expected = OF_IRS[line]
    found = ir_runtime.compile_model(ir_runtime.read_model("out.xml"))(feeds)[output]
    np.testing.assert_allclose(found, expected, rtol=1e-4)
