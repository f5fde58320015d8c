"""Machines in the languages of other checkers, so that others may confirm or deny what ours say.

`promela` and `tla` translate a machine in one scope, from the same model that our interpreters read; Spin and TLC then
visit every state themselves. `write_obligations` hands what has to be proved to any solver that reads SMT-LIB.
"""

from .promela import promela
from .setting import Refused, Setting
from .smt2 import INDEX, Written, write_obligations
from .tla import Tla, tla

__all__ = ["INDEX", "Refused", "Setting", "Tla", "Written", "promela", "tla", "write_obligations"]
