"""The graph of a page in a real browser: what it opens on, blocks, choices, search, keys; tables."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import converter
import ir_runtime
from converter.conversion import convert as conversion
from converter.report.conversions import write_conversion
from converter.report.graph_data import GraphData
from converter.report.markup import Table
from converter.report.page import Page
from tests.browser.assembled import data_of, needs_browser, observed
from tests.converter.equivalence.edits import overwrite
from tests.converter.equivalence.models import deep, saved
from tests.converter.optimization.models import parse
from tests.graphs import Graph

pytestmark = needs_browser

TIMES = "\N{MULTIPLICATION SIGN}"


def encoder(path: Path, count: int, inside: int = 6) -> Path:
    """A model of ``count`` equal blocks ``/encoder/layer.N/``, each of ``inside`` layers."""
    graph = Graph()
    x = graph["x"]
    for name in (f"encoder/layer.{block}/mlp/{at}" for block in range(count) for at in range(0, inside, 2)):
        weights = graph.constant(graph.random.normal(size=(8, 8)), name=f"/{name}/w")
        product = graph("MatMul", x, weights, name=f"{name}/MatMul")
        x = graph("Tanh", product, name=f"{name}/Tanh")
    x = graph("Relu", x, name="last")
    onnx.save(graph.model({"x": (np.float32, ["n", 8])}, {"y": (x, ["n", 8])}), path)
    return path


def page_of(path: Path) -> Path:
    """The page of a conversion."""
    made, xml = conversion.convert(path), path.with_suffix(".xml")
    converter.save_model(made.model, xml)
    write_conversion(made, made.model, path.name, "cpu", path.with_suffix(".html"), xml)
    return path.with_suffix(".html")


def stack(folder: Path) -> Path:
    return page_of(encoder(folder / "m.onnx", 12))


def wide(folder: Path) -> Path:
    names = [f"past{at}" for at in range(40)]
    inputs = ", ".join(f"float[2] {name}" for name in names)
    saved(parse(f"g ({inputs}) => (y) {{ [all] y = Concat <axis = 0> ({', '.join(names)}) }}"), folder)
    return page_of(folder / "m.onnx")


def wrong_weights(folder: Path) -> Path:
    """A changed weight, and one of nothing but tiny values, which is compared by its own size."""
    path = saved(deep(), folder)
    model = converter.convert_model(path)
    overwrite(model, "w3", np.eye(16, dtype=np.float32))
    wrong = np.zeros((16, 4), np.float32)
    wrong[0, 0] = np.float32(1e-30)
    overwrite(model, "zeros", wrong)
    converter.verify(path, model, report=folder / "page.html")
    return folder / "page.html"


def swish(folder: Path) -> Path:
    saved(parse("g (float[2] x) => (float[2] y) { [gate] s = Sigmoid (x) [product] y = Mul (x, s) }"), folder)
    made = conversion.convert(folder / "m.onnx")
    converter.save_model(made.model, folder / "m.xml")
    files = folder / "page.html", folder / "m.xml"
    write_conversion(made, made.model, "m", "cpu", *files)
    return files[0]


def sizes(folder: Path) -> Path:
    kinds = zip("ABCABCAB", ["7", "-", "1,000", "20", "3", "inf", "5", "400"])
    rows = [(f"/net/layer.{place}/MatMul", kind, size) for place, (kind, size) in enumerate(kinds)]
    table = Table("Sizes", ("layer", "kind", "bytes"), rows, is_open=True)
    page = Page("sizes", "All is well.", [], [table], GraphData(ir_runtime.Model()), verdict="PASSED", tone="good")
    page.write(folder / "page.html")
    return folder / "page.html"


SEARCHES = """
    const found_by = (text) => { type(search, text); return [...list.querySelectorAll("li")].map((item) => layers[Number(item.id.slice(5))].n); };
    for (const text of %s) observed[text] = found_by(text);
"""
Expected = dict[str, Any]
ROWS: dict[str, tuple[Callable[[Path], Path], str, Expected]] = {
    # a page, a script, and what it observes, or a function that is true for that
    "blocks open and close by clicks": (stack, """
        const stack = blocks.find((block) => block.repeats);
        await later(() => {
          observed.title = stack.title; observed.open = stack.open; observed.boxes = boxes.length;
          clickOn(stack);
        });
        await later(() => {
          observed.opened = [stack.open, boxes.length, title()];
          clickOn(stack.parts[3]);
          observed.inner = boxes.length;
        });
        await later(() => { clickOn(stack); observed.closed = [stack.open, boxes.length]; });
        await later(() => { document.getElementById("open").click(); observed.all = boxes.length; });
        await later(() => {
          document.getElementById("close").click();
          choose(leaves.find((leaf) => layers[leaf.at].n.includes("layer.7/mlp/2/Tanh")), true);
          observed.revealed = [title(), stack.open, seenAs(chosen.at) === chosen];
        });
        await later(() => { press(canvas, "Enter"); observed.enter = chosen.block && !chosen.open; });
    """, {"title": f"encoder layer {TIMES} 12", "open": False, "boxes": 4, "opened": [True, 15, f"encoder layer {TIMES} 12"],
          "inner": 15 - 1 + 6, "closed": [False, 4], "all": 3 + 12 * 6, "enter": True,
          "revealed": ["/encoder/layer.7/mlp/2/Tanh", True, True]}),
    "texts have at least eleven pixels and stay in their boxes": (stack, """
        await later(() => {
          document.getElementById("open").click();
          observed.written = [];
          const original = context.fillText.bind(context);
          context.fillText = (text, x, y) => {
            observed.written.push([parseFloat(context.font.match(/([\\d.]+)px/)[1]), context.measureText(text).width, x]);
            original(text, x, y);
          };
          labels = [];
          for (const scale of [0.2, 0.4, 0.7, 1, 2]) {
            view.scale = scale;
            for (const box of boxes) drawBox(box);
            for (const [, width, x] of observed.written.splice(0)) {
              const inside = boxes.some((box) => {
                const left = (box.x - WIDTH / 2) * view.scale + view.x;
                return x >= left && x + width <= left + WIDTH * view.scale;
              });
              if (!inside) observed.outside = [scale, width, x];
            }
          }
          const sizes = [];
          context.fillText = (text, x, y) => sizes.push(parseFloat(context.font.match(/([\\d.]+)px/)[1]));
          for (const scale of [0.2, 0.4, 0.7, 1, 2]) { view.scale = scale; draw(); }
          observed.least = Math.min(...sizes);
          observed.count = sizes.length;
        });
    """, {"written": [], "least": lambda size: size >= 11, "count": lambda count: count > 20}),
    "the minimap moves the view": (stack, """
        await later(() => { document.getElementById("open").click(); draw(); });
        await later(() => {
          observed.hidden = minimap.hidden;
          const box = minimap.getBoundingClientRect();
          const at = { clientX: box.left + 75, clientY: box.top + 145, buttons: 1, bubbles: true };
          minimap.dispatchEvent(new PointerEvent("pointerdown", at));
          observed.depth = (canvas.clientHeight / 2 - view.y) / view.scale / drawing.height;
        });
    """, {"hidden": False, "depth": lambda depth: 0.9 < depth <= 1}),
    "constants show their values in the page of a conversion": (lambda folder: page_of(encoder(folder / "m.onnx", 2)),
        """
        await later(() => {
          choose(leaves.find((leaf) => layers[leaf.at].t === "MatMul"), true);
          observed.bars = document.querySelectorAll("#details svg rect").length; observed.details = details();
        });
    """, {"bars": 30, "details": lambda text: "/encoder/layer.0/mlp/0/w" in text and "verdict" not in text}),
    "wide rows are wrapped and no boxes overlap": (wide, """
        document.getElementById("open").click();
        const lines = new Map();
        for (const box of boxes) lines.set(box.y, (lines.get(box.y) || 0) + 1);
        observed.most = Math.max(...lines.values());
        observed.boxes = boxes.length;
        observed.overlaps = boxes.filter((one) => boxes.some((other) => one !== other &&
          Math.abs(one.x - other.x) < WIDTH && Math.abs(one.y - other.y) < HEIGHT)).length;
    """, {"boxes": 42, "most": lambda most: most <= 8, "overlaps": 0}),
    "the search finds verdicts, types, weights and words together": (
        wrong_weights, SEARCHES % ["wrong", "changed", "parameter", "w7", "tanh 11", "drifted", "nothing of that"],
        {"wrong": ["product3", "head"], "changed": ["product3", "head"], "parameter": ["x"], "w7": ["product7"],
         "tanh 11": lambda found: found[0] == "tanh11", "nothing of that": [],
         "drifted": lambda found: "tanh9" in found and "product3" not in found}),
    "a fused layer is found by the pass that made it and what it replaced": (swish, SEARCHES % ["swishes", "gate"] + """
        document.querySelector(".fusions .go").click();
        observed.chosen = title();
        observed.drawn = [...document.querySelectorAll("#details .before span")].map((box) => box.textContent);
    """, {"chosen": "product", "drawn": ["gate", "product", "Swish"], "swishes": ["product"], "gate": ["product"]}),
    "a click on a heading sorts and words filter": (sizes, """
        const cells = (column) => [...document.querySelectorAll("tbody tr")].filter((row) => !row.hidden).map((row) => row.cells[column].textContent);
        const heads = document.querySelectorAll("thead button");
        heads[2].click(); observed.most = cells(2).join(" ");
        observed.order = heads[2].parentElement.getAttribute("aria-sort");
        heads[2].click(); observed.least = cells(2).join(" ");
        heads[1].click(); observed.kinds = cells(1).join("");
        type(document.querySelector(".filter input"), "layer.3");
        observed.found = cells(0); observed.count = document.querySelector(".filter span").textContent;
        type(document.querySelector(".filter input"), "");
        observed.all = cells(0).length;
    """, {"most": "inf 1,000 400 20 7 5 3 -", "least": "3 5 7 20 400 1,000 inf -", "order": "descending", "all": 8,
          "kinds": "AAABBBCC", "found": ["/net/layer.3/MatMul"], "count": "1 of 8 shown"}),
}  # fmt: skip


@pytest.mark.parametrize("name", ROWS)
def test_what_a_script_observes(name: str, tmp_path: Path) -> None:
    build, script, expected = ROWS[name]
    found = observed(build(tmp_path), script, tmp_path)
    assert found.keys() == expected.keys()
    for key, wanted in expected.items():
        assert wanted(found[key]) if callable(wanted) else found[key] == wanted, (key, found[key])


CHOICES = """
    await later(() => { observed.first = title(); });
    const canvas = document.getElementById("canvas"), list = document.getElementById("layers");
    await later(() => { press(list, "Home"); observed.home = title(); });
    await later(() => { press(list, "ArrowDown"); observed.down = title(); });
    await later(() => {
      press(list, "End");
      observed.end = title();
      clickAt(canvas, canvas.clientWidth / 2, canvas.clientHeight / 2);
      observed.clicked = title();
    });
    await later(() => {
      press(document.body, "/");
      observed.focus = document.activeElement.id;
      const search = document.getElementById("search");
      type(search, "wrong");
      observed.count = document.getElementById("count").textContent;
      press(search, "Enter");
      observed.found = title();
      observed.details = details();
      observed.bars = document.querySelectorAll("#details svg rect").length;
    });
    await later(() => { press(canvas, "ArrowUp"); observed.up = title(); });
    await later(() => { press(canvas, "ArrowDown"); observed.back = title(); });
    await later(() => { for (const key of ["+", "-", "0", "Enter"]) press(canvas, key); });
    await later(() => {
      document.querySelector(".go").click();
      observed.gone = title();
      observed.overflow = document.documentElement.scrollWidth - document.documentElement.clientWidth;
      observed.dots = document.querySelectorAll("#depth .dot").length;
    });
"""


@pytest.mark.parametrize("look", [((1400, 1000), "light"), ((1400, 1000), "dark"), ((500, 900), "light")], ids=str)
def test_what_is_wrong_is_chosen_and_keys_and_clicks_choose_others(
    faulty: Path, tmp_path: Path, look: tuple[tuple[int, int], str]
) -> None:
    found = observed(faulty, CHOICES, tmp_path, *look)
    assert found["first"] == found["gone"] == "product5"
    names = [entry["n"] for entry in data_of(faulty)["layers"]]
    assert (found["home"], found["down"], found["end"]) == (names[0], names[1], names[-1])
    assert found["clicked"] == names[-1]
    assert found["focus"] == "search"
    assert (found["count"], found["found"]) == ("1 layer", "product5")
    assert (found["up"], found["back"]) == ("tanh4", "product5")
    assert "from right inputs" in found["details"]
    assert "verdict" in found["details"]
    assert found["bars"] == 60 + 30  # the tensor on both sides, and the weight
    assert found["dots"] == sum("e" in entry for entry in data_of(faulty)["layers"])
    assert found["overflow"] <= 0


def test_a_tensor_shows_its_values(faulty: Path, tmp_path: Path) -> None:
    script = """
    await later(() => { choose(leaves.find((leaf) => layers[leaf.at].n === "tanh0"), true); });
    await later(() => {
      draw();
      const label = labels.find((one) => layers[one.layer].n === "tanh0");
      clickAt(canvas, (label.left + label.right) / 2, (label.top + label.bottom) / 2 + 2);
      observed.tensor = title(); observed.details = details();
      observed.bars = document.querySelectorAll("#details svg rect").length;
    });
    """
    found = observed(faulty, script, tmp_path)
    tensor = next(entry["names"][0][0] for entry in data_of(faulty)["layers"] if entry["n"] == "tanh0")
    assert found["tensor"] == tensor
    assert "made by" in found["details"]
    assert found["bars"] == 60


def test_a_selected_layer_keeps_the_colour_of_its_verdict(faulty: Path, tmp_path: Path) -> None:
    script = """
    await later(() => {
      draw();
      const ratio = window.devicePixelRatio || 1, pixel = (x, y) =>
        [...context.getImageData(Math.round(x * ratio), Math.round(y * ratio), 1, 1).data].slice(0, 3);
      const x = (chosen.x - WIDTH / 2) * view.scale + view.x, y = (chosen.y + HEIGHT / 2) * view.scale + view.y;
      const rgb = (name) => { context.fillStyle = colours[name]; context.fillRect(0, 0, 1, 1); return pixel(0, 0); };
      observed.edge = pixel(x + 3 * view.scale, y); observed.ring = pixel(x - 5, y);
      observed.bad = rgb("bad"); observed.focus = rgb("focus");
    });
    """
    found = observed(faulty, script, tmp_path)
    assert found["edge"] == found["bad"]
    assert found["ring"] == found["focus"]


def test_thousands_of_layers_are_drawn_at_once(tmp_path: Path) -> None:
    page = page_of(encoder(tmp_path / "m.onnx", 60, 100))
    script = """
    let start = performance.now();
    document.getElementById("open").click();
    observed.layout = performance.now() - start;
    observed.boxes = boxes.length;
    start = performance.now();
    for (let turn = 0; turn < 20; turn++) { view.y -= 40; draw(); }
    observed.frame = (performance.now() - start) / 20;
    fit();
    start = performance.now();
    for (let turn = 0; turn < 5; turn++) draw();
    observed.whole = (performance.now() - start) / 5;
    """
    found = observed(page, script, tmp_path)
    assert found["boxes"] > 6000
    assert 0 < found["layout"] < 3000, found
    assert 0 < found["frame"] < 100, found
    assert 0 < found["whole"] < 500, found


def test_nothing_lies_beside_the_screen_of_a_telephone(faulty: Path, tmp_path: Path) -> None:
    script = """
    await later(() => {
      for (const table of document.querySelectorAll("details")) table.open = true;
      const width = document.documentElement.clientWidth;
      observed.width = width;
      observed.scroll = document.documentElement.scrollWidth;
      observed.beside = [...document.querySelectorAll("main *")].filter((one) => {
        const box = one.getBoundingClientRect();
        return box.width > 0 && (box.right > width + 1 || box.left < -1);
      }).map((one) => `${one.tagName} ${one.className} ${one.textContent.slice(0, 40)}`);
      observed.clipped = [...document.querySelectorAll("td, dd, li, h1, h2, h3, h4")].filter((one) =>
        one.scrollWidth > one.clientWidth + 1 && one.clientWidth > 0).map((one) => `${one.tagName} ${one.textContent.slice(0, 40)}`);
    });
    """
    found = observed(faulty, script, tmp_path, (390, 900))
    assert 370 <= found["width"] <= 390  # a scroll bar may be beside the page
    assert found["scroll"] <= found["width"]
    assert found["beside"] == []
    assert found["clipped"] == []
