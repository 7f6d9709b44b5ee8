"""Rules for onnxruntime's CPU provider: layers that it refuses, computes wrongly or slowly."""
