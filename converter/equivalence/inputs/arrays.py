"""Inputs for a comparison: seeded random ones, or the user's own files."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from converter.equivalence.inputs.input_values import Values, default_values, filled
from converter.equivalence.reference.engines import by_names
from converter.errors import VerificationError
from ir_runtime import Port
from ir_runtime.boundary import boundary
from ir_runtime.graph import Array, PartialShape

_UNKNOWN_RANK = (1, 3, 32, 32)


def random_inputs(
    ports: Sequence[Port],
    seed: int,
    values: Mapping[str, Values] | None = None,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
) -> dict[str, Array]:
    """Draw one array for each input, the same for the same seed.

    ``values`` and ``shapes`` have those that are known, by name. Otherwise dynamic dimensions become small numbers
    (batch 2; 32 elsewhere in images, 8 otherwise) within the port's bounds.
    """
    generator = np.random.default_rng(seed)
    arrays: dict[str, Array] = {}
    for port in ports:
        try:
            chosen = (values or {}).get(port.name) or default_values(port.element_type)
        except VerificationError as error:
            raise VerificationError(f"input '{port.name}': {error}") from error
        shape = (shapes or {}).get(port.name) or usual_shape(port.partial_shape)
        arrays[port.name] = filled(chosen, generator, shape, port.element_type)
    return arrays


def usual_shape(declared: PartialShape) -> tuple[int, ...]:
    """The shape with small numbers for dynamic dimensions."""
    if not declared.has_rank:
        return _UNKNOWN_RANK
    dims = declared.dims
    shape = []
    for index, dimension in enumerate(dims):
        usual_size = 2 if index == 0 and len(dims) > 1 else 32 if len(dims) >= 4 else 8
        shape.append(max(dimension.low, min(dimension.high, usual_size)))
    return tuple(shape)


@boundary("the inputs", reads=VerificationError)
def given_inputs(source: str | os.PathLike[str] | Mapping[str, Any], ports: Sequence[Port]) -> dict[str, Array]:
    """The user's inputs: a mapping, an ``.npz`` with one array an input, or an ``.npy`` for the only one.

    Raises :class:`VerificationError` where the file cannot be read, or an input is missing or unknown.
    """
    if not isinstance(source, (Mapping, str, os.PathLike)):
        example = ", ".join(f"{port.name!r}: array" for port in ports)
        raise VerificationError(
            f"inputs must map the names of inputs to arrays, or be the path of an .npz or .npy, but is a "
            f"{type(source).__name__}: inputs={{{example}}}"
        )
    values = dict(source) if isinstance(source, Mapping) else _load(Path(source), ports)
    ports_by_name = by_names(ports, ports)
    unknown = sorted(set(values) - set(ports_by_name))
    if unknown:
        raise VerificationError(f"the model has no inputs {unknown}; it has {[port.name for port in ports]}")
    arrays = {ports_by_name[name].name: np.asarray(value) for name, value in values.items()}
    missing = [port.name for port in ports if port.name not in arrays]
    if missing:
        raise VerificationError(f"no values were given for the inputs {missing}")
    return arrays


def _load(path: Path, ports: Sequence[Port]) -> dict[str, Array]:
    try:
        loaded = np.load(path, allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            if len(ports) != 1:
                raise VerificationError(
                    f"{path} holds one array, but the model has the inputs {[port.name for port in ports]}: use an .npz"
                )
            return {ports[0].name: loaded}
        with loaded:
            return {name: loaded[name] for name in loaded.files}
    except (OSError, ValueError, EOFError) as error:
        raise VerificationError(f"{path} cannot be read as .npy or .npz: {error}") from error
