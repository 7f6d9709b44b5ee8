"""From IR to ONNX: a model of ONNX operators that computes what the IR computes."""
