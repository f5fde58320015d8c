"""Adapters for real engine builds. There are none yet: the first will be vLLM."""
