"""Operators of onnxruntime that the IR cannot express, each with the reason."""

from __future__ import annotations

from converter.from_onnx.translation.registry import refuse_op
from converter.onnx_file.domains import MICROSOFT

for _name in ("BeamSearch", "GreedySearch", "Sampling", "WhisperBeamSearch"):
    refuse_op(
        _name,
        "it searches with decoders that are graphs within the node; convert the decoder and the encoder by themselves "
        "and search with openvino-genai",
        domain=MICROSOFT,
    )
refuse_op("Tokenizer", "the IR has no operations on strings", domain=MICROSOFT)
refuse_op("SparseToDenseMatMul", "the IR has no sparse tensors", domain=MICROSOFT)
