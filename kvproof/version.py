"""Which kvproof this is."""

from importlib.metadata import PackageNotFoundError, version


def kit_version() -> str:
    """Return the version of the installed kit, as traces and reports name it."""
    try:
        return version("kvproof")
    except PackageNotFoundError:
        return "unknown"
