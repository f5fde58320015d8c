"""Real engine builds, driven in their own interpreter by a worker that tells what happened, and judged here."""
