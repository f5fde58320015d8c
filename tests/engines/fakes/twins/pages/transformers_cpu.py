"""In place of what wants no accelerator: there is none to do without."""


def without_accelerator() -> None:
    """Do nothing."""
