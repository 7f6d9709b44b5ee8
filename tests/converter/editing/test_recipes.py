"""Every recipe of docs/editing.md does what stands beside it, and diff tells what it changed."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import converter
import ir_runtime
from tests.commands import PEAK, onnx2ir
from tests.converter.editing.models import IMAGE, W, branches, classifier, ends, floats, shape_of, weight, write_files
from tests.converter.optimization.models import parse, run

# --- every recipe of docs/editing.md does what stands beside it: from the command line to numbers in onnxruntime ---

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
    "model.onnx --cut embedding:": R("embedding to logits aux", shapes={"embedding": [1, 32]},
        feeds={"embedding": EMBEDDING}, gives=SAME),
    "model.onnx --cut features:embedding": R(operators="ReduceMean", feeds={"features": FEATURES},
        gives={"embedding": FEATURES.mean((2, 3))}),
    "text.onnx --cut ids:embedded": R(operators="Gather", shapes={"embedded": ["batch", "tokens", 8]}),
    "model.onnx --add-output features": R("image to logits aux features", shapes={"features": [1, 32, 6, 6]}),
    "model.onnx --remove-output logits": R("image to aux", "Conv Relu ReduceMean ReduceMax", gives={"aux": AUX}),
    "model.onnx --rename image=pixels": R("pixels to logits aux", feeds={"pixels": IMAGE}, gives=SAME),
    "model.onnx --rename image=x,logits=y,head_weight=w": R(
        "x to y aux", feeds={"x": IMAGE}, gives={"y": LOGITS}, look=lambda model: np.array_equal(weight(model, "w"),
            W)),
    "model.onnx --rename logits=aux,aux=logits": R(gives={"logits": AUX, "aux": LOGITS}),
    r"tensorflow.onnx --cut 'x\:0:y\:0'": R("x:0 to y:0", "Relu"),
    "model.onnx --set-dim image:0=batch": R(shapes={"image": ["batch", 3, 8, 8], "logits": ["batch", 10],
        "aux": ["batch"]},
                                            feeds={"image": PAIR}, gives={"logits": np.concatenate([LOGITS, LOGITS])}),
    "text.onnx --set-dim batch=1": R(shapes={"ids": [1, "tokens"], "y": [1, 8]}),
    "text.onnx --set-dim tokens=sequence_length": R(shapes={"ids": ["batch", "sequence_length"]}),
    "model.onnx --set-dim image:2=16,image:3=12": R(
        shapes={"image": [1, 3, 16, 12]}, look=lambda model: run(model, {"image": WIDE})),
    'model.onnx --insert-after "logits=Softmax(axis=-1)"': R("image to logits aux", gives={"logits": SOFTMAX}),
    'model.onnx --insert-after "logits=ArgMax(axis=-1, keepdims=0)"': R(shapes={"logits": [1]},
        gives={"logits": LOGITS.argmax(-1)}),
    'model.onnx --insert-after "image=Div(255)"': R("image to logits aux", feeds={"image": IMAGE * 255}, gives=SAME),
    'model.onnx --insert-after "logits=Cast(to=float16)"': R(gives={"logits": LOGITS.astype(np.float16)}),
    'model.onnx --insert-after "embedding=com.microsoft.FastGelu()"': R(
        operators="Conv Relu ReduceMean FastGelu ReduceMax MatMul"),
    'model.onnx --insert-after "logits=Add(head_bias)"': R(gives={"logits": LOGITS + np.arange(10)}),
    "pre.onnx --merge model.onnx --connect ready=image": R(
        "pixels to logits aux", feeds={"pixels": PIXELS}, gives={"logits": OF_PIXELS},
        look=lambda model: {"features",
            "model/features"} <= {name for node in model.graph.node for name in node.output}),
    "detector.onnx --merge nms.onnx --connect boxes=boxes,scores=scores": R(
        "image to kept", feeds={"image": SCORED}, gives={"kept": [[0, 0, 0], [0, 0, 2], [0, 0, 5]]}),
    "model.onnx --replace-weight head_weight=w.npy": R(gives={"logits": LOGITS * 2}),
    "model.onnx --replace-weight head_weight=w64.npy --cast-weights": R(gives={"logits": LOGITS * 2}),
    "model.onnx --metadata author=me --metadata labels=": R(look=lambda model: (
        {entry.key: entry.value for entry in model.metadata_props} == {"owner": "cat,dog", "author": "me"})),
    "model.onnx --strip docs": R(gives=SAME, look=has_no()),
    "model.onnx --strip names,docs,metadata": R(gives=SAME, look=has_no(b"node0", b"head", b"embedding", b"labels",
        b"cat")),
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


# --- ``diff`` of ONNX models, and of an ONNX model beside an IR; the text form, which git shows ---

ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def edited(source: Callable[[], onnx.ModelProto], **options: Any) -> onnx.ModelProto:
    return converter.edit(source(), **options).to_onnx()


def reordered(model: onnx.ModelProto) -> None:
    for listed in (model.graph.initializer, model.graph.value_info):
        entries = list(listed)[::-1]
        del listed[:]
        listed.extend(entries)


def weights_as_nodes(model: onnx.ModelProto) -> None:
    for tensor in model.graph.initializer:
        model.graph.node.insert(0, onnx.helper.make_node("Constant", [], [tensor.name], value=tensor))
    del model.graph.initializer[:]


def another_body(model: onnx.ModelProto) -> None:
    next(one for one in model.graph.node[1].attribute if one.name == "then_branch").g.node[0].op_type = "Abs"


def another_axis(model: onnx.ModelProto) -> None:
    next(node for node in model.graph.node if node.op_type == "ReduceMax").attribute[0].ints[:] = [0]


def functions() -> onnx.ModelProto:
    return onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 17, "own" : 1]>
    net (float[2] x) => (float[2] y) { y = own.f (x) }
    <domain: "own", opset_import: ["" : 17]> f (v) => (w) { w = Add (v, v) }""")


ANOTHER_WEIGHT = W.copy()
ANOTHER_WEIGHT[0, 0] += 1
Change = Callable[[onnx.ModelProto], object]
ROWS: list[tuple[Callable[[], onnx.ModelProto], dict[str, Any], Change | None, str]] = [
    # the first model, the edit and the change that make the second one, what is told: nothing where they are the same
    (classifier, {}, None, ""),
    (classifier, {}, reordered, ""),
    (classifier, {}, weights_as_nodes, ""),
    (classifier, {"strip": "names"}, None, ""),
    (branches, {"strip": "names"}, None, ""),
    (classifier, {"replace_weight": {"head_weight": ANOTHER_WEIGHT}}, None, "1 of 320 values differ, by 1 at most"),
    (classifier, {"strip": "names"}, another_axis, "axes is 1 where the other model has 0"),
    (branches, {}, another_body, "Relu"),
    (classifier, {"set_dim": "image:0=n"}, None, "type is f32[1,3,8,8] where the other model has f32[n,3,8,8]"),
    (classifier, {"metadata": "owner=me"}, None, "metadata 'owner' is 'cat,dog' where the other model has 'me'"),
    (classifier, {"rename": "image=x"}, None, "input 0 is 'image' where the other model has 'x'"),
    (classifier, {}, lambda model: setattr(model.opset_import[0], "version", 16),
     "opset of ai.onnx is 17 where the other model has 16"),
    (classifier, {"insert_after": "logits=Softmax(axis=-1)"}, None, "Softmax"),
    (functions, {}, lambda model: setattr(model.functions[0].node[0], "op_type", "Mul"), "f"),
]  # fmt: skip


@pytest.mark.parametrize(("source", "edit", "change", "text"), ROWS)
def test_what_differs(
    source: Callable[[], onnx.ModelProto], edit: dict[str, Any], change: Change | None, text: str
) -> None:
    second = edited(source, **edit) if edit else source()
    if change is not None:
        change(second)
    onnx.save(source(), "a.onnx")
    onnx.save(second, "b.onnx")
    code, out, _ = onnx2ir("diff", "a.onnx", "b.onnx", "--json")
    result = json.loads(out)
    assert (code, result["same"]) == ((1, False) if text else (0, True))
    assert text in json.dumps(result, ensure_ascii=False)
    assert result["paired"] > 8 or source is functions
    code, out, _ = onnx2ir("diff", "a.onnx", "b.onnx", "--report", "page.html")
    assert code == bool(text)
    assert text in out.replace("\n", "")
    assert Path("page.html").exists()


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("options", [{}, {"target": "any", "exact": True, "output": "logits"}, None], ids=str)
def test_a_model_beside_its_ir(options: dict[str, Any] | None, swapped: bool) -> None:
    """The recorded options are those of the other side; without a record the default ones."""
    onnx.save(classifier(), "m.onnx")
    converter.save_model(converter.convert_model("m.onnx", **(options or {})), "m.xml", record=options is not None)
    files = ["m.xml", "m.onnx"] if swapped else ["m.onnx", "m.xml"]
    assert onnx2ir("diff", *files)[0] == 0
    onnx.save(edited(classifier, replace_weight={"head_weight": ANOTHER_WEIGHT}), "m.onnx")
    code, out, _ = onnx2ir("diff", *files)
    assert code == 1
    assert "1 of 320 values differ" in out


@pytest.mark.parametrize(("data", "message"), [
    (b"", "b.onnx is empty"),
    (b"\x00nothing", "not an ONNX model"),
    (parse("net (float[2] x) => (float[2] y) { y = Neg (z) }").SerializeToString(), "'z', which node 'y' reads"),
])  # fmt: skip
def test_files_that_are_no_models(data: bytes, message: str) -> None:
    onnx.save(classifier(), "a.onnx")
    Path("b.onnx").write_bytes(data)
    code, _, errors = onnx2ir("diff", "a.onnx", "b.onnx")
    assert code == 1
    assert message in errors


def test_the_text_of_a_model() -> None:
    onnx.save(branches(), "m.onnx")
    code, out, _ = onnx2ir("inspect", "m.onnx", "--nodes")
    assert code == 0
    lines = [line.strip() for line in out.splitlines()]
    assert {"input x type=f32[n,4]", "a = Mul(x, w)", "inner = Relu(a)"} <= {*lines}
    assert lines[-1] == "output y = y type=f32[n,4]"
    assert onnx2ir("inspect", "m.onnx", "--nodes", "--json")[0] == 2
    onnx.save(classifier(), "m.onnx", save_as_external_data=True, size_threshold=0, location="data")
    Path("data").unlink()
    code, out, errors = onnx2ir("inspect", "m.onnx", "--nodes")
    assert code == 0, errors
    assert "data=not here" in out


def test_git_shows_the_difference(folder: Path) -> None:
    """With the lines of docs/editing.md."""
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    command = f"'{sys.executable}' -c 'from converter.command_line import main; main()' -q inspect --nodes"
    lines = (ROOT / "docs" / "editing.md").read_text()
    assert 'git config diff.onnx.textconv "onnx2ir -q inspect --nodes"' in lines
    assert "*.onnx diff=onnx" in lines

    def git(*words: str) -> str:
        who = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
        environment = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin:/usr/local/bin", "HOME": str(folder)}
        done = subprocess.run(["git", *who, *words], capture_output=True, text=True, check=True, env=environment)
        return done.stdout

    git("init", "-q")
    Path(".gitattributes").write_text("*.onnx diff=onnx\n")
    onnx.save(classifier(), "m.onnx")
    git("add", ".")
    git("commit", "-qm", "first")
    git("config", "diff.onnx.textconv", command)
    onnx.save(edited(classifier, insert_after="logits=Softmax(axis=-1)"), "m.onnx")
    changes = [line for line in git("diff").splitlines() if line[:1] in "+-" and line[:3] not in ("+++", "---")]
    assert changes == [
        "-logits = MatMul(embedding, head_weight)",
        "+logits/before_Softmax = MatMul(embedding, head_weight)",
        "+logits = Softmax(logits/before_Softmax) axis=-1",
    ]


def test_memory_does_not_grow_with_the_weights(folder: Path) -> None:
    """A sparse file of 256 MiB is cut to half of it."""
    count, size = 4, 1 << 26
    with open("w.data", "wb") as file:
        file.truncate(count * size)
    chain = " ".join(f"h{at + 1} = MatMul (h{at}, w{at})" for at in range(count))
    model = parse(f"g (float[1,4096] h0) => (float[1,4096] h{count}) {{ {chain} }}")
    for number in range(count):
        tensor = onnx.TensorProto(name=f"w{number}", data_type=1, dims=[4096, 4096], data_location=1)
        for key, value in (("location", "w.data"), ("offset", number * size), ("length", size)):
            tensor.external_data.add(key=key, value=str(value))
        model.graph.initializer.append(tensor)
    onnx.save(model, "m.onnx")
    code = f"""{PEAK}
import sys, converter
from converter.editing import edit, onnx_model
before = peak()
converter.edit("m.onnx", cut=":h2").save("n.onnx", external_data=eval(sys.argv[1]))
print(peak() - before)
"""
    for external in (True, False):
        words = [sys.executable, "-c", code, str(external)]
        done = subprocess.run(words, capture_output=True, text=True, env={"PYTHONPATH": str(ROOT)}, check=True)
        assert int(done.stdout) < 48 << 10  # KiB
        assert sum(path.stat().st_size for path in Path().glob("n.onnx*")) > 2 * size
        for path in Path().glob("n.onnx*"):
            path.unlink()
