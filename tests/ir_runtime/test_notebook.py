"""Models, compiled models, results and reports as HTML in notebooks."""

from __future__ import annotations

import html
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import lxml.html
import numpy as np
import onnx
import pytest

import converter
import ir_runtime
from ir_runtime.execution.ports import InferenceResult, port_of
from ir_runtime.graph.element_types import f32
from ir_runtime.graph.model_difference import ModelDifference
from ir_runtime.report import MOST_ROWS, size_text, table
from tests.converter.language_models.decoders import Decoder
from tests.converter.optimization.models import parse

NAME = "x <b> & \"y'"


def model() -> onnx.ModelProto:
    """Two outputs, one of which the other is computed from; a name with letters that mean something in HTML."""
    made = parse(
        "g (float[n,4] x) => (float[n,8] m, float[n,8] r) { m = MatMul (x, w) r = Relu (m) }", w=np.ones((4, 8), "f4")
    )
    made.graph.name, made.graph.input[0].name, made.graph.node[0].input[0] = "net <script>", NAME, NAME
    return made


def cells(text: str, number: int = 0) -> list[list[str]]:
    """The texts of a table's rows, its headings first."""
    found = lxml.html.fromstring(text).findall(".//table")[number]
    return [[cell.text_content() for cell in row] for row in found.iter("tr")]


def test_a_model() -> None:
    shown = converter.convert_model(model())._repr_html_()
    assert "<script>" not in shown
    assert "Model net &lt;script&gt;" in shown
    assert cells(shown) == [
        ["", "name", "type", "shape"], ["input", NAME, "f32", "[?,4]"], ["output", "m", "f32", "[?,8]"],
        ["output", "r", "f32", "[?,8]"],
    ]  # fmt: skip
    assert "6 layers of 5 types" in shown
    assert cells(shown, 1)[:2] == [["layer", "count"], ["Result-1", "2"]]
    assert cells(shown, 1)[2:] == [[f"{kind}-1", "1"] for kind in ("Const", "MatMul", "Parameter", "ReLU")]
    assert "weights: 128 bytes in 1 constants" in shown


def test_layers_of_bodies_are_counted() -> None:
    """A loop's body has layers and weights, too."""
    body = "body (int64 i, bool c, float[2] s) => (bool d, float[2] t) { d = Identity (c) t = Sin (s) }"
    proto = parse(f'g (float[2] x, int64 n) => (float[2] y) {{ y = Loop <body = {body}> (n, "", x) }}')
    assert ["Sin-1", "1"] in cells(converter.convert_model(proto)._repr_html_(), 1)


def test_a_compiled_model_and_its_result() -> None:
    compiled = ir_runtime.compile_model(converter.convert_model(model()))
    shown = compiled._repr_html_()
    assert cells(shown)[1] == ["input", NAME, "f32", "[?,4]"]
    result = compiled({NAME: np.arange(8, dtype=np.float32).reshape(2, 4) - 2})
    assert cells(result._repr_html_()) == [
        ["output", "type", "shape", "min", "mean", "max"],
        ["m", "float32", "[2, 8]", "-2", "6", "14"],
        ["r", "float32", "[2, 8]", "0", "7", "14"],
    ]


def test_variables_of_a_compiled_model() -> None:
    decoder = Decoder()
    compiled = ir_runtime.compile_model(converter.convert_model(decoder.build(), stateful=True))
    sides = [row[0] for row in cells(compiled._repr_html_())]
    assert sides.count("variable") == len(decoder.caches)


@pytest.mark.parametrize(
    "value", [np.zeros((0, 3), np.float32), np.array(["a", "b"], np.object_)], ids=["empty", "texts"]
)
def test_values_without_a_range(value: Any) -> None:
    port = port_of(["y"], "y", ir_runtime.TensorType(f32, ir_runtime.PartialShape([2])))
    assert cells(InferenceResult([port], [value])._repr_html_())[1][3:] == ["-", "-", "-"]


def test_long_tables_are_cut() -> None:
    shown = table(("a",), [[str(number)] for number in range(MOST_ROWS + 3)])
    assert len(cells(f"<div>{shown}</div>")) == MOST_ROWS + 1
    assert "... and 3 more" in shown


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 bytes"), (1023, "1023 bytes"), (1536, "1.5 KiB"), (3 << 20, "3.0 MiB"), (5 << 30, "5.0 GiB")],
)
def test_sizes(count: int, text: str) -> None:
    assert size_text(count) == text


def test_the_runtime_shows_models_without_the_converter(tmp_path: Path) -> None:
    converter.save_model(converter.convert_model(model()), tmp_path / "m.xml")
    code = (
        f"import sys, ir_runtime; model = ir_runtime.read_model({str(tmp_path / 'm.xml')!r}); "
        "assert model._repr_html_() and ir_runtime.compile_model(model)._repr_html_(); "
        "assert not {'converter', 'onnx'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_report_links_to_its_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    made = converter.convert_model(model())
    assert "<a " not in converter.verify(model(), made)._repr_html_()
    report = converter.verify(model(), made, report="a page & more.html")
    assert report.page == "a page & more.html"
    shown = report._repr_html_()
    (link,) = lxml.html.fromstring(shown).iter("a")
    assert link.get("href") == "a%20page%20%26%20more.html"
    assert link.text_content() == "a page & more.html"
    assert "weights: 1 identical" in shown


def test_names_in_a_report_are_escaped() -> None:
    proto = model()
    proto.graph.output[0].name = proto.graph.node[0].output[0] = proto.graph.node[1].input[0] = "<img src=x>"
    shown = converter.verify(proto, converter.convert_model(proto))._repr_html_()
    assert "<img" not in shown
    assert html.escape("<img src=x>") in shown
    assert cells(shown)[1][-1] == "equal"
    assert len(re.findall(r"height:9px;background:#1a7f37", shown)) == 2


def test_a_report_of_steps() -> None:
    decoder = Decoder()
    made = converter.convert_model(decoder.build(), stateful=True)
    report = converter.verify_steps(decoder.build(), made, steps=2)
    text = report.to_text()
    assert str(report) == text
    assert "\x1b" not in text
    assert text.splitlines()[-2] == f"PASSED against {report.oracle} (seed 0), IR in NumPy"
    assert text.splitlines()[-1].startswith("derived: all steps agree, and the recorded steps give this IR again")
    rows = cells(report._repr_html_())
    assert [row[0] for row in rows[1:]] == list(dict.fromkeys(step.run for step in report.steps))
    assert {row[-1] for row in rows[1:]} == {"equal"}
    assert repr(report) == f"StepsReport(derived against {report.oracle}, {len(report.steps)} steps)"


def test_a_report_is_written_as_text_in_notebooks_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """There rich displays what a console prints, unless it is told not to."""
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    assert "PASSED against" in str(converter.verify(model(), converter.convert_model(model())))


def test_a_round_trip(tmp_path: Path) -> None:
    proto = model()
    del proto.graph.output[1]
    onnx.save(proto, tmp_path / "m.onnx")
    trip = converter.round_trip(tmp_path / "m.onnx")
    lines = trip.to_text().splitlines()
    assert str(trip) == trip.to_text()
    assert lines[0].split() == ["stage", "numbers"]
    assert lines[-2:] == ["pass 1 changed nothing", "PASSED"]
    assert cells(trip._repr_html_())[1] == ["m.onnx -> IR", "equal"]
    assert repr(trip) == "RoundTrip(passed, 3 stages)"


@pytest.mark.parametrize(
    ("passes", "settled", "verdict"),
    [
        (True, 1, "passed"),
        (True, 3, "failed: only pass 3 changed nothing"),
        (True, None, "failed: the passes do not come to rest"),
        (False, 1, "failed: numbers differ at m.onnx -> IR"),
    ],
)
def test_verdicts_of_round_trips(passes: bool, settled: int | None, verdict: str) -> None:
    doubts = () if passes else ("y",)
    report = converter.Report(oracle="onnxruntime", seed=0, inputs={}, outputs=(), unproven=doubts)
    difference = ModelDifference(only_first=[("<b>", "Add")], only_second=[("c", "Multiply")])
    trip = converter.RoundTrip({"m.onnx -> IR": report}, settled, difference)
    assert trip.verdict == verdict
    assert trip.passed == (verdict == "passed")
    text = trip.to_text()
    assert text.endswith("PASSED" if verdict == "passed" else "FAILED")
    assert ("  only before: <b> (Add)\n  only after: c (Multiply)" in text) == (settled is None)
