"""A prefix tree over pages of KV memory, and the requests that it serves."""
