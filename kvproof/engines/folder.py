"""A folder in which whatever has its final name is complete, however a process that worked in it ended."""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["Folder"]

_STAGING = ".kvproof-staging-"


class Folder:
    """A folder of things that are built aside and appear, or go, by one rename.

    Staging folders are made under the lock only, so whoever holds the lock knows that the others' are of the dead.
    Every method may raise ``OSError``.
    """

    def __init__(self, root: Path) -> None:
        """Speak of the folder at ``root``, which need not exist."""
        self.root = root

    @contextmanager
    def locked(self, on_wait: Callable[[], None]) -> Iterator[None]:
        """Be the only process that changes the folder; call ``on_wait`` if another has to be waited for."""
        self.root.mkdir(parents=True, exist_ok=True)
        with (self.root / ".lock").open("w") as file:
            # The system gives the lock back when its process ends, however it ends.
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                on_wait()
                fcntl.flock(file, fcntl.LOCK_EX)
            for stale in self.root.glob(f"{_STAGING}*"):
                shutil.rmtree(stale, ignore_errors=True)
            yield

    @contextmanager
    def staging(self) -> Iterator[Path]:
        """Give a new folder to build in; it goes when the body ends. The lock must be held."""
        path = Path(tempfile.mkdtemp(prefix=_STAGING, dir=self.root))
        try:
            yield path
        finally:
            shutil.rmtree(path, ignore_errors=True)

    def put(self, built: Path, name: str) -> Path:
        """Give what was built its final name, in place of what had it; return where it is. The lock must be held."""
        self.discard(name)
        place = self.root / name
        os.replace(built, place)
        return place

    def discard(self, name: str) -> None:
        """Remove what has that name, if anything has: the name first. The lock must be held."""
        if (self.root / name).exists():
            with self.staging() as aside:
                os.replace(self.root / name, aside / name)
