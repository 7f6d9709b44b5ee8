"""Connectionist temporal classification: CTCGreedyDecoder, CTCGreedyDecoderSeqLen and CTCLoss.

https://docs.openvino.ai/2026/documentation/openvino-ir-format/operation-sets/operation-specs/sequence/ctc-loss-4.html
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ir_runtime.errors import InferenceError
from ir_runtime.graph import Array, ElementType, PartialShape
from ir_runtime.graph.element_types import i32
from ir_runtime.graph.operation import Operation, TensorType, boolean, operation, type_of_elements
from ir_runtime.graph.shapes import require_rank, same_dimension


def _decode(classes: Array, is_valid: Array, blank: int, merge: bool) -> tuple[Array, Array]:
    """Return the mask of the ``classes`` ``[n, t]`` to keep, and the number of them in each row.

    ``is_valid`` is False behind the end of a sequence. Blanks are dropped, and with ``merge`` repetitions of the class
    one step before.
    """
    previous = np.concatenate([np.full((len(classes), 1), -1), classes[:, :-1]], 1)
    is_kept = is_valid & (classes != blank)
    if merge:
        is_kept &= classes != previous[:, : classes.shape[1]]
    return is_kept, is_kept.sum(1)


def _pack_left(classes: Array, is_kept: Array) -> Array:
    """Move the classes to keep to the front of each row, in their order, and fill the rest with -1."""
    packed = np.full(classes.shape, -1)
    positions = np.cumsum(is_kept, 1) - 1
    rows = np.broadcast_to(np.arange(len(classes))[:, None], classes.shape)
    packed[rows[is_kept], positions[is_kept]] = classes[is_kept]
    return packed


@operation("CTCGreedyDecoder", opset=1)
class CTCGreedyDecoder1(Operation):
    """The most probable class at each step, without blanks (the last class).

    Inputs: probabilities ``[t, n, c]`` and a mask ``[t, n]`` that ends each sequence at its first 0.
    The output ``[n, t, 1, 1]`` has the classes as numbers of the type of the data, then -1.
    ``ctc_merge_repeated`` drops repetitions that no blank stands between.
    """

    inputs = (2, 2)
    ctc_merge_repeated: bool = boolean(default=True)

    def infer(self, inputs: Sequence[TensorType]) -> list[TensorType]:
        data = require_rank("the probabilities", inputs[0].shape, 3)
        mask = require_rank("the mask", inputs[1].shape, 2)
        steps = same_dimension("the number of steps", data[0], mask[0])
        batch = same_dimension("the batch", data[1], mask[1])
        return [TensorType(inputs[0].element_type, PartialShape([batch, steps, 1, 1]))]

    def evaluate(self, *inputs: Array) -> Array:
        data, mask = inputs
        classes = data.argmax(-1).T if data.size else np.zeros(mask.T.shape, np.int64)
        is_valid = np.logical_and.accumulate(mask.T != 0, axis=1)
        is_kept, _ = _decode(classes, is_valid, data.shape[-1] - 1, self.ctc_merge_repeated)
        return _pack_left(classes, is_kept).astype(data.dtype)[..., None, None]


@operation("CTCGreedyDecoderSeqLen", opset=6)
class CTCGreedyDecoderSeqLen6(Operation):
    """The most probable class at each step, without blanks.

    Inputs: probabilities ``[n, t, c]``, the lengths ``[n]`` of the sequences, and optionally the
    class that is blank, by default the last one. Outputs: classes ``[n, t]``, filled up with -1, and
    how many there are, ``[n]``. ``merge_repeated`` drops repetitions that no blank stands between.
    """

    inputs = (2, 3)
    merge_repeated: bool = boolean(default=True)
    classes_index_type: ElementType = type_of_elements(default=i32)
    sequence_length_type: ElementType = type_of_elements(default=i32)

    def infer(self, inputs: Sequence[TensorType]) -> list[TensorType]:
        data = require_rank("the probabilities", inputs[0].shape, 3)
        lengths = require_rank("the lengths", inputs[1].shape, 1)
        batch = same_dimension("the batch", data[0], lengths[0])
        return [
            TensorType(self.classes_index_type, PartialShape([batch, data[1]])),
            TensorType(self.sequence_length_type, PartialShape([batch])),
        ]

    def evaluate(self, *inputs: Array) -> tuple[Array, Array]:
        data, lengths, *blanks = inputs
        steps, count = data.shape[1:]
        if lengths.size and not 0 <= lengths.min() <= lengths.max() <= steps:
            raise InferenceError(f"each sequence must have 0 to {steps} steps, but one has {lengths.max()}")
        classes = data.argmax(-1) if data.size else np.zeros(data.shape[:2], np.int64)
        blank = int(blanks[0].reshape(-1)[0]) if blanks else count - 1
        is_kept, counts = _decode(classes, np.arange(steps) < lengths[:, None], blank, self.merge_repeated)
        sequences = _pack_left(classes, is_kept)
        return sequences.astype(self.classes_index_type.dtype), counts.astype(self.sequence_length_type.dtype)


@operation("CTCLoss", opset=4)
class CTCLoss4(Operation):
    """Minus the logarithm of the probability that the steps spell the labels.

    Inputs: logits ``[n, t, c]``, the number of steps ``[n]``, labels ``[n, t]``, the number of labels
    ``[n]``, and optionally the class that is blank, by default the last one. Between labels there may
    be blanks; ``ctc_merge_repeated`` lets a label continue for several steps, so that equal labels need
    a blank between them. ``preprocess_collapse_repeated`` first drops repeated labels, ``unique``
    every label that was there before. The output ``[n]`` is infinite where no path spells the labels.
    """

    inputs = (4, 5)
    preprocess_collapse_repeated: bool = boolean(default=False)
    ctc_merge_repeated: bool = boolean(default=False)
    unique: bool = boolean(default=False)

    def infer(self, inputs: Sequence[TensorType]) -> list[TensorType]:
        logits = require_rank("the logits", inputs[0].shape, 3)
        steps = require_rank("the number of steps", inputs[1].shape, 1)
        labels = require_rank("the labels", inputs[2].shape, 2)
        counts = require_rank("the number of labels", inputs[3].shape, 1)
        if len(inputs) > 4:
            require_rank("the blank class", inputs[4].shape, 0)
        same_dimension("the number of steps", logits[1], labels[1])
        batch = same_dimension("the batch", logits[0], steps[0], labels[0], counts[0])
        return [TensorType(inputs[0].element_type, PartialShape([batch]))]

    def evaluate(self, *inputs: Array) -> Array:
        logits, steps, labels, counts, *blanks = inputs
        blank = int(blanks[0].reshape(-1)[0]) if blanks else logits.shape[2] - 1
        if ((counts < 0) | (counts > steps) | (steps > logits.shape[1])).any():
            raise InferenceError(
                f"a sequence has 0 to {logits.shape[1]} steps and at most as many labels as steps, "
                f"but {steps.tolist()} steps have {counts.tolist()} labels"
            )
        targets = [self._target(row[:count]) for row, count in zip(labels, counts.tolist())]
        states = np.full((len(targets), 2 * max(map(len, targets), default=0) + 1), blank, np.int64)
        for row, target in zip(states, targets):
            row[1 : 2 * len(target) : 2] = target
        log_sums = self._forward(_log_softmax(logits), steps, states)
        last = np.array([2 * len(target) for target in targets], np.int64)
        rows = np.arange(len(targets))
        total = np.logaddexp(log_sums[rows, last], np.where(last > 0, log_sums[rows, last - 1], -np.inf))
        return (-total).astype(logits.dtype)

    def _target(self, labels: Array) -> Array:
        """Return the labels of a sequence without the repetitions that the attributes drop."""
        if self.unique:
            return labels[np.sort(np.unique(labels, return_index=True)[1])]
        if self.preprocess_collapse_repeated:
            return labels[np.append(True, labels[1:] != labels[:-1])[: len(labels)]]
        return labels

    def _forward(self, log_probabilities: Array, steps: Array, states: Array) -> Array:
        """Return the logarithm of the probability ``[n, s]`` to be in each of ``states`` after the last step.

        States are blank, first label, blank, second label ... blank.
        """
        is_label = np.arange(states.shape[1]) % 2 == 1
        skips = is_label & (np.arange(states.shape[1]) > 1)
        if self.ctc_merge_repeated:
            skips = skips & (states != np.roll(states, 2, axis=1))
        # Paths start at the first blank, which they may skip.
        reached = np.full(states.shape, -np.inf)
        reached[:, 0] = 0
        for step in range(log_probabilities.shape[1]):
            stay = reached if self.ctc_merge_repeated else np.where(is_label, -np.inf, reached)
            arrived = np.logaddexp(stay, _shift(reached, 1))
            arrived = np.logaddexp(arrived, np.where(skips, _shift(reached, 2), -np.inf))
            arrived += np.take_along_axis(log_probabilities[:, step], states, 1)
            reached = np.where((step < steps)[:, None], arrived, reached)
        return reached


def _shift(values: Array, count: int) -> Array:
    """Shift each row to the right by ``count`` elements, and fill it with minus infinity from the left."""
    filled = np.full((len(values), count), -np.inf)
    return np.concatenate([filled, values], 1)[:, : values.shape[1]]


def _log_softmax(logits: Array) -> Array:
    wide = logits.astype(np.float64)
    shifted = wide - wide.max(-1, keepdims=True, initial=-np.inf)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
