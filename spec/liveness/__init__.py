"""What must happen some day (L): machines that promise it, and how engines came to a halt.

`served` is P with a line in which requests wait, `completions` are connectors and offload whose copies end; `deadlocks`
has the faults of real engines, each beside the machine that keeps its promise.
"""
