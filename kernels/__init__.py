"""Part of kvproof."""
