"""The default domain of ONNX, one family a module."""
