"""Machines M and D: what stands behind the device, and what is kept on it."""
