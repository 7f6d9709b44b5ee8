"""Reference and IR ready to run: the ONNX model in onnxruntime, onnx's evaluator, NumPy and OpenVINO."""
