"""Editing models: an ONNX file as onnx's messages without their large weights, an IR by passes."""
