"""Rules that replace layers of the plain IR for one runtime, by name; a package for each set of rules."""
