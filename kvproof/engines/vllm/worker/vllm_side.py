"""What is so of every connector that has no tier below its host."""

__all__ = ["Side"]


class Side:
    """One connector of an engine, as the adapter drives it."""

    files = None
    """The tier of files below, if it tells events."""

    sources: tuple[str, ...] = ("external_unspecified",)
    """Where the release may say that a token was found which this connector fetched (`hits_by_source`)."""

    def waits(self) -> bool:
        """Return whether requests waited for an answer of a tier below as the last step ran."""
        return False

    def kept(self) -> set[str]:
        """Return the requests that a tier below knows of, and was not told that they are over."""
        return set()
