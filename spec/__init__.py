"""The specification: what the rules of KV caching mean, as machines."""
