"""Pipelines: which passes run for which models and releases, what is imported for them, and what they did."""

from __future__ import annotations

import importlib
import itertools
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import converter
from ir_runtime import InternalError, Model, ModelError, Node, PartialShape
from ir_runtime.operations.activation import ReLU1
from ir_runtime.operations.elementwise import Abs1, Negative1
from ir_runtime.operations.sorting import TopK11
from ir_runtime.rewriting import Builder, PassTrace, Replacement, fail, layers
from ir_runtime.rewriting.contracts import EXACT
from ir_runtime.rewriting.pipeline import Entry, Pipeline, release_of
from ir_runtime.rewriting.replace_layers import Replace
from ir_runtime.rewriting.trace import Trace
from tests.ir_runtime.rewriting.models import chain, entry, model_of, parameter


def recording(*entries: Entry, **releases: dict[str, str]) -> tuple[Pipeline, list[str]]:
    """A pipeline whose passes change nothing, and the names of those that ran."""
    pipeline, ran = Pipeline(None, entries), list[str]()
    for one in entries:

        def run(model: Model, trace: PassTrace, name: str = one.name) -> int:
            ran.append(name)
            return 0

        pipeline.register(one.name, **releases.get(one.name, {}))(run)  # type: ignore[arg-type]
    return pipeline, ran


def test_passes_run_in_the_order_of_the_list_for_the_types_that_a_model_has() -> None:
    pipeline, ran = recording(
        entry("relu", "ReLU1"), entry("any"), entry("abs", "TopK11", "Abs1", after=["any"]), entry("binary", "Binary")
    )
    pipeline.run(chain()[0])
    assert ran == ["relu", "any", "abs"]


def test_what_a_pass_makes_is_seen_by_those_after_it() -> None:
    """Abs is found in what the pass before makes of Negative, although the model had none."""
    x = parameter("x", "2,3")
    model = model_of([x], Builder().emit(Negative1(), x.outputs[0]))
    pipeline = Pipeline(None, [entry("first", "Negative1"), entry("second", "Abs1", after=["first"])])

    @pipeline.replaces("first")
    def first(builder: Builder, node: Node) -> Replacement:
        return builder.emit(Abs1(), *node.inputs)

    @pipeline.replaces("second")
    def second(builder: Builder, node: Node) -> Replacement:
        return builder.emit(ReLU1(), *node.inputs)

    assert pipeline.run(model) == {"first": 1, "second": 1}
    assert [node.op.type for node in model.nodes()] == ["Parameter", "ReLU", "Result"]


@pytest.mark.parametrize(
    ("release", "expected"),
    [
        (None, ["always", "since"]), ("2023.3", ["always", "until"]), ("2024.5", ["always", "until"]),
        ("2024.6", ["always"]), ("2025.0", ["always", "since"]), ("2026.4", ["always", "since"]),
    ],
)  # fmt: skip
def test_a_release_runs_the_rules_that_it_needs(release: str | None, expected: list[str]) -> None:
    pipeline, ran = recording(
        entry("always"), entry("since"), entry("until"), since={"since": "2025.0"}, until={"until": "2024.5"}
    )
    pipeline.run(Model(), release=None if release is None else release_of(release))
    assert ran == expected


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, ["storage", "cleanup", "fusion", "target", "both", "rounding"]),
        ({"fuse": False}, ["storage", "target", "rounding"]),
        ({"exact": True}, ["storage", "cleanup", "fusion", "target"]),
        ({"fuse": False, "exact": True}, ["storage", "target"]),
        ({"skip": ["both", "cleanup"]}, ["storage", "fusion", "target", "rounding"]),
    ],
)
def test_groups_and_passes_are_left_out_on_request(options: dict[str, Any], expected: list[str]) -> None:
    groups = {name: [name] for name in ("storage", "cleanup", "fusion", "target")}
    groups |= {"both": ["fusion", "rounding"], "rounding": ["target", "rounding"]}
    pipeline, ran = recording(*(entry(name, groups=names) for name, names in groups.items()))
    pipeline.run(Model(), **options)
    assert ran == expected


def test_a_release_has_a_year_and_a_number() -> None:
    assert release_of("2024.6") == (2024, 6)
    assert release_of("2024.6.1") == (2024, 6)
    for text in ("2024", "new", "2024.x"):
        with pytest.raises(ModelError, match="a release is written as"):
            release_of(text)


def test_the_trace_gives_every_reason() -> None:
    pipeline, trace = Pipeline(None, [entry("smaller", "Abs1", "ReLU1", "Negative1")]), Trace()

    @pipeline.replaces("smaller")
    def smaller(builder: Builder, node: Node) -> Replacement:
        if isinstance(node.op, Negative1):
            return builder.emit(Abs1(), *node.inputs)
        return fail("it is small")

    pipeline.run(chain()[0], trace=trace)
    assert trace.lines() == ["smaller: 1 of 3 layers replaced", "  not 'Abs' and 1 more: it is small"]


PACKAGE = """
from {package} import pipeline

@pipeline.replaces("{name}")
def {name}(builder, node):
    return builder.emit(type(node.op)(), *node.inputs)
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Pipeline]]:
    """Writes a package with a module for each pass, and imports its pipeline."""
    monkeypatch.syspath_prepend(str(tmp_path))
    count = itertools.count()

    def write(entries: Sequence[Entry], *modules: str) -> Pipeline:
        name = f"{tmp_path.name}_{next(count)}"
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("pipeline = None")
        package: Any = importlib.import_module(name)
        package.pipeline = Pipeline(name, entries)
        for module in modules:
            (tmp_path / name / f"{module}.py").write_text(PACKAGE.format(package=name, name=module))
        return package.pipeline  # type: ignore[no-any-return]

    yield write
    for name in [name for name in sys.modules if name.startswith(tmp_path.name)]:
        del sys.modules[name]


def test_only_modules_whose_pass_can_match_are_imported(package: Callable[..., Pipeline]) -> None:
    pipeline = package([entry("absolute", "Abs1"), entry("softmax", "SoftMax8")], "absolute", "softmax")
    assert pipeline.run(chain()[0]) == {"absolute": 1}
    assert list(pipeline.registered) == ["absolute"]
    assert [one.name for one in pipeline.all()] == ["absolute", "softmax"]


OTHER = Entry("other", ["Abs1"], ["cleanup"], module="absolute", reason="none", contract=EXACT)


@pytest.mark.parametrize(
    ("entries", "modules", "message"),
    [
        ([entry("absolute", "Abs1")], ("absolute", "softmax"), "the pass 'softmax' is registered, but not listed in"),
        (
            [entry("absolute", "Absolute1")],
            ("absolute",),
            "the pass 'absolute' looks for 'Absolute1', but no operation",
        ),
        ([OTHER], (), "the order lists the pass 'other'"),
        ([OTHER], ("absolute",), "the pass 'absolute' is registered, but not listed in"),
    ],
)
def test_passes_that_are_not_those_of_the_order(
    entries: list[Entry], modules: tuple[str, ...], message: str, package: Callable[..., Pipeline]
) -> None:
    pipeline = package(entries, *modules)
    with pytest.raises(InternalError, match=message):
        pipeline.all()


def test_a_pass_that_does_not_exist_is_a_fault_of_ours() -> None:
    pipeline = Pipeline(None, [entry("other", "Abs1")])
    with pytest.raises(InternalError, match=r"the order lists the pass 'other', but .* registers none of this name"):
        pipeline.run(chain()[0])


@pytest.mark.parametrize(
    ("order", "message"),
    [
        ([entry("a", after=["b"]), entry("b")], "the pass 'a' must run after 'b', which is not listed before it"),
        ([entry("a"), entry("b", after=["frist"])], "the pass 'b' must run after 'frist', which is not listed before"),
        ([entry("a"), entry("b"), entry("a")], "the pass 'a' is listed twice"),
        ([entry("a"), entry("b", after="a")], "'after' of the pass 'b' must be a list, but is one string"),
        (
            [Entry("a", "Abs1", ["cleanup"], reason="none", contract=EXACT)],
            "'operations' of the pass 'a' must be a list",
        ),
        ([entry("a", groups="fusion")], "'groups' of the pass 'a' must be a list"),
        ([entry("a", groups=["fusions"])], "the pass 'a' must be of the groups"),
        ([entry("a", groups=[])], "the pass 'a' must be of the groups"),
        ([Entry("a", None, ["cleanup"], reason="", contract=EXACT)], "the pass 'a' has no reason for its place"),
        (
            [Entry("a", None, ["cleanup"], reason="none", contract="exact")],  # type: ignore[arg-type]
            "the contract of the pass 'a' must be a Contract, not 'exact'",
        ),
    ],
)
def test_an_order_that_is_wrong_is_a_fault_of_ours(order: list[Entry], message: str) -> None:
    with pytest.raises(InternalError, match=message):
        Pipeline(None, order)


def test_a_table_of_operations_must_be_that_of_the_order() -> None:
    pipeline = Pipeline(None, [entry("smaller", "Abs1", "ReLU1")])
    pipeline.replaces("smaller", ReLU1, Abs1)
    with pytest.raises(InternalError, match="the pass 'smaller' replaces other operations than its entry"):
        pipeline.replaces("smaller", Abs1)


def test_what_a_pass_does_wrong_is_a_fault_that_names_it() -> None:
    def in_a_circle(model: Model, trace: PassTrace) -> int:
        first, last = [node for node in model.nodes() if node.op.type in ("Abs", "Negative")]
        first.inputs = [last.outputs[0]]
        return 1

    def raising(error: Exception) -> Callable[[Model, PassTrace], int]:
        def run(model: Model, trace: PassTrace) -> int:
            raise error

        return run

    for run, message in (
        (
            lambda model, trace: PartialShape.dynamic().rank,
            "the pass 'wrong' failed.*the number of dimensions must be known",
        ),
        (in_a_circle, "the pass 'wrong' failed.*is part of a cycle"),
        (
            raising(ValueError("no such axis")),
            r"the pass 'wrong' failed by a fault .*\(ValueError: no such axis\): please report",
        ),
        (raising(InternalError("the kernel failed")), "the pass 'wrong' failed.*the kernel failed"),
    ):
        pipeline = Pipeline(None, [entry("wrong")])
        pipeline.register("wrong")(run)
        with pytest.raises(InternalError, match=message):
            pipeline.run(chain()[0])


def test_verbose_conversions_tell_why_a_rule_did_not_apply(caplog: pytest.LogCaptureFixture) -> None:
    import numpy as np

    from tests.engines import node_model

    model = node_model("HardSigmoid", {"x": np.zeros(3, np.float32)}, opset=17)
    with caplog.at_level("INFO", "converter"):
        converter.convert_model(model, verbose=True)
    assert "hard_sigmoid_of_nan: 1 of 1 layers replaced" in caplog.text


def test_the_releases_of_a_rule_are_a_list() -> None:
    with pytest.raises(InternalError, match="'seen_in' of the pass 'first' must be a list, but is one string"):
        Pipeline(None, [entry("first")]).register("first", seen_in="2024.6")


@pytest.mark.parametrize(
    ("replace", "found"),
    [
        (lambda b, node: b.emit_all(node.op, *node.inputs)[::-1], r"i32\[2,1\]"),
        (lambda b, node: [layers.unsqueeze(b, v, 0) for v in b.emit_all(node.op, *node.inputs)], r"f32\[1,2,1\]"),
        (lambda b, node: b.emit_all(node.op, node.inputs[0], b.constant(2)), r"f32\[2,2\]"),
    ],
)
def test_a_replacement_of_another_type_is_refused(replace: Replace, found: str) -> None:
    """The values of TopK for its indices, one more dimension, or more elements."""
    x = parameter("x", "2,3")
    top = Builder().emit_all(
        TopK11(axis=-1, mode="max", sort="value", index_element_type="i32"), x.outputs[0], Builder().constant(1)
    )
    model = model_of([x], top[0], top[1])
    pipeline = Pipeline(None, [entry("replace", "TopK11")])
    pipeline.replaces("replace")(replace)
    with pytest.raises(
        InternalError, match=rf"the pass 'replace' .*output 0 of .* is f32\[2,1\], but is replaced by {found}"
    ):
        pipeline.run(model)


@pytest.mark.parametrize("value", [6.0, 0.5, [1, 2.5], np.float32(3)])
def test_a_real_constant_needs_an_element_type(value: object) -> None:
    with pytest.raises(TypeError, match="needs an element type, which is i64 by default"):
        Builder().constant(value)
    assert Builder().constant(value, "f32").element_type.is_real
    assert Builder().constant([]).shape.static() == (0,)
