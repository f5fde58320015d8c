"""Real request traces, replayed on a block manager with its invariants checked."""
