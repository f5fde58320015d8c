"""What each level of Transformers is hunted with."""
