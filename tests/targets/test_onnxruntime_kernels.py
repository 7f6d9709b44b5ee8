"""The table of onnxruntime's kernels is that of the installed release."""

from __future__ import annotations

import onnxruntime.capi.onnxruntime_pybind11_state as pybind
import pytest

from converter.targets.onnxruntime.kernels import TABLE, has_kernel, table_of


def test_the_table_is_that_of_the_installed_release() -> None:
    assert TABLE.read_text() == table_of(pybind.get_all_opkernel_def()), "run docs/generate.py"


@pytest.mark.parametrize(
    ("name", "opset", "kind", "expected"),
    [
        ("Add", 14, "int8", True),
        ("Add", 13, "int8", False),
        ("Conv", 22, "float", True),
        ("Conv", 22, "float16", True),  # computed in float32
        ("Conv", 22, "double", False),
        ("HardSwish", 14, "double", True),  # made of other operators
    ],
)
def test_what_has_a_kernel(name: str, opset: int, kind: str, expected: bool) -> None:
    assert has_kernel(name, "", opset, {"T": f"tensor({kind})"}) is expected
