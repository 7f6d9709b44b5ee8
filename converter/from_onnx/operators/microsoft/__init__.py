"""``com.microsoft``: the operators of onnxruntime, one family a module."""
