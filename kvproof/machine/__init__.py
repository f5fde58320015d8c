"""The modelling language and its interpreters.

A machine is written once (`language`), read once (`model`), and run by three interpreters that share that reading:
`concrete` (plain Python values), `symbolic` (Z3, any size) and `batched` (torch, many states at once).
"""

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
from .model import Action, Model, Property
from .part import Part
from .terms import Bool, Index, Int, MachineError, Real, Sort, all_of, any_of, iff, implies, ite, none, optional

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
    "sometimes",
    "step",
    "when",
]
