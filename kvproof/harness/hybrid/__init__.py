"""Connectors and the file store."""
