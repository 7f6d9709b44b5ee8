"""One list of stages: the command line and batch run it, and nothing verifies a conversion beside it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from converter import ConversionOptions, SavingOptions, VerificationOptions, workflow
from converter.batch.jobs import Job, Settings
from converter.batch.worker import convert_one
from converter.workflow import Work
from tests.commands import onnx2ir


@pytest.fixture
def model(tmp_path: Path) -> Path:
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", ends[:1], ends[1:])
    onnx.save(helper.make_model(graph), tmp_path / "m.onnx")
    return tmp_path / "m.onnx"


def test_all_stages_or_those_that_are_named(model: Path) -> None:
    path = model.with_name("ir") / "m.xml"
    work = Work(model, path, ConversionOptions(), checking=VerificationOptions(seed=3)).run("convert", "write")
    assert path.is_file()
    assert work.report is None
    report = work.run("verify").report
    assert report is not None
    assert report.passed
    assert report.seed == 3
    assert Work(model, path, ConversionOptions()).run().report is None


def test_command_and_batch_run_the_same_stages(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str] = []

    def recording(name: str, stage: Callable[[Work], None]) -> Callable[[Work], None]:
        def record(work: Work) -> None:
            ran.append(name)
            stage(work)

        return record

    stages = {name: recording(name, stage) for name, stage in workflow.STAGES.items()}
    monkeypatch.setattr(workflow, "STAGES", stages)
    code, _, _ = onnx2ir("convert", str(model), "-o", str(model.with_suffix(".xml")), "--verify")
    assert code == 0
    assert ran == ["convert", "write", "verify"]
    ran.clear()
    settings = Settings(ConversionOptions(), SavingOptions(), verify=True)
    row = convert_one(Job(str(model), "m", str(model.with_name("other.xml")), settings))
    assert row.verdict == "verified"
    assert ran == ["convert", "write", "verify"]
