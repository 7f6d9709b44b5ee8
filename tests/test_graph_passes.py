"""Every change of a graph is a pass, and a pass that leaves an invalid model is named.

``tests/conftest.py`` refuses edits outside of passes in every test.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import converter
import ir_runtime
from converter.editing.edits import EDITS
from converter.folders.inputs import add_input, give_output_rank, take_input
from converter.passes.preprocessing.description import Preprocess
from ir_runtime import InternalError, Model
from ir_runtime.graph import element_types
from ir_runtime.graph.node import Edits
from ir_runtime.graph.operation import TensorType
from ir_runtime.graph.shapes import PartialShape
from ir_runtime.rewriting.checks import GRAPH_PASSES, graph_pass
from ir_runtime.rewriting.type_updates import infer_stale
from tests.converter.editing.models import W, classifier
from tests.converter.optimization.models import floats, parse


def image_model() -> onnx.ModelProto:
    return parse("g (float[1,3,8,8] x) => (float[1,64,6,6] y) { c = Conv(x, w) y = Relu(c) }", w=floats(64, 3, 3, 3))


def cache_model() -> onnx.ModelProto:
    return parse("""g (float[batch,2,tokens,4] new, float[batch,2,past,4] past) =>
        (float[batch,2,tokens,4] y, float[batch,2,total,4] present)
        { present = Concat<axis = 2>(past, new) y = Relu(new) }""")


def stateful_model() -> Model:
    return converter.convert_model(cache_model(), stateful={"past": "present"})


def inverse_model() -> onnx.ModelProto:
    return parse("g (float[2,3,3] x) => (y) { y = com.microsoft.Inverse(x) }", header=', "com.microsoft" : 1')


def saved(path: Path, **options: object) -> None:
    converter.save_model(ir(), path / "m.xml", **options)


def ir() -> Model:
    return converter.convert_model(image_model())


Call = Callable[[Path], object]
WORDS = {"metadata": "author=me", "replace_weight": {"head_weight": 2 * W.T}}
WORDS |= {  # of an edit the first recipe that has it alone, and is a text
    option.replace("-", "_"): words
    for option, words in reversed(
        re.findall(r'\| `onnx2ir edit model.onnx --(\S+) "?(\S+?)"? -o', Path("docs/editing.md").read_text())
    )
    if ".npy" not in words
}


def edited(name: str) -> Call:
    return lambda path: converter.edit(converter.convert_model(classifier()), **{name: WORDS[name]})


CALLS: dict[str, Call] = {
    **dict.fromkeys(("stateful", "compute_in_float32", "rows_without_keys"), lambda path: stateful_model()),
    "stateless": lambda path: converter.make_stateless(stateful_model()),
    "preprocessing": lambda path: converter.convert_model(image_model(), preprocess={"x": Preprocess(mean=[1, 2, 3])}),
    "float16_constants": lambda path: saved(path, compress_to_fp16=True),
    "weight_compression": lambda path: saved(path, compress="int8"),
    "unfold_float16": lambda path: converter.export_model(ir(), fp16="unfold"),
    "compute_in_float16": lambda path: converter.export_model(ir(), fp16="model"),
    "declared_shapes": lambda path: ir(),
    "declared_ranks": lambda path: converter.convert_model(
        # a Squeeze of a rank that the output declares
        parse("g (float[n,1,4] x) => (float[n,4] y) { c = Squeeze (x) y = Relu (c) }")
    ),
    "dimension_names": lambda path: converter.export_model(ir()),
    "reshape": lambda path: converter.convert_model(ir(), input={"x": [2, 3, 9, 9]}),
    "freeze_input": lambda path: converter.convert_model(ir(), freeze={"x": np.ones((1, 3, 8, 8), np.float32)}),
    "retype_input": lambda path: converter.convert_model(ir(), input="x{f16}"),
    "cut_outputs": lambda path: converter.convert_model(ir(), output="c"),
    "decomposition": lambda path: converter.convert_model(  # releases before opset 14 do not have Inverse
        inverse_model(), target="cpu@2023.3"
    ),
    **dict.fromkeys(
        ("folded_constants", "returned_constants", "unread_nodes", "onnx_names", "names_of_file"),
        lambda path: converter.optimize(image_model()),
    ),
    "declared_ends": lambda path: converter.optimize(image_model()),
    "bound_inputs": lambda path: converter.optimize(image_model(), input={"x": [2, 3, 8, 8]}),
    "float16_ends": lambda path: converter.optimize(image_model(), fp16=True, fp16_io=True),
    "constant_nodes": lambda path: converter.export_model(converter.convert_model(inverse_model())),
    **dict.fromkeys(
        ("captured_inputs", "captured_values"),
        lambda path: converter.optimize(  # branches of two ranks stay, each optimized by itself
            parse(
                """g (float[2,3] x, bool c) => (y) { y = If (c) <then_branch = t () => (float[2,3] a) { a = Neg (x) },
            else_branch = e () => (float[6] b) { s = Constant<value = int64[1] {-1}> () b = Reshape (x, s) }> }"""
            )
        ),
    ),
    "input_of_pipeline": lambda path: take_input(ir(), "x", element_types.u8, PartialShape([1, 3, 8, 8])),
    "unread_input_of_pipeline": lambda path: add_input(ir(), "z", element_types.u8, PartialShape([1])),
    "output_of_pipeline": lambda path: give_output_rank(ir(), "y", 5),
    **{name: edited(name) for name in EDITS if name in WORDS},
    "merge": lambda path: converter.edit(
        ir(), merge=converter.convert_model(parse("g (float[] x) => (z) { z = Relu(x) }")), connect={"y": "x"}
    ),
    "fold_shapes": lambda path: converter.convert_model(ir(), static=True),
}
"""For each pass with arguments of the conversion, of saving and of exporting a call that runs it."""
OF_COMPARISONS = {*("perturbed_weights", "ties", "rounded_layers", "in_float64", "without_preprocessing")}
"""Passes over copies that only a comparison sees."""
OF_SEVERAL_PARTS = {
    *("computed_once", "masks_of_new_tokens", "dimension_guards", "positions_of_patches", "states_of_images")
}
"""Passes that need a model of several parts; ``tests/converter/language_models`` and ``tests/converter/pipelines`` run them."""


def lie_about_a_type(model: Model) -> None:
    infer_stale(model)  # or inference after the pass would correct it
    node = next(node for node in reversed(model.nodes()) if node.outputs and node.inputs)
    node.outputs[0].type = TensorType(node.outputs[0].element_type, PartialShape([7, 7, 7, 7, 7]))


def give_a_name_twice(model: Model) -> None:
    for node in model.nodes():
        node.name = "same"


def miscount_uses(model: Model) -> None:
    node = next(node for node in model.nodes() if any(output.is_used for output in node.outputs))
    node.outputs[0]._uses = {}


BREAKS = [lie_about_a_type, give_a_name_twice, miscount_uses]

for _package in (converter.__path__, ir_runtime.__path__):
    for _module in pkgutil.walk_packages(_package, f"{Path(_package[0]).name}."):
        if not _module.name.endswith("__main__"):
            importlib.import_module(_module.name)


def test_every_pass_is_listed_here() -> None:
    listed = CALLS.keys() | OF_COMPARISONS | OF_SEVERAL_PARTS
    assert not GRAPH_PASSES.keys() - listed, "add to CALLS, for each of these passes, a call that runs it"
    assert not listed - GRAPH_PASSES.keys(), "take these names off the lists: no pass has them"


@pytest.mark.parametrize(
    ("broken", "name"),
    # The graph of an ONNX file has no types yet that could be wrong.
    [(broken, name) for broken in BREAKS for name in CALLS if (broken, name) != (lie_about_a_type, "bound_inputs")],
)
def test_a_pass_that_breaks_the_model_is_named(
    name: str, broken: Callable[[Model], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = CALLS[name]
    call(tmp_path)  # without the break it works
    (tmp_path / "m.xml").unlink(missing_ok=True)
    original = GRAPH_PASSES[name]

    def run(model: Model, *arguments: object, **named: object) -> object:
        result = original.function(model, *arguments, **named)
        broken(model)
        return result

    monkeypatch.setitem(GRAPH_PASSES, name, replace(original, function=run))
    with pytest.raises(InternalError, match=f"the pass '{name}'"):
        call(tmp_path)
    assert not (tmp_path / "m.xml").exists()


def lost_output(function: Any, model: Model, *arguments: Any, **named: Any) -> Any:
    result = function(model, *arguments, **named)
    model.results = model.results[:-1]
    return result


def failing(*arguments: Any, **named: Any) -> Any:
    raise KeyError("beam")


LOSES = r"left .*there were 1 outputs, but are 0"
FAULTS = [
    *((name, lost_output, LOSES) for name in ("preprocessing", "float16_constants", "compute_in_float16",
        "weight_compression")),
    ("stateless", lambda function, model: 1, r"left .*no Assign or ReadValue is left"),
    ("stateful", failing, "failed by a fault of this package"),
]  # fmt: skip
"""What a stage may not do: change the outputs, leave a layer that it removes, raise an exception."""


@pytest.mark.parametrize(("name", "fault", "message"), FAULTS)
def test_a_stage_that_does_not_do_its_work(
    name: str, fault: Any, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = GRAPH_PASSES[name]
    monkeypatch.setitem(GRAPH_PASSES, name, replace(original, function=functools.partial(fault, original.function)))
    with pytest.raises(InternalError, match=f"the pass '{name}' {message}"):
        CALLS[name](tmp_path)


def test_a_pass_cannot_be_registered_twice() -> None:
    with pytest.raises(InternalError, match="a pass called 'stateful' is registered twice"):
        graph_pass("stateful", GRAPH_PASSES["stateful"].stage)(lambda model: None)


def test_an_edit_outside_of_a_pass_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the guard that tests set: here a module of the converter edits a model that it was handed."""
    model = converter.convert_model(image_model())
    assert Edits.guard is not None
    space: dict[str, Callable[[Model], None]] = {"__name__": "converter.passes.compression.planted"}  # type: ignore[dict-item]
    exec("def edit(model):\n    model.results = []", space)
    with pytest.raises(
        AssertionError, match=r"converter\.passes\.compression\.planted changes a graph outside of a pass: edit"
    ):
        space["edit"](model)
    assert model.results
