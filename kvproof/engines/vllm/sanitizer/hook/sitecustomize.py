"""What an interpreter imports by itself when this folder is on its ``PYTHONPATH``: it arms the sanitizer.

A ``sitecustomize`` that the environment has anyway is run as if this one were not there.
"""

import contextlib
import importlib.machinery
import importlib.util
import os
import sys
from pathlib import Path

_HERE = str(Path(__file__).resolve().parent)


def _run_the_other() -> None:
    folders = [folder for folder in sys.path if folder and str(Path(folder).resolve()) != _HERE]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", folders)
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


def _arm() -> None:
    """Import the kit's part for vLLM under a name of its own: nothing else of the kit is to be found."""
    root = Path(_HERE).parent.parent
    spec = importlib.util.spec_from_file_location(
        "_kvproof_vllm", root / "__init__.py", submodule_search_locations=[str(root)]
    )
    assert spec is not None
    assert spec.loader is not None
    package = sys.modules["_kvproof_vllm"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(package)
    importlib.import_module("_kvproof_vllm.sanitizer.arming").arm()


if os.environ.get("KVPROOF_SANITIZE", "") not in ("", "0"):
    try:
        _arm()
    except Exception as error:  # Whatever is wrong here, the engine runs.
        with contextlib.suppress(Exception):  # Nor must it matter where nobody can be told.
            print(f"kvproof: the sanitizer is not attached: {type(error).__name__}: {error}", file=sys.stderr)
_run_the_other()
