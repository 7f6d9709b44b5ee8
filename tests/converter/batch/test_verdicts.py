"""Whatever happens to a model is its row, and the other models are converted all the same."""

from __future__ import annotations

import json
import re
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import onnx
import pytest

import converter
from converter.batch import rows as verdicts
from converter.batch.process import run_job
from tests.commands import a_model, onnx2ir
from tests.converter.batch.models import dense, extension, own, rows_of, wrong
from tests.engines import core

FATES = {
    "Abort": (verdicts.CRASHED, "signal 6 (SIGABRT)"),
    "Kill": (verdicts.CRASHED, "signal 9 (SIGKILL), as systems do where memory runs out"),
    "Wait": (verdicts.OUT_OF_TIME, "not done after 4 seconds"),
    "Fill": (verdicts.OUT_OF_MEMORY, "acme.Fill, opset 1): translating it takes more memory than there is"),
    "Fault": (verdicts.FAULT, "a fault of this package"),
    "NoSuchOp": (verdicts.REFUSED, "acme.NoSuchOp"),
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> dict[str, converter.Row]:
    folder = tmp_path_factory.mktemp("fates")
    for op_type in FATES:
        own(op_type, folder / "zoo" / f"{op_type}.onnx")
    good = dense(folder / "zoo" / "a" / "good.onnx")
    (folder / "zoo" / "cut.onnx").write_bytes(good.read_bytes()[:-50])
    wrong(folder / "zoo" / "wrong.onnx")
    rows = converter.convert_many(
        folder / "zoo", folder / "ir", verify=True, extensions=extension(folder), time_limit=4, memory_limit=4 << 30
    )
    return {row.name: row for row in rows}


@pytest.mark.parametrize("op_type", FATES)
def test_a_fate_is_a_row(op_type: str, run: dict[str, converter.Row]) -> None:
    verdict, reason = FATES[op_type]
    row = run[f"{op_type}.onnx"]
    assert row.verdict == verdict, row.reason
    assert reason in row.reason
    assert not row.passed
    assert row.model_bytes > 0
    assert not Path(row.xml).exists()


def test_the_others_are_converted_and_compared(run: dict[str, converter.Row]) -> None:
    assert list(run) == sorted(run)
    good, cut, other = run["a/good.onnx"], run["cut.onnx"], run["wrong.onnx"]
    assert (good.verdict, good.reason, good.layers) == (verdicts.VERIFIED, "", 5)
    assert good.xml.endswith("ir/a/good.xml")
    core().read_model(good.xml)
    assert good.memory > 1 << 20
    assert cut.verdict == verdicts.REFUSED
    assert "truncated" in cut.reason
    assert other.verdict == verdicts.DIFFERS
    assert other.reason.startswith("layer ")
    assert other.max_absolute is not None
    assert other.max_absolute > 1e-3


@pytest.mark.parametrize("size", [24, 30, 36])
def test_memory_is_limited_also_where_arrays_are_small(tmp_path: Path, size: int) -> None:
    """A limit below what the imports take: the process ends early, and its row says that or the lack of memory."""
    dense(tmp_path / "m.onnx")
    (row,) = converter.convert_many(tmp_path / "m.onnx", tmp_path / "ir", verify=True, memory_limit=size << 20)
    assert row.verdict in (verdicts.OUT_OF_MEMORY, verdicts.CRASHED), row
    (row,) = converter.convert_many(tmp_path / "m.onnx", tmp_path / "ir", verify=True, memory_limit=4 << 30)
    assert row.verdict == verdicts.VERIFIED, row


def test_the_table_equals_single_runs(tmp_path: Path) -> None:
    zoo = tmp_path / "zoo"
    dense(zoo / "one" / "model.onnx", 1)
    dense(zoo / "two" / "model.onnx", 2, external=True)
    onnx.save(a_model(), zoo / "image.onnx")
    rows = converter.convert_many(zoo, tmp_path / "many", verify=True, seed=3, compress="int8")
    assert [row.name for row in rows] == ["image.onnx", "one/model.onnx", "two/model.onnx"]
    for row in rows:
        xml = tmp_path / "single" / f"{row.name}.xml"
        given = ["convert", row.model, "-o", str(xml), "--verify", "--seed", "3", "--compress", "int8", "--json"]
        code, printed, messages = onnx2ir(*given)
        assert code == 0, messages
        single = json.loads(printed)
        outputs = single["verification"]["outputs"]
        assert row.verdict == verdicts.VERIFIED
        assert row.oracle == single["verification"]["oracle"]
        assert row.max_absolute == max(one["max_absolute"] for one in outputs)
        assert row.max_relative == max(one["max_relative"] for one in outputs)
        for ending in (".xml", ".bin"):
            assert Path(row.xml).with_suffix(ending).read_bytes() == xml.with_suffix(ending).read_bytes()
        assert (row.xml_bytes, row.bin_bytes) == (xml.stat().st_size, xml.with_suffix(".bin").stat().st_size)
        assert row.layers == sum(single["layers"].values())
    assert rows[2].model_bytes > Path(rows[2].model).stat().st_size, "the weights beside the model count, too"


def test_options_reach_the_models(tmp_path: Path) -> None:
    onnx.save(a_model(), tmp_path / "m.onnx")
    np.save(tmp_path / "rate.npy", np.array(3))
    options = {"input": f"image[1,3,8,8],rate={tmp_path / 'rate.npy'}", "output": ["hidden"], "target": "cpu@2024.6"}
    (row,) = converter.convert_many(tmp_path / "m.onnx", tmp_path / "ir", verify=True, **options)
    assert row.verdict == verdicts.VERIFIED, row.reason
    model = core().read_model(row.xml)
    assert [list(one.shape) for one in model.inputs] == [[1, 3, 8, 8]]
    assert [one.get_any_name() for one in model.outputs] == ["hidden"]


@pytest.mark.parametrize(("arguments", "message"), [
    ({"target": "gpu@1"}, "gpu"),
    ({"batch": 0}, "batch"),
    ({"compress": "int3"}, "int3"),
    ({"time_limit": 0}, "time_limit must be more than 0"),
    ({"memory_limit": -1}, "memory_limit must be more than 0"),
    ({"jobs": 0}, "jobs must be more than 0"),
    ({"jobs": 1, "executor": ProcessPoolExecutor()}, "workers of its own"),
    ({"input": 5}, "input"),
])  # fmt: skip
def test_what_is_wrong_for_every_model_is_an_error(arguments: dict, message: str, tmp_path: Path) -> None:
    dense(tmp_path / "m.onnx")
    with pytest.raises(converter.ConversionError, match=re.escape(message)):
        converter.convert_many(tmp_path / "m.onnx", tmp_path / "ir", **arguments)
    assert not (tmp_path / "ir").exists()


def test_what_a_process_writes_and_modules_of_the_current_folder_are_no_matter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Text that an extension prints, and what it leaves on the stream below Python, does not spoil the row."""
    for name in ("json", "numpy", "pickle", "converter"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('imported')")
    (tmp_path / "loud.py").write_text("import os\nprint('{}')\nos.write(1, b'noise')\n")
    dense(tmp_path / "m.onnx")
    monkeypatch.chdir(tmp_path)
    (row,) = converter.convert_many("m.onnx", "ir", extensions=tmp_path / "loud.py")
    assert row.verdict == verdicts.CONVERTED, row


def test_a_job_is_plain_data() -> None:
    assert run_job.__module__ == "converter.batch.process"
    assert rows_of([converter.Row("a", "a", "b", verdicts.LOST)]) == {"a": "lost"}
    row = converter.Row("a", "b", "c", verdicts.DIFFERS, "because", unproven=("y",), max_absolute=0.5)
    assert converter.Row.from_dict(json.loads(json.dumps(row.to_dict()))) == row
