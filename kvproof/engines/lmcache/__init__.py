"""What the kit knows about LMCache: its memory on the host."""
