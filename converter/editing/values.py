"""Values that options of editing have: weights and dimensions."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from converter.options.input_forms import OptionError, shown
from converter.options.values import plain, split
from ir_runtime.graph import ElementType, Tensor


def listed(names: Iterable[str]) -> str:
    """Return names for a message."""
    return ", ".join(f"'{name}'" for name in names)


def open_cut(inputs: Sequence[str], outputs: Sequence[str], others: Sequence[str]) -> str:
    """Return the message for a cut that leaves other inputs of the model."""
    sides = [",".join(re.sub(r"([:,=\\])", r"\\\1", name) for name in side) for side in ((*inputs, *others), outputs)]
    needed, text = listed(others), ":".join(sides)
    return f'cut: {listed(outputs)} also needs {needed} of the model: name it, too, such as in "{text}"'


def weight_of(name: str, value: Any, element_type: ElementType, shape: tuple[int, ...], *, cast: bool) -> Tensor:
    """Return the array, or that of an .npy file, as a weight of this type and shape; the file stays mapped.

    Raises :class:`OptionError` for another shape, and for another type unless ``cast`` is set.
    """
    array = value
    if isinstance(value, (str, os.PathLike)):
        try:
            array = np.load(value, mmap_mode="r", allow_pickle=False)
        except (OSError, ValueError, EOFError) as error:
            raise OptionError(f"replace_weight: {value} cannot be read as .npy: {error}") from error
    if not isinstance(array, np.ndarray):
        raise OptionError(
            f"replace_weight: '{name}' must be an array or the path of an .npy file, but is {shown(value)}"
        )
    if array.shape != shape:
        raise OptionError(f"replace_weight: '{name}' has the shape {list(shape)}, but the value {list(array.shape)}")
    if array.dtype.type is np.void and array.dtype.itemsize == element_type.dtype.itemsize:
        array = array.view(element_type.dtype)  # .npy files name no types beyond NumPy's own
    if array.dtype != element_type.dtype:
        if not cast:
            raise OptionError(
                f"replace_weight: '{name}' is {element_type}, but the value {array.dtype}: cast_weights "
                "(--cast-weights) converts it"
            )
        with np.errstate(all="ignore"):
            array = array.astype(element_type.dtype)
    return Tensor.from_array(array, element_type)


def input_of(value: Any, element_type: ElementType | None) -> Tensor:
    """Return a number or a list as a further input of an operator."""
    if element_type is None:
        raise OptionError(f"insert_after: the type of the input {value!r} is not known: name a tensor")
    try:
        array = np.array(value)
        cast = array.astype(element_type.dtype)
        is_kept = element_type.is_real or (cast == array).all()
    except (TypeError, ValueError, OverflowError):
        is_kept = False
    if not is_kept:
        raise OptionError(f"insert_after: the input {value!r} must be of the type {element_type}")
    return Tensor.from_array(cast, element_type)


def split_dimension(text: str) -> tuple[str, int | None]:
    """Return the input and the axis of ``input:axis``; of a name of a dimension the name and None."""
    sides = split(text, ":")
    if len(sides) > 2 or (len(sides) == 2 and not sides[1].strip().lstrip("-").isdigit()):
        raise OptionError(f"set_dim must be INPUT:AXIS=VALUE or NAME=VALUE, but is {text!r}: \\: is a colon in a name")
    return plain(sides[0]), int(sides[1]) if len(sides) == 2 else None


def dimension_of(name: str, value: Any) -> int | str | None:
    """Return a dimension: a number, a name, or None for ``?``; raises :class:`OptionError`."""
    text = str(value).strip()
    if text in ("?", "-1"):
        return None
    if text.isdigit():
        if len(text) > 18:
            raise OptionError(f"set_dim: '{name}' cannot be {text}")
        return int(text)
    if isinstance(value, str) and text and text[0].isalpha() and "=" not in text:
        return text
    raise OptionError(f"set_dim: '{name}' must be a number, a name or ?, but is {shown(value)}")
