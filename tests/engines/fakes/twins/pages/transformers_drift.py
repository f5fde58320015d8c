"""In place of what knows the release again: there is none."""


def refuse_what_has_drifted() -> None:
    """Do nothing."""
