"""From ONNX graphs to IR graphs: scopes, names, dispatch, and what a translator is handed."""
