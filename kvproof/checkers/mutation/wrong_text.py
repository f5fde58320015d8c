"""A package that is read with a mistake in one of its modules: in a process of its own, which reads it anew.

Whoever judges such a text starts a process for each mutant (`in_child`), lets it forget what was read of the package
and of whatever drives it (`Text.forget`), and puts the mutant in the way of the module (`Wrong`).
"""

from __future__ import annotations

import gc
import importlib.abc
import importlib.machinery
import multiprocessing
import os
import resource
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import ceil
from multiprocessing.connection import Connection
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

from .sources import SourceMutant

__all__ = ["Lines", "Text", "Wrong", "ends_after", "in_child"]

PATIENCE = 20
"""So many times longer than it computes a process may take."""

HANGING = (signal.SIGXCPU, signal.SIGPROF, signal.SIGALRM)
"""What ends a process that hangs: it has computed for too long, as a whole or in one part, or has done nothing."""

Lines = dict[str, set[int]]
"""By file, as mutants name it: lines."""


@dataclass(frozen=True)
class Text:
    """A package: the folder with its modules, its name, and the packages that hold on to it and are read again too."""

    folder: Path
    package: str
    driven_by: tuple[str, ...] = ()

    def forget(self, but: Sequence[str] = ()) -> None:
        """Let this process read the package anew, and what drives it, ``but`` these modules."""
        for name in list(sys.modules):
            if any(name == p or name.startswith(f"{p}.") for p in (self.package, *self.driven_by)) and name not in but:
                del sys.modules[name]

    @contextmanager
    def lines_come_by(self) -> Iterator[Callable[[], Lines]]:
        """While this is open, the lines of the package that run are noted; a call returns those since the last."""
        lines: Lines = {}
        names: dict[str, str] = {}

        def name_of(file: str) -> str:
            """A file of the package, as its mutants name it; empty for others."""
            if file not in names:
                path = Path(file).resolve()
                is_ours = path.is_relative_to(self.folder)
                names[file] = path.relative_to(self.folder.parent).as_posix() if is_ours else ""
            return names[file]

        def local(frame: FrameType, event: str, _argument: object) -> Any:
            if event == "line":
                lines.setdefault(name_of(frame.f_code.co_filename), set()).add(frame.f_lineno)
            return local

        def enter(frame: FrameType, _event: str, _argument: object) -> Any:
            return local if name_of(frame.f_code.co_filename) else None

        def taken() -> Lines:
            nonlocal lines
            found, lines = lines, {}
            return found

        threading.settrace(enter)
        sys.settrace(enter)
        try:
            yield taken
        finally:
            sys.settrace(None)
            threading.settrace(None)


class Wrong(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds one module of a package with a mistake in its text."""

    def __init__(self, mutant: SourceMutant, text: Text) -> None:
        self.mutant, self.file = mutant, str(text.folder.parent / mutant.file)
        self.name = ".".join([text.package, *Path(mutant.file).with_suffix("").parts[1:]])

    def find_spec(self, name: str, path: object = None, target: object = None) -> importlib.machinery.ModuleSpec | None:  # noqa: ARG002
        """The module, if it is the wrong one."""
        if name != self.name:
            return None
        return importlib.machinery.ModuleSpec(name, self, origin=self.file)

    def exec_module(self, module: ModuleType) -> None:
        """Run the wrong text."""
        module.__file__ = self.file
        exec(compile(self.mutant.tree, self.file, "exec"), module.__dict__)  # our own text, with a mistake


def in_child(task: Callable[..., Any], *args: Any, limit: float) -> Any:
    """What the task returns in a process of its own; a process that hangs or dies notices the mistake by that.

    Args:
        task: what is done there; a `RuntimeError` that it returns is raised here.
        args: what it is called with.
        limit: the seconds of computing after which it hangs; or it does nothing for many times as long. On a machine
            that others use, what is slow does not hang.
    """
    ours, theirs = multiprocessing.Pipe(duplex=False)
    child = multiprocessing.get_context("fork").Process(target=_send, args=(theirs, limit, task, *args))
    child.start()
    theirs.close()
    try:
        if not ours.poll(PATIENCE * limit):
            return "it hangs"
        answer = ours.recv()
    except EOFError:
        child.join()
        return "it hangs" if -(child.exitcode or 0) in HANGING else "the process dies"
    finally:
        child.kill()
        child.join()
        ours.close()
    if isinstance(answer, RuntimeError):
        raise answer
    return answer


@contextmanager
def ends_after(limit: float) -> Iterator[None]:
    """In a child: a part of its task that hangs, as a whole task does, ends the process."""
    signal.setitimer(signal.ITIMER_PROF, limit)
    signal.setitimer(signal.ITIMER_REAL, PATIENCE * limit)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)


def _send(to: Connection, limit: float, task: Callable[..., Any], *args: Any) -> None:
    gc.freeze()  # pytest collects garbage whenever it ends: what was there before the fork would be walked each time
    resource.setrlimit(resource.RLIMIT_CPU, (ceil(limit), ceil(limit) + 1))
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, 1)
    os.dup2(devnull, 2)
    to.send(task(*args))
    to.close()
