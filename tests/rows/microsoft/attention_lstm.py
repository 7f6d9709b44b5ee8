"""AttnLSTM, against onnxruntime."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.rows.row import Row, each, rows

R = np.random.default_rng(47)
STEPS, BATCH, WIDTH, HIDDEN, MEMORY, DEPTH, ATTENTION, LAYER = 4, 3, 5, 6, 7, 4, 3, 2
NEEDED = "x w r qw mw v m "


def f(*shape: int) -> np.ndarray:
    return (R.standard_normal(shape) * 0.5).astype(np.float32)


def attention_lstm(options: str = "", direction: str = "forward", **more: Any) -> Iterator[Row]:
    """Yield rows with some of the inputs that may be left out."""
    count = 2 if direction == "bidirectional" else 1
    values = {
        "x": f(STEPS, BATCH, WIDTH), "w": f(count, 4 * HIDDEN, WIDTH + (LAYER if "aw" in options.split() else DEPTH)),
        "r": f(count, 4 * HIDDEN, HIDDEN), "b": f(count, 8 * HIDDEN), "lengths": np.array([4, 2, 3], np.int32),
        "h": f(count, BATCH, HIDDEN), "c": f(count, BATCH, HIDDEN), "p": f(count, 3 * HIDDEN),
        "qw": f(count, HIDDEN, ATTENTION), "mw": f(count, DEPTH, ATTENTION), "v": f(count, ATTENTION),
        "m": f(BATCH, MEMORY, DEPTH), "memory_lengths": np.array([7, 3, 5], np.int32),
        "aw": f(count, DEPTH + HIDDEN, LAYER),
    }  # fmt: skip
    inputs = {name: value if name in (NEEDED + options).split() else None for name, value in values.items()}
    attributes = {"activations": ["sigmoid", "tanh", "tanh"] * count, "direction": direction, "hidden_size": HIDDEN}
    return rows("AttnLSTM", 1, domain="com.microsoft", outputs=3, **{**inputs, **attributes, **more})


ROWS = [
    *(row for direction in ("forward", "reverse", "bidirectional")
      for options in ("", "b lengths h c p", "b memory_lengths aw", "lengths h c p memory_lengths aw")
      for row in attention_lstm(options, direction, input_forget=each(0, 1))),
    *attention_lstm(direction="sideways", refused="direction must be one of"),
    *attention_lstm(clip=1.0, refused="and clip, are not supported"),
    *attention_lstm(activations=["tanh"] * 3, refused="activations other than"),
]  # fmt: skip
