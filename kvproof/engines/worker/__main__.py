"""The worker: run by the engine's own interpreter, it drives the engine and tells what happened.

``python kvproof/engines/worker ADAPTER [LIMITS]`` reads cases and writes answers, one line of JSON each
(`docs/protocol.md`); the adapter is a file such as ``kvproof/engines/vllm/worker/vllm_engine.py``. It needs the
standard library and the engine, nothing of the kit. What the engine prints goes to standard error.
"""

import importlib
import json
import os
import sys

from frames import with_room
from serving import answer, serve

__all__ = ["answer", "main"]


def main() -> None:
    """Answer cases until standard input ends."""
    folder, _, file = os.path.abspath(sys.argv[1]).rpartition(os.sep)
    module = file.removesuffix(".py")
    limits = json.loads(sys.argv[2]) if len(sys.argv) > 2 else {}
    # Its folder must not shadow what the engine imports: all names in it begin with the engine's.
    sys.path.insert(1, folder)

    def imported() -> tuple:
        adapter = importlib.import_module(module)
        return adapter, {"engine": module.removesuffix("_engine"), "version": adapter.version()}

    serve(imported, limits)


if __name__ == "__main__":
    with_room(main)
