"""Copies of blocks: between tensors of one device and of two, on the CPU and on CUDA."""
