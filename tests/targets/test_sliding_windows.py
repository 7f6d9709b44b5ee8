"""Windows that OpenVINO's paged attention finds in our masks, and does not find without the rule."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import openvino
import pytest
from openvino._offline_transformations import paged_attention_transformation

import converter
import ir_runtime
from converter.targets.registry import openvino_cpu
from ir_runtime.graph.model import Model
from tests.engines import core
from tests.language_models.decoders import LAYERS, Decoder

_WINDOW_AT = 10
"""The input of the paged attention that is its window."""


@dataclass(frozen=True)
class WindowRow:
    """A decoder with a window in its mask."""

    decoder: Decoder
    rule: str = "sliding_windows"


ROWS = [
    WindowRow(Decoder(attention, window=window, guarded=guarded))
    for attention, window, guarded in (
        ("grouped", 8, False),
        ("grouped", 100, False),
        ("onnx", 8, False),
        ("spelled", 8, False),
        ("spelled", 8, True),
    )
]


def windows(model: Model) -> list[int]:
    """The window of each layer, as the transformation finds them; 0 where it finds none."""
    read = core().read_model(*ir_runtime.model_to_bytes(model))
    paged_attention_transformation(read)
    found = []
    for operation in read.get_ops():
        if operation.get_type_name() == "PagedAttentionExtension":
            alone = openvino.Model([operation.input_value(_WINDOW_AT)], [])
            found.append(int(np.asarray(core().compile_model(alone, "CPU")([])[0])))
    assert len(found) == LAYERS
    return found


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_the_window_is_found(row: WindowRow) -> None:
    model = converter.convert_model(row.decoder.build(), stateful=True)
    assert windows(model) == [row.decoder.window] * LAYERS


@pytest.mark.parametrize("row", ROWS, ids=str)
@pytest.mark.xfail(strict=True, raises=AssertionError, reason="the row's rule does not run")
def test_the_window_is_not_found_without_the_rule(row: WindowRow) -> None:
    model = converter.convert_model(row.decoder.build(), stateful=True, target="any")
    openvino_cpu.run(model, [rule for rule in openvino_cpu.all() if rule.name != row.rule])
    assert windows(model) == [row.decoder.window] * LAYERS


def test_masks_without_a_window_stay() -> None:
    model = converter.convert_model(Decoder().build(), stateful=True)
    assert "BitwiseAnd" not in model.types
    assert windows(model) == [0] * LAYERS


def test_a_window_without_a_cache_stays() -> None:
    model = converter.convert_model(Decoder("spelled", window=8).build())
    assert "BitwiseAnd" not in model.types
