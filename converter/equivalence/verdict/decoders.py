"""Both sides of a language model, step by step: ONNX with caches as inputs and outputs, and an IR that keeps them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from converter.equivalence.reference.engines import session_in
from converter.equivalence.reference.references import OnnxReference
from converter.errors import VerificationError
from converter.onnx_file.types import element_type_of
from ir_runtime import Model, ModelError
from ir_runtime.graph import Array
from ir_runtime.operations.inputs_outputs import ReadValue3, ReadValue6
from ir_runtime.records import record

TOKENS, MASK, POSITIONS, BEAMS = "input_ids", "attention_mask", "position_ids", "beam_idx"
_OF_LANGUAGE_MODELS = (TOKENS, MASK, POSITIONS)

Feeds = dict[str, Array]


@record
class Cache:
    """A variable of the IR, and the input and the output that it is in the ONNX model."""

    variable: str
    past: str
    present: str
    shape: tuple[int | None, ...]
    """None for the batch and for the number of keys."""

    def empty(self, dtype: np.dtype[Any], rows: int) -> Array:
        """No keys for each row; zeros where the shape is fixed."""
        first = next((axis for axis, size in enumerate(self.shape) if size is None), None)
        sizes = [size if size is not None else rows * (axis == first) for axis, size in enumerate(self.shape)]
        return np.zeros(sizes, dtype)


def caches_of(reference: OnnxReference, model: Model) -> list[Cache]:
    """The caches that both sides have; raises :class:`VerificationError` where a variable has no counterpart."""
    caches = []
    inputs, outputs = list(reference.graph.inputs), list(reference.graph.outputs)
    pairs = pair_variables(inputs, outputs)
    for node in model.nodes():
        if not isinstance(node.op, (ReadValue3, ReadValue6)):
            continue
        name = node.op.variable_id
        pair = pairs.get(name)
        if pair is None:
            raise VerificationError(
                f"the variable '{name}' of the IR must be called as an input and an output of the ONNX model, one "
                f"behind the other, but the inputs are {inputs} and the outputs {outputs}"
            )
        shape = tuple(dim.value if dim.is_static else None for dim in node.outputs[0].shape)
        caches.append(Cache(name, *pair, shape))
    if not caches:
        raise VerificationError("the IR has no variables: steps are for models that keep their caches")
    return caches


def pair_variables(inputs: Iterable[str], outputs: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Return an input and an output for each name of a variable that would hold both: one behind the other."""
    return {start + end: (start, end) for start in inputs for end in outputs}


class OnnxDecoder:
    """The ONNX model with its caches; each call is a step of a batch."""

    def __init__(self, reference: OnnxReference, caches: Sequence[Cache]) -> None:
        self._reference = reference
        self._caches = caches
        graph = reference.graph
        unknown = [
            name for name in graph.inputs if name not in (*_OF_LANGUAGE_MODELS, *(cache.past for cache in caches))
        ]
        if unknown or TOKENS not in graph.inputs:
            raise VerificationError(
                f"steps need a language model, whose inputs are {', '.join(_OF_LANGUAGE_MODELS)} and caches; but the "
                f"ONNX model has {', '.join(graph.inputs)}"
            )
        self.output = next(name for name in graph.outputs if name not in {cache.present for cache in caches})
        self.reset()

    def reset(self, rows: int = 1) -> None:
        """Reset the state, and begin with so many rows."""
        input_infos = self._reference.graph.inputs
        self._past = {
            cache.past: cache.empty(element_type_of(input_infos[cache.past].type.tensor_type.elem_type).dtype, rows)
            for cache in self._caches
        }
        self._length = 0

    @property
    def is_recurrent(self) -> bool:
        """True if a cache has a fixed size, into which each token goes."""
        return any(sum(size is None for size in cache.shape) < 2 for cache in self._caches)

    @property
    def is_narrow(self) -> bool:
        """True if the caches have fewer bits than float32."""
        return any(value.dtype.itemsize < 4 for value in self._past.values())

    def feeds(self, tokens: Array, mask: Array | None = None) -> Feeds:
        """The inputs of the next step; ``mask`` covers earlier tokens, too, and is 0 for padding."""
        if mask is None:
            mask = np.ones((len(tokens), self._length + tokens.shape[1]), np.int64)
        feeds_by_name = {TOKENS: tokens, MASK: mask, POSITIONS: _places(mask, tokens.shape[1])}
        own_feeds = {name: value for name, value in feeds_by_name.items() if name in self._reference.graph.inputs}
        return {**own_feeds, **self._past}

    def __call__(self, tokens: Array, mask: Array | None = None) -> Array:
        """The logits of the next tokens, ``[b, s, vocabulary]``."""
        values = self._reference.run(self.feeds(tokens, mask))
        self._length += tokens.shape[1]
        self._past = {cache.past: values[cache.present] for cache in self._caches}
        return values[self.output]


class IrDecoder:
    """The IR, which keeps its caches; each call is a step of a batch."""

    def __init__(
        self,
        model: Model,
        path: str | os.PathLike[str] | None,
        output: str,
        *,
        engine: str = "numpy",
        device: str | None = None,
        config: Mapping[str, Any] | None = None,
    ) -> None:
        self._inputs = {name for node in model.parameters for name in node.end_names}
        needed = [n.end_names[0] for n in model.parameters if {*n.end_names}.isdisjoint((*_OF_LANGUAGE_MODELS, BEAMS))]
        if needed:
            raise VerificationError(f"steps need a language model, but the IR has the inputs {', '.join(needed)}")
        self.engine = session_in(engine, model, path, device=device, config=config)
        self._output = output

    def __call__(self, tokens: Array, mask: Array, beams: Sequence[int] | None = None) -> Array:
        """The logits of the last tokens of each row; ``mask`` covers earlier tokens, too."""
        places = _places(mask, tokens.shape[1])
        rows = range(len(tokens)) if beams is None else beams
        feeds_by_name = {TOKENS: tokens, MASK: mask, POSITIONS: places, BEAMS: np.array(rows, np.int32)}
        try:
            results = self.engine.run({name: value for name, value in feeds_by_name.items() if name in self._inputs})
        except VerificationError:
            raise
        except ModelError as error:
            raise VerificationError(f"the IR cannot be run: {error}") from error
        if self._output not in results:
            raise VerificationError(f"the IR has no output '{self._output}'; its outputs are {', '.join(results)}")
        return results[self._output]


def _places(mask: Array, count: int) -> Array:
    """The positions of the last ``count`` tokens; those of padding are 1, as openvino-genai has them."""
    places: Array = np.where(mask == 0, 1, np.cumsum(mask, axis=1) - 1)[:, -count:]
    return places
