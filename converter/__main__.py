"""``python -m converter`` is the ``onnx2ir`` command."""

from converter.command_line import start

start()
