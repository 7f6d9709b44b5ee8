"""Operators that the IR cannot express, each with the reason."""

from __future__ import annotations

from converter.from_onnx.translation.registry import refuse_op

for _name in ("StringConcat", "StringNormalizer", "StringSplit", "RegexFullMatch"):
    refuse_op(_name, "the IR has no operations on strings")

refuse_op("ImageDecoder", "the IR has no decoding of image files")
refuse_op("Gradient", "the IR has no gradients of other nodes", domain="ai.onnx.preview.training")

_MAPS = "maps are no tensors, and the IR carries nothing but tensors"
for _name in ("CastMap", "DictVectorizer"):
    refuse_op(_name, _MAPS, domain="ai.onnx.ml")
# It ends the files that scikit-learn's converter writes; its input is the tensor that most users want.
refuse_op("ZipMap", f"{_MAPS}; the option 'output' can ask for the tensor before it instead", domain="ai.onnx.ml")

refuse_op("CategoryMapper", "the IR has no operations on strings", domain="ai.onnx.ml")
