"""The pages of convert, verify and diff: complete in one file, and tried in a real Chromium where there is one."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import onnx
import pytest

import converter
from converter.report.conversions import write_conversion
from tests.converter.test_command_options import onnx2ir
from tests.converter.test_verify_inputs import image
from tests.converter.test_verify_layers import deep, layer

__all__ = ["deep", "image"]  # fixtures

CHROMIUM = shutil.which("chromium")
FLAGS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--virtual-time-budget=5000", "--dump-dom"),
]


def layers_in(page: Path) -> list[dict[str, Any]]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page.read_text(), re.S)
    assert found is not None
    return json.loads(found[1])["layers"]


@pytest.fixture
def faulty(deep: Path, tmp_path: Path) -> Path:
    model = converter.convert_model(deep)
    layer(model, "product5").op = layer(model, "product5").op.with_attributes(transpose_b=True)
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
    low, high, expected, actual = by_name["tanh0"]["h"]
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
    assert "Relu</td>" in tmp_path.joinpath("page.html").read_text()


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
    assert "<td>product</td><td>Swish-4</td><td>gate, product</td>" in text
    assert "layers replaced by passes</dt><dd>swishes (1)" in text


def test_names_cannot_break_the_page(deep: Path, tmp_path: Path) -> None:
    model = converter.convert_model(deep)
    layer(model, "product0").name = '</script><script>document.title = "broken"</script>&"\''
    converter.verify(deep, model, report=tmp_path / "page.html", layers=False)
    assert "</script><script>document" not in tmp_path.joinpath("page.html").read_text()


SCRIPT = """
<pre id="result"></pre><script>
const observed = { errors: [] };
window.addEventListener("error", (event) => observed.errors.push(event.message));
const press = (target, key) => target.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
const title = () => document.querySelector("#details h3").textContent;
const later = (work) => new Promise((done) => setTimeout(() => { work(); done(); }, 60));
window.addEventListener("load", async () => {
  await later(() => { observed.first = title(); });
  // A click on a layer in the drawing: the page centres what is chosen from the list.
  const canvas = document.getElementById("canvas"), list = document.getElementById("layers");
  await later(() => { press(list, "Home"); observed.home = title(); });
  await later(() => { press(list, "ArrowDown"); observed.down = title(); });
  await later(() => {
    const at = { clientX: 0, clientY: 0, pointerId: 1, bubbles: true };
    const box = canvas.getBoundingClientRect();
    at.clientX = box.left + box.width / 2; at.clientY = box.top + box.height / 2;
    canvas.setPointerCapture = () => {};
    press(list, "End");
    observed.end = title();
    canvas.dispatchEvent(new PointerEvent("pointerdown", at));
    canvas.dispatchEvent(new PointerEvent("pointerup", at));
    observed.clicked = title();
  });
  await later(() => {
    press(document.body, "/");
    observed.focus = document.activeElement.id;
    const search = document.getElementById("search");
    search.value = "wrong";
    search.dispatchEvent(new Event("input"));
    observed.count = document.getElementById("count").textContent;
    press(search, "Enter");
    observed.found = title();
    observed.details = document.getElementById("details").textContent;
    observed.bars = document.querySelectorAll("#details svg rect").length;
  });
  await later(() => { for (const key of ["ArrowLeft", "+", "-", "0", "Enter"]) press(canvas, key); });
  await later(() => {
    const start = performance.now();
    for (let turn = 0; turn < 20; turn++) draw();
    observed.milliseconds = (performance.now() - start) / 20;
    observed.overflow = document.documentElement.scrollWidth - document.documentElement.clientWidth;
    observed.dots = document.querySelectorAll("#depth .dot").length;
    document.getElementById("collapse").value = "1";
    document.getElementById("collapse").dispatchEvent(new Event("change"));
    observed.boxes = boxes.length;
    document.getElementById("result").textContent = JSON.stringify(observed);
  });
});
</script></body>
"""


def tried(page: Path, folder: Path, *flags: str) -> dict[str, Any]:
    assert CHROMIUM is not None
    # The listener for errors must be there before the page's own script runs.
    early = "<script>window.early = []; addEventListener('error', (event) => early.push(event.message));</script>"
    text = page.read_text().replace("<head>", f"<head>{early}", 1).replace("</body>", SCRIPT, 1)
    text = text.replace(
        "JSON.stringify(observed)", "JSON.stringify({ ...observed, errors: [...observed.errors, ...window.early] })"
    )
    instrumented = folder / "instrumented.html"
    instrumented.write_text(text)
    command = [CHROMIUM, *FLAGS, f"--user-data-dir={folder / 'profile'}", *flags, instrumented.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    found = re.search(r'<pre id="result">(.*?)</pre>', done.stdout, re.S)
    assert found is not None, done.stderr[-2000:]
    assert "CONSOLE" not in done.stderr
    return json.loads(html.unescape(found[1]))


@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium")
@pytest.mark.parametrize(
    "flags",
    [
        ("--window-size=1400,1000",),
        ("--window-size=1400,1000", "--blink-settings=preferredColorScheme=0", "--force-dark-mode"),
        ("--window-size=500,900",),
    ],
    ids=["light", "dark", "phone"],
)
def test_in_a_browser(faulty: Path, tmp_path: Path, flags: tuple[str, ...]) -> None:
    observed = tried(faulty, tmp_path, *flags)
    assert observed["errors"] == []
    assert observed["first"] == "product5"  # what is wrong is shown at once
    names = [entry["n"] for entry in layers_in(faulty)]
    assert (observed["home"], observed["down"], observed["end"]) == (names[0], names[1], names[-1])
    assert observed["clicked"] == names[-1]
    assert observed["focus"] == "search"
    assert (observed["count"], observed["found"]) == ("1 layers", "product5")
    assert "from right inputs" in observed["details"]
    assert observed["bars"] == 60
    assert observed["dots"] == sum("e" in entry for entry in layers_in(faulty))
    assert observed["overflow"] <= 0
