"""``python -m converter`` is the ``onnx2ir`` command."""

from converter.cli import main

main()
