"""``org.pytorch.aten``: PyTorch's own operators in ONNX files."""
