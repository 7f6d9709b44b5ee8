"""Running a model in NumPy."""
