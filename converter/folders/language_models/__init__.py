"""Folders of language models: ONNX files and what belongs to them in, what OpenVINO's runtimes read out."""
