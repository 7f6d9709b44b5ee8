"""Whatever is given in the place of an argument: a result, or an error that blames the argument."""

from __future__ import annotations

import io
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st

import converter
import ir_runtime
from tests.commands import two_inputs
from tests.ir_runtime.test_sessions import counter
from tests.language_models.decoders import Decoder


class Hostile:
    """Fails at everything that it is asked."""

    def fail(self, *_: Any) -> Any:
        raise RuntimeError("no")

    __repr__ = __str__ = __iter__ = __len__ = __getitem__ = __hash__ = __eq__ = __bool__ = __int__ = __index__ = fail  # type: ignore[assignment]
    __float__ = __array__ = __fspath__ = __lt__ = __call__ = __contains__ = fail


class HostileReader:
    def read(self, *_: Any) -> Any:
        raise RuntimeError("no")


class TextReader:
    def read(self, *_: Any) -> str:
        return "text"


class BytesPath:
    def __fspath__(self) -> bytes:
        return b"\xff\xfe"


class Liar:
    """Pretends to be a type, a dimension and a shape."""

    def __getattr__(self, name: str) -> Any:
        return lambda *_: object()


def recursive() -> list:
    made: list = []
    made.append(made)
    return made


def deep() -> list:
    made: list = [1]
    for _ in range(5000):
        made = [made]
    return made


ODD: dict[str, Callable[[], Any]] = {
    "None": lambda: None,
    "int": lambda: 5,
    "negative": lambda: -1,
    "huge": lambda: 10**400,
    "float": lambda: 2.5,
    "nan": lambda: float("nan"),
    "complex": lambda: 1j,
    "true": lambda: True,
    "text": lambda: "surprise",
    "empty text": lambda: "",
    "nul": lambda: "a\0b",
    "surrogate": lambda: "\udcff\ud800",
    "long text": lambda: "x" * 100_000,
    "bytes": lambda: b"\x00\xff",
    "empty bytes": lambda: b"",
    "list": lambda: [1, "a", None, 2.5],
    "nested": lambda: [[[1]], {"a": [2]}],
    "recursive": recursive,
    "deep": deep,
    "tuple": lambda: ("x", ("y",)),
    "dict": lambda: {"x": "y", 3: object()},
    "dict of dicts": lambda: {"x": {"y": {}}},
    "set": lambda: {1, 2},
    "object": object,
    "type": lambda: int,
    "class": lambda: Hostile,
    "function": lambda: lambda: None,
    "generator": lambda: (n for n in "ab"),
    "hostile": Hostile,
    "hostile in a list": lambda: [Hostile()],
    "hostile in a dict": lambda: {"x": Hostile()},
    "reader": HostileReader,
    "text reader": TextReader,
    "closed": lambda: _closed(),
    "path of bytes": BytesPath,
    "liar": Liar,
    "array": lambda: np.arange(6).reshape(2, 3),
    "objects": lambda: np.array([object(), None], object),
    "record": lambda: np.zeros(2, [("a", np.int32)]),
    "date": lambda: np.datetime64("2020-01-01"),
    "range": lambda: range(3),
    "module": lambda: np,
    "path": lambda: Path("/no/such/place"),
    "folder": lambda: Path("/"),
    "device": lambda: "/dev/null",
    "memoryview": lambda: memoryview(b"abc"),
    "exception": lambda: ValueError("x"),
    "shape": lambda: ir_runtime.PartialShape([1, 3]),
    "dimension": lambda: ir_runtime.Dimension(1, 4),
    "proto": onnx.ModelProto,
    "tensor proto": onnx.TensorProto,
    "model": ir_runtime.Model,
}


def _closed() -> Any:
    file = io.BytesIO(b"abc")
    file.close()
    return file


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("odd")
    onnx.save(two_inputs(), folder / "m.onnx")
    converter.save_model(converter.convert_model(folder / "m.onnx"), folder / "m.xml")
    (folder / "decoder").mkdir()
    onnx.save(Decoder().build(), folder / "decoder/model.onnx")
    converter.save_model(converter.convert_model(folder / "decoder/model.onnx", stateful=True), folder / "decoder.xml")
    return folder


Calls = dict[str, tuple[Callable[..., Any], dict[str, Any]]]


def calls(files: Path) -> Calls:
    """Each function with arguments that it takes."""
    model = converter.convert_model(files / "m.onnx")
    feeds = {"x": np.ones((1, 3), np.float32), "y": np.ones((1, 3), np.float32)}

    def reshaped(shapes: Any) -> None:
        ir_runtime.read_model(files / "m.xml").reshape(shapes)

    def called(inputs: Any) -> None:
        ir_runtime.compile_model(model)(inputs)

    def profiled(inputs: Any, repeat: Any) -> None:
        ir_runtime.compile_model(model).profile(inputs, repeat=repeat)

    session = ir_runtime.compile_model(counter(6)).session()
    step = {"x": np.ones((2, 3), np.float32)}

    return {
        "convert_model": (
            converter.convert_model,
            {
                "model": files / "m.onnx", "input": None, "output": None, "example_input": None, "extension": None,
                "verbose": False, "share_weights": True, "dynamo": False, "freeze": None, "batch": None,
                "extensions": (), "static": False, "stateful": False, "target": "cpu",
            },
        ),
        "convert_language_model": (
            converter.convert_language_model,
            {
                "folder": files / "decoder", "output": files / "ir", "input": None, "compress": None,
                "compress_to_fp16": False, "fuse": True, "exact": False, "target": "cpu", "stateful": True,
            },
        ),
        "convert_folder": (
            converter.convert_folder,
            {"folder": files / "decoder", "output": files / "ir", "task": None, "variant": None, "fuse": True},
        ),
        "optimize": (
            converter.optimize,
            {
                "model": files / "m.onnx", "input": None, "freeze": None, "batch": None, "opset": None,
                "target": "plain", "fuse": True, "exact": False, "skip_passes": "",
            },
        ),
        "edit": (
            converter.edit,
            {
                "model": files / "m.onnx", "merge": None, "connect": (), "cut": None, "remove_output": (),
                "add_output": (), "insert_after": {}, "replace_weight": {}, "cast_weights": False, "set_dim": {},
                "rename": {}, "strip": (), "metadata": {},
            },
        ),
        "make_stateless": (converter.make_stateless, {"model": ir_runtime.read_model(files / "decoder.xml")}),
        "verify_steps": (
            converter.verify_steps,
            {
                "onnx_model": files / "decoder/model.onnx", "ir": files / "decoder.xml", "steps": 1, "seed": 0,
                "rtol": None, "atol": None, "engine": "numpy",
            },
        ),
        "save_model": (
            converter.save_model,
            {"model": model, "path": files / "out.xml", "compress_to_fp16": False, "compress": None},
        ),
        "verify": (
            converter.verify,
            {
                "onnx_model": files / "m.onnx", "ir": files / "m.xml", "inputs": feeds, "seed": 0, "rtol": None,
                "atol": None, "layers": None, "freeze": None, "output": None,
            },
        ),
        "read_model": (ir_runtime.read_model, {"xml": files / "m.xml", "weights": files / "m.bin"}),
        "write_model": (ir_runtime.write_model, {"model": model, "xml": files / "out.xml", "weights": None}),
        "compile_model": (ir_runtime.compile_model, {"model": model, "optimize": True, "threads": 1}),
        "reshape": (reshaped, {"shapes": {"x": [1, 3]}}),
        "call": (called, {"inputs": feeds}),
        "profile": (profiled, {"inputs": feeds, "repeat": 1}),
        "step": (session, {"inputs": step}),
        "profile of steps": (session.profile, {"steps": [step]}),
        "state": (lambda name: session.states[name], {"name": "total"}),
        "set state": (session.states.__setitem__, {"name": "total", "value": step["x"]}),
        "del state": (session.states.__delitem__, {"name": "total"}),
        "has state": (lambda name: name in session.states, {"name": "total"}),
        "reset": (session.reset, {"name": "total"}),
    }  # fmt: skip


def attempt(function: Callable[..., Any], arguments: dict[str, Any]) -> None:
    try:
        function(**arguments)
    except ir_runtime.ModelError as error:
        assert not isinstance(error, ir_runtime.InternalError), error  # noqa: PT017


@pytest.mark.parametrize("odd", ODD)
def test_any_object_in_any_place(odd: str, files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(files)
    for function, arguments in calls(files).values():
        for parameter in arguments:
            if (parameter, odd) == ("repeat", "huge"):
                continue  # which is what is asked for
            attempt(function, {**arguments, parameter: ODD[odd]()})


plain = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(max_size=20)
nested = st.recursive(
    plain | st.sampled_from(["x", "y", "w", "f32", "1..3", np.float32, np.zeros(3)]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner, inner)
        | st.dictionaries(st.sampled_from(["x", "y"]) | st.integers() | st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=12,
)


@given(value=nested, seed=st.integers(0, 2**32))
def test_nested_values_in_places_of_choice(value: Any, seed: int, files: Path) -> None:
    function, arguments = random.Random(seed).choice([*calls(files).values()])
    places = [
        name for name in arguments if name not in ("path", "xml", "model", "onnx_model", "ir", "weights", "repeat")
    ]
    if places:
        attempt(function, {**arguments, random.Random(seed).choice(places): value})
