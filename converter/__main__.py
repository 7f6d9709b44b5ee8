"""``python -m converter`` is the ``onnx2ir`` command."""

from .cli import main

main()
