"""What rows run in. A runtime is a function from the :class:`~tests.runtimes.work.Work` of a row to its outputs by name.

``known.toml`` has what each of them is known not to do: patterns on the names of rows, and why. A row that is listed
and does not fail is red, as is one that fails and is not listed.
"""
