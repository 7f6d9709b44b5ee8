"""Two ONNX models, compared by :func:`converter.verify`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

import converter
from converter import VerificationError
from tests.commands import onnx2ir
from tests.optimization.models import floats, parse


def model(factor: float = 2.0) -> onnx.ModelProto:
    text = "g (float[n,3] x, int64 k, string[m] s) => (float[n,3] y, string[m] t) { %s }"
    nodes = "f = Cast<to = 1>(k)  a = Mul(x, w)  y = Mul(a, f)  t = Identity(s)"
    return parse(text % nodes, w=np.float32([1, factor, 3]))


def test_equal_and_different_models(tmp_path: Path) -> None:
    onnx.save(model(), tmp_path / "m.onnx")
    onnx.save(model(2.5), tmp_path / "n.onnx")
    report = converter.verify(tmp_path / "m.onnx", model())
    assert (report.verdict, report.passed) == ("equal", True)
    report = converter.verify(model(), tmp_path / "n.onnx")
    assert (report.verdict, report.passed) == ("different", False)
    assert [out.name for out in report.outputs if not out.passed] == ["y"]


def test_a_value_of_an_input_is_that_of_both() -> None:
    optimized = converter.optimize(model(), input="k=3").to_onnx()
    assert [value.name for value in optimized.graph.input] == ["x", "s"]
    for second in (optimized, model()):
        assert converter.verify(model(), second, input="k=3").passed
    with pytest.raises(VerificationError, match="'k'"):
        converter.verify(model(), optimized)


@pytest.mark.parametrize(
    "option", [{"layers": True}, {"minimise": "part"}, {"report": "page.html"}, {"against": "a.xml"}]
)
def test_what_needs_an_ir(option: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(VerificationError, match=f"{next(iter(option))} cannot be used with two ONNX models"):
        converter.verify(model(), model(), **option)


def test_on_the_command_line(tmp_path: Path) -> None:
    onnx.save(model(), tmp_path / "m.onnx")
    onnx.save(model(2.5), tmp_path / "n.onnx")
    assert onnx2ir("verify", str(tmp_path / "m.onnx"), str(tmp_path / "m.onnx"))[0] == 0
    assert onnx2ir("verify", str(tmp_path / "m.onnx"), str(tmp_path / "n.onnx"))[0] == 1


def test_given_inputs(tmp_path: Path) -> None:
    feeds = {"x": floats(2, 3), "k": np.array(2), "s": np.array(["a"])}
    assert converter.verify(model(), model(), inputs=feeds).passed


@pytest.mark.parametrize(("factor", "verdict"), [(1.0, "equal"), (1.5, "unproven")])
def test_small_outputs_that_are_the_same_in_every_bit_are_equal(factor: float, verdict: str) -> None:
    """As the results of a network that was not trained."""
    text = "g (float[n,3] x) => (float[n,3] y) { a = Mul(x, w)  y = Mul(a, w) }"
    first, second = (parse(text, w=np.float32([1e-5, scale * 1e-5, 3e-5])) for scale in (1.0, factor))
    report = converter.verify(first, second)
    assert report.verdict == verdict
    assert "--values" not in report.reason
