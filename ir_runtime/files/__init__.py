"""Files: IR read and written, weights, and what kind a file is."""
