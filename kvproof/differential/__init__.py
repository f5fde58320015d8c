"""Engines beside the reference implementation, or beside a machine: the same calls, the same answers."""
