"""The sanitizer: the rules of the block pool, checked within a running vLLM (docs/sanitizer.md).

What stands here is run by the engine's own interpreter, from Python 3.10 on, and needs the standard library alone; the
kit replays with the same `judging` what was recorded. Of the kit it uses the readers of the worker beside it and
`spec/rules.py`, by its file. It changes no file of the engine, and no object but by wrapping methods.
"""
