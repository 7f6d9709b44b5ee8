"""From ONNX to the plain IR."""
