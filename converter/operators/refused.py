"""Operators that the IR has no way to say, each with the reason."""

from __future__ import annotations

from converter.registry import refuse_op

for _name in ("StringConcat", "StringNormalizer", "StringSplit", "RegexFullMatch"):
    refuse_op(_name, "the IR has no operations on texts")

refuse_op("ImageDecoder", "the IR has no decoding of image files")
refuse_op("Gradient", "the IR has no gradients of other nodes", domain="ai.onnx.preview.training")

for _name in ("ZipMap", "CastMap", "DictVectorizer"):
    refuse_op(_name, "maps are no tensors, and the IR carries nothing but tensors", domain="ai.onnx.ml")

refuse_op("CategoryMapper", "the IR has no operations on texts", domain="ai.onnx.ml")
