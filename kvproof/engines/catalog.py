"""The engines by name: the kit's own, and those of installed packages (entry points of the group kvproof.engines)."""

from ..registry import Registry
from .engine import Engine

__all__ = ["ENGINES", "driven", "levels_of_release"]


def _vllm() -> Engine:
    from .vllm import engine

    return engine


def _dynamo() -> Engine:
    from .dynamo import engine

    return engine


def _transformers() -> Engine:
    from .transformers import engine

    return engine


def _sglang() -> Engine:
    from .sglang import engine

    return engine


def _lmcache() -> Engine:
    from .lmcache import engine

    return engine


ENGINES: Registry[Engine] = Registry(
    "kvproof.engines",
    {"vllm": _vllm, "dynamo": _dynamo, "transformers": _transformers, "sglang": _sglang, "lmcache": _lmcache},
)


def driven() -> tuple[str, ...]:
    """Return the engines that `kvproof fuzz` drives, operation by operation. Others are compared as a whole."""
    return tuple(name for name, engine in ENGINES.items() if engine.LEVELS)


def levels_of_release(name: str, version: str) -> tuple[str, ...]:
    """Return the levels of an engine that a release has cases for, in the order in which they are shown."""
    engine = ENGINES[name]
    found = {level: engine.cases(level) for level in engine.LEVELS}
    return tuple(level for level, cases in found.items() if cases is None or cases.profiles(version))
