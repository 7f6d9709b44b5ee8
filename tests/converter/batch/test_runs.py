"""Which models a run has, what becomes of each, what a second run leaves out, and who runs them."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Callable
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import converter
from converter.workflow import records, rows
from converter.workflow import rows as verdicts
from converter.workflow.process import run_job
from converter.workflow.sources import find_models
from tests.commands import a_model, dense, extension, onnx2ir, own, rows_of, wrong
from tests.engines import core

# --- which models a run has, what a second run leaves out, and who runs them ---


def names(*given: str | Path) -> list[str]:
    return [source.name for source in find_models(given)]


@pytest.fixture
def zoo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("b.onnx", "a/model.onnx", "a/deep/model.onnx", "c/model.ONNX"):
        dense(tmp_path / "zoo" / name)
    (tmp_path / "zoo" / "a" / "notes.txt").write_text("no model")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "zoo"


def test_names_of_folders_patterns_lists_and_files(zoo: Path) -> None:
    assert names(zoo) == ["a/deep/model.onnx", "a/model.onnx", "b.onnx", "c/model.ONNX"]
    assert names("zoo/a") == ["deep/model.onnx", "model.onnx"]
    assert names("zoo/**/model.onnx") == ["a/deep/model.onnx", "a/model.onnx"]
    assert names("zoo/a/*.onnx") == ["model.onnx"]
    assert names("zoo/b.onnx") == ["b.onnx"]
    assert names("zoo/c/model.ONNX", "zoo/a/model.onnx") == ["c/model.ONNX", "a/model.onnx"]
    Path("list.txt").write_text("# two models\nzoo/b.onnx\n\n  zoo/a/model.onnx\nzoo/gone.onnx\n")
    assert names("list.txt") == ["b.onnx", "a/model.onnx", "gone.onnx"]
    assert names("zoo/a", "zoo/a/model.onnx") == ["deep/model.onnx", "model.onnx"], "each model once"


@pytest.mark.parametrize("given", ["nothing", "zoo/*.tflite", "zoo/empty", "zoo/b.bin"])
def test_sources_without_models_are_errors(zoo: Path, given: str) -> None:
    (zoo / "empty").mkdir()
    (zoo / "b.bin").write_bytes(b"\xff\x00")
    with pytest.raises(converter.ConversionError):
        converter.convert_many(zoo.parent / given, "ir")


def test_models_that_would_share_an_ir_are_refused(zoo: Path) -> None:
    with pytest.raises(converter.ConversionError, match="would both become"):
        converter.convert_many(["zoo/a", "zoo/c"], "ir")
    converter.save_model(converter.convert_model(zoo / "b.onnx"), zoo / "b.xml")
    with pytest.raises(converter.ConversionError, match="would overwrite the model"):
        converter.convert_many([zoo / "b.xml"], zoo)
    assert not Path("ir").exists()


def test_a_model_of_a_list_that_is_gone_is_a_row(zoo: Path) -> None:
    Path("list.txt").write_text("zoo/gone.onnx\nzoo/b.onnx\n")
    found = converter.convert_many("list.txt", "ir")
    assert rows_of(found) == {"gone.onnx": rows.REFUSED, "b.onnx": rows.CONVERTED}
    assert "No such file" in found[0].reason


def test_an_ir_as_a_model(zoo: Path) -> None:
    converter.save_model(converter.convert_model(zoo / "b.onnx"), zoo / "b.xml")
    (row,) = converter.convert_many(zoo / "b.xml", "ir", verify=True, compress_to_fp16=True)
    assert row.verdict == rows.VERIFIED, row
    assert row.model_bytes == sum((zoo / f"b{ending}").stat().st_size for ending in (".xml", ".bin"))


def nothing(folder: Path) -> None:
    """The files stay as they are."""


def other_data(folder: Path) -> None:
    data = bytearray((folder / "m.onnx.data").read_bytes())
    data[2] ^= 1
    (folder / "m.onnx.data").write_bytes(data)


CHANGES: dict[str, tuple[Callable[[Path], object], dict[str, Any], bool]] = {
    "nothing": (nothing, {}, True),
    "times alone": (lambda folder: os.utime(folder / "m.onnx"), {}, True),
    "weights": (lambda folder: dense(folder / "m.onnx", 1, external=True), {}, False),
    "external data": (other_data, {}, False),
    "the IR": (lambda folder: (folder / "ir/m.xml").open("a").write("\n"), {}, False),
    "the IR's weights": (lambda folder: (folder / "ir/m.bin").unlink(), {}, False),
    "the record": (lambda folder: (folder / "ir/m.batch.json").write_text("{"), {}, False),
    "the extension": (lambda folder: (folder / "operators.py").write_text("import converter  # another\n"), {}, False),
    "an option": (nothing, {"static": True}, False),
    "shapes": (nothing, {"input": {"x": [1, 8]}}, False),
    "compression": (nothing, {"compress": "int8"}, False),
    "verify": (nothing, {"verify": True}, False),
    "asked for": (nothing, {"again": True}, False),
    "limits": (nothing, {"time_limit": 600, "memory_limit": 1 << 40}, True),
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_is_unchanged_is_not_done_again(name: str, tmp_path: Path) -> None:
    change, arguments, reused = CHANGES[name]
    (tmp_path / "operators.py").write_text("import converter\n")
    dense(tmp_path / "m.onnx", external=True)
    options = {"input": "x[2,8]", "extensions": tmp_path / "operators.py"}
    (first,) = converter.convert_many(tmp_path / "m.onnx", tmp_path / "ir", **options)
    assert (first.verdict, first.reused) == (rows.CONVERTED, False)
    change(tmp_path)
    (second,) = converter.convert_many(tmp_path / "m.onnx", tmp_path / "ir", **{**options, **arguments})
    assert second.passed
    assert second.reused == reused
    (third,) = converter.convert_many(tmp_path / "m.onnx", tmp_path / "ir", **{**options, **arguments, "again": False})
    assert third.reused, "and what was done again counts from then on"


def test_another_version_does_it_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dense(tmp_path / "m.onnx")
    converter.convert_many(tmp_path / "m.onnx", tmp_path / "ir")
    monkeypatch.setattr(records, "__version__", "99")
    (row,) = converter.convert_many(tmp_path / "m.onnx", tmp_path / "ir")
    assert not row.reused


def test_what_failed_is_tried_again_and_an_ir_of_before_does_not_stand_for_it(tmp_path: Path) -> None:
    options = {"extensions": extension(tmp_path), "time_limit": 3}
    for build, verdict in ((dense, rows.CONVERTED), (lambda path: own("Wait", path), rows.OUT_OF_TIME),
                           (lambda path: path.write_bytes(b"\x08\x09"), rows.REFUSED)):  # fmt: skip
        build(tmp_path / "m.onnx")
        for _ in range(1 if verdict == rows.CONVERTED else 2):
            (row,) = converter.convert_many(tmp_path / "m.onnx", tmp_path / "ir", **options)
            assert (row.verdict, row.reused) == (verdict, False)
    own("Wait", tmp_path / "m.onnx")
    (tmp_path / "go").touch()
    (row,) = converter.convert_many(tmp_path / "m.onnx", tmp_path / "ir", **{**options, "time_limit": 60})
    assert row.verdict == rows.CONVERTED


def test_rows_come_as_they_are_done_and_are_returned_in_order(tmp_path: Path) -> None:
    own("Wait", tmp_path / "zoo" / "a.onnx")
    dense(tmp_path / "zoo" / "b.onnx")
    dense(tmp_path / "zoo" / "c.onnx", 1)
    seen: list[str] = []

    def each(row: converter.Row) -> None:
        seen.append(row.name)
        if len(seen) == 2:
            (tmp_path / "go").touch()

    found = converter.convert_many(tmp_path / "zoo", tmp_path / "ir", extensions=extension(tmp_path), jobs=2, each=each)
    assert seen == ["b.onnx", "c.onnx", "a.onnx"]
    assert rows_of(found) == dict.fromkeys(["a.onnx", "b.onnx", "c.onnx"], rows.CONVERTED)


def test_a_pool_whose_worker_is_killed(tmp_path: Path) -> None:
    """A pool of processes ends with one of them: what was done stays, the rest is told to be lost."""
    dense(tmp_path / "zoo" / "a.onnx")
    own("KillWorker", tmp_path / "zoo" / "b.onnx")
    dense(tmp_path / "zoo" / "c.onnx", 1)
    file = extension(tmp_path)
    with ProcessPoolExecutor(1) as executor:
        found = converter.convert_many(tmp_path / "zoo", tmp_path / "ir", extensions=file, executor=executor)
    assert rows_of(found) == {"a.onnx": rows.CONVERTED, "b.onnx": rows.LOST, "c.onnx": rows.LOST}
    assert "BrokenProcessPool" in found[1].reason
    found = converter.convert_many([tmp_path / "zoo" / "a.onnx", tmp_path / "zoo" / "c.onnx"], tmp_path / "ir",
                                   extensions=file)  # fmt: skip
    assert [(row.verdict, row.reused) for row in found] == [(rows.CONVERTED, True), (rows.CONVERTED, False)]


class _Forgetful(Executor):
    """Does the first job, cancels the second, fails at the third, and takes no more."""

    count = 0

    def submit(self, function: Any, /, *arguments: Any, **named: Any) -> Future[Any]:
        self.count += 1
        future: Future[Any] = Future()
        if self.count == 1:
            future.set_result(function(*arguments, **named))
        elif self.count == 2:
            future.cancel()
            future.set_running_or_notify_cancel()
        elif self.count == 3:
            future.set_exception(ValueError("no worker"))
        else:
            raise RuntimeError("cannot schedule new futures after shutdown")
        return future


def test_an_executor_that_forgets(tmp_path: Path) -> None:
    for seed in range(5):
        dense(tmp_path / "zoo" / f"{seed}.onnx", seed)
    found = converter.convert_many(tmp_path / "zoo", tmp_path / "ir", executor=_Forgetful())
    assert [row.verdict for row in found] == [rows.CONVERTED, *[rows.LOST] * 4]
    reasons = ["CancelledError", "ValueError", "RuntimeError", "RuntimeError"]
    assert [row.reason.partition(":")[0] for row in found[1:]] == reasons


def test_a_dask_cluster_of_which_a_worker_is_killed(tmp_path: Path) -> None:
    """Two worker processes; one ends by SIGKILL in the middle of the run, and every model is converted all the same."""
    distributed = pytest.importorskip("distributed")
    count = 12
    for seed in range(count):
        dense(tmp_path / "zoo" / f"{seed:02}.onnx", seed)
    own("Wait", tmp_path / "zoo" / "03.onnx")
    file = extension(tmp_path)
    killed: list[int] = []

    with (
        distributed.LocalCluster(2, processes=True, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        workers = client.run(os.getpid)
        assert len(set(workers.values()) - {os.getpid()}) == 2

        def each(row: converter.Row) -> None:
            if not killed and (tmp_path / "waits").exists():
                # The worker in which a model waits for this.
                waiting = int((tmp_path / "waits").read_text())
                process = int(Path(f"/proc/{waiting}/stat").read_text().rpartition(")")[2].split()[1])
                assert process in workers.values()
                killed.append(process)
                os.kill(process, signal.SIGKILL)
                (tmp_path / "go").touch()

        executor: Executor = client.get_executor()
        found = converter.convert_many(
            tmp_path / "zoo", tmp_path / "ir", verify=False, extensions=file, executor=executor, each=each
        )
    assert killed
    assert rows_of(found) == {f"{seed:02}.onnx": rows.CONVERTED for seed in range(count)}
    others = [row for row in found if row.name != "03.onnx"]
    assert all(converter.verify(row.model, row.xml).passed for row in others)


# --- whatever happens to a model is its row, and the other models are converted all the same ---

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
    assert run_job.__module__ == "converter.workflow.process"
    assert rows_of([converter.Row("a", "a", "b", verdicts.LOST)]) == {"a": "lost"}
    row = converter.Row("a", "b", "c", verdicts.DIFFERS, "because", unproven=("y",), max_absolute=0.5)
    assert converter.Row.from_dict(json.loads(json.dumps(row.to_dict()))) == row
