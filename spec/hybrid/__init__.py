"""Hybrid models: groups of layers, how their caches are planned, and the stores that load for them."""
