"""Parts of vLLM beside machine P and beside the reference implementation."""
