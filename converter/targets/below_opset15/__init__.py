"""Rules for releases of OpenVINO that end before opset 15: newer operations, expressed by older ones.

Operations that older ones do not express stay. The target then refuses them by name.
"""
