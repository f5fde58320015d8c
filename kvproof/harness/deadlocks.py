"""The scopes in which the machines are explored that come to a halt as engines did: as small as shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..machine import Machine

__all__ = ["setting_of"]

_SETTINGS: dict[str, tuple[dict[str, int], dict[str, Any]]] = {
    "HitsInside": ({"Request": 2, "Int": 4}, {"capacity": 2, "need": 2}),
    "AlignedPrefill": (
        {"Request": 1, "Tokens": 6, "Int": 6},
        {"budget": 4, "drafts": 1, "block": 3, "is_whole": [False, False, False, True, False, False]},
    ),
    "PrefillBesideDrafts": (
        {"Request": 1, "Tokens": 6, "Int": 6},
        {"budget": 4, "drafts": 1, "block": 4, "is_whole": [False, False, False, False, True, False]},
    ),
    "GrowingRequests": ({"Request": 2, "Int": 5}, {"capacity": 3, "extra": 1, "need": 2}),
    "LookAhead": ({"Request": 2, "Int": 5}, {"capacity": 2, "extra": 1, "need": 2}),
    "ReservedLoads": ({"Request": 2, "Int": 4}, {"capacity": 2, "loads": 1, "computes": 1}),
    "LazyStores": ({"Block": 3, "Int": 4}, {"capacity": 1}),
}
"""By machine: sizes, and parameters; what is the same for all requests stands once."""


def setting_of(machine: type[Machine]) -> tuple[dict[str, int], dict[str, Any]] | None:
    """The sizes and parameters of a machine of `spec/liveness/deadlocks/`; None: it is none of them."""
    named = next((c.__name__ for c in machine.__mro__ if c.__name__ in _SETTINGS), None)
    if named is None or "spec.liveness.deadlocks." not in machine.__module__:
        return None
    sizes, params = _SETTINGS[named]
    by_request = {"need", "loads", "computes"}
    return dict(sizes), {n: [v] * sizes["Request"] if n in by_request else v for n, v in params.items()}
