"""Small machines that state something false, by the class of defect that would let a prover believe it."""
