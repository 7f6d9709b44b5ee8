"""The choice of rows, of changed tests, and the engines of tests."""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests import changed, selection
from tests.converter.targets.probes.movement import scanned
from tests.engines import converted, output_names, run_openvino
from tests.rows.table import layer_table, table
from tests.selection import cover, parts, row_seconds, values_of

# --- the rows that run without ``--full``: few of them, and each value of each parameter occurs ---

ROOT = Path(__file__).parent.parent


def rows_of(**parameters: list[Any]) -> list[Any]:
    """Rows of a test, as pytest has them, of all combinations."""
    rows = []
    for places in itertools.product(*[range(len(values)) for values in parameters.values()]):
        params = {name: values[place] for (name, values), place in zip(parameters.items(), places)}
        identity = "-".join(str(value) for value in params.values())
        spec = SimpleNamespace(id=identity, params=params)
        row = SimpleNamespace(nodeid=f"test[{identity}]", callspec=spec, get_closest_marker={}.get)
        rows.append(row)
    return rows


def chosen_of(rows: list[Any], most: int = 1000) -> list[Any]:
    return [rows[index] for index in cover([values_of(row) for row in rows], [row.nodeid for row in rows], most)]


def test_each_value_of_each_parameter_occurs_in_as_few_rows_as_can_be() -> None:
    rows = rows_of(name=["add", "sub", "mul", "div", "pow"], dtype=[np.float32, np.int64], opset=[7, 13, 14])
    chosen = chosen_of(rows)
    assert len(chosen) == 5
    for name in ("name", "dtype", "opset"):
        assert {row.callspec.params[name] for row in chosen} == {row.callspec.params[name] for row in rows}


def test_rows_with_the_most_values_come_first_where_not_all_may_run() -> None:
    rows = rows_of(name=["ReduceMean-18-f16", "ReduceMean-18-f32", "ReduceMean-13-f16", "Softmax-1-bf16"])
    assert len(chosen_of(rows, 1)) == 1
    words = {word for row in chosen_of(rows, 3) for word in row.callspec.id.split("-")}
    assert words == {"ReduceMean", "Softmax", "1", "13", "18", "f16", "f32", "bf16"}


def test_the_choice_does_not_depend_on_the_order() -> None:
    rows = rows_of(a=list(range(9)), b=list("xyz"))
    assert {row.nodeid for row in chosen_of(rows)} == {row.nodeid for row in chosen_of(rows[::-1])}


def test_time_bounds_the_rows_of_a_test() -> None:
    rows = rows_of(a=list(range(200)))
    assert len(selection.choose(rows, (0.001, 0))) == int(selection.LEAST / (0.001 + selection.OVERHEAD))
    long = selection.LONG
    each = long + selection.OVERHEAD
    assert len(selection.choose(rows, (long, 0))) == int(min(selection.MOST, selection.SHARE * 200 * each) / each)
    assert len(selection.choose(rows, (long, 2 * long))) == len(selection.choose(rows, (long, 0)))
    assert len(selection.choose(rows[:3], (long, 0))) == 1
    rows[0].get_closest_marker = {"every_value": True}.get
    assert selection.choose(rows, (long, 0)) == rows
    assert selection.choose(rows, (long + 0.1, 0)) == []
    assert selection.choose(rows, (0.01, 2 * long + 0.1)) == []
    assert selection.choose(rows[:1], (long, 0)) == rows[:1]


@pytest.mark.full
def test_the_rest_is_what_no_run_without_it_has() -> None:
    """Each row of a file is in one of both runs, and in both only where it draws more examples in one."""

    def collected(*options: str) -> set[str]:
        command = [sys.executable, "-m", "pytest", "-o", "addopts=-q", "--collect-only", *options]
        files = ["tests/converter/test_saving.py", "tests/test_rows.py", "tests/fuzz"]
        printed = subprocess.run([*command, *files], capture_output=True, text=True, cwd=ROOT, check=True).stdout
        return set(re.findall(r"^(tests/.*)$", printed, re.M))

    chosen, remaining, every = collected(), collected("--rest"), collected("--full")
    assert chosen | remaining == every
    assert 0 < len(chosen & remaining) < 20
    assert not [name for name in chosen & remaining if "fuzz" not in name]


def test_what_a_value_consists_of() -> None:
    @dataclass(frozen=True)
    class Row:
        op_type: str
        attributes: dict[str, Any] = field(default_factory=dict)

    row = Row("TopK", {"axis": -1, "k": np.zeros((0, 2), np.float16)})
    assert {("op_type", "TopK"), ("attributes", ("axis", "-1")), ("attributes", ("k", "float16"))} <= set(parts(row))
    assert ("attributes", ("k", "empty")) in set(parts(row))


def test_tests_with_slow_rows_exist() -> None:
    """After a test is renamed: ``python -m pytest --full --measure`` of its file renews its line."""
    gone = []
    groups = {row.group for row in (*table(), *layer_table())}
    for name in row_seconds():
        if name in groups:
            continue
        path, _, function = name.partition("::")
        is_there = (ROOT / path).exists()
        if not is_there or not re.search(rf"def {function.rpartition('::')[2]}\(", (ROOT / path).read_text()):
            gone.append(name)
    assert not gone, "these lines of tests/row_seconds.json name tests that are gone: take them out"


# --- tests that reach changed lines, chosen from what was recorded ---

DIFF = """\
--- a/converter/cost.py
+++ b/converter/cost.py
@@ -12 +12 @@ def one
-    return 1
+    return 2
@@ -30,0 +31,2 @@
+    more
+    lines
--- a/ir_runtime/new.py
+++ b/ir_runtime/new.py
@@ -3,2 +3 @@
-a
-b
+c
"""


def test_ranges_are_those_of_the_old_side() -> None:
    assert changed.changed_lines(DIFF) == {"converter/cost.py": [(12, 12), (30, 30)], "ir_runtime/new.py": [(3, 4)]}


def test_the_quickest_tests_of_changed_functions_run() -> None:
    slow = changed.SECONDS - 1
    reached = {
        "converter/cost.py": [
            (10, 14, [(0.1, "one"), (slow, "slow"), (2.0, "two")]),
            (28, 40, [(0.2, "three")]),
            (50, 60, [(0.1, "elsewhere")]),
        ]
    }
    assert changed.reaching(reached, {"converter/cost.py": [(12, 12)], "ir_runtime/a.py": [(1, 1)]}) == {"one", "slow"}
    assert changed.reaching(reached, {"converter/cost.py": [(12, 12), (30, 30)]}) == {"one", "three", "slow"}


# --- what runs models in tests: inputs live until the outputs are read ---


def test_an_output_in_the_memory_of_an_input_is_read_before_the_input_goes() -> None:
    """The plug-in returns an unchanged state in the memory of the input, which the caller owns."""
    model, feeds = scanned("", "t = Identity (s) r = Identity (row)", "", kind=ml_dtypes.bfloat16).build()
    (state,) = run_openvino(converted(model, "any"), feeds, output_names(model))
    np.testing.assert_array_equal(state.astype(np.float32), [[1, 2, 3], [4, 5, 6]])
