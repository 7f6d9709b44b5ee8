"""Reading ONNX files: wire format, tensors, element types, schemas, functions."""
