"""What runs on the IR between translation and writing: one module a pass, registered in :mod:`.pipeline`."""
