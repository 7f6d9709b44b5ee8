"""The table of onnxruntime's kernels is that of the installed release."""

from __future__ import annotations

import onnx
import onnxruntime.capi.onnxruntime_pybind11_state as pybind
import pytest

from converter.targets.onnxruntime.kernels import _COMPUTED_BY, TABLE, has_kernel, table_of

F64 = {"T": "tensor(double)"}


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
        ("HardSwish", 14, "float16", True),
        ("HardSwish", 14, "double", False),  # as HardSigmoid, by which it is computed
        ("GroupNormalization", 21, "double", True),  # made of operators that take it
    ],
)
def test_what_has_a_kernel(name: str, opset: int, kind: str, expected: bool) -> None:
    assert has_kernel(name, "", opset, {"T": f"tensor({kind})"}) is expected


@pytest.mark.parametrize("name", sorted(_COMPUTED_BY))
def test_functions_contain_the_operator_that_decides(name: str) -> None:
    inner = [node.op_type for node in onnx.defs.get_schema(name).function_body.node]
    assert _COMPUTED_BY[name] in inner
    without_kernel = [each for each in inner if not has_kernel(each, "", onnx.defs.get_schema(each).since_version, F64)]
    assert without_kernel == [_COMPUTED_BY[name]]
