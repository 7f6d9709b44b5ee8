"""``diff`` of ONNX models, and of an ONNX model beside an IR; the text form, which git shows."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import pytest

import converter
from tests.commands import PEAK, onnx2ir
from tests.converter.editing.models import W, branches, classifier
from tests.converter.optimization.models import parse

ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def edited(source: Callable[[], onnx.ModelProto], **options: Any) -> onnx.ModelProto:
    return converter.edit(source(), **options).to_onnx()


def reordered(model: onnx.ModelProto) -> None:
    for field in (model.graph.initializer, model.graph.value_info):
        entries = list(field)[::-1]
        del field[:]
        field.extend(entries)


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
    (classifier, {}, lambda model: setattr(model.opset_import[0], "version", 16), "opset of ai.onnx is 17 where the other model has 16"),
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
    assert (code, result["same"]) == (1, False) if text else (0, True)
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
from converter.editing import edit, onnx_edits
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
