"""The NumPy executor beside onnxruntime's CPU provider: time, where it goes, and peak memory.

Both run in one process, onnxruntime with the threads given and ours with those of NumPy's library, and are called in
turn, so that a busy machine slows both alike; medians are compared. With ``--memory`` each side runs in a process of
its own, too.

    python benchmarks/execution.py MODEL.onnx ... [--threads 2] [--seconds 3] [--profile] [--memory] [--plain]
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

_REST = 0.004
"""Seconds between two calls: threads of the side that was called before spin on for a while."""


def main() -> None:
    """One line for each model, the geometric mean of the ratios, and the worst."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=3.0, help="how long each model is measured")
    parser.add_argument("--dimension", type=int, default=160, help="what dynamic dimensions of images are")
    parser.add_argument("--profile", action="store_true", help="time by type of operation")
    parser.add_argument("--plain", action="store_true", help="without kernels: layer by layer")
    parser.add_argument("--memory", action="store_true", help="peak memory of both, above that of the imports")
    parser.add_argument("--peak", choices=["ours", "onnxruntime"], help=argparse.SUPPRESS)
    parser.add_argument("--feeds", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.peak:
        print(_peak(given.models[0], given))
        return
    ratios = []
    print(f"{'model':40} {'onnxruntime ms':>14} {'ours ms':>9} {'ratio':>6} {'error':>9}", flush=True)
    for path in given.models:
        try:
            ours, theirs, feeds = _sides(path, given)
            error = _difference(ours(), theirs())
        except Exception as problem:  # one model that does not fit its random inputs is no reason to end
            print(f"{_name(path):40} left out: {str(problem).strip().splitlines()[0][:100]}", flush=True)
            continue
        times = _interleaved([theirs, ours], given.seconds)
        ratios.append(times[1] / times[0])
        line = f"{_name(path):40} {times[0]:14.2f} {times[1]:9.2f} {ratios[-1]:6.2f} {error:9.1e}"
        if given.memory:
            peaks = [_measured_peak(path, side, feeds, given) for side in ("onnxruntime", "ours")]
            line += f"   {peaks[0]:.0f} MiB and {peaks[1]:.0f} MiB, {peaks[1] / max(peaks[0], 1):.2f}"
        print(line, flush=True)
        if given.profile:
            _print_profile(path, feeds, given)
    if ratios:
        mean = math.exp(statistics.fmean(math.log(ratio) for ratio in ratios))
        print(f"geometric mean {mean:.2f}, worst {max(ratios):.2f}, models {len(ratios)}")


def _name(path: Path) -> str:
    return path.stem if len(path.stem) > 8 else f"{path.parent.name}/{path.stem}"


def _compiled(path: Path, given: argparse.Namespace) -> Any:
    import converter
    import ir_runtime

    model = converter.convert_model(path)
    if given.plain:
        return ir_runtime.compile_model(model, optimize=False)
    return ir_runtime.compile_model(model)


def _session(path: Path, given: argparse.Namespace) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = given.threads
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def _feeds(path: Path, given: argparse.Namespace, compiled: Any = None) -> dict[str, Any]:
    """Random inputs: one item, images of ``--dimension`` where that dimension is dynamic."""
    import numpy as np

    if compiled is None:
        compiled = _compiled(path, given)
    generator = np.random.default_rng(0)
    feeds = {}
    for port in compiled.inputs:
        dims = port.partial_shape.dims if port.partial_shape.has_rank else ()
        image = len(dims) == 4
        shape = []
        for index, dimension in enumerate(dims):
            wanted = 1 if index == 0 and len(dims) > 1 else given.dimension if image and index > 1 else 64
            shape.append(max(dimension.low, min(dimension.high, wanted)))
        if port.element_type.is_real:
            feeds[port.name] = generator.random(shape).astype(port.dtype)
        elif port.element_type.category == "boolean":
            feeds[port.name] = np.ones(shape, np.bool_)
        else:
            feeds[port.name] = generator.integers(0, 2, shape).astype(port.dtype)
    return feeds


def _sides(path: Path, given: argparse.Namespace) -> tuple[Callable[[], Any], Callable[[], Any], Mapping[str, Any]]:
    compiled, session = _compiled(path, given), _session(path, given)
    feeds = _feeds(path, given, compiled)
    names = {port.name for port in session.get_inputs()}
    known = {name: value for name, value in feeds.items() if name in names}
    return lambda: compiled(feeds).to_list(), lambda: session.run(None, known), feeds


def _difference(ours: list[Any], theirs: list[Any]) -> float:
    """The greatest difference, in parts of the greatest value of its output."""
    import numpy as np

    worst = 0.0
    for a, b in zip(ours, theirs):
        a, b = np.asarray(a), np.asarray(b)
        if b.size and b.dtype.kind == "f":
            scale = float(np.abs(b).max()) or 1.0
            found = float(np.abs(a.astype(np.float64) - b).max()) / scale
            worst = max(worst, math.inf if math.isnan(found) else found)
    return worst


def _interleaved(sides: list[Callable[[], Any]], seconds: float) -> list[float]:
    """The median of each in milliseconds."""
    for side in sides:
        side()
        side()
    found: list[list[float]] = [[] for _ in sides]
    end = time.perf_counter() + seconds
    while len(found[0]) < 5 or (time.perf_counter() < end and len(found[0]) < 500):
        for times, side in zip(found, sides):
            time.sleep(_REST)
            start = time.perf_counter()
            side()
            times.append(time.perf_counter() - start)
    return [statistics.median(times) * 1e3 for times in found]


def _print_profile(path: Path, feeds: Mapping[str, Any], given: argparse.Namespace) -> None:
    profile = _compiled(path, given).profile(feeds, repeat=5)
    for row in profile.by_type()[:12]:
        print(f"    {row.type:32} {row.count:5} {row.seconds * 1e3:9.2f} ms {row.share:6.1%}")


def _peak(path: Path, given: argparse.Namespace) -> float:
    """Peak memory in MiB of this process over what it was once all was imported and the inputs made."""
    import numpy as np
    import onnxruntime

    import ir_runtime
    import ir_runtime.execution.executor
    import ir_runtime.files.xml_reader

    assert onnxruntime
    # Made by the process that asks: what making them takes, and gives back, would not be counted again.
    feeds = dict(np.load(given.feeds))
    Path("/proc/self/clear_refs").write_text("5")
    before = _status("VmHWM")
    if given.peak == "ours":
        compiled = ir_runtime.compile_model(ir_runtime.read_model(path), optimize=not given.plain)
        for _ in range(3):
            compiled(feeds)
    else:
        session = _session(path, given)
        names = {port.name for port in session.get_inputs()}
        for _ in range(3):
            session.run(None, {name: value for name, value in feeds.items() if name in names})
    return (_status("VmHWM") - before) / 1024


def _status(key: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(key))


def _measured_peak(path: Path, side: str, feeds: Mapping[str, Any], given: argparse.Namespace) -> float:
    """Of a process of its own, which reads the file that this side has: the ONNX file, or the IR."""
    import numpy as np

    import converter

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "feeds.npz"
        np.savez(file, **feeds)
        if side == "ours":
            converter.save_model(converter.convert_model(path), Path(folder) / "model.xml")
            path = Path(folder) / "model.xml"
        return _peak_of_process(path, side, file, given)


def _peak_of_process(path: Path, side: str, feeds: Path, given: argparse.Namespace) -> float:
    command = [sys.executable, __file__, str(path), "--peak", side, "--threads", str(given.threads)]
    command += ["--dimension", str(given.dimension), "--feeds", str(feeds), *["--plain"] * given.plain]
    out = subprocess.run(command, capture_output=True, text=True, check=True, env=dict(os.environ)).stdout
    return float(out.split()[-1])


if __name__ == "__main__":
    main()
