"""Choose the dimensions of inputs that are dynamic while a graph is translated.

A file that declares ``[1, 3, 224, 224]`` tells the shape of today's input; the model may take others. So the graph is
translated with dynamic dimensions: what follows from a dimension is computed by layers and is no constant. Then the
inputs are given the declared shapes, as they can be given other ones later.

Some graphs have no translation in which all dimensions are dynamic: an If whose branches differ in rank, a loop over
the elements of a sequence. :func:`translate_dynamic` finds out which dimensions have to be static:

1. All are dynamic. Most models need no more than this one translation.
2. All are static. What fails now is an error of the model.
3. One group of dimensions after another becomes dynamic, up to ``_MAX_TRIALS`` of them: first the first dimension of
   all inputs (the batch), then the dimensions of one rank, axis and length. A group stays dynamic if the graph can be
   translated so; the next group is tried together with it.

Behind an input with dimensions that have to be static stands a layer that refuses any other length, so that a later
reshape fails instead of giving wrong results.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TypeVar

import numpy as np

from converter.errors import Problem, error_of
from converter.stages import inform, stage, warn
from ir_runtime.errors import ContradictionError, InferenceError, InternalError, ModelError
from ir_runtime.graph import DYNAMIC, Dimension, Model, Node, Output, PartialShape, Tensor, TensorType, make_node
from ir_runtime.graph.invariants import OPTIONS, PASSES
from ir_runtime.graph.reshaping import infer_again
from ir_runtime.operations.inputs_outputs import Const1
from ir_runtime.operations.movement import Squeeze1
from ir_runtime.operations.slicing import VariadicSplit1
from ir_runtime.records import record
from ir_runtime.rewriting import UniqueNames, graph_pass

from .declared_types import DeclaredTypes

InputDimension = tuple[str, int]
"""The name of an input and one of its axes."""
IsDynamic = Callable[[str, int], bool]
"""True if an axis of an input has a dynamic dimension while the graph is translated."""

_MAX_TRIALS = 12
"""Maximum number of groups of dimensions to try; those after them have to be static."""
_AT_LEAST_ONE = Dimension(1)


@record
class Translation:
    """A translated graph, what the file declares of it, and what stands in the way of using it."""

    model: Model
    input_shapes: dict[str, PartialShape]
    """The shape that each input is given in the end: the file's, or that of an option."""
    declared_shapes: Sequence[tuple[str, PartialShape, Output]]
    """Names and shapes that the file declares for other values, with these."""
    problems: Sequence[Problem]
    keeps_dimensions: bool
    """True if some layers are right for the declared dimensions alone."""
    declared_types: DeclaredTypes
    """Types under the declared shapes, as far as translators have asked for them."""

    def static_dimensions(self) -> list[InputDimension]:
        """The dimensions of inputs that are declared with a length."""
        return [
            (name, axis)
            for name, shape in self.input_shapes.items()
            if shape.has_rank
            for axis, dimension in enumerate(shape)
            if dimension.is_static
        ]


def shape_while_translating(name: str, declared: PartialShape, is_dynamic: IsDynamic) -> PartialShape:
    """The shape of an input with dynamic dimensions in place of the declared ones where ``is_dynamic`` is true.

    A dimension that is declared as 1 or more is taken to be 1 or more.
    """
    if not declared.has_rank:
        return declared
    return PartialShape(
        [
            (_AT_LEAST_ONE if dimension.low else DYNAMIC) if is_dynamic(name, axis) else dimension
            for axis, dimension in enumerate(declared)
        ]
    )


Translate = Callable[[IsDynamic], Translation]
T = TypeVar("T")
Finish = Callable[[Model, Mapping[str, PartialShape]], T]


def translate_dynamic(translate: Translate, finish: Finish[T], *, static: bool = False) -> tuple[Model, T]:
    """The model with as many dynamic dimensions as can be, then given the declared shapes.

    ``finish`` changes the translated graph (passes, rules of a target) before it is given the shapes, which it gets by
    the names of the inputs; what it returns for that graph is returned as well. It may be called for graphs that are
    not used in the end. With ``static`` all dimensions are static from the start, and constants may be computed from
    them.

    Raises :class:`converter.errors.ConversionError` that lists every root cause.
    """
    if static:
        return _complete(translate(_none_dynamic), finish, ())
    first = translate(_all_dynamic)
    result = _completed_or_none(first, finish, ())
    if result is not None:
        return result
    dimensions = first.static_dimensions()
    if not dimensions and first.problems:
        raise error_of(first.problems)
    without = translate(_none_dynamic)
    if without.problems:
        raise error_of(without.problems)
    dynamic: frozenset[InputDimension] = frozenset()
    # Layers that need the declared dimensions when all are static need them always.
    groups = [] if without.keeps_dimensions else _groups(without, dimensions)
    for group in groups[:_MAX_TRIALS]:
        tried = dynamic | group
        is_dynamic = _among(tried)
        if _input_shapes(without, is_dynamic) == _input_shapes(without, _all_dynamic):
            break  # as in the first translation
        completed = _completed_or_none(translate(is_dynamic), finish, _others(dimensions, tried))
        if completed is not None:
            dynamic, result = tried, completed
    fixed = _others(dimensions, dynamic)
    inform("dimensions that stay as declared: %s", ", ".join(f"{name}[{axis}]" for name, axis in fixed))
    return _complete(without, finish, fixed) if result is None else result


def _all_dynamic(name: str, axis: int) -> bool:
    return True


def _none_dynamic(name: str, axis: int) -> bool:
    return False


def _among(dynamic: Collection[InputDimension]) -> IsDynamic:
    return lambda name, axis: (name, axis) in dynamic


def _input_shapes(translation: Translation, is_dynamic: IsDynamic) -> list[PartialShape]:
    return [shape_while_translating(name, shape, is_dynamic) for name, shape in translation.input_shapes.items()]


def _others(dimensions: Sequence[InputDimension], dynamic: Collection[InputDimension]) -> list[InputDimension]:
    return [dimension for dimension in dimensions if dimension not in dynamic]


def _groups(translation: Translation, dimensions: Sequence[InputDimension]) -> list[set[InputDimension]]:
    """The dimensions in groups that are tried together, in the order in which they are tried."""
    groups: dict[tuple[int, int, int], set[InputDimension]] = defaultdict(set)
    for name, axis in dimensions:
        shape = translation.input_shapes[name]
        key = (0, 0, 0) if axis == 0 and shape.rank > 1 else (shape.rank, axis, shape[axis].value)
        groups[key].add((name, axis))
    return [groups[key] for key in sorted(groups)]


def _completed_or_none(
    translation: Translation, finish: Finish[T], fixed: Sequence[InputDimension]
) -> tuple[Model, T] | None:
    """As :func:`_complete`; None where these dimensions cannot be dynamic."""
    if translation.problems or translation.keeps_dimensions:
        return None
    model = _guarded(translation, fixed)
    finished = finish(model, translation.input_shapes)
    try:
        with stage("shapes"):
            _give_shapes(model, translation)
    except InternalError:
        raise
    except ModelError as error:
        inform("these dimensions cannot be dynamic: %s", error)
        return None
    _compare_declarations(translation)
    return model, finished


def _complete(translation: Translation, finish: Finish[T], fixed: Sequence[InputDimension]) -> tuple[Model, T]:
    """The finished model with its declared shapes; the dimensions ``fixed`` refuse other lengths."""
    if translation.problems:
        raise error_of(translation.problems)
    model = _guarded(translation, fixed)
    finished = finish(model, translation.input_shapes)
    with stage("shapes"):
        _give_shapes(model, translation)
    _compare_declarations(translation)
    return model, finished


def _compare_declarations(translation: Translation) -> None:
    """Warn of declared shapes that are not those of the values.

    One warning stands for all of them: a batch that is not the file's contradicts every shape.
    """
    wrong = {
        name: (shape, output.shape)
        for name, shape, output in translation.declared_shapes
        if shape.merge(output.shape) is None
    }
    if not wrong:
        return
    name, (declared, actual) = next(iter(wrong.items()))
    others = f"; {len(wrong) - 1} more tensors have other shapes than declared" if len(wrong) > 1 else ""
    warn("the model declares '%s' as %s, but its shape is %s%s", name, declared, actual, others)


@graph_pass("declared_shapes", OPTIONS)
def _give_shapes(model: Model, translation: Translation) -> None:
    """Give the model's inputs their declared shapes; raises :class:`ModelError` where that contradicts the graph."""
    types = translation.declared_types.of_parameters()
    types_of_parameters: dict[Node, TensorType] = {}
    for node in model.parameters:
        output = node.outputs[0]
        name = next((name for name in output.names if name in translation.input_shapes), None)
        if name is not None:
            declared = types.get(node)
            if declared is None or declared.element_type is not output.element_type:  # which states change
                declared = TensorType(output.element_type, translation.input_shapes[name])
            types_of_parameters[node] = declared
    try:
        infer_again(model.nodes(), types_of_parameters, translation.declared_types.inferred)
    except InferenceError as error:
        raise ContradictionError(str(error)) from error


def _guarded(translation: Translation, fixed: Sequence[InputDimension]) -> Model:
    """The model, whose dimensions ``fixed`` refuse other lengths."""
    squeezes = translation.model.parts()[0].nodes_of((Squeeze1,))
    if any(len(node.inputs) == 1 for node in squeezes):
        from .declared_ranks import take_declared_ranks  # most models squeeze the dimensions that they name

        take_declared_ranks(translation.model, translation.declared_types.of_parameters(), translation.declared_shapes)
    if fixed:
        _guard_dimensions(translation.model, translation, fixed)
    return translation.model


@graph_pass("dimension_guards", PASSES)
def _guard_dimensions(model: Model, translation: Translation, kept: Sequence[InputDimension]) -> None:
    """Add a layer behind parameters for each dimension that may have the declared length only.

    The layer is a VariadicSplit into one part of that length: the lengths of the parts must add up to the dimension.
    """
    unique = UniqueNames(model)
    for node in model.parameters:
        first = value = node.outputs[0]
        shape = translation.input_shapes[first.names[0]]
        for axis in [axis for name, axis in kept if name == first.names[0]]:
            name = unique(f"{node.name}/dimension_{axis}")
            numbers = {"axis": np.array(axis), "length": np.array([shape[axis].value])}
            constants = [
                make_node(Const1(value=Tensor.from_array(value)), (), unique(f"{name}/{role}")).outputs[0]
                for role, value in numbers.items()
            ]
            guard = make_node(VariadicSplit1(), [value, *constants], name)
            value.replace_by(guard.outputs[0], move_names=False)
            value = guard.outputs[0]
