"""What incidents of block pools and of chunk managers have in common: how calls are read, and what comes of them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Generic, Literal, TypeAlias, TypeVar, get_type_hints

import msgspec

from ..checkers.trace import Operation, Trace, TraceError
from ..engines.vllm.sanitizer.chunk_judging import ChunkCall
from ..engines.vllm.sanitizer.judging import Call, Verdict

__all__ = ["Calls", "Found", "Outcome", "check_entries", "check_place", "compared", "reading"]

C = TypeVar("C", Call, ChunkCall)

Outcome: TypeAlias = Literal["same", "other", "none"]
"""Whether the recorded rule is broken at the recorded operation, another one, or none at all."""

Found: TypeAlias = tuple[int, Verdict]
"""Which operation, counted from 0, breaks which rule."""


class Calls(Generic[C]):
    """Reads the calls of one kind of manager from the operations of a trace."""

    def __init__(self, kind: type[C], operations: Collection[str]) -> None:
        """``kind`` says which arguments a call has, ``operations`` what it may be."""
        usual = kind._field_defaults
        fields: list[Any] = [
            (name, hint, usual[name]) if name in usual else (name, hint)
            for name, hint in get_type_hints(kind).items()
            if name != "op"
        ]
        self._kind: Callable[..., C] = kind
        self._operations = operations
        self._arguments = msgspec.defstruct("Arguments", fields, forbid_unknown_fields=True)

    def read(self, operation: Operation) -> C:
        """Return the call that an operation tells of.

        Raises:
            ValueError, MsgspecError: there is no such call, or its arguments are others.
        """
        if operation.op not in self._operations:
            raise ValueError(f"there is no call {operation.op!r}")
        arguments = msgspec.convert(operation.args, self._arguments)
        return self._kind(operation.op, **msgspec.structs.asdict(arguments))


def check_entries(call: Call | ChunkCall, field: str, *counts: int) -> None:
    """Raise a ValueError if a field of a call has another number of entries than one of these."""
    if len(getattr(call, field)) not in counts:
        raise ValueError(f"{field} of {call.op} has {len(getattr(call, field))} entries")


def check_place(at: int, trace: Trace, *, whole: bool) -> None:
    """Raise a ValueError if the operation that shows the fault is not there: nothing would be judged, and all right.

    Only where the state was not kept (it is not ``whole``) may a fault of the state come behind no call at all.
    """
    if not (0 <= at < len(trace.operations) or (at == -1 and not whole and not trace.operations)):
        raise ValueError(f"operation {at + 1} shows its fault, and it has {len(trace.operations)}")


@contextmanager
def reading(name: str) -> Iterator[None]:
    """Read an incident; whatever is wrong with it becomes a `TraceError`, which calls it by its ``name``."""
    try:
        yield
    except (LookupError, TypeError, ValueError, msgspec.MsgspecError) as error:
        why = f"it lacks {error}" if isinstance(error, LookupError) else error
        raise TraceError(f"{name} is no readable incident of the sanitizer: {why}; record it again") from error


def compared(found: Sequence[Found], at: int, rule: str, kind: str) -> tuple[Outcome, Found | None]:
    """Compare what was found with what was recorded; return the recorded fault where it is there, else the first."""
    recorded = [each for each in found if (each[0], each[1].rule, each[1].kind) == (at, rule, kind)]
    outcome: Outcome = "same" if recorded else "other" if found else "none"
    return outcome, next(iter(recorded or found), None)
