"""ONNX to ONNX: the parts of a model that the IR can carry go through it, all others stay as they are."""
