"""Damaged files through the converter and the reader: ``python tests/fuzz/mutate.py --count 20000 --seed 1``.

Each mutation ends in success, or in a ConversionError or ModelError that is none of a fault of the package, within
a limit of time and memory. Mutations run in child processes, so that a crash is seen as one and not suffered.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import logging
import os
import random
import resource
import selectors
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))

import numpy as np  # noqa: E402
import onnx  # noqa: E402
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

import converter  # noqa: E402
import ir_runtime  # noqa: E402
from converter.errors import InternalError  # noqa: E402
from converter.stages import silent  # noqa: E402
from tests.fuzz import mutations  # noqa: E402
from tests.suite.node_suite import node_cases  # noqa: E402

SECONDS = 20
"""What one mutation may take; the machine may be busy."""
MEMORY = 1 << 30
"""Bytes that a child may take besides what it starts with."""

LOCATIONS = ["w.bin", "./w.bin", "../w.bin", "/etc/passwd", "/dev/zero", "/dev/stdin", "pipe", "link", "out/w.bin", "."]
LOCATIONS += ["", "C:\\w.bin", "..\\w.bin", "w.bin\0", "missing.bin", "w.bin/x", "\ud800", "x" * 5000, "loop", "empty"]
PLACES = [
    "0", "1", "192", "256", "4096", "-1", "9223372036854775807", "18446744073709551616", "1e3", "", "9" * 5000, "٣",
]  # fmt: skip
OPTIONS = [
    *[{}] * 12, {"static": True}, {"batch": 3}, {"input": [1, 3]}, {"input": {"x": [2**40, 2**40]}},
    {"target": "any"}, {"target": "cpu@2023.3"}, {"freeze": {"x": np.float32(1)}}, {"output": "y"}, {"input": "[?,..7]"},
]  # fmt: skip


# --- small models of every kind, which mutations start from ---

_LARGEST = 12_000
"""Bytes of a file: mutations of larger ones are spent on weights."""


@functools.cache
def onnx_files(count: int = 400) -> tuple[bytes, ...]:
    """ONNX files: those that are installed with onnx, and cases of its node suite, with functions and bodies."""
    folder = Path(onnx.__file__).parent / "backend" / "test" / "data"
    found = [path.read_bytes() for path in sorted(folder.rglob("*.onnx")) if path.stat().st_size <= _LARGEST]
    random.Random(0).shuffle(found)
    cases = [case.model.SerializeToString() for case in node_cases()]
    random.Random(0).shuffle(cases)
    return tuple([*found[:60], *(case for case in cases if len(case) <= _LARGEST)][:count])


@functools.cache
def irs(count: int = 150) -> tuple[tuple[bytes, bytes], ...]:
    """IRs of this package's own making: ``.xml`` and ``.bin``."""
    made: list[tuple[bytes, bytes]] = []
    with silent():
        for data in onnx_files():
            try:
                made.append(ir_runtime.model_to_bytes(converter.convert_model(data, target="any")))
            except (converter.ConversionError, ir_runtime.ModelError):
                continue
            if len(made) == count:
                break
    return tuple(made)


def with_external_data(location: str, offset: str, length: str) -> bytes:
    """y = x + w, where w lies in another file."""
    value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [64]) for name in "xy"]
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[64], data_location=TensorProto.EXTERNAL)
    for key, text in (("location", location), ("offset", offset), ("length", length)):
        tensor.external_data.add(key=key, value=text)
    zero = numpy_helper.from_array(np.zeros(64, np.float32), "zero")
    graph = helper.make_graph([helper.make_node("Add", ["x", "w"], ["y"])], "g", value[:1], value[1:], [tensor, zero])
    opsets = [helper.make_opsetid("", 17)]
    return bytes(helper.make_model(graph, opset_imports=opsets, ir_version=9).SerializeToString())


# --- mutations ---


@dataclass(frozen=True)
class Fault:
    """A mutation that did not end as it should."""

    index: int
    kind: str
    what: str


def attempt(seed: int, index: int, folder: Path) -> str:
    """One mutation, from its number alone: ``success`` or ``refused``. Raises whatever is none of the two."""
    rng = random.Random(f"{seed}:{index}")
    which = rng.randrange(10)
    try:
        if which < 5:
            data = mutations.mutated_onnx(rng.choice(onnx_files()), rng)
            _converted(data, rng)
        elif which < 9:
            document, weights = rng.choice(irs())
            if rng.randrange(6) == 0:
                weights = weights[: rng.randrange(len(weights) + 1)]
            model = ir_runtime.read_model(mutations.mutated_xml(document, rng), weights)
            ir_runtime.model_to_bytes(model)
            ir_runtime.compile_model(model)
        else:
            path = folder / "m.onnx"
            try:
                data = with_external_data(rng.choice(LOCATIONS), rng.choice(PLACES), rng.choice(PLACES))
            except (UnicodeError, ValueError):
                return "refused"  # protobuf itself will not hold it
            path.write_bytes(data)
            converter.convert_model(path)
    except (converter.ConversionError, ir_runtime.ModelError) as error:
        cause = error.__cause__
        if isinstance(error, InternalError) or "cannot use what it was given" in str(error):
            raise
        if isinstance(cause, (MemoryError, RecursionError)) or not str(error):
            raise
        return "refused"
    return "success"


def _converted(data: bytes, rng: random.Random) -> None:
    model = converter.convert_model(data, **rng.choice(OPTIONS))
    pair = ir_runtime.model_to_bytes(model)
    ir_runtime.read_model(*pair)


def surroundings(folder: Path) -> None:
    """What external data may name."""
    (folder / "w.bin").write_bytes(bytes(range(256)))
    (folder / "empty").write_bytes(b"")
    (folder / "link").symlink_to("/etc/passwd")
    (folder / "out").symlink_to("/etc")
    (folder / "loop").symlink_to("loop")

    os.mkfifo(folder / "pipe")


def child(seed: int, start: int, count: int) -> None:
    """Print before each mutation which it is, and after it how it ended."""
    logging.disable()
    irs()
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
    with tempfile.TemporaryDirectory() as name:
        surroundings(Path(name))
        for index in range(start, start + count):
            print(index, flush=True)
            try:
                outcome = attempt(seed, index, Path(name))
            except BaseException as error:
                last = traceback.extract_tb((error.__cause__ or error).__traceback__)[-1]
                where = f"{Path(last.filename).name}:{last.lineno}"
                text = f"{type(error).__name__}: {error}"[:300]
                outcome = json.dumps({"kind": f"{type(error.__cause__ or error).__name__} at {where}", "what": text})
            print(outcome, flush=True)


def run(count: int, seed: int, start: int = 0, batch: int = 500) -> tuple[Counter[str], list[Fault]]:
    """Outcomes of ``count`` mutations, and those that are none."""
    outcomes: Counter[str] = Counter()
    faults: list[Fault] = []
    position = start
    while position < start + count:
        many = min(batch, start + count - position)
        command = [sys.executable, __file__, "--seed", str(seed), "--start", str(position), "--child", str(many)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=ROOT, bufsize=0)
        current = position
        ended = False
        for line in _lines(process):
            if line.isdigit():
                current, ended = int(line), False
                continue
            ended = True
            if line.startswith("{"):
                fault = json.loads(line)
                faults.append(Fault(current, fault["kind"], fault["what"]))
            else:
                outcomes[line] += 1
        process.kill()
        code = process.wait()
        if not ended:
            faults.append(Fault(current, "time" if code == -9 else f"signal {-code}", "the process did not go on"))
        position = current + 1
    return outcomes, faults


def _lines(process: subprocess.Popen[bytes]) -> Iterator[str]:
    """The child's lines, until it ends or writes none for too long."""
    assert process.stdout is not None
    first = True
    with selectors.DefaultSelector() as waiting:  # select itself takes no file beyond the 1024th
        waiting.register(process.stdout, selectors.EVENT_READ)
        while True:
            ready = waiting.select(120 if first else SECONDS)
            line = process.stdout.readline() if ready else b""
            first = False
            if not line:
                return
            yield line.decode().strip()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--start", type=int, default=0, help="the number of the first mutation, to see one again")
    parser.add_argument("--child", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child is not None:
        with contextlib.suppress(BrokenPipeError):
            child(options.seed, options.start, options.child)
        return
    begin = time.monotonic()
    outcomes, faults = run(options.count, options.seed, options.start)
    for fault in faults:
        print(json.dumps(asdict(fault)))
    print(f"{dict(outcomes)}, {len(faults)} faults, {time.monotonic() - begin:.0f} s")
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
