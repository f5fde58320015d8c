"""The engine store: released engines side by side, each with an interpreter that runs it.

::

    runtime-3.11-1f0c2d3e/   a virtual environment with what releases of an engine import, such as torch; shared
    vllm-0.33.0/             a release: Python files for PYTHONPATH, and a record that names its runtime
    logs/vllm-0.33.0.log     what the tools said while it was installed

It lies in the user's cache folder, or where ``KVPROOF_ENGINES`` says. Nothing of it is ever imported by the kit.
"""

import re
import shutil
import subprocess
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from packaging.version import InvalidVersion, Version

from ..untrusted import limits
from ..untrusted.reading import UnreadableError, decode_json, read_bounded
from .build import VARIABLE, Build, StoreError, location
from .catalog import ENGINES, driven
from .folder import Folder
from .installation import RECORD, Installation, Progress, Record, interpreter, log_of

__all__ = [
    "Build",
    "Holding",
    "StoreError",
    "check",
    "clear",
    "engine_of",
    "holdings",
    "install",
    "installed",
    "location",
    "names_release",
    "remove",
    "resolve",
    "tidy",
]

_SECONDS_TO_ANSWER = 60
"""How long an interpreter may take to say which release it has."""

_TARGET = re.compile(r"(?P<name>[A-Za-z0-9._-]+?)(?P<sign>==|@)(?P<rest>.+)", re.DOTALL)

_RUNTIME = re.compile(r"runtime-[A-Za-z0-9][A-Za-z0-9._-]*", re.ASCII)
"""The name of a runtime in the store."""

_ASK_VERSION = """
import sys
from importlib.metadata import distributions
print(next((d.version for name in sys.argv[1:] for d in distributions(name=name)), ""))
"""


@dataclass(frozen=True)
class Holding:
    """A folder of the store."""

    build: Build | None
    """The release in it; none for a runtime."""
    path: Path
    runtime: Path
    """The virtual environment that runs it."""
    size: int
    """Bytes on disk."""

    @property
    def python(self) -> str:
        """The Python of the runtime: ``3.11``."""
        return self.runtime.name.split("-")[1]


def resolve(target: str, names: Collection[str] | None = None) -> Build:
    """Return the build of ``vllm==0.33.0``, from the store, or of ``vllm@PYTHON``, an environment of the user's own.

    ``names`` are the engines that the caller can use; by default those that can be driven operation by operation.

    Raises:
        StoreError: there is no such build, or it cannot be driven.
    """
    names = driven() if names is None else names
    name, sign, rest = _parse(target, names)
    if sign == "@":
        return _own(target, name, rest)
    name, version = _release(target, names)
    build = _find(name, version)
    if build is None:
        raise StoreError(f"{name}=={version} is not installed; run: kvproof engines install {name}=={version}")
    if not build.python.exists():
        raise StoreError(f"the Python that ran {build.label} is gone; run: kvproof engines install {build.label}")
    return build


def names_release(target: str) -> bool:
    """Tell whether a target is ``vllm==0.33.0``: no path, no interpreter, no command, and nothing is looked up."""
    try:
        _release(target, driven())
    except StoreError:
        return False
    return True


def engine_of(target: str) -> str | None:
    """Return which of the engines that can be driven a target names, if it names one; nothing is looked up."""
    try:
        return _parse(target, driven())[0]
    except StoreError:
        return None


def installed(name: str) -> list[Build]:
    """Return the releases of an engine that are in the store, the oldest first.

    Raises:
        StoreError: the store cannot be read.
    """
    root = location()
    with _sentences():
        found = [_read(root, record) for record in root.glob(f"{name}-*/{RECORD}")]
    return sorted((build for build in found if build is not None), key=lambda build: Version(build.version))


def check(requirement: str) -> tuple[str, Version]:
    """Return name and version of ``vllm==0.33.0``, if that can be installed as far as one can say without a look.

    Raises:
        StoreError: it is not of that form, or too old.
    """
    _, sign, _ = _parse(requirement, ENGINES)
    if sign == "@":
        raise StoreError(f"{requirement} is an environment of your own and needs no installing; use it as it is")
    name, version = _release(requirement, ENGINES)
    _refuse_old(requirement, name, version)
    return name, version


def install(requirement: str, on_progress: Progress) -> Build:
    """Return the build of ``vllm==0.33.0``, installed first if need be: whole, or not at all.

    Raises:
        StoreError: it cannot be installed, or does not work here.
    """
    name, version = check(requirement)
    with _changing(on_progress) as folder:
        build = _find(name, version)
        if build is not None and build.python.exists():
            return build
        with folder.staging() as stage:
            return Installation(folder, stage, name, version, on_progress).finish()


def remove(requirement: str, on_progress: Progress) -> None:
    """Remove a release, and the runtimes that no release needs any more.

    Raises:
        StoreError: it is not installed, or the store cannot be changed.
    """
    name, version = _release(requirement, ENGINES)
    with _changing(on_progress) as folder:
        build = _find(name, version)
        if build is None:
            raise StoreError(f"{name}=={version} is not installed; kvproof engines list shows what is")
        folder.discard(build.path[0].name)
        log_of(folder.root, build.name, build.version).unlink(missing_ok=True)
        needed = {_runtime_of(left) for left in _all_installed()}
        for runtime in _runtimes(folder.root):
            if runtime not in needed:
                folder.discard(runtime.name)


def clear(on_progress: Progress) -> None:
    """Remove every release, runtime and log; what else lies in the folder stays.

    Raises:
        StoreError: the store cannot be changed.
    """
    with _changing(on_progress) as folder:
        releases = [record.parent for name in ENGINES for record in folder.root.glob(f"{name}-*/{RECORD}")]
        for path in (*releases, *_runtimes(folder.root)):  # Releases first: none is ever without its runtime.
            folder.discard(path.name)
        for log in [log for name in ENGINES for log in folder.root.glob(f"logs/{name}-*.log")]:
            log.unlink()


def tidy() -> None:
    """Remove what interrupted installs left, unless another process is at work in the store."""

    class Busy(Exception):
        """Another process is at work."""

    def leave() -> None:
        raise Busy

    root = location()
    with suppress(Busy, OSError):
        if root.is_dir():
            with Folder(root).locked(leave):
                pass


def holdings() -> list[Holding]:
    """Return what is in the store: releases, then runtimes.

    Raises:
        StoreError: the store cannot be read.
    """
    with _sentences():
        held = [(build, build.path[0], _runtime_of(build)) for build in _all_installed()]
        shared = [(None, runtime, runtime) for runtime in _runtimes(location())]
        return [Holding(build, path, runtime, _size(path)) for build, path, runtime in [*held, *shared]]


@contextmanager
def _changing(on_progress: Progress) -> Iterator[Folder]:
    """Give the store to change, to this process alone."""
    folder = Folder(location())
    with _sentences(), folder.locked(lambda: on_progress("waiting for another kvproof that changes the store", "")):
        yield folder


@contextmanager
def _sentences() -> Iterator[None]:
    """Say in a sentence what the file system refuses."""
    try:
        yield
    except OSError as error:
        raise StoreError(
            f"the engine store {location()} cannot be used ({error.strerror or error}); "
            f"mend that, or set {VARIABLE} to a folder of yours with some gigabytes of room"
        ) from error


def _parse(target: str, names: Collection[str]) -> tuple[str, str, str]:
    """Return the name of the engine, what stands between it and the rest, and the rest; other names are refused."""
    match = _TARGET.fullmatch(target)
    if match is None:
        raise StoreError(
            f"'{target}' names no engine; write vllm==0.33.0, vllm@PYTHON for an interpreter that has "
            "a vllm, exec:COMMAND or python:MODULE:CLASS for a driver of your own"
        )
    name, sign, rest = match.group("name", "sign", "rest")
    if name not in names:
        own = ", or exec:COMMAND for a driver of your own" if set(names) == set(driven()) else ""
        raise StoreError(f"'{target}': kvproof cannot use {name} here; it can use {_in_words(names)}{own}")
    return name, sign, rest


def _in_words(names: Collection[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


def _release(requirement: str, names: Collection[str]) -> tuple[str, Version]:
    """Return the name and the version of ``vllm==0.33.0``."""
    name, sign, text = _parse(requirement, names)
    if sign == "==" and len(text) <= limits.NAME_LETTERS:
        with suppress(InvalidVersion):
            return name, Version(text)
    raise StoreError(f"'{requirement}' names no release; write it as {name}=={ENGINES[name].OLDEST}")


def _refuse_old(target: str, name: str, version: Version) -> None:
    """Refuse what no adapter can drive."""
    oldest = ENGINES[name].OLDEST
    if version < oldest:
        raise StoreError(f"{target}: {name} {version} is too old; kvproof drives {oldest} and newer")


def _find(name: str, version: Version) -> Build | None:
    """Return the release if it is installed."""
    return next((build for build in installed(name) if Version(build.version) == version), None)


def _all_installed() -> list[Build]:
    """Return the releases of all engines."""
    return [build for name in ENGINES for build in installed(name)]


def _read(root: Path, path: Path) -> Build | None:
    """Return the build whose record is at ``path``, if it is one.

    A record decides which interpreter is run: it may name a runtime of this store, and no other place.
    """
    try:
        record = decode_json(read_bounded(path, limits.RECORD_BYTES), Record)
        Version(record.version)
    except (UnreadableError, InvalidVersion):
        return None
    if path.parent.name != f"{record.name}-{record.version}" or not _RUNTIME.fullmatch(record.runtime):
        return None
    return Build(record.name, record.version, interpreter(root / record.runtime), (path.parent,))


def _own(target: str, name: str, place: str) -> Build:
    """Return the build of an environment of the user's own, which is asked for its version and left as it is."""
    found = shutil.which(Path(place).expanduser())
    if found is None:
        raise StoreError(
            f"{target}: there is no program {place}; give the path of a Python interpreter that has {name}"
        )
    python = Path(found).absolute()  # Not resolved: a virtual environment's interpreter is a link.
    try:
        answer = subprocess.run(
            [python, "-c", _ASK_VERSION, *ENGINES[name].DISTRIBUTIONS],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            timeout=_SECONDS_TO_ANSWER,
            check=True,
            env=Build(name, "", python).environment(),
        )
        text = answer.stdout.splitlines()[-1]
    except (subprocess.SubprocessError, OSError, ValueError, IndexError) as error:
        raise StoreError(
            f"{target}: {place} does not work as a Python interpreter; give one that has {name}"
        ) from error
    if not text:
        raise StoreError(f"{target}: {name} is not installed there; give the path of a Python interpreter that has it")
    with suppress(InvalidVersion):
        _refuse_old(target, name, Version(text))
        return Build(name, text, python)
    raise StoreError(f"{target}: the {name} there calls itself '{text}', which is no version; install a release there")


def _runtime_of(build: Build) -> Path:
    """Return the virtual environment that runs a release of the store."""
    return build.python.parent.parent


def _runtimes(root: Path) -> list[Path]:
    """Return the runtimes in the store."""
    return sorted(config.parent for config in root.glob("runtime-*/pyvenv.cfg"))


def _size(path: Path) -> int:
    """Return how many bytes a folder takes on disk."""
    return sum(entry.lstat().st_blocks * 512 for entry in path.rglob("*"))
