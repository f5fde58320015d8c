"""What each level of LMCache is hunted with."""
