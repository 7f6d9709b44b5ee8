"""The pages of convert, verify and diff: complete in one file, with what each must hold."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path
from typing import Any

import onnx
import pytest

import converter
from converter.report.conversions import write_conversion
from tests.commands import onnx2ir
from tests.converter.test_verify_inputs import image
from tests.converter.test_verify_layers import deep, layer
from tests.report.browser import data_of

__all__ = ["deep", "image"]  # fixtures


def layers_in(page: Path) -> list[dict[str, Any]]:
    return data_of(page)["layers"]


@pytest.fixture
def faulty(deep: Path, tmp_path: Path) -> Path:
    model = converter.convert_model(deep)
    product = layer(model, "product5")
    product.op = product.op.with_attributes(transpose_b=not product.op.transpose_b)
    converter.verify(deep, model, report=tmp_path / "page.html")
    return tmp_path / "page.html"


def test_a_page_is_one_file_without_network(faulty: Path) -> None:
    text = faulty.read_text()
    assert not re.findall(r"""(?:src|href)\s*=\s*["'](?!data:)""", text)
    assert "http://" not in text.replace("http://www.w3.org/2000/svg", "")
    assert "https://" not in text


def test_the_page_of_a_comparison(faulty: Path) -> None:
    by_name = {entry["n"]: entry for entry in layers_in(faulty)}
    verdicts = {name: entry["v"] for name, entry in by_name.items()}
    assert (verdicts["product4"], verdicts["product5"], verdicts["tanh5"]) == (1, 3, 2)
    name, low, high, expected, actual = by_name["tanh0"]["h"][0]
    assert name in by_name["tanh0"]["names"][0]
    assert -1 <= low < high <= 1
    assert sum(expected) == sum(actual) == 2 * 16
    assert "first wrong layer" in faulty.read_text()
    assert "FAILED" in faulty.read_text()


def test_the_page_of_a_conversion_and_of_two_irs(image: Path, tmp_path: Path) -> None:
    pages = [tmp_path / name for name in ("convert.html", "verify.html", "diff.html")]
    first, second = str(tmp_path / "a.xml"), str(tmp_path / "b.xml")
    for given in (
        ("convert", str(image), "-o", first, "--report", str(pages[0])),
        ("convert", str(image), "-o", second, "--verify", "--report", str(pages[1])),
        ("diff", first, second, "--report", str(pages[2])),
    ):
        code, _, messages = onnx2ir(*given)
        assert code == 0, messages
    text = html.unescape(pages[0].read_text())
    assert "What the ONNX nodes became" in text
    conv = next(entry for entry in layers_in(pages[0]) if entry["n"] == "conv")
    assert conv["o"] == "conv"
    assert ["pads_begin", "1, 1"] in conv["a"]
    assert "PASSED" in pages[1].read_text()
    assert {entry["v"] for entry in layers_in(pages[2])} == {1}


def test_a_node_of_any_name_is_found_in_the_page(tmp_path: Path) -> None:
    name = "two\nlines' of 'Sigmoid"
    value = [onnx.helper.make_tensor_value_info(tensor, onnx.TensorProto.FLOAT, [2]) for tensor in "xy"]
    graph = onnx.helper.make_graph([onnx.helper.make_node("Relu", ["x"], ["y"], name)], "g", value[:1], value[1:])
    model = converter.convert_model(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)]))
    converter.save_model(model, tmp_path / "m.xml")
    write_conversion(model, "m", "cpu", {}, {}, tmp_path / "page.html", tmp_path / "m.xml")
    assert [entry["o"] for entry in layers_in(tmp_path / "page.html") if entry["t"] == "ReLU"] == [name]
    assert ">Relu</td>" in tmp_path.joinpath("page.html").read_text()


def test_the_page_lists_what_passes_fused(tmp_path: Path) -> None:
    nodes = [
        onnx.helper.make_node("Sigmoid", ["x"], ["s"], "gate"),
        onnx.helper.make_node("Mul", ["x", "s"], ["y"], "product"),
    ]
    value = [onnx.helper.make_tensor_value_info(tensor, onnx.TensorProto.FLOAT, [2]) for tensor in "xy"]
    graph = onnx.helper.make_graph(nodes, "g", value[:1], value[1:])
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)]), tmp_path / "m.onnx")
    given = ["convert", str(tmp_path / "m.onnx"), "--report", str(tmp_path / "page.html"), "--json"]
    code, printed, messages = onnx2ir(*given)
    assert code == 0, messages
    assert json.loads(printed)["passes"] == {"swishes": 1}
    text = html.unescape((tmp_path / "page.html").read_text())
    assert "Fused layers" in text
    row = re.search(r"<tr>((?:(?!</tr>).)*Swish-4.*?)</tr>", text)
    assert row is not None
    assert re.findall(r"<td[^>]*>(.*?)</td>", row[1]) == ["product", "Swish-4", "gate, product"]
    assert "layers replaced by passes</dt><dd>swishes (1)" in text
    before, after = (
        re.findall(r"<span class=.before.>(.*?)</span><span class=.becomes", text)[0],
        "<span class='after'>Swish",
    )
    assert re.findall(r"<span>(\w+)", before) == ["gate", "product"]
    assert after in text


def test_names_cannot_break_the_page(deep: Path, tmp_path: Path) -> None:
    model = converter.convert_model(deep)
    layer(model, "product0").name = '</script><script>document.title = "broken"</script>&"\''
    converter.verify(deep, model, report=tmp_path / "page.html", layers=False)
    assert "</script><script>document" not in tmp_path.joinpath("page.html").read_text()
