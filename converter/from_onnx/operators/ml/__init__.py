"""``ai.onnx.ml`` on numbers, one family a module."""
