"""The oracles: each judges one kind of rule, on what the worker told and on ghost content."""
