"""The block pool."""
