"""The cases of each level of SGLang."""
