"""What pages say: the verdict and what to do, weights, runs, types that changed, rows without repetition, links."""

from __future__ import annotations

import html
import os
import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import converter
import ir_runtime
from converter import conversion
from converter.batch.rows import VERIFIED, Row
from converter.report.batches import page as batch_page
from converter.report.conversions import write_conversion
from converter.report.differences import write_difference
from converter.report.graph_data import CHANGED, EQUAL, WRONG
from converter.report.markup import Table, text_of
from converter.report.page import style
from ir_runtime.graph.model_difference import compare_models
from tests.commands import onnx2ir
from tests.converter.test_verify_inputs import image
from tests.converter.test_verify_layers import deep, layer, overwrite
from tests.report.browser import data_of

__all__ = ["deep", "image"]  # fixtures


def text_in(page: Path) -> str:
    return html.unescape(page.read_text().replace("<wbr>", ""))


def rows_of(text: str, title: str) -> list[list[str]]:
    """The cells of the table with that title."""
    table = re.search(rf"<h2>{re.escape(title)}</h2>.*?<tbody>(.*?)</tbody>", text, re.S)
    assert table is not None, title
    rows = re.findall(r"<tr>(.*?)</tr>", table[1], re.S)
    return [re.findall(r"<td[^>]*>(.*?)</td>", row, re.S) for row in rows]


def verdict_in(text: str) -> str:
    found = re.search(r"<section class='verdict.*?</section>", text, re.S)
    assert found is not None
    return found[0]


def test_the_contracts_of_passes_are_listed(tmp_path: Path) -> None:
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17]> g (float[n, 8] x) => (float[n, 8] y) <float one = {1}> {
            s = Sigmoid(x)
            t = Mul(x, s)
            y = Mul(t, one) }"""
    )
    page = tmp_path / "page.html"
    report = converter.verify(model, converter.convert_model(model), report=page)
    rows = {row[0]: row[1:] for row in rows_of(text_in(page), "Contracts of passes and rules")}
    assert rows["swishes"] == ["1", "within 1 ulp", "layers without infinities and NaN", rows["swishes"][3]]
    assert rows["neutral_elements"][1] == "exact but for signs of zeros"
    assert "swishes is within 1 ulp." in text_in(page)
    assert {applied.name for applied in report.contracts} == set(rows)


def test_a_changed_weight_marks_the_layer_that_reads_it(deep: Path, tmp_path: Path) -> None:
    model = converter.convert_model(deep)
    # No tensor shows the last bit of a weight.
    (held,) = (node.op.data for node in model.nodes() if node.name == "w11")
    assert held is not None
    wrong = held.array().copy()
    wrong[0, 0] = np.nextafter(wrong[0, 0], np.float32(9))
    overwrite(model, "w11", wrong)
    report = converter.verify(deep, model, report=tmp_path / "page.html")
    assert [check.name for check in report.weights if not check.passed] == ["w11"]
    by_name = {entry["n"]: entry for entry in data_of(tmp_path / "page.html")["layers"]}
    assert by_name["product11"]["v"] == CHANGED
    assert "'w11' is changed" in by_name["product11"]["r"]
    assert "'w11' is not as derived" in by_name["product11"]["r"]
    assert {entry["v"] for name, entry in by_name.items() if name.startswith("product")} == {EQUAL, CHANGED}
    told = verdict_in(text_in(tmp_path / "page.html"))
    assert "FAILED" in told
    place = list(by_name).index("product11")
    assert f"data-layer='{place}'>Weight w11, read by layer product11, is changed" in told
    assert "Convert the file again" in told


@pytest.mark.parametrize("record", [True, False])
def test_a_record_is_asked_for_where_there_is_none(deep: Path, tmp_path: Path, record: bool) -> None:
    converter.save_model(converter.convert_model(deep), tmp_path / "m.xml", record=record)
    model = ir_runtime.read_model(tmp_path / "m.xml")
    (held,) = (node.op.data for node in model.nodes() if node.name == "w11")
    assert held is not None
    overwrite(model, "w11", held.array() + np.float32(1))
    converter.verify(deep, model, report=tmp_path / "page.html")
    asked = "Compare with an IR that records its derivation" in verdict_in(text_in(tmp_path / "page.html"))
    assert asked is not record


def test_a_wrong_layer_stays_wrong_where_its_weight_is_changed(deep: Path, tmp_path: Path) -> None:
    model = converter.convert_model(deep)
    overwrite(model, "w3", np.eye(16, dtype=np.float32))
    converter.verify(deep, model, report=tmp_path / "page.html")
    product = next(entry for entry in data_of(tmp_path / "page.html")["layers"] if entry["n"] == "product3")
    assert product["v"] == WRONG
    assert "its weight 'w3' is changed" in product["r"]
    told = verdict_in(text_in(tmp_path / "page.html"))
    assert "Different: layer 'product3' is wrong although its inputs are right; from its derivation layer 'w3'" in told
    assert "is not as derived" in told
    assert "--minimise" in told


def test_the_page_of_what_passed_says_so_and_lists_the_shapes_of_runs(image: Path, tmp_path: Path) -> None:
    model = converter.convert_model(image, input="x[?,3,?,?]")
    report = converter.verify(image, model, input="x[?,3,?,?]", report=tmp_path / "page.html")
    assert report.passed
    text = text_in(tmp_path / "page.html")
    assert re.search(r"PASSED</strong> Derived: 1 output agrees with onnx.* in \d runs", verdict_in(text))
    rows = rows_of(text, "Runs")
    assert [row[0] for row in rows] == [sample.description for sample in report.samples]
    for row, sample in zip(rows, report.samples):
        assert row[1:] == [", ".join(f"{name} {shape}" for name, shape in sample.inputs.items()), "passed"]
    assert re.match(r"x \[\d+, 3, \d+, \d+\], rate \[\]$", rows[0][1])


def activation(path: Path, operator: str, tmp_path: Path) -> ir_runtime.Model:
    values = [helper.make_tensor_value_info(tensor, TensorProto.FLOAT, [2]) for tensor in "xy"]
    nodes = [helper.make_node("Neg", ["x"], ["n"], "first"), helper.make_node(operator, ["n"], ["y"], "second")]
    graph = helper.make_graph(nodes, "g", values[:1], values[1:])
    model = converter.convert_model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]))
    converter.save_model(model, path)
    return model


def test_a_type_that_changed_is_a_change_and_not_two_layers(tmp_path: Path) -> None:
    names = [tmp_path / "a.xml", tmp_path / "b.xml"]
    first, second = (activation(path, kind, tmp_path) for path, kind in zip(names, ("Sigmoid", "Tanh")))
    write_difference(compare_models(first, second), first, *names, tmp_path / "page.html")
    text = text_in(tmp_path / "page.html")
    assert ["second", "second", "Sigmoid where the other model has Tanh", "the type"] in rows_of(text, "Changed layers")
    assert "Only in" not in text
    by_name = {entry["n"]: entry for entry in data_of(tmp_path / "page.html")["layers"]}
    assert (by_name["second"]["v"], by_name["first"]["v"]) == (CHANGED, EQUAL)
    assert "DIFFERENT" in verdict_in(text)


def test_equal_irs_are_the_same(tmp_path: Path) -> None:
    path = tmp_path / "a.xml"
    model = activation(path, "Tanh", tmp_path)
    write_difference(compare_models(model, model), model, path, path, tmp_path / "page.html")
    assert "THE SAME</strong> All 4 layers are the same." in verdict_in(text_in(tmp_path / "page.html"))


def test_a_table_has_one_row_for_each_name() -> None:
    table = Table("t", ("node", "operator", "layers"), [("a", "Gemm", "m"), ("b", "Add", "n"), ("a", "Gemm", "k")])
    assert table.merged().rows == [("a", "Gemm", "m; k"), ("b", "Add", "n")]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("/encoder/layer.0/LayerNorm", "/<wbr>encoder/<wbr>layer.0/<wbr>LayerNorm"),
        ("instead of -0.003307637292891741", "instead of <span class='whole'>-0.003307637292891741</span>"),
        ("--minimise FOLDER", "<span class='whole'>--minimise</span> FOLDER"),
        ("short.name", "short.name"),
        ("<a&b>", "&lt;a&amp;b&gt;"),
    ],
)
def test_names_break_behind_separators_alone(text: str, shown: str) -> None:
    assert text_of(text) == shown


def test_inspect_writes_the_page_of_an_ir(image: Path, tmp_path: Path) -> None:
    converter.save_model(converter.convert_model(image), tmp_path / "m.xml")
    code, printed, messages = onnx2ir("inspect", str(tmp_path / "m.xml"), "--report", str(tmp_path / "page.html"))
    assert code == 0, messages
    assert "Convolution" in printed
    text = text_in(tmp_path / "page.html")
    assert "2 inputs, 1 output" in verdict_in(text)
    assert ["x", "input", "f32", "[1,3,32,32]"] in rows_of(text, "Inputs and outputs")
    assert {entry["t"] for entry in data_of(tmp_path / "page.html")["layers"]} >= {"Convolution", "ReLU", "Result"}


def test_inspect_writes_the_page_of_an_onnx_model(image: Path, tmp_path: Path) -> None:
    code, _, messages = onnx2ir("inspect", str(image), "--report", str(tmp_path / "page.html"))
    assert code == 0, messages
    text = text_in(tmp_path / "page.html")
    nodes = onnx.load(image).graph.node
    assert f"2 inputs, 1 output, {len(nodes)} nodes" in verdict_in(text)
    assert ["x", "input", "f32", "[1,3,32,32]"] in rows_of(text, "Inputs and outputs")
    assert ["Conv", str(sum(node.op_type == "Conv" for node in nodes))] in rows_of(text, "Nodes by operator")


@pytest.mark.parametrize(
    "command", ["convert m.onnx", "convert m.onnx --verify", "verify m.onnx m.xml", "inspect m.xml", "inspect m.onnx"]
)
def test_the_folder_of_a_page_is_created(
    image: Path, tmp_path: Path, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(image.parent)
    converter.save_model(converter.convert_model(image), "m.xml")
    words = command.replace("m.onnx", image.name).split()
    code, _, messages = onnx2ir(*words, "--report", str(tmp_path / "new" / "folder" / "page.html"))
    assert code == 0, messages
    assert (tmp_path / "new" / "folder" / "page.html").stat().st_size > 0


@pytest.mark.parametrize(
    ("file", "report", "message"),
    [
        ("m.onnx", "m.onnx", "would overwrite"),
        ("m.xml", "m.bin", "would overwrite"),
        ("m.xml", "m.bin/page.html", "m.bin"),
    ],
)
def test_inspect_refuses_other_pages(image: Path, tmp_path: Path, file: str, report: str, message: str) -> None:
    converter.save_model(converter.convert_model(image), tmp_path / "m.xml")
    before = (tmp_path / "m.bin").read_bytes()
    code, printed, messages = onnx2ir("inspect", str(tmp_path / file), "--report", str(tmp_path / report))
    assert code != 0
    assert printed == ""
    assert message in messages
    assert (tmp_path / "m.bin").read_bytes() == before


def test_the_page_of_many_models_links_to_their_own_pages(tmp_path: Path) -> None:
    (tmp_path / "ir" / "a b").mkdir(parents=True)
    rows = []
    for name, age in (("a b/new", 10), ("old", -10), ("none", None)):
        xml = tmp_path / "ir" / f"{name}.xml"
        xml.write_text("<net/>")
        if age is not None:
            xml.with_suffix(".html").write_text("a page")
            os.utime(xml.with_suffix(".html"), (xml.stat().st_mtime + age,) * 2)
        rows.append(Row(f"{name}.onnx", f"{name}.onnx", str(xml), VERIFIED))
    (tmp_path / "pages").mkdir()
    text = batch_page(rows, 3, {}, tmp_path / "pages")
    assert re.findall(r"<a href='([^']*)'>", text) == ["../ir/a%20b/new.html"]


def test_values_of_large_constants_are_sampled_and_say_so(tmp_path: Path) -> None:
    values = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", size]) for name, size in (("x", 400), ("y", 300))
    ]
    weight = onnx.numpy_helper.from_array(np.random.default_rng(0).normal(size=(400, 300)).astype(np.float32), "w")
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "g", values[:1], values[1:], [weight])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), tmp_path / "m.onnx")
    code, _, messages = onnx2ir("convert", str(tmp_path / "m.onnx"), "--report", str(tmp_path / "page.html"))
    assert code == 0, messages
    (constant,) = data_of(tmp_path / "page.html")["constants"]
    assert constant["of"] == 400 * 300
    low, high, counts = constant["h"]
    assert -6 < low < -3 < 3 < high < 6
    assert sum(counts) == 1 << 16


def test_a_constant_in_a_body_marks_the_layer_around_it(tmp_path: Path) -> None:
    branches = [
        helper.make_graph(
            [helper.make_node(kind, ["x", name], [f"{name}_out"])],
            name,
            [],
            [helper.make_tensor_value_info(f"{name}_out", TensorProto.FLOAT, [2])],
            [onnx.numpy_helper.from_array(np.array([1, 2], np.float32), name)],
        )
        for kind, name in (("Add", "one"), ("Mul", "two"))
    ]
    inputs = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [2]),
        helper.make_tensor_value_info("c", TensorProto.BOOL, []),
    ]
    node = helper.make_node("If", ["c"], ["y"], "choice", then_branch=branches[0], else_branch=branches[1])
    graph = helper.make_graph([node], "g", inputs, [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), tmp_path / "m.onnx")
    model = converter.convert_model(tmp_path / "m.onnx")
    converter.save_model(model, tmp_path / "m.xml")
    code, _, messages = onnx2ir("inspect", str(tmp_path / "m.xml"), "--report", str(tmp_path / "page.html"))
    assert code == 0, messages
    data = data_of(tmp_path / "page.html")
    choice = next(entry for entry in data["layers"] if entry["t"] == "If")
    assert [data["constants"][at]["x"] for at in choice["w"]] == ["1, 2", "1, 2"]
    assert layer(model, choice["n"]).op.subgraphs


def test_layers_tell_which_passes_made_them_and_what_passes_left(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Sigmoid", ["x"], ["s"], "gate"),
        helper.make_node("Mul", ["x", "s"], ["p"], "product"),
        helper.make_node("Sigmoid", ["p"], ["t"], "other_gate"),
        helper.make_node("Mul", ["x", "t"], ["y"], "other_product"),
    ]
    values = [helper.make_tensor_value_info(tensor, TensorProto.FLOAT, [2]) for tensor in "xy"]
    graph = helper.make_graph(nodes, "g", values[:1], values[1:])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), tmp_path / "m.onnx")
    made = conversion.convert(tmp_path / "m.onnx")
    converter.save_model(made.model, tmp_path / "m.xml")
    page = tmp_path / "page.html"
    write_conversion(made.model, "m", "cpu", made.passes, made.rules, page, tmp_path / "m.xml", made.trace)
    by_name = {entry["n"]: entry for entry in data_of(page)["layers"]}
    assert by_name["product"]["t"] == "Swish"
    assert by_name["product"]["p"] == ["swishes"]
    assert "p" not in by_name["other_product"]
    left = rows_of(text_in(page), "What passes and rules left, and why")
    assert [row[2:] for row in left if row[0] == "swishes"] == [["1", "other_product"]]


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("scheme", ["light", "dark", "printed"])
def test_texts_stand_out_from_what_is_behind_them(scheme: str) -> None:
    found = [
        dict(re.findall(r"--([\w-]+): (#\w{6})", block))
        for block in re.findall(r":root \{(.*?)\}", style("page"), re.S)
    ]
    colours = found[("light", "dark", "printed").index(scheme)]
    for text in ("front", "soft", "focus", "good", "bad", "drift", "mark"):
        for behind in ("back", "panel", "good-back", "bad-back"):
            one, other = sorted((luminance(colours[text]), luminance(colours[behind])), reverse=True)
            assert (one + 0.05) / (other + 0.05) >= 4.5, (text, behind)
