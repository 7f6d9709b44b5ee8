"""One module a family, named as in :mod:`ir_runtime.operations`: the functions that write its operations."""
