"""Passes over the IR between translation and writing, in the order of :mod:`.order`."""
