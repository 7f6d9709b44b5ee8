"""Every recipe of docs/editing.md does what stands beside it: from the command line to numbers in onnxruntime."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import ir_runtime
from tests.commands import onnx2ir
from tests.converter.editing.models import IMAGE, classifier, ends, floats, shape_of, weight, write_files
from tests.converter.optimization.models import run

Check = Callable[[onnx.ModelProto], object]

IDS = np.array([[3, 1, 7]])
FEATURES = floats(1, 32, 6, 6)
EXPECTED = run(classifier(), {"image": IMAGE})
LOGITS, AUX = EXPECTED["logits"], EXPECTED["aux"]


def with_outputs(*names: str) -> dict[str, Any]:
    model = classifier()
    model.graph.output.extend(onnx.helper.make_tensor_value_info(name, 1, None) for name in names)
    return run(model, {"image": IMAGE})


EMBEDDING = with_outputs("embedding")["embedding"]


def equal(name: str, expected: Any, **feeds: Any) -> Check:

    def check(model: onnx.ModelProto) -> None:
        outputs = run(model, feeds)
        np.testing.assert_allclose(outputs[name], expected, rtol=1e-5, atol=1e-6)

    return check


def all_of(*checks: Check) -> Check:
    return lambda model: [check(model) for check in checks]


def interface(inputs: str, outputs: str) -> Check:
    def check(model: onnx.ModelProto) -> None:
        assert ends(model) == (inputs.split(), outputs.split())

    return check


def shape(name: str, *dims: Any) -> Check:
    def check(model: onnx.ModelProto) -> None:
        assert shape_of(model, name) == list(dims)

    return check


def operators(*expected: str) -> Check:
    def check(model: onnx.ModelProto) -> None:
        assert [node.op_type for node in model.graph.node] == list(expected)

    return check


def softmax(values: Any) -> Any:
    return np.exp(values - values.max()) / np.exp(values - values.max()).sum()


def two_images(model: onnx.ModelProto) -> None:
    pair = np.concatenate([IMAGE, IMAGE])
    np.testing.assert_allclose(run(model, {"image": pair})["logits"], np.concatenate([LOGITS] * 2), rtol=1e-5)


def merged_preprocessor(model: onnx.ModelProto) -> None:
    pixels = np.random.default_rng(1).integers(0, 9, (1, 8, 8, 3)).astype(np.uint8)
    expected = run(classifier(), {"image": pixels.transpose(0, 3, 1, 2).astype(np.float32)})
    np.testing.assert_allclose(run(model, {"pixels": pixels})["logits"], expected["logits"], rtol=1e-4)
    assert {"features", "model/features"} <= {name for node in model.graph.node for name in node.output}


def merged_nms(model: onnx.ModelProto) -> None:
    boxes = np.array([[0, 0, 1, 1], [0, 0, 1, 1.1], [5, 5, 6, 6], [8, 8, 9, 9], [0, 5, 1, 6], [3, 0, 4, 1]], np.float32)
    image = np.concatenate([boxes, np.array([[0.9], [0.8], [0.7], [0.1], [0.2], [0.3]], np.float32)], 1)[None]
    assert run(model, {"image": image})["kept"].tolist() == [[0, 0, 0], [0, 0, 2], [0, 0, 5]]


def stripped(model: onnx.ModelProto) -> None:
    assert b"described" not in model.SerializeToString()


def anonymous(model: onnx.ModelProto) -> None:
    stripped(model)
    text = model.SerializeToString()
    assert not any(word in text for word in (b"node0", b"head", b"embedding", b"labels", b"cat"))


def properties(model: onnx.ModelProto) -> None:
    assert {entry.key: entry.value for entry in model.metadata_props} == {"owner": "cat,dog", "author": "me"}


def in_files(*names: str) -> Check:
    """Check which files are beside the result, and what it computes from them."""

    def check(model: onnx.ModelProto) -> None:
        assert sorted(path.name for path in Path().glob("out.onnx*")) == sorted(names)
        np.testing.assert_allclose(run("out.onnx", {"image": IMAGE})["logits"], LOGITS, rtol=1e-5)

    return check


SAME = equal("logits", LOGITS, image=IMAGE)
RECIPES: dict[str, Check] = {
    "model.onnx --cut :embedding": all_of(interface("image", "embedding"), equal("embedding", EMBEDDING, image=IMAGE)),
    "model.onnx --cut embedding:": all_of(
        interface("embedding", "logits aux"), equal("logits", LOGITS, embedding=EMBEDDING), shape("embedding", 1, 32)
    ),
    "model.onnx --cut features:embedding": all_of(
        operators("ReduceMean"), equal("embedding", FEATURES.mean((2, 3)), features=FEATURES)
    ),
    "text.onnx --cut ids:embedded": all_of(operators("Gather"), shape("embedded", "batch", "tokens", 8)),
    "model.onnx --add-output features": all_of(
        interface("image", "logits aux features"), shape("features", 1, 32, 6, 6)
    ),
    "model.onnx --remove-output logits": all_of(
        interface("image", "aux"), operators("Conv", "Relu", "ReduceMean", "ReduceMax"), equal("aux", AUX, image=IMAGE)
    ),
    "model.onnx --rename image=pixels": all_of(
        interface("pixels", "logits aux"), equal("logits", LOGITS, pixels=IMAGE)
    ),
    "model.onnx --rename image=x,logits=y,head_weight=w": all_of(
        interface("x", "y aux"), equal("y", LOGITS, x=IMAGE), lambda model: weight(model, "w")
    ),
    "model.onnx --rename logits=aux,aux=logits": all_of(
        equal("logits", AUX, image=IMAGE), equal("aux", LOGITS, image=IMAGE)
    ),
    r"tensorflow.onnx --cut 'x\:0:y\:0'": all_of(interface("x:0", "y:0"), operators("Relu")),
    "model.onnx --set-dim image:0=batch": all_of(
        shape("image", "batch", 3, 8, 8), shape("logits", "batch", 10), shape("aux", "batch"), two_images
    ),
    "text.onnx --set-dim batch=1": all_of(shape("ids", 1, "tokens"), shape("y", 1, 8)),
    "text.onnx --set-dim tokens=sequence_length": shape("ids", "batch", "sequence_length"),
    "model.onnx --set-dim image:2=16,image:3=12": all_of(
        shape("image", 1, 3, 16, 12), lambda model: run(model, {"image": np.ones((1, 3, 16, 12), np.float32)})
    ),
    'model.onnx --insert-after "logits=Softmax(axis=-1)"': all_of(
        interface("image", "logits aux"), equal("logits", softmax(LOGITS), image=IMAGE)
    ),
    'model.onnx --insert-after "logits=ArgMax(axis=-1, keepdims=0)"': all_of(
        shape("logits", 1), equal("logits", LOGITS.argmax(-1), image=IMAGE)
    ),
    'model.onnx --insert-after "image=Div(255)"': all_of(
        interface("image", "logits aux"), equal("logits", LOGITS, image=IMAGE * 255)
    ),
    'model.onnx --insert-after "logits=Cast(to=float16)"': equal("logits", LOGITS.astype(np.float16), image=IMAGE),
    'model.onnx --insert-after "embedding=com.microsoft.FastGelu()"': operators(
        "Conv", "Relu", "ReduceMean", "FastGelu", "ReduceMax", "MatMul"
    ),
    'model.onnx --insert-after "logits=Add(head_bias)"': equal("logits", LOGITS + np.arange(10), image=IMAGE),
    "pre.onnx --merge model.onnx --connect ready=image": all_of(interface("pixels", "logits aux"), merged_preprocessor),
    "detector.onnx --merge nms.onnx --connect boxes=boxes,scores=scores": all_of(
        interface("image", "kept"), merged_nms
    ),
    "model.onnx --replace-weight head_weight=w.npy": equal("logits", LOGITS * 2, image=IMAGE),
    "model.onnx --replace-weight head_weight=w64.npy --cast-weights": equal("logits", LOGITS * 2, image=IMAGE),
    "model.onnx --metadata author=me --metadata labels=": properties,
    "model.onnx --strip docs": all_of(stripped, SAME),
    "model.onnx --strip names,docs,metadata": all_of(anonymous, SAME),
    "model.onnx --external-data": in_files("out.onnx", "out.onnx.data"),
    "model.onnx --split-size 4KB": in_files("out.onnx", "out.onnx.data", "out.onnx.data_1"),
    "external.onnx --no-external-data": in_files("out.onnx"),
}
"""Recipes for ONNX, and what to check of the result."""


def _run_ir(feeds: dict[str, Any]) -> Any:
    return ir_runtime.compile_model(ir_runtime.read_model("out.xml"))(feeds)


OF_IRS: dict[str, Callable[[], None]] = {
    "model.xml --cut features:embedding": lambda: np.testing.assert_allclose(
        _run_ir({"features": FEATURES})["embedding"], FEATURES.mean((2, 3)), rtol=1e-5
    ),
    'model.xml --insert-after "logits=Softmax(axis=-1)" --rename image=x': lambda: np.testing.assert_allclose(
        _run_ir({"x": IMAGE})["logits"], softmax(LOGITS), rtol=1e-4
    ),
    "model.xml --set-dim image:0=?": lambda: np.testing.assert_allclose(
        _run_ir({"image": np.concatenate([IMAGE, IMAGE])})["logits"], np.concatenate([LOGITS] * 2), rtol=1e-4
    ),
}
LINES = re.findall(r"\| `onnx2ir edit (.*?) -o out\.\w+` \|", Path("docs/editing.md").read_text())


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_files(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_each_recipe_has_a_check() -> None:
    assert sorted(LINES) == sorted([*RECIPES, *OF_IRS])
    assert len(LINES) >= 25


@pytest.mark.parametrize("line", RECIPES)
def test_recipe(line: str, folder: Path) -> None:
    code, _, messages = onnx2ir("edit", *shlex.split(line), "-o", "out.onnx")
    assert code == 0, messages
    onnx.checker.check_model("out.onnx", full_check=True)
    RECIPES[line](onnx.load("out.onnx"))


@pytest.mark.parametrize("line", OF_IRS)
def test_recipe_for_an_ir(line: str, folder: Path) -> None:
    code, _, messages = onnx2ir("edit", *shlex.split(line), "-o", "out.xml")
    assert code == 0, messages
    OF_IRS[line]()
