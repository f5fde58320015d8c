"""Asynchronous offload."""
