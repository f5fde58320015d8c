"""The one error that the reference implementation raises for an illegal call."""


class RefusedError(ValueError):
    """An illegal call: its caller broke a precondition, and nothing was changed.

    A legal call that merely does not fit now (too few free blocks) is no error: it answers ``None`` or ``False``.
    """
