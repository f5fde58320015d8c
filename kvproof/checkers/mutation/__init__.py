"""Mutants of machines: what is wrong in one place, and who notices it."""
