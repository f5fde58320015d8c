"""What the token behind a hit attends to, by a group's kind: its hit has to have that (H4)."""

from ..record import Group

__all__ = ["first_needed"]


def first_needed(group: Group, length: int) -> int:
    """The first position that the token behind a hit attends to."""
    if group.kind == "window" and group.window is not None:
        return max(0, length - group.window + 1)
    if group.kind == "chunk" and group.window is not None:
        return length // group.window * group.window
    return 0
