"""Generators of legal calls, one module a level."""
