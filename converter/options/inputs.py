"""Bindings of a model's inputs: shapes, types, constant values, the batch size; and the outputs to keep."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any

import numpy as np

from converter.options.input_forms import InputSpec, OptionError, input_specs, shown
from ir_runtime.boundary import boundary
from ir_runtime.graph import Array, ElementType, PartialShape, Tensor
from ir_runtime.records import record


@record
class Bindings:
    """What inputs are bound to, by their names; and the outputs to keep (None: the model's own)."""

    inputs: Mapping[str, InputSpec] = field(default_factory=dict)
    unnamed: tuple[InputSpec, ...] = ()
    """For the inputs that are not named, in order."""
    outputs: tuple[str, ...] | None = None
    batch: int | None = None
    stateful: bool = False
    """True if caches become variables."""

    @property
    def shapes(self) -> dict[str, PartialShape]:
        """The requested shapes."""
        return {name: spec.shape for name, spec in self.inputs.items() if spec.shape is not None}

    @property
    def element_types(self) -> dict[str, ElementType]:
        """The requested types."""
        return {name: spec.element_type for name, spec in self.inputs.items() if spec.element_type is not None}

    @property
    def frozen(self) -> dict[str, Array]:
        """The values that replace inputs."""
        return {name: spec.value for name, spec in self.inputs.items() if spec.value is not None}

    def renamed(self, names: Mapping[str, str]) -> Bindings:
        """Return the bindings with other names of inputs; ``names`` has those that change."""
        return replace(self, inputs={names.get(name, name): spec for name, spec in self.inputs.items()})

    def bound(self, input_names: Sequence[str]) -> Bindings:
        """The bindings of a model with these inputs; entries without a name are for the inputs that are not named.

        Raises :class:`OptionError` where a name is not known, with suggestions, or inputs are missing.
        """
        for name in self.inputs:
            if name not in input_names:
                raise OptionError(f"the model has no input '{name}'{suggestions(name, input_names)}")
        free = [name for name in input_names if name not in self.inputs]
        if len(self.unnamed) > len(free):
            raise OptionError(
                f"{len(self.unnamed)} shapes or types are given without a name, but the model has {len(free)} inputs "
                f"for them: {', '.join(input_names) or 'none'}"
            )
        return replace(self, inputs={**self.inputs, **dict(zip(free, self.unnamed))}, unnamed=())

    def shape_of(self, name: str, declared: PartialShape) -> PartialShape:
        """The shape that the input is to have."""
        requested = self.inputs[name].shape if name in self.inputs else None
        if requested is not None:
            if requested.has_rank and declared.has_rank and requested.rank != declared.rank:
                raise OptionError(f"input '{name}' has the shape {declared}, which cannot become {requested}")
            return requested
        if self.batch is None or not declared.has_rank or declared.rank == 0:
            return declared
        first = declared[0]
        if first.is_static and first.value not in (1, self.batch):
            raise OptionError(
                f"input '{name}' has {first} as its first dimension, which is no batch: set the shapes with input"
            )
        return declared.replace(0, self.batch)

    def frozen_tensor(self, name: str, element_type: ElementType, declared: PartialShape) -> Tensor:
        """The constant that takes the place of an input."""
        value = np.asarray(self.frozen[name])
        if (value.dtype.kind in "OUST") != (element_type.dtype.kind in "OUST"):
            actual_type = "text" if value.dtype.kind in "OUST" else str(value.dtype)
            raise OptionError(
                f"the value of '{name}' must be {element_type}, but is {actual_type}: {shown(value.tolist())}"
            )
        if value.dtype != element_type.dtype:
            with np.errstate(all="ignore"):
                converted = value.astype(element_type.dtype)
            if value.dtype.kind not in "iufb" or not np.array_equal(converted.astype(value.dtype), value):
                raise OptionError(f"the value of '{name}' is {value.dtype} and does not fit into {element_type}")
            value = converted
        if not declared.accepts(value.shape):
            raise OptionError(f"the value of '{name}' has the shape {list(value.shape)}, but the input {declared}")
        return Tensor.from_array(value, element_type)


@boundary("the arguments", reads=OptionError)
def bindings_of(options: Any, *, stateful: bool = False) -> Bindings:
    """Return the bindings that ``input``, ``freeze``, ``output`` and ``batch`` of ``options`` describe.

    Raises :class:`OptionError`.
    """
    specs: dict[str, InputSpec] = {}
    unnamed: list[InputSpec] = []
    for spec in input_specs(options.input):
        if spec.callers_type:
            continue
        if spec.name is None:
            unnamed.append(spec)
        elif spec.name in specs:
            raise OptionError(f"input '{spec.name}' is given two shapes or values: name it once")
        else:
            specs[spec.name] = spec
    for name, value in _freeze(options.freeze).items():
        spec = specs.get(name, InputSpec(name))
        if spec.value is not None:
            raise OptionError(f"input '{name}' is given two values")
        if spec != InputSpec(name):
            raise OptionError(f"input '{name}' is given a shape and a value; one of them is enough")
        specs[name] = InputSpec(name, value=value)
    outputs = output_names(getattr(options, "output", None))
    return Bindings(specs, tuple(unnamed), outputs, batch(options.batch), stateful)


def batch(value: Any, _: object = None) -> int | None:
    """Return the first dimension of every input; None leaves it as it is."""
    if value is not None and (isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1):
        raise OptionError(f"the batch must be a positive number, but is {shown(value)}")
    return None if value is None else int(value)


def output_names(output: Any, _: object = None) -> tuple[str, ...] | None:
    """The tensors to return: a name, several separated by commas, or a list of names; None for the model's own."""
    if output is None:
        return None
    if isinstance(output, str):
        output = output.split(",")
    if not isinstance(output, Iterable) or isinstance(output, (bytes, Mapping)):
        raise OptionError(f"output must be a name or a list of names, but is {shown(output)}")
    outputs = tuple(name.strip() if isinstance(name, str) else name for name in output)
    strange = next((name for name in outputs if not isinstance(name, str) or not name), None)
    if strange is not None:
        raise OptionError(f"output must list names of tensors, but has {shown(strange)}")
    if not outputs:
        raise OptionError("output must name at least one tensor")
    ",".join(outputs).encode()  # no file can name what this refuses
    if len(set(outputs)) != len(outputs):
        raise OptionError("output names a tensor twice")
    return outputs


def _freeze(freeze: Mapping[str, Any] | None) -> dict[str, Array]:
    if freeze is None:
        return {}
    if not isinstance(freeze, Mapping):
        raise OptionError(f"freeze must map names of inputs to values, but is {shown(freeze)}")
    frozen: dict[str, Array] = {}
    for name, value in freeze.items():
        if not isinstance(name, str):
            raise OptionError(f"freeze must map names of inputs to values, but has the key {shown(name)}")
        try:
            frozen[name] = np.array(value)
        except Exception as error:  # whatever an object does when it is asked for its values
            raise OptionError(f"the value of '{name}' is not an array: {type(error).__name__}: {error}") from error
        if frozen[name].dtype.hasobject and not all(isinstance(item, str) for item in frozen[name].flat):
            raise OptionError(f"the value of '{name}' must be numbers or texts, but is {shown(value)}")
    return frozen


@boundary("the arguments", reads=OptionError)
def extension_paths(extensions: Any, _: object = None) -> tuple[str | os.PathLike[str], ...]:
    """The Python files that ``extension`` names: a path, several separated by commas, or a list of paths."""
    if extensions is None:
        return ()
    if isinstance(extensions, str):
        extensions = [part.strip() for part in extensions.split(",") if part.strip()]
    if isinstance(extensions, os.PathLike):
        extensions = [extensions]
    if not isinstance(extensions, Iterable) or isinstance(extensions, (bytes, Mapping)):
        raise OptionError(
            f"extension must be the path of a Python file, or a list of paths, but is {shown(extensions)}"
        )
    paths = tuple(extensions)
    for path in paths:
        if not isinstance(path, (str, os.PathLike)):
            raise OptionError(
                f"extension must be the path of a Python file, but is {shown(path)}: write your operators into a file, "
                "with @converter.onnx_op"
            )
        if os.fspath(path).endswith((".so", ".dll", ".dylib")):
            raise OptionError(
                f"the extension {os.fspath(path)} is a library for OpenVINO, which cannot be used here: write your "
                "operators in Python, with @converter.onnx_op"
            )
    return paths


def suggestions(name: str, input_names: Iterable[str]) -> str:
    """The nearest names there are, as the end of a sentence."""
    import difflib  # of use in an error's sentence alone

    names = list(input_names)
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.5) or sorted(names)[:5]
    return f"; near are {', '.join(repr(candidate) for candidate in near)}" if near else ""
