"""What pages say: the verdict and what to do, weights, runs, rows without repetition, blocks of a graph."""

from __future__ import annotations

import html
import json
import os
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest

import converter
import ir_runtime
from converter.conversion import convert as conversion
from converter.report.batches import page as batch_page
from converter.report.blocks import Block, Part, blocks_of, flat_blocks
from converter.report.conversions import write_conversion
from converter.report.differences import write_difference
from converter.report.graph_data import CHANGED, EQUAL, WRONG
from converter.report.markup import Table, text_of
from converter.report.page import style
from converter.report.repeats import Repeat, repeats_in
from converter.workflow.rows import VERIFIED, Row
from ir_runtime.graph.model_difference import compare_models
from tests.browser.assembled import data_of
from tests.commands import onnx2ir
from tests.converter.equivalence import models
from tests.converter.equivalence.edits import array_of, layer, overwrite
from tests.converter.equivalence.models import real
from tests.converter.optimization.models import parse

# --- what pages say: the verdict and what to do, weights, runs, types that changed, rows without repetition, links ---

SWISH = "g (float[2] x) => (float[2] y) { [gate] s = Sigmoid (x) [product] y = Mul (x, s) }"


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


def test_a_changed_weight_marks_the_layer_that_reads_it(deep: Path, tmp_path: Path) -> None:
    model = converter.convert_model(deep)
    # No tensor shows the last bit of a weight.
    wrong = array_of(model, "w11")
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
    overwrite(model, "w11", lambda array: array + np.float32(1))
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


@pytest.mark.parametrize("operators", [("Sigmoid", "Tanh"), ("Tanh", "Tanh")])
def test_a_type_that_changed_is_a_change_and_not_two_layers(operators: tuple[str, str], tmp_path: Path) -> None:
    irs, names = [], [tmp_path / "a.xml", tmp_path / "b.xml"]
    for path, operator in zip(names, operators):
        text = f"g (float[2] x) => (float[2] y) {{ [first] n = Neg (x) [second] y = {operator} (n) }}"
        irs.append(converter.convert_model(parse(text)))
        converter.save_model(irs[-1], path)
    write_difference(compare_models(*irs), irs[0], *names, tmp_path / "page.html")
    text = text_in(tmp_path / "page.html")
    if operators[0] == operators[1]:
        assert "THE SAME</strong> All 4 layers are the same." in verdict_in(text)
        return
    assert ["second", "second", "Sigmoid where the other model has Tanh", "the type"] in rows_of(text, "Changed layers")
    assert "Only in" not in text
    by_name = {entry["n"]: entry for entry in data_of(tmp_path / "page.html")["layers"]}
    assert (by_name["second"]["v"], by_name["first"]["v"]) == (CHANGED, EQUAL)
    assert "DIFFERENT" in verdict_in(text)


def test_a_table_has_one_row_for_each_name() -> None:
    table = Table("t", ("node", "operator", "layers"), [("a", "Gemm", "m"), ("b", "Add", "n"), ("a", "Gemm", "k")])
    assert table.merged().rows == [("a", "Gemm", "m; k"), ("b", "Add", "n")]


@pytest.mark.parametrize(("text", "shown"), [
    ("/encoder/layer.0/LayerNorm", "/<wbr>encoder/<wbr>layer.0/<wbr>LayerNorm"),
    ("instead of -0.003307637292891741", "instead of <span class='whole'>-0.003307637292891741</span>"),
    ("--minimise FOLDER", "<span class='whole'>--minimise</span> FOLDER"),
    ("short.name", "short.name"),
    ("<a&b>", "&lt;a&amp;b&gt;"),
])  # fmt: skip
def test_names_break_behind_separators_alone(text: str, shown: str) -> None:
    assert text_of(text) == shown


def test_inspect_writes_pages(image: Path, tmp_path: Path) -> None:
    converter.save_model(converter.convert_model(image), tmp_path / "m.xml")
    page, port = tmp_path / "new" / "folder" / "page.html", ["x", "input", "f32", "[1,3,32,32]"]
    code, printed, messages = onnx2ir("inspect", str(tmp_path / "m.xml"), "--report", str(page))
    assert code == 0, messages
    assert "Convolution" in printed
    assert "2 inputs, 1 output" in verdict_in(text_in(page))
    assert port in rows_of(text_in(page), "Inputs and outputs")
    assert {entry["t"] for entry in data_of(page)["layers"]} >= {"Convolution", "ReLU", "Result"}
    assert onnx2ir("inspect", str(image), "--report", str(page))[0] == 0
    assert "2 inputs, 1 output, 5 nodes" in verdict_in(text_in(page))
    assert port in rows_of(text_in(page), "Inputs and outputs")
    assert ["Conv", "1"] in rows_of(text_in(page), "Nodes by operator")
    assert {entry["t"] for entry in data_of(page)["layers"]} >= {"Input", "Conv", "Relu", "Output"}
    assert [entry["s"] for entry in data_of(page)["layers"] if entry["t"] == "Conv"] == [["f32[1,8,32,32]"]]


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


def page_of(proto: onnx.ModelProto, folder: Path) -> tuple[ir_runtime.Model, Path]:
    """Convert a model, and write the page of its conversion."""
    made = conversion.convert(models.saved(proto, folder))
    converter.save_model(made.model, folder / "m.xml")
    page = folder / "page.html"
    write_conversion(made, made.model, "m", "cpu", page, folder / "m.xml")
    return made.model, page


def test_values_of_large_constants_are_sampled_and_say_so(tmp_path: Path) -> None:
    _, page = page_of(parse("g (float[n,400] x) => (float[n,300] y) { y = MatMul (x, w) }", w=real(400, 300)), tmp_path)
    (constant,) = data_of(page)["constants"]
    assert constant["of"] == 400 * 300
    low, high, counts = constant["h"]
    assert -6 < low < -3 < 3 < high < 6
    assert sum(counts) == 1 << 16


def test_a_constant_in_a_body_marks_the_layer_around_it(tmp_path: Path) -> None:
    text = """g (float[2] x, bool c) => (float[2] y) { [choice] y = If (c) <
        then_branch = t () => (float[2] u) <float[2] one = {1, 2}> { u = Add (x, one) },
        else_branch = e () => (float[2] v) <float[2] two = {1, 2}> { v = Mul (x, two) }> }"""
    model, page = page_of(parse(text), tmp_path)
    assert onnx2ir("inspect", str(tmp_path / "m.xml"), "--report", str(page))[0] == 0
    data = data_of(page)
    choice = next(entry for entry in data["layers"] if entry["t"] == "If")
    assert [data["constants"][at]["x"] for at in choice["w"]] == ["1, 2", "1, 2"]
    assert layer(model, choice["n"]).op.subgraphs


def test_the_page_of_a_comparison(faulty: Path) -> None:
    text = faulty.read_text()
    assert not re.findall(r"""(?:src|href)\s*=\s*["'](?!data:)""", text), "a page is one file"
    assert not re.search("https?://", text.replace("http://www.w3.org/2000/svg", ""))
    by_name = {entry["n"]: entry for entry in data_of(faulty)["layers"]}
    assert [by_name[name]["v"] for name in ("product4", "product5", "tanh5")] == [1, 3, 2]
    name, low, high, expected, actual = by_name["tanh0"]["h"][0]
    assert name in by_name["tanh0"]["names"][0]
    assert -1 <= low < high <= 1
    assert sum(expected) == sum(actual) == 2 * 16
    assert "first wrong layer" in text
    assert "FAILED" in text


def test_the_page_of_a_conversion_and_of_two_irs(image: Path, tmp_path: Path) -> None:
    pages = [tmp_path / name for name in ("convert.html", "verify.html", "diff.html")]
    first, second = tmp_path / "a.xml", tmp_path / "b.xml"
    for words, page in zip((["convert", image, "-o", first], ["convert", image, "-o", second, "--verify"],
                            ["diff", first, second]), pages):  # fmt: skip
        code, _, messages = onnx2ir(*map(str, words), "--report", str(page))
        assert code == 0, messages
    assert "What the ONNX nodes became" in text_in(pages[0])
    conv = next(entry for entry in data_of(pages[0])["layers"] if entry["n"] == "conv")
    assert conv["o"] == "conv"
    assert ["pads_begin", "1, 1"] in conv["a"]
    assert "PASSED" in pages[1].read_text()
    assert {entry["v"] for entry in data_of(pages[2])["layers"]} == {1}


def test_a_node_of_any_name_is_found_in_the_page(tmp_path: Path) -> None:
    proto = parse("g (float[2] x) => (float[2] y) { y = Relu (x) }")
    name = proto.graph.node[0].name = "two\nlines' of 'Sigmoid"
    _, page = page_of(proto, tmp_path)
    assert [entry["o"] for entry in data_of(page)["layers"] if entry["t"] == "ReLU"] == [name]
    assert ">Relu</td>" in page.read_text()


def test_passes_are_listed_with_what_they_made_what_they_left_and_their_contracts(tmp_path: Path) -> None:
    text = SWISH.replace("y = Mul (x, s)", "p = Mul (x, s) [other_gate] t = Sigmoid (p) [other_product] y = Mul (x, t)")
    path, pages = (
        str(models.saved(parse(text), tmp_path)),
        [tmp_path / f"{name}.html" for name in ("convert", "verify")],
    )
    xml = str(tmp_path / "m.xml")
    for words, page in ((["convert", path, "-o", xml], pages[0]), (["verify", path, xml], pages[1])):
        code, printed, messages = onnx2ir(*words, "--report", str(page), "--json")
        assert code == 0, messages
        assert json.loads(printed).get("passes", {"swishes": 1}) == {"swishes": 1}
    by_name = {entry["n"]: entry for entry in data_of(pages[0])["layers"]}
    assert (by_name["product"]["t"], by_name["product"]["p"]) == ("Swish", ["swishes"])
    assert "p" not in by_name["other_product"]
    shown = text_in(pages[0])
    assert [row[2:] for row in rows_of(shown, "What passes and rules left, and why") if row[0] == "swishes"] == [
        ["1", "other_product"]
    ]
    row = re.search(r"<tr>((?:(?!</tr>).)*Swish-4.*?)</tr>", shown)
    assert row is not None
    assert re.findall(r"<td[^>]*>(.*?)</td>", row[1]) == ["product", "Swish-4", "gate, product"]
    assert "layers replaced by passes</dt><dd>swishes (1)" in shown
    before = re.findall(r"<span class=.before.>(.*?)</span><span class=.becomes", shown)[0]
    assert re.findall(r"<span>(\w+)", before) == ["gate", "product"]
    assert "<span class='after'>Swish" in shown
    rows = {row[0]: row[1:] for row in rows_of(text_in(pages[1]), "Contracts of passes and rules")}
    assert rows["swishes"][:3] == ["1", "within 1 ulp", "layers without infinities and NaN"]
    assert "swishes is within 1 ulp." in text_in(pages[1])


def test_names_cannot_break_the_page(deep: Path, tmp_path: Path) -> None:
    model = converter.convert_model(deep)
    layer(model, "product0").name = '</script><script>document.title = "broken"</script>&"\''
    converter.verify(deep, model, report=tmp_path / "page.html", layers=False)
    assert "</script><script>document" not in tmp_path.joinpath("page.html").read_text()


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


# --- blocks of a graph: by the scopes of names, by structure that repeats; every layer lies in exactly one ---

TIMES = "\N{MULTIPLICATION SIGN}"


def chain(names: Sequence[str], types: Sequence[str]) -> list[Part]:
    """The blocks of layers that each read the one before."""
    return blocks_of(names, types, [[place - 1] if place else [] for place in range(len(names))])


def titles(parts: Sequence[Part]) -> list[str | int]:
    """Of blocks their titles, of layers their places."""
    return [part.title if isinstance(part, Block) else part for part in parts]


def scoped(scopes: Sequence[str], inside: Sequence[str]) -> tuple[list[str], list[str]]:
    return [f"/{scope}/{kind}" for scope in scopes for kind in inside], [kind for _ in scopes for kind in inside]


FOUR = ("MatMul", "Add", "Tanh", "Multiply")

LONG = tuple(f"kind {place}" for place in range(12))
DASH = "\N{EN DASH}"


def layers(*parts: tuple[Sequence[str], Sequence[str]] | str) -> tuple[list[str], list[str]]:
    """Names and types of layers in scopes, each with the same types, and of single ones, of the type Range."""
    found = [([part], ["Range"]) if isinstance(part, str) else scoped(*part) for part in parts]
    return [name for names, _ in found for name in names], [kind for _, types in found for kind in types]


def numbered(scope: str, *numbers: int) -> list[str]:
    return [f"{scope}{number}" for number in numbers]


BLOCKS = {
    # layers, the parts at the top, and those of the only block
    "scopes that differ in a number": (
        layers((numbered("encoder/layer.", *range(12)), FOUR)), [f"encoder layer {TIMES} 12"], numbered("layer.",
            *range(12)),
    ),
    "a scope around one scope": (layers(([f"h.{at}/mlp" for at in range(3)], FOUR)), [f"h {TIMES} 3"],
                                 [f"h.{at} mlp" for at in range(3)]),
    "a scope around one around one": (layers(([f"h.{at}/mlp/core" for at in range(3)], FOUR)), [f"h {TIMES} 3"],
                                      [f"h.{at} mlp core" for at in range(3)]),
    "blocks that are not alike and numbers that are left out end a stack": (
        layers((["a.0", "a.1"], FOUR), (["a.2"], ("Convolution", "ReLU", "MaxPool", "Concat", "Split")),
               (["a.5", "a.6", "a.7"], FOUR)), [f"a 0{DASH}1 {TIMES} 2", "a.2", f"a 5{DASH}7 {TIMES} 3"], None,
    ),
    "a stack takes up single layers between its blocks": (
        layers((["a.0"], FOUR), "loose", (["a.1"], FOUR)), [f"a {TIMES} 2"], ["a.0", 4, "a.1"],
    ),
    # As of a language model, whose first layer has the shape from which all layers' rotations are computed.
    "a stack takes up a small block between its blocks": (
        layers((["model/layers.0"], LONG), (["model/rotary_1"], FOUR), (["model/layers.1", "model/layers.2"], LONG)),
        [f"model layers {TIMES} 3"], ["layers.0", "rotary_1", "layers.1", "layers.2"],
    ),
    "a loose layer between layers of a block belongs to it": (
        (["/a/x", "/a/y", "loose", "/a/z", "/a/v", "last"], ["MatMul", "Add", "Range", "Tanh", "Multiply", "ReLU"]),
        ["a", 5], [0, 1, 2, 3, 4],
    ),
    "blocks with others between them": (
        layers(*(([f"{kind}{at}"], FOUR) for at in (1, 2, 3) for kind in ("dense", "transition"))),
        [f"{kind}{at}" for at in (1, 2, 3) for kind in ("dense", "transition")], None,
    ),
    "sequences that repeat where names tell nothing": (
        ([f"node_{at}" for at in range(33)], ["Gather", "MVN", *("MatMul", "Add", "Tanh", "Multiply", "SoftMax",
         "Reshape") * 5,
                                              "ReLU"]), [0, 1, f"block {TIMES} 5", 32], None,
    ),
    **{f"layers of {len(set(types))} types": (([f"n{at}" for at in range(40)], types), [*range(40)], None)
       for types in (["Concat"] * 40, ["Concat", "Slice"] * 20, [f"kind {at}" for at in range(40)])},
    "a graph without layers": (([], []), [], None),
}  # fmt: skip


@pytest.mark.parametrize("name", BLOCKS)
def test_blocks(name: str) -> None:
    (names, types), expected, inside = BLOCKS[name]
    parts = chain(names, types)
    assert titles(parts) == expected
    blocks = [part for part in parts if isinstance(part, Block)]
    if inside is not None:
        assert titles(blocks[0].parts) == inside
        assert blocks[0].types.total() == len(types) - len(parts) + 1
    assert all(f"{TIMES} {block.repeats}" in block.title for block in blocks if block.repeats > 1)


def test_a_run_is_cut_where_one_value_passes() -> None:
    tokens = list("xABCDEF" + "ABCDEF" * 3 + "ABC")
    # D to F and the next A and B are all read by the next C: behind each C one value passes, elsewhere more.
    reads: list[list[int]] = [[] for _ in tokens]
    for place, token in enumerate(tokens):
        if token == "C":
            reads[place] = list(range(max(0, place - 5), place))
        elif place:
            reads[place] = [place - 1]
    assert repeats_in(tokens, reads) == [Repeat(4, 6, 4)]


def test_every_layer_is_in_one_block_that_comes_after_the_one_around_it() -> None:
    names, types = scoped([f"net/stage.{stage}/block.{block}" for stage in range(3) for block in range(4)], FOUR)
    parts = chain([*names, "last"], [*types, "ReLU"])
    groups, block_of = flat_blocks(parts, len(names) + 1)
    assert all(group["p"] < place for place, group in enumerate(groups))
    assert block_of[-1] == -1
    inside = [groups[block]["t"] for block in block_of[:-1]]
    assert inside == [f"block.{block}" for _ in range(3) for block in range(4) for _ in FOUR]
