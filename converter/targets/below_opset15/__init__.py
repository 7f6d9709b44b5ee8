"""Rules for releases of OpenVINO that end before opset 15: what older operations say as well.

What they cannot say stays, and is refused with its name.
"""
