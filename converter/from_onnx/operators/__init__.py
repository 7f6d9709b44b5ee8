"""Translators of ONNX operators: a package a domain, a module a family.

A model needs a few of the families, and importing all takes longer than converting many a model. ``index.json`` names
the modules of each operator; ``docs/index_operators.py`` writes it. A family that it does not name is found as well,
but only after all families have been imported.
"""
