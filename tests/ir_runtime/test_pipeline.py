"""Pipelines: which passes run for which models and releases, what is imported for them, and what they did."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest

import converter
from converter.passes.registry import passes
from converter.targets.registry import RULES
from ir_runtime import InternalError, Model, ModelError, PartialShape
from ir_runtime.graph.model import Node
from ir_runtime.operations.activation import ReLU1
from ir_runtime.operations.elementwise import Abs1, Binary, Negative1
from ir_runtime.operations.sorting import TopK11
from ir_runtime.rewriting.builder import Builder
from ir_runtime.rewriting.matching import fail
from ir_runtime.rewriting.pipeline import Pipeline, release_of
from ir_runtime.rewriting.replace_layers import Replacement
from ir_runtime.rewriting.trace import PassTrace, Trace
from ir_runtime.rewriting.uses import Uses
from tests.ir_runtime.test_rewrite import model_of, parameter
from tests.ir_runtime.test_uses import chain


def recorded(pipeline: Pipeline, ran: list[str], name: str, **registered: object) -> None:
    def run(model: Model, trace: PassTrace) -> int:
        ran.append(name)
        return 0

    pipeline.register(name, **registered)(run)  # type: ignore[arg-type]


def test_passes_run_for_the_types_that_a_model_has() -> None:
    pipeline, ran = Pipeline(None), []  # type: ignore[var-annotated]
    recorded(pipeline, ran, "abs", operations=(Abs1,))
    recorded(pipeline, ran, "any")
    recorded(pipeline, ran, "binary", operations=(Binary,))
    pipeline.run(chain()[0])
    assert ran == ["abs", "any"]


def test_what_a_pass_makes_is_seen_by_those_after_it() -> None:
    """Abs is found in what the pass before makes of Negative, although the model had none."""
    x = parameter("x", "2,3")
    model = model_of([x], Builder().emit(Negative1(), x.outputs[0]))
    pipeline = Pipeline(None)

    @pipeline.replaces("first", Negative1)
    def first(builder: Builder, node: Node, uses: Uses) -> Replacement:
        return builder.emit(Abs1(), *node.inputs)

    @pipeline.replaces("second", Abs1, after=["first"])
    def second(builder: Builder, node: Node, uses: Uses) -> Replacement:
        return builder.emit(ReLU1(), *node.inputs)

    assert pipeline.run(model) == {"first": 1, "second": 1}
    assert [node.op.type for node in model.nodes()] == ["Parameter", "ReLU", "Result"]


@pytest.mark.parametrize(
    ("release", "expected"),
    [
        (None, ["always", "since"]),
        ("2023.3", ["always", "until"]),
        ("2024.5", ["always", "until"]),
        ("2024.6", ["always"]),
        ("2025.0", ["always", "since"]),
        ("2026.4", ["always", "since"]),
    ],
)
def test_a_release_runs_the_rules_that_it_needs(release: str | None, expected: list[str]) -> None:
    pipeline, ran = Pipeline(None), []  # type: ignore[var-annotated]
    recorded(pipeline, ran, "always")
    recorded(pipeline, ran, "since", since="2025.0")
    recorded(pipeline, ran, "until", until="2024.5")
    pipeline.run(Model(), release=None if release is None else release_of(release))
    assert ran == expected


def test_passes_that_fuse_are_left_out_on_request() -> None:
    for fuse, expected in ((True, ["fusing", "plain"]), (False, ["plain"])):
        pipeline, ran = Pipeline(None), []  # type: ignore[var-annotated]
        recorded(pipeline, ran, "plain")
        recorded(pipeline, ran, "fusing", fuses=True)
        pipeline.run(Model(), fuse=fuse)
        assert ran == expected


def test_a_release_has_a_year_and_a_number() -> None:
    assert release_of("2024.6") == (2024, 6)
    assert release_of("2024.6.1") == (2024, 6)
    for text in ("2024", "new", "2024.x"):
        with pytest.raises(ModelError, match="a release is written as"):
            release_of(text)


def test_the_trace_gives_every_reason() -> None:
    pipeline, trace = Pipeline(None), Trace()

    @pipeline.replaces("smaller", Abs1, ReLU1, Negative1)
    def smaller(builder: Builder, node: Node, uses: Uses) -> Replacement:
        if isinstance(node.op, Negative1):
            return builder.emit(Abs1(), *node.inputs)
        return fail("it is small")

    pipeline.run(chain()[0], trace=trace)
    assert trace.lines() == ["smaller: 1 of 3 layers replaced", "  not 'Abs' and 1 more: it is small"]


@pytest.mark.parametrize("pipeline", [passes, *RULES], ids=lambda one: one.index_path.parent.name)
def test_the_index_is_fresh(pipeline: Pipeline) -> None:
    assert pipeline.index_path.read_text() == pipeline.index(), "run docs/generate.py --page-only"


PACKAGE = """
from ir_runtime.operations.{family} import {operation}
from {package} import pipeline

@pipeline.replaces("{name}", {operation})
def {name}(builder, node, uses):
    return builder.emit({operation}(), *node.inputs)
"""


def made_package(folder: Path, name: str, modules: dict[str, tuple[str, str]]) -> Pipeline:
    """A package of passes: for each module the family and the operation that its pass looks for."""
    package = folder / name
    package.mkdir()
    (package / "__init__.py").write_text(
        f'from ir_runtime.rewriting.pipeline import Pipeline\npipeline = Pipeline("{name}")\n'
    )
    for module, (family, operation) in modules.items():
        text = PACKAGE.format(package=name, name=module, family=family, operation=operation)
        (package / f"{module}.py").write_text(text)
    found = importlib.import_module(name).pipeline
    assert isinstance(found, Pipeline)
    return found


def test_only_modules_whose_pass_can_match_are_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    modules = {"absolute": ("elementwise", "Abs1"), "softmax": ("activation", "SoftMax8")}
    index = made_package(tmp_path, "indexed_first", modules).index()
    again = made_package(tmp_path, "indexed_again", modules)
    again.index_path.write_text(index)
    assert again.run(chain()[0]) == {"absolute": 1}
    assert "indexed_again.absolute" in sys.modules
    assert "indexed_again.softmax" not in sys.modules
    # A module that is newer than the index is found all the same; one that is gone is left out.
    newer = made_package(tmp_path, "indexed_newer", {"relu": ("activation", "ReLU1")})
    newer.index_path.write_text(index)
    assert newer.run(chain()[0]) == {"relu": 1}


def test_an_index_that_is_wrong_is_a_fault_of_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    pipeline = made_package(tmp_path, "indexed_wrongly", {"absolute": ("elementwise", "Abs1")})
    pipeline.index_path.write_text(pipeline.index().replace('"absolute": {\n   "types"', '"other": {\n   "types"'))
    with pytest.raises(InternalError, match="has no pass 'other'"):
        pipeline.run(chain()[0])


def test_what_a_pass_does_wrong_is_a_fault_that_names_it() -> None:
    def in_a_circle(model: Model, trace: PassTrace) -> int:
        first, last = [node for node in model.nodes() if node.op.type in ("Abs", "Negative")]
        first.inputs = [last.outputs[0]]
        return 1

    def failing(model: Model, trace: PassTrace) -> int:
        raise ValueError("no such axis")

    def of_another_fault(model: Model, trace: PassTrace) -> int:
        raise InternalError("the kernel failed")

    def of_unknown_rank(model: Model, trace: PassTrace) -> int:
        return PartialShape.dynamic().rank

    for run, message in (
        (of_unknown_rank, "the pass 'wrong' failed.*the number of dimensions must be known"),
        (in_a_circle, "the pass 'wrong' failed.*is part of a cycle"),
        (failing, "the pass 'wrong' failed, which is a fault of this package: ValueError: no such axis"),
        (of_another_fault, "the pass 'wrong' failed.*the kernel failed"),
    ):
        pipeline = Pipeline(None)
        pipeline.register("wrong")(run)
        with pytest.raises(InternalError, match=message):
            pipeline.run(chain()[0])


def test_every_rule_has_its_releases_and_its_reason() -> None:
    for pipeline in RULES:
        for one in pipeline.all():
            assert one.entry.seen_in, one.name
            assert one.operations, one.name
            assert one.run.__doc__, one.name
            for release in (*one.entry.seen_in, one.entry.since, one.entry.until):
                if release is not None:
                    release_of(release)


def test_verbose_conversions_tell_why_a_rule_did_not_apply(caplog: pytest.LogCaptureFixture) -> None:
    import numpy as np

    from tests.engines import node_model

    model = node_model("HardSigmoid", {"x": np.zeros(3, np.float32)}, opset=17)
    with caplog.at_level("INFO", "converter"):
        converter.convert_model(model, verbose=True)
    assert "hard_sigmoid_of_nan: 1 of 1 layers replaced" in caplog.text


def test_a_pass_comes_after_one_that_there_is() -> None:
    pipeline = Pipeline(None)
    recorded(pipeline, [], "second", after=["frist"])
    with pytest.raises(InternalError, match="the pass 'second' is to run after 'frist', but no pass has this name"):
        pipeline.run(chain()[0])


@pytest.mark.parametrize("option", ["after", "seen_in"])
def test_names_are_a_list(option: str) -> None:
    with pytest.raises(InternalError, match=f"'{option}' of the pass 'second' must be a list, but is one string"):
        recorded(Pipeline(None), [], "second", **{option: "first"})


def test_a_replacement_of_another_element_type_is_refused() -> None:
    """Swapped outputs of TopK: values for indices."""
    x = parameter("x", "2,3")
    top = Builder().emit_all(
        TopK11(axis=-1, mode="max", sort="value", index_element_type="i32"), x.outputs[0], Builder().constant(1)
    )
    model = model_of([x], top[0], top[1])
    pipeline = Pipeline(None)

    @pipeline.replaces("swap", TopK11)
    def swap(builder: Builder, node: Node, uses: Uses) -> Replacement:
        return builder.emit_all(node.op, *node.inputs)[::-1]

    with pytest.raises(InternalError, match=r"the pass 'swap' .*output 0 of .* has f32, but is replaced by i32"):
        pipeline.run(model)


@pytest.mark.parametrize("value", [6.0, 0.5, [1, 2.5], np.float32(3)])
def test_a_real_constant_needs_an_element_type(value: object) -> None:
    with pytest.raises(TypeError, match="needs an element type, which is i64 by default"):
        Builder().constant(value)
    assert Builder().constant(value, "f32").element_type.is_real
    assert Builder().constant([]).shape.static() == (0,)
