"""A differential test of the prover itself: small random machines, proved and walked.

Whatever is proved of a machine has to be true of every step that the machine takes. So machines are drawn at random
(`machines.py`, from `world.py`, `expressions.py`, `statements.py` and `properties.py`), walked step by step in small
scopes (`walking.py`), and what the walk refutes is given to the prover (`proving.py`). A property that is refuted and
proved is a false theorem (`comparing.py`); it is made small (`shrinking.py`) and shown with the steps that break it.

A machine is a text: what fails is printed, saved, and run again by itself.
"""
