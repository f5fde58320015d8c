"""What stands in for what a release imports and a machine without a GPU does not have."""

import hashlib
import importlib.abc
import importlib.machinery
import os
import sys
import types
import warnings
from array import array

from sglang_release import BEFORE_CHECKPOINTS

__all__ = ["interpret", "native_hash", "quiet", "stand_in"]


class _Name(type):
    """The class that a name of a module stands for; it has every attribute that is asked for."""

    def __getattr__(cls, name: str):
        if name.startswith("__"):
            raise AttributeError(name)
        return name


class _Module(types.ModuleType):
    """A module that has every name that is asked for."""

    def __getattr__(self, name: str):
        if name.startswith("__"):
            raise AttributeError(name)
        return _Name(name, (), {})


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds a package that is not there, and everything in it."""

    def __init__(self, package: str) -> None:
        self._package = package

    def find_spec(self, fullname, _path, _target=None):
        """Return the spec of a module of the package."""
        if fullname.partition(".")[0] != self._package:
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec):
        """Make the module."""
        return _Module(spec.name)

    def exec_module(self, module) -> None:
        """Nothing is run."""
        module.__path__ = []


def stand_in() -> None:
    """Let a release be imported by the one runtime.

    No build of torchvision fits its torch, and no level runs any of it. Its transformers knows by now some of the
    models whose configurations releases before 0.5.20 bring.
    """
    from transformers.models.auto import configuration_auto
    from transformers.utils import import_utils

    import_utils.is_torchvision_available()  # Asked, and remembered, before there seems to be one.
    sys.meta_path.insert(0, _Finder("torchvision"))
    register = configuration_auto.AutoConfig.register
    configuration_auto.AutoConfig.register = staticmethod(lambda name, kind, **_: register(name, kind, exist_ok=True))


def interpret() -> None:
    """Let Triton's interpreter run kernels without a GPU: before 0.5.22 one alone finds the page of a next token."""
    if BEFORE_CHECKPOINTS:
        os.environ["TRITON_INTERPRET"] = "1"


def quiet() -> None:
    """Say nothing of the GPU that is missing."""
    warnings.filterwarnings("ignore", category=UserWarning)


def native_hash(tokens, prior: bytes | None, page_size: int | None = None):
    """Return the chained hashes of a key's pages, or one of all of it, as 64 hexadecimal digits.

    They are a release's own, which it compiles on first use where there is a compiler: SHA-256 of the hash before and
    of the tokens as little-endian uint32.
    """
    units = list(tokens)
    size = page_size or max(1, len(units))
    found = []
    for at in range(0, max(1, len(units)), size):
        page = array("I", [n for unit in units[at : at + size] for n in (unit if type(unit) is tuple else (unit,))])
        prior = hashlib.sha256((prior or b"") + page.tobytes()).digest()
        found.append(prior.hex())
    return found[0] if page_size is None else found
