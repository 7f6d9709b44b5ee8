"""Fusions of layers into operators of ONNX and of onnxruntime, before an IR is exported."""
