"""``org.openvinotoolkit``: the IR's own operations in ONNX files."""
