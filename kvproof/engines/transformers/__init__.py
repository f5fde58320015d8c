"""What the kit knows about Transformers: its continuous batching."""
