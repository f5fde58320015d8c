"""What the kit knows about vLLM and its releases."""
