"""Operations decomposed into other, mostly older operations of the IR.

A runtime that does not have an operation gets these layers instead: an older release of OpenVINO, and ONNX.
"""
