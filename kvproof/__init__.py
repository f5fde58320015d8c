"""kvproof: a verification kit for the KV-cache block managers of LLM inference engines."""
