"""Building a release of an engine: the runtime that all its releases share, and the release itself.

Everything is built in a staging folder, the tools' temporary files included, and put in place when it is complete.
"""

import hashlib
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec
from packaging.version import Version

from .build import Build, StoreError, without_python
from .catalog import ENGINES
from .engine import Engine
from .folder import Folder
from .process import ProcessError, run
from .session import WORKER

__all__ = [
    "RECORD", "Installation", "Progress", "Record", "interpreter", "log_of", "runtime_name", "trial", "worker_folders",
]  # fmt: skip

Progress = Callable[[str, str], None]
"""Called with what is being done and, as long as it is being done, with what the tool says."""

RECORD = "kvproof.json"
"""The file in a release's folder that says what it is."""

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
"""The Python of a new runtime: the kit's own."""


class Record(msgspec.Struct):
    """What a folder of the store is."""

    name: str
    version: str
    runtime: str


def interpreter(runtime: Path) -> Path:
    """Return the interpreter of a virtual environment."""
    return runtime / "bin" / "python"


def runtime_name(engine: Engine) -> str:
    """Return the name of the runtime that new releases get: another one for other contents or another Python."""
    if engine.RUNTIME is None:
        return f"runtime-{PYTHON}-empty"
    return f"runtime-{PYTHON}-{hashlib.sha256(engine.RUNTIME.read_bytes()).hexdigest()[:8]}"


def worker_folders(engine: Engine) -> list[Path]:
    """Return the folders that a worker imports its own modules from, in the order in which it looks there."""
    return [WORKER, engine.WORKER.parent]


def trial(engine: Engine) -> str:
    """Return Python text that imports what must import before a release counts as installed, as a worker does."""
    folders = [str(folder) for folder in worker_folders(engine)]
    return f"import sys; sys.path[:0] = {folders!r}; import {', '.join(engine.MODULES)}"


def log_of(root: Path, name: str, version: str) -> Path:
    """Return the file for what the tools say while a release is installed into the store at ``root``."""
    return root / "logs" / f"{name}-{version}.log"


class Installation:
    """One release on its way into the store."""

    def __init__(self, folder: Folder, stage: Path, name: str, version: Version, on_progress: Progress) -> None:
        """Prepare to install a release into ``folder``, building in ``stage``. The folder's lock must be held."""
        self._folder = folder
        self._stage = stage
        self._name = name
        self._engine = ENGINES[name]
        self._version = version
        self._on_progress = on_progress
        self._label = f"{name}=={version}"
        self._log = log_of(folder.root, name, str(version))
        self._log.parent.mkdir(exist_ok=True)
        self._log.unlink(missing_ok=True)
        self._temporary = stage / "tmp"
        self._temporary.mkdir()

    def finish(self) -> Build:
        """Do all of it.

        Raises:
            StoreError: the release is unknown, or cannot be built or run here.
            OSError: the store cannot be used.
        """
        runtime = runtime_name(self._engine)
        python = interpreter(self._folder.root / runtime)
        if python.exists():
            version = self._look_up(python)
        else:
            staged = self._stage / runtime
            self._make_environment(staged)
            version = self._look_up(interpreter(staged))  # Before a gigabyte is fetched for it.
            self._fill(interpreter(staged))
            # An environment may move as long as only its interpreter is run: the scripts beside it name the old place.
            python = interpreter(self._folder.put(staged, runtime))
        built = self._build(python, version)
        (built / RECORD).write_bytes(msgspec.json.encode(Record(self._name, version, runtime)))
        return Build(self._name, version, python, (self._folder.put(built, f"{self._name}-{version}"),))

    def _make_environment(self, place: Path) -> None:
        """Make an empty virtual environment."""
        task = f"making an environment for Python {PYTHON}"
        try:
            self._run(task, [sys.executable, "-m", "venv", place])
        except ProcessError as error:
            raise StoreError(
                f"{sys.executable} cannot make a virtual environment; install its venv module (Debian: python3-venv)",
                str(error),
            ) from error

    def _look_up(self, python: Path) -> str:
        """Return the version as the package index writes it."""
        package = self._engine.DISTRIBUTIONS[0]
        try:
            said = self._pip(f"looking up {self._label}", python, "index", "versions", "--pre", package)
        except ProcessError as error:
            raise StoreError(
                f"the package index tells nothing of {package}; see why with: pip index versions {package}", str(error)
            ) from error
        known = next((line.partition(":")[2] for line in said if line.startswith("Available versions:")), "")
        versions = known.replace(",", " ").split()
        for version in versions:
            if Version(version) == self._version:
                return version
        raise StoreError(
            f"the package index has no {self._label} for Python {PYTHON}; the newest that it has is "
            f"{versions[0] if versions else 'unknown'}, and pip index versions {package} lists all"
        )

    def _fill(self, python: Path) -> None:
        """Install what releases import, if anything."""
        runtime, torch = self._engine.RUNTIME, self._engine.TORCH
        if runtime is None:
            return
        try:
            if torch is not None:
                self._install_torch(python, torch, runtime)
            task = f"installing what {self._name} imports, once for all releases"
            self._pip(task, python, "install", "--no-deps", "--requirement", runtime)
        except ProcessError as error:
            raise StoreError(
                f"what {self._name} imports cannot be installed; {self._log} says why", str(error)
            ) from error

    def _install_torch(self, python: Path, torch: str, runtime: Path) -> None:
        """Install torch: on Linux its CPU build where one is at hand, for the other brings gigabytes of CUDA."""
        extra = os.environ.get("TORCH_INDEX")
        options = ("install", "--constraint", runtime, *(("--extra-index-url", extra) if extra else ()))
        task = f"installing {torch}"
        if sys.platform == "linux":
            try:
                self._pip(f"{task} for the CPU", python, *options, f"{torch}+cpu")
                return
            except ProcessError as error:
                if "No matching distribution" not in str(error):
                    raise
            task += ", for want of a CPU build the larger default one (TORCH_INDEX=... avoids it)"
        self._pip(task, python, *options, torch)

    def _build(self, python: Path, version: str) -> Path:
        """Return a folder with the release in it, which has been seen to import."""
        failures: list[str] = []
        recipes = self._engine.recipes(version)
        for recipe in recipes:
            place = self._stage / f"release-{len(failures)}"
            again = ", for want of a better one" if failures else ""
            try:
                self._pip(
                    f"building {self._label} from {recipe.what}{again}",
                    python,
                    # Not cached: pip would later hand the same build to somebody who wants a whole vLLM.
                    *("install", "--no-cache-dir", "--no-deps", "--target", place),
                    *recipe.arguments,
                    environment=recipe.environment,
                )
                self._run(
                    f"trying {self._label}",
                    [python, "-c", trial(self._engine)],
                    environment=Build(self._name, version, python, (place,)).environment(),
                )
                return place
            except ProcessError as error:
                failures.append(str(error))
        sources = " nor from ".join(recipe.what for recipe in recipes)
        raise StoreError(f"{self._label} does not work from {sources}; {self._log} says why", failures[0])

    def _pip(
        self, task: str, python: Path, *arguments: str | Path, environment: Mapping[str, str] | None = None
    ) -> list[str]:
        """Run pip as the user has configured it, but for what would lead it out of the store."""
        own = {"TMPDIR": str(self._temporary), "PIP_USER": "0", "PIP_NO_INPUT": "1"}
        variables = without_python(self._name) | own | dict(environment or {})
        return self._run(task, [python, "-m", "pip", *arguments], environment=variables)

    def _run(self, task: str, command: list[str | Path], environment: Mapping[str, str] | None = None) -> list[str]:
        """Run a tool with progress; return what it said."""
        self._on_progress(task, "")
        said: list[str] = []

        def on_line(line: str) -> None:
            said.append(line)
            self._on_progress(task, line)

        run(command, without_python(self._name) if environment is None else environment, self._log, on_line)
        return said
