"""Which extents of the inputs are facts of the model, and which are facts of the file.

A file that states ``[1, 3, 224, 224]`` says what today's input is. The graph is translated with these
extents open, so that nothing that follows from them is written down as a constant; only then the model
is given the stated shapes. What that leads to is right for other shapes as well.

Some graphs cannot be said with open extents: an If whose branches differ in rank, a loop over the
elements of a sequence. There the extents that matter are found by trying, kept as the file states them,
and guarded by a layer that refuses every other, so that a later reshape fails instead of being wrong.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Sequence

import numpy as np

from converter.errors import Problem, error_of
from ir_runtime import ModelError
from ir_runtime.graph import Model, Node, Output
from ir_runtime.operation import TensorType
from ir_runtime.operations.inputs_outputs import Const1
from ir_runtime.operations.slicing import VariadicSplit1
from ir_runtime.records import record
from ir_runtime.rewrite import UniqueNames, infer_again
from ir_runtime.shape_inference import make_node
from ir_runtime.shapes import DYNAMIC, Dimension, PartialShape
from ir_runtime.tensor import Tensor

from .stated_types import StatedTypes

_logger = logging.getLogger("converter")

Place = tuple[str, int]
"""An input and one of its dimensions."""
Opens = Callable[[str, int], bool]
"""Whether a dimension of an input is left open while translating."""

_MOST_TRIALS = 12
"""How often a model is translated anew to find which of its extents may be open."""


@record
class Translation:
    """A translated graph: what the file states and declares of it, and what stands in the way."""

    model: Model
    stated: dict[str, PartialShape]
    """The shape that each input is to have."""
    declared: Sequence[tuple[str, PartialShape, Output]]
    """Shapes that the file declares for other values."""
    problems: Sequence[Problem]
    keeps_extents: bool
    """Whether a translator said that what it made holds for the stated extents alone."""
    known: StatedTypes
    """What translators have found out of values for the stated shapes."""

    def places(self) -> list[Place]:
        """Every dimension of an input of which the stated extent may be opened."""
        return [
            (name, axis)
            for name, shape in self.stated.items()
            if shape.has_rank
            for axis, extent in enumerate(shape)
            if extent.is_static
        ]


def opened(name: str, stated: PartialShape, opens: Opens) -> PartialShape:
    """The shape that an input has while the graph is translated.

    A dimension of which the file states elements has some whatever its extent.
    """
    if not stated.has_rank:
        return stated
    some = Dimension(1)
    return PartialShape(
        [(some if extent.low else DYNAMIC) if opens(name, axis) else extent for axis, extent in enumerate(stated)]
    )


Translate = Callable[[Opens], Translation]
Finish = Callable[[Model], object]


def translate_open(translate: Translate, finish: Finish, *, static: bool = False) -> Model:
    """The model with every extent open that can be, then given the stated shapes.

    ``finish`` is what is done to the graph before that: it sees nothing of today's extents either.
    With ``static`` everything is translated as the file states it.

    Raises :class:`converter.errors.ConversionError` that lists every root cause.
    """
    if static:
        return _demanded(translate(_none_open), finish)
    translation = translate(_all_open)
    model = _finished(translation, finish)
    if model is not None:
        return model
    places = translation.places()
    stated = translate(_none_open) if places else translation
    if stated.problems:
        raise error_of(stated.problems)
    free: set[Place] = set()
    best = stated
    for group in [] if stated.keeps_extents else _groups(stated, places)[:_MOST_TRIALS]:
        trial = translate(lambda name, axis, free=free | group: (name, axis) in free)  # type: ignore[misc]
        if _finished(trial, finish) is not None:
            free |= group
    best = translate(lambda name, axis: (name, axis) in free)
    kept = [place for place in places if place not in free]
    _logger.info("kept as the file states them: %s", ", ".join(f"{name}[{axis}]" for name, axis in kept))
    return _demanded(best, finish, kept)


def _all_open(name: str, axis: int) -> bool:
    return True


def _none_open(name: str, axis: int) -> bool:
    return False


def _finished(translation: Translation, finish: Finish) -> Model | None:
    """The model with its stated shapes; None where something stands in the way."""
    if translation.problems or translation.keeps_extents:
        return None
    model = translation.model
    finish(model)
    try:
        _state_shapes(model, translation)
    except ModelError as error:
        _logger.info("not with these extents open: %s", error)
        return None
    _compare_declarations(translation)
    return model


def _demanded(translation: Translation, finish: Finish, kept: Sequence[Place] = ()) -> Model:
    if translation.problems:
        raise error_of(translation.problems)
    model = _guarded(translation, kept)
    finish(model)
    _state_shapes(model, translation)
    _compare_declarations(translation)
    return model


def _compare_declarations(translation: Translation) -> None:
    """Warn once of declared shapes that are not those of the values: another batch contradicts every one of them."""
    wrong = {name: (shape, out.shape) for name, shape, out in translation.declared if shape.merge(out.shape) is None}
    if not wrong:
        return
    name, (declared, found) = next(iter(wrong.items()))
    others = f"; {len(wrong) - 1} more tensors have other shapes than declared" if len(wrong) > 1 else ""
    _logger.warning("the model declares '%s' as %s, but its shape is %s%s", name, declared, found, others)


def _state_shapes(model: Model, translation: Translation) -> None:
    """Give the model's inputs the shapes that the file states; raises :class:`ModelError` where that cannot be."""
    types = translation.known.of_parameters()
    wanted: dict[Node, TensorType] = {}
    for node in model.parameters:
        output = node.outputs[0]
        shape = next((translation.stated[name] for name in output.names if name in translation.stated), None)
        if shape is not None:
            wanted[node] = types[node] if node in types else TensorType(output.element_type, shape)
    infer_again(model, wanted, translation.known.inferred)


def _groups(translation: Translation, places: Sequence[Place]) -> list[set[Place]]:
    """Dimensions that are tried together: the first ones of all inputs, then those of one place and extent."""
    found: dict[tuple[int, int, int], set[Place]] = defaultdict(set)
    for name, axis in places:
        shape = translation.stated[name]
        key = (0, 0, 0) if axis == 0 and shape.rank > 1 else (shape.rank, axis, shape[axis].value)
        found[key].add((name, axis))
    return [found[key] for key in sorted(found)]


def _guarded(translation: Translation, kept: Sequence[Place]) -> Model:
    """The model with layers behind its parameters that refuse other extents than the stated ones."""
    model = translation.model
    if not kept:
        return model
    unique = UniqueNames(model)
    guards: set[Node] = set()
    replaced: dict[Output, Output] = {}
    for node in model.parameters:
        first = node.outputs[0]
        shape = translation.stated[first.names[0]]
        for axis in [axis for name, axis in kept if name == first.names[0]]:
            # One part of a stated length: the sum of the lengths must be the extent.
            name = unique(f"{node.name}/extent_{axis}")
            numbers = [np.array(axis), np.array([shape[axis].value])]
            constants = [
                make_node(Const1(value=Tensor.from_array(value)), (), unique(f"{name}/{what}")).outputs[0]
                for what, value in zip(("axis", "length"), numbers)
            ]
            guard = make_node(VariadicSplit1(), [replaced.get(first, first), *constants], name)
            guards.add(guard)
            replaced[first] = guard.outputs[0]
    for node in model.nodes():
        if node not in guards:
            node.inputs = [replaced.get(source, source) for source in node.inputs]
    return model
