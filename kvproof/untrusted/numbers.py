"""Numbers as a user writes them on the command line."""

from typing import Literal

from ..errors import UsageError

__all__ = ["UNLIMITED", "Rate", "parse_capacities", "parse_params", "parse_sizes"]

UNLIMITED = "unlimited"
"""The capacity at which nothing is ever evicted."""

Rate = float | Literal["unlimited"]
"""Bytes per second of a link; an unlimited one takes no time (G2)."""


def parse_sizes(text: str) -> dict[str, int]:
    """Return the sizes that ``Block=5,Request=2`` names.

    Raises:
        UsageError: a part is not a name, an equals sign and a positive number, or a name comes twice.
    """
    return _parse_numbers("--size", text, "a size; write it as Block=5,Request=2", least=1)


def parse_params(text: str) -> dict[str, int]:
    """Return the values that ``capacity=2,pinning=0`` names.

    Raises:
        UsageError: a part is not a name, an equals sign and a number from 0 on, or a name comes twice.
    """
    return _parse_numbers("--set", text, "a value; write it as capacity=2,min_drop=1", least=0)


def _parse_numbers(option: str, text: str, wanted: str, *, least: int) -> dict[str, int]:
    """Return the numbers in ``text`` by their names."""
    numbers: dict[str, int] = {}
    for part in text.split(","):
        name, _, number = (piece.strip() for piece in part.partition("="))
        if not name.isidentifier() or not (_is_positive(number) or (number == "0" and least == 0)):
            raise UsageError(f"{option} {text}: '{part}' is not {wanted}")
        if name in numbers:
            raise UsageError(f"{option} {text}: {name} is given twice; give it once")
        numbers[name] = int(number)
    return numbers


def parse_capacities(text: str) -> list[int | None]:
    """Return the capacities of ``1000,10000,unlimited``; ``None`` stands for unlimited.

    Raises:
        UsageError: a part is neither a positive number nor ``unlimited``.
    """
    capacities: list[int | None] = []
    for part in (piece.strip() for piece in text.split(",")):
        if part == UNLIMITED:
            capacities.append(None)
        elif _is_positive(part):
            capacities.append(int(part))
        else:
            raise UsageError(f"--capacity {text}: '{part}' is no number of blocks; write 1000,10000 or unlimited")
    return capacities


def _is_positive(text: str) -> bool:
    """Tell whether ``text`` is a positive number of a sensible length."""
    return text.isascii() and text.isdigit() and len(text) <= 12 and int(text) > 0
