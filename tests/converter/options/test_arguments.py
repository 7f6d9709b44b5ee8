"""What the fields of options describe, and whatever is given in the place of an argument."""

from __future__ import annotations

import dataclasses
import inspect
import io
import random
from collections.abc import Callable
from dataclasses import Field, fields
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st

import converter
import ir_runtime
from converter.command_line.preprocessing import PreprocessingOptions
from converter.equivalence.derivation import rederivation
from converter.options.conversion import SWITCH, json_schema, on_command_line, parameter_of, summary
from converter.options.export import ExternalData
from ir_runtime.errors import ModelError
from ir_runtime.rewriting.checks import Checks
from tests.commands import onnx2ir, two_inputs
from tests.converter.language_models.decoders import Decoder
from tests.converter.optimization.models import parse

# --- a field is the only place that describes an option ---

CLASSES = (converter.ConversionOptions, converter.SavingOptions)
EXPORT = (converter.ExportOptions, ExternalData)
TAKERS = {
    converter.ConversionOptions: (converter.convert_model, converter.convert_many),
    converter.SavingOptions: (converter.save_model, converter.convert_many),
    converter.VerificationOptions: (converter.verify,),
    converter.ExportOptions: (converter.export_model, converter.save_onnx, converter.export_language_model),
}
FIELDS = [pytest.param(cls, entry, id=entry.name) for cls in TAKERS for entry in dataclasses.fields(cls)]


@pytest.mark.parametrize(("cls", "entry"), FIELDS)
def test_a_field_is_in_signatures_and_docstrings(cls: type, entry: Field[Any]) -> None:
    assert entry.metadata["text"].strip()
    for function in TAKERS[cls]:
        assert inspect.signature(function).parameters[entry.name].default == entry.default
    assert entry.metadata["text"] in (TAKERS[cls][0].__doc__ or "")
    assert entry.metadata["text"] in (cls.__doc__ or "")


RECORDED = [row for row in FIELDS if row.values[0] in CLASSES and row.values[1].metadata.get("schema") is SWITCH]
NEEDED = {"symmetric": {"compress": "int8"}}
"""Options without which others are refused."""


@pytest.mark.parametrize(("cls", "entry"), RECORDED)
def test_a_switch_becomes_a_bool(cls: type, entry: Field[Any]) -> None:
    """The record in an IR has no values of NumPy."""
    options = cls(**{entry.name: np.bool_(not entry.default), **NEEDED.get(entry.name, {})})
    value = getattr(options, entry.name)
    assert value is (not entry.default), (
        f"{entry.name} is {value!r}: its reader in converter/options/values.py must make it a bool"
    )


def test_a_recorded_conversion_can_be_repeated_with_each_option() -> None:
    names = {entry.name for entry in dataclasses.fields(converter.ConversionOptions) if entry.init}
    repeatable = {*rederivation._REPEATABLE, *rederivation._WITHOUT_VALUES, "preprocess", "postprocess"}
    assert not names - repeatable, (
        "add these to _REPEATABLE of converter/equivalence/derivation/rederivation.py, and rows to test_derivation.py"
    )


ON_COMMAND_LINE = (*CLASSES, PreprocessingOptions)
COMMANDS = {
    "convert": ON_COMMAND_LINE,
    "batch": ON_COMMAND_LINE,
    "verify": (converter.VerificationOptions,),
    "export": EXPORT,
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_field_is_in_the_help(command: str) -> None:
    text = " ".join(onnx2ir(command, "--help")[1].split())
    for entry in on_command_line(*COMMANDS[command]):
        assert entry.metadata["flags"].split("/")[0] in text
        assert summary(entry).removesuffix(".") in text, parameter_of(entry)


def test_the_schema_has_what_the_options_become() -> None:
    options = converter.ConversionOptions(
        input={"x": [1, 3]}, output="y", fuse=False, target="any", stateful={"a": "b"}
    )
    assert options.to_dict() == {
        "input": "x[1,3]", "output": ["y"], "fuse": False, "target": "any", "stateful": {"a": "b"}
    }  # fmt: skip
    assert options.to_dict().keys() <= json_schema(*CLASSES)["properties"].keys()
    assert converter.ConversionOptions().to_dict() == {}


def test_every_field_has_a_schema_and_flags_or_is_for_python_alone() -> None:
    """On the command line ``--input`` has constants, and preprocessing has options of its own."""
    described = {entry.name for entry in on_command_line(*CLASSES)}
    python_only = {"freeze", "preprocess", "postprocess"}
    assert {entry.name for cls in CLASSES for entry in fields(cls)} == described | python_only
    assert described <= json_schema(*CLASSES)["properties"].keys()


# --- whatever is given in the place of an argument: a result, or an error that says what is wanted ---


class Hostile:
    """Fails at everything that it is asked."""

    def fail(self, *_: Any) -> Any:
        raise RuntimeError("no")

    __repr__ = __str__ = __iter__ = __len__ = __getitem__ = __hash__ = __eq__ = __bool__ = __int__ = __index__ = fail  # type: ignore[assignment]
    __float__ = __array__ = __fspath__ = __lt__ = __call__ = __contains__ = fail


class Reader:
    """Has a ``read`` that fails, or that returns text."""

    def __init__(self, text: str = "") -> None:
        self.text = text

    def read(self, *_: Any) -> str:
        if not self.text:
            raise RuntimeError("no")
        return self.text


class BytesPath:
    def __fspath__(self) -> bytes:
        return b"\xff\xfe"


class Liar:
    """Pretends to be a type, a dimension and a shape."""

    def __getattr__(self, name: str) -> Any:
        return lambda *_: object()


def nested_lists(depth: int) -> list:
    """Lists within lists; a list that holds itself for 0."""
    made: list = [1]
    if not depth:
        made.append(made)
    for _ in range(depth):
        made = [made]
    return made


ODD: dict[str, Callable[[], Any]] = {
    **{
        f"{number}: {type(value).__name__}": lambda value=value: value
        for number, value in enumerate([
            None, 5, -1, 10**400, 2.5, float("nan"), 1j, True, "surprise", "", "a\0b", "\udcff\ud800", "x" * 100_000,
            b"\x00\xff", b"", [1, "a", None, 2.5], [[[1]], {"a": [2]}], ("x", ("y",)), {"x": "y", 3: object()},
            {"x": {"y": {}}}, {1, 2}, int, Hostile, lambda: None, np.arange(6).reshape(2, 3),
            np.array([object(), None], object), np.zeros(2, [("a", np.int32)]), np.datetime64("2020-01-01"), range(3),
                np,
            Path("/no/such/place"), Path("/"), "/dev/null", ValueError("x"), ir_runtime.PartialShape([1, 3]),
            ir_runtime.Dimension(1, 4),
        ])
    },
    "recursive": lambda: nested_lists(0),
    "deep": lambda: nested_lists(5000),
    "object": object,
    "generator": lambda: (n for n in "ab"),
    "hostile": Hostile,
    "hostile in a list": lambda: [Hostile()],
    "hostile in a dict": lambda: {"x": Hostile()},
    "reader": Reader,
    "text reader": lambda: Reader("text"),
    "closed": lambda: _closed(),
    "path of bytes": BytesPath,
    "liar": Liar,
    "memoryview": lambda: memoryview(b"abc"),
    "proto": onnx.ModelProto,
    "tensor proto": onnx.TensorProto,
    "model": ir_runtime.Model,
}  # fmt: skip


def _closed() -> Any:
    file = io.BytesIO(b"abc")
    file.close()
    return file


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("odd")
    onnx.save(two_inputs(), folder / "m.onnx")
    converter.save_model(converter.convert_model(folder / "m.onnx"), folder / "m.xml")
    text = (
        "g (float[2,3] x, float[2,3] total) => (float[2,3] y, float[2,3] next) { next = Add (total, x) y = Neg (next) }"
    )
    converter.save_model(converter.convert_model(parse(text), stateful={"total": "next"}), folder / "sum.xml")
    (folder / "decoder").mkdir()
    onnx.save(Decoder().build(), folder / "decoder/model.onnx")
    converter.save_model(converter.convert_model(folder / "decoder/model.onnx", stateful=True), folder / "decoder.xml")
    return folder


Call = tuple[Callable[..., Any], dict[str, Any]]


def taken(function: Callable[..., Any], but: Callable[..., Any] | None = None, **arguments: Any) -> Call:
    """The function with these arguments, and the defaults of all others, ``but`` for those that another one takes."""
    left_out = inspect.signature(but).parameters if but else ()
    parameters = [one for name, one in inspect.signature(function).parameters.items() if name not in left_out]
    return function, {one.name: one.default for one in parameters if one.default is not one.empty} | arguments


def calls(files: Path) -> list[Call]:
    """Each function with arguments that it takes; what two of them hand to the same one, of one alone."""
    model = converter.convert_model(files / "m.onnx")
    feeds = {"x": np.ones((1, 3), np.float32), "y": np.ones((1, 3), np.float32)}
    compiled = ir_runtime.compile_model(model)
    session = ir_runtime.compile_model(ir_runtime.read_model(files / "sum.xml")).session()
    step, states = {"x": np.ones((2, 3), np.float32)}, session.states
    source, target = files / "m.onnx", files / "out.xml"
    return [
        taken(converter.convert_model, model=source),
        taken(converter.convert_language_model, folder=files / "decoder", output=files / "ir"),
        taken(
            converter.convert_folder, converter.convert_language_model, folder=files / "decoder", output=files / "ir"
        ),
        taken(converter.optimize, model=source),
        taken(converter.edit, model=source),
        taken(converter.make_stateless, model=ir_runtime.read_model(files / "decoder.xml")),
        taken(converter.verify_steps, onnx_model=files / "decoder/model.onnx", ir=files / "decoder.xml", steps=1),
        taken(converter.save_model, model=model, path=target),
        taken(converter.verify, onnx_model=source, ir=files / "m.xml", inputs=feeds),
        taken(ir_runtime.read_model, xml=files / "m.xml", weights=files / "m.bin"),
        taken(ir_runtime.write_model, model=model, xml=target),
        taken(ir_runtime.compile_model, model=model, threads=1),
        taken(lambda shapes: ir_runtime.read_model(files / "m.xml").reshape(shapes), shapes={"x": [1, 3]}),
        taken(lambda inputs: compiled(inputs), inputs=feeds),
        taken(lambda inputs, repeat: compiled.profile(inputs, repeat=repeat), inputs=feeds, repeat=1),
        taken(lambda inputs: session(inputs), inputs=step),
        taken(lambda steps: session.profile(steps), steps=[step]),
        taken(lambda name: states[name], name="totalnext"),
        taken(lambda name, value: states.__setitem__(name, value), name="totalnext", value=step["x"]),
        taken(lambda name: states.__delitem__(name), name="totalnext"),
        taken(lambda name: name in states, name="totalnext"),
        taken(lambda name: session.reset(name), name="totalnext"),
    ]


def attempt(function: Callable[..., Any], arguments: dict[str, Any]) -> None:
    try:
        function(**arguments)
    except ir_runtime.ModelError as error:
        assert not isinstance(error, ir_runtime.InternalError), error  # noqa: PT017


LONG = (converter.convert_language_model, converter.verify_steps)
"""Functions that take a tenth of a second where a switch is on or off; others have the same switches."""


def _tells_its_truth(value: Any) -> bool:
    try:
        return bool(value) in (True, False)
    except Exception:
        return False


@pytest.mark.parametrize("odd", ODD)
def test_any_object_in_any_place(odd: str, files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(files)
    monkeypatch.setattr(Checks, "is_thorough", False)  # what is taken was converted before
    for function, arguments in calls(files):
        for parameter, default in arguments.items():
            value = ODD[odd]()
            is_asked_for = (parameter, odd) == ("repeat", "3: int") or (value is None and default is None)
            is_switched = function in LONG and isinstance(default, bool) and _tells_its_truth(value)
            if not is_asked_for and not is_switched:
                attempt(function, {**arguments, parameter: value})


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


@pytest.fixture(scope="module")
def offered(files: Path) -> list[Call]:
    return calls(files)


@given(value=nested, seed=st.integers(0, 2**32))
def test_nested_values_in_places_of_choice(value: Any, seed: int, offered: list[Call]) -> None:
    function, arguments = random.Random(seed).choice(offered)
    places = [
        name for name in arguments if name not in ("path", "xml", "model", "onnx_model", "ir", "weights", "repeat")
    ]
    if places:
        attempt(function, {**arguments, random.Random(seed).choice(places): value})


# --- one sentence that says what is wanted, never a raw TypeError or KeyError ---

X = np.ones((2, 41), np.float32)


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ir_runtime.Model:
    monkeypatch.chdir(tmp_path)
    onnx.save(parse("g (float[a,41] x, float[a,b] w) => (y) { y = Add (x, w) }"), "m.onnx")
    converter.save_model(converter.convert_model("m.onnx"), "m.xml")
    return ir_runtime.read_model("m.xml")


def verify(**arguments: Any) -> Callable[[ir_runtime.Model], Any]:
    return lambda model: converter.verify("m.onnx", "m.xml", **arguments)


def result(model: ir_runtime.Model) -> ir_runtime.InferenceResult:
    return ir_runtime.compile_model(model)({"x": X, "w": X})


ROWS: dict[str, tuple[Callable[[ir_runtime.Model], Any], str]] = {
    "inputs=array": (verify(inputs=X), r"inputs must map .* but is a ndarray: inputs=\{'x': array, 'w': array\}"),
    "inputs=3": (verify(inputs=3), "inputs must map .* but is a int"),
    "rtol": (verify(rtol="1e-3"), "rtol must be a number from 0 on, but is '1e-3'"),
    "atol": (verify(atol=-1), "atol must be a number from 0 on, but is -1"),
    "seed": (verify(seed="a"), "seed must be a whole number from 0 on, but is 'a'"),
    "report": (verify(report=5), "report must be a path, but is 5"),
    "minimise": (verify(minimise=b"part"), "minimise must be a path, but is b'part'"),
    "samples": (verify(samples=1.5), "samples must be a whole number from 0 on, but is 1.5"),
    "device": (lambda model: ir_runtime.compile_model(model, "CPU"), "on no device: .* without 'CPU'"),
    "output": (lambda model: result(model)["z"], r"there is no output 'z'; the outputs are \['y'\]"),
    "place": (lambda model: result(model)[1], "there is no output 1; there are 1 outputs"),
    "contradiction": (lambda model: model.reshape({"x": [2, 41], "w": [2, 40]}), r"\[2,41\] and \[2,40\] cannot"),
    "no such input": (lambda model: model.reshape({"q": [2]}), r"no input 'q'; its inputs are \['x', 'w'\]"),
    "missing": (lambda model: ir_runtime.compile_model(model)({"x": X}), r"no value was given for the inputs \['w'\]"),
    "saving": (lambda model: converter.save_model("m", "m.xml"), "save_model needs a model.*but got 'm'"),
    "opset": (lambda model: converter.export_model(model, opset="17"), "from 7 to .* but is '17'"),
    "fp16": (lambda model: converter.export_model(model, fp16="no"), "one of keep, model, unfold, but is 'no'"),
    "target": (lambda model: converter.convert_model("m.onnx", target="gpu"), "there is no target"),
}


@pytest.mark.parametrize("name", ROWS)
def test_one_sentence(name: str, model: ir_runtime.Model) -> None:
    call, message = ROWS[name]
    with pytest.raises((converter.ConversionError, ModelError), match=message) as raised:
        call(model)
    text = str(raised.value)
    assert "\n" not in text
    assert "TypeError" not in text
    assert "KeyError" not in text


def test_an_unknown_output_is_a_key_error_too(model: ir_runtime.Model) -> None:
    found = result(model)
    assert "z" not in found
    assert found.get("z") is None
    with pytest.raises(KeyError):
        found["z"]


def test_results_and_reports_show_what_they_hold(model: ir_runtime.Model) -> None:
    assert repr(result(model)) == "<InferenceResult 'y': float32[2, 41]>"
    report = converter.verify("m.onnx", "m.xml")
    text = report.to_text()
    assert str(report) == text
    assert "PASSED against onnxruntime" in text
    assert "\x1b" not in text
    assert any(line.startswith("y ") and line.endswith("equal") for line in text.splitlines()), text
    html = report._repr_html_()
    assert "PASSED" in html
    assert html.count("<tr>") == 2


def test_a_report_that_fails_in_a_notebook(model: ir_runtime.Model) -> None:
    for node in model.nodes():
        if node.op.type == "Add":
            node.op = ir_runtime.graph.operation.find_operation("Multiply", 1)()
    html = converter.verify("m.onnx", model)._repr_html_()
    assert "FAILED" in html
    assert "width:100px;height:9px;background:#cf222e" in html
