"""Cutting a large ONNX file: time and memory, beside copying what remains.

python benchmarks/editing.py --weights 20 --side 5120 --folder /tmp
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from onnx import TensorProto, helper

import converter


def write_model(path: Path, count: int, side: int) -> None:
    """Write a chain of matrix multiplications, whose weights lie in a file of their own."""
    weights, nodes = [], []
    with path.with_suffix(".data").open("wb") as file:
        for number in range(count):
            values = np.random.default_rng(number).standard_normal((side, side), np.float32)
            tensor = TensorProto(name=f"w{number}", data_type=TensorProto.FLOAT, dims=values.shape, data_location=1)
            entries = {"location": path.stem + ".data", "offset": file.tell(), "length": values.nbytes}
            for key, value in entries.items():
                tensor.external_data.add(key=key, value=str(value))
            file.write(values.data)
            weights.append(tensor)
            nodes.append(helper.make_node("MatMul", [f"h{number}", f"w{number}"], [f"h{number + 1}"]))
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, side]) for name in ("h0", f"h{count}")]
    graph = helper.make_graph(nodes, "chain", ends[:1], ends[1:], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    path.write_bytes(model.SerializeToString())


def best_time(work: Callable[[], object]) -> float:
    """Return the shortest of three times in seconds."""
    times = []
    for _ in range(3):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def copy_to_disk(source: Path, target: Path) -> None:
    shutil.copyfile(source, target)
    with target.open("rb") as file:
        os.fsync(file.fileno())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--weights", type=int, default=20)
    parser.add_argument("--side", type=int, default=5120)
    parser.add_argument("--folder", default=None)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        source, target = Path(folder) / "model.onnx", Path(folder) / "cut.onnx"
        write_model(source, arguments.weights, arguments.side)
        kept = arguments.weights * 3 // 4
        cut = best_time(lambda: converter.edit(source, cut=f":h{kept}").save(target, external_data=True))
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        rest = target.with_name("cut.onnx.data")
        copied = best_time(lambda: copy_to_disk(rest, target.with_name("copy")))
        print(f"{rest.stat().st_size / 1e9:.2f} GB remain: cut in {cut:.2f} s, copied in {copied:.2f} s")
        print(f"most memory, with what writing the model took: {peak / 1024:.0f} MiB")


if __name__ == "__main__":
    main()
