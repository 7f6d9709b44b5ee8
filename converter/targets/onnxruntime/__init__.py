"""What onnxruntime's CPU provider refuses, computes wrongly or slowly in models that are written as ONNX."""
