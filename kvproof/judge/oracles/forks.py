"""Requests that go on from another one (operation ``fork``), for the books that oracles keep of each."""

from ..record import Step

__all__ = ["source_of"]


def source_of(step: Step) -> str:
    """The request at which a new one of this step begins; of no request, unless the step forks one."""
    return str(step.args.get("request")) if step.op == "fork" else ""
