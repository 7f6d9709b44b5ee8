"""The IR's operations, one family a module. The converter imports the families that it needs."""
