"""Copies of KV between slots, blocks and tiers: on the CPU by torch, on CUDA by Triton (imported only when needed)."""
