"""Rows as data, a file a family: nothing is run here. ``tests/test_rows.py`` runs each in all runtimes."""
