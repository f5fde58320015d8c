"""The modelling language and its interpreters.

A machine is written once (`language`), read once (`model`), and run by three interpreters that share that reading:
`concrete` (plain Python values), `symbolic` (Z3, any size) and `batched` (torch, many states at once).
"""

from .connectives import all_of, any_of, iff, implies, ite
from .language import (
    Count,
    Event,
    Machine,
    Map,
    Param,
    Queue,
    Scalar,
    Sum,
    Tally,
    action,
    assume,
    can,
    corollary,
    exists,
    forall,
    initially,
    invariant,
    otherwise,
    sometimes,
    step,
    when,
)
from .mistakes import MachineError
from .model import Action, Model, Property
from .part import Part
from .promises import Promise, eventually, promise, steps, such_as
from .terms import Bool, Index, Int, Real, Sort, none, optional

__all__ = [
    "Action",
    "Bool",
    "Count",
    "Event",
    "Index",
    "Int",
    "Machine",
    "MachineError",
    "Map",
    "Model",
    "Param",
    "Part",
    "Promise",
    "Property",
    "Queue",
    "Real",
    "Scalar",
    "Sort",
    "Sum",
    "Tally",
    "action",
    "all_of",
    "any_of",
    "assume",
    "can",
    "corollary",
    "eventually",
    "exists",
    "forall",
    "iff",
    "implies",
    "initially",
    "invariant",
    "ite",
    "none",
    "optional",
    "otherwise",
    "promise",
    "sometimes",
    "step",
    "steps",
    "such_as",
    "when",
]
