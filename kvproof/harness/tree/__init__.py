"""The prefix tree of the reference implementation, beside machine R."""
