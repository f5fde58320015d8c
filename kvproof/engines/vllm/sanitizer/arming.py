"""Attaching to an installed vLLM: its block pool, its chunk manager and its scheduler are wrapped once imported."""

from __future__ import annotations

import functools
import importlib.abc
import importlib.metadata
import inspect
import re
import sys
import weakref
from collections.abc import Callable, Mapping, Sequence
from importlib.machinery import ModuleSpec
from operator import itemgetter
from types import ModuleType
from typing import Any, Final, NamedTuple

from .chunk_observing import CHUNK_METHODS
from .chunk_watch import ChunkWatch
from .observing import METHODS, Method
from .saying import say
from .settings import Settings, read
from .watch import ViolationError, Watch

__all__ = ["arm", "refusal"]

OLDEST: Final = (0, 20)
NEWEST: Final = (0, 33)
"""The releases that are known, by their first two numbers; each must also look as it should (`refusal`)."""

SCHEDULER: Final = "vllm.v1.core.sched.scheduler"
HASH: Final = re.compile(r"""b'(?:[^'\\]|\\.)*'|b"(?:[^"\\]|\\.)*\"""")
"""Bytes, as Python quotes them."""
MARK: Final = "_kvproof_watch"
"""The attribute of a pool or manager that has its watch."""


class Subject(NamedTuple):
    """A class of the engine that is watched."""

    module: str
    name: str
    plural: str
    methods: Mapping[str, Method]
    watch: Callable[[Any, Settings, str, int], Watch | ChunkWatch]
    ones: list[weakref.ref[Any]]
    """All of this process that are watched."""


POOLS: Final = Subject("vllm.v1.core.block_pool", "BlockPool", "block pools", METHODS, Watch, [])
CHUNKS: Final = Subject(
    "vllm.v1.kv_offload.cpu.manager", "CPUOffloadingManager", "chunk managers", CHUNK_METHODS, ChunkWatch, []
)


def arm() -> None:
    """Watch the pools and managers of this process, from now on; settings or releases that are wrong are said."""
    try:
        settings = read()
    except ValueError as error:
        say(f"the sanitizer is not attached: {error}")
        return
    actions: dict[str, Callable[[ModuleType], None]] = {
        POOLS.module: lambda module: _attach(module, POOLS, settings),
        CHUNKS.module: lambda module: _attach(module, CHUNKS, settings),
        SCHEDULER: lambda module: _attach_scheduler(module),
    }
    later = {name: action for name, action in actions.items() if name not in sys.modules}
    for name in actions.keys() - later.keys():
        actions[name](sys.modules[name])
    if later:
        sys.meta_path.insert(0, _Finder(later))


def refusal(version: str, cls: type, methods: Mapping[str, Method]) -> str:
    """Why the sanitizer does not attach to a class of a release; nothing where it does."""
    numbers = tuple(int(part) for part in version.partition("+")[0].split(".")[:2] if part.isdecimal())
    if not OLDEST <= numbers <= NEWEST:
        known = " to ".join(".".join(map(str, release)) for release in (OLDEST, NEWEST))
        return f"vLLM {version} is no release that it knows ({known})"
    for name, method in methods.items():
        target = getattr(cls, name, None)
        if target is None and not method.always:
            continue
        names = tuple(inspect.signature(target).parameters)[1:] if callable(target) else ()
        if target is None or names[: len(method.parameters)] != method.parameters:
            return f"{cls.__name__}.{name} of vLLM {version} is not as it knows it"
    return ""


# --------------------------------------------------------------------------------------------------------- wrapping


def _attach(module: ModuleType, subject: Subject, settings: Settings) -> None:
    version = importlib.metadata.version("vllm")
    cls: Any = getattr(module, subject.name)
    if why := refusal(version, cls, subject.methods):
        say(f"the sanitizer is not attached to {subject.plural}, and the engine runs on unchanged: {why}")
        return
    release = version.partition("+")[0]
    made = cls.__init__

    @functools.wraps(made)
    def begins(self: Any, *args: Any, **kwargs: Any) -> None:
        made(self, *args, **kwargs)
        if MARK in self.__dict__:
            return
        try:
            setattr(self, MARK, subject.watch(self, settings, release, len(subject.ones)))
        except Exception as error:
            say(f"the sanitizer does not watch one of the {subject.plural}: {error}")
            return
        subject.ones.append(weakref.ref(self))

    cls.__init__ = begins
    for name, method in subject.methods.items():
        if hasattr(cls, name):
            setattr(cls, name, _watched(getattr(cls, name), method))
    say(f"the sanitizer watches the {subject.plural} of vLLM {release}")


def _watched(original: Callable[..., Any], method: Method) -> Callable[..., Any]:
    """A method that does what it did, and is seen."""
    before, after, short, parameters = method.before, method.after, method.short, method.parameters
    count = len(parameters)
    signature = inspect.signature(original).parameters
    defaults = {name: signature[name].default for name in parameters}
    usual = {name: value for name, value in defaults.items() if value is not inspect.Parameter.empty}
    named = itemgetter(*parameters) if count > 1 else None

    @functools.wraps(original)
    def watched(pool: Any, *args: Any, **kwargs: Any) -> Any:
        watch = pool.__dict__.get(MARK)
        if watch is None or not watch.alive:
            return original(pool, *args, **kwargs)
        given = args
        try:
            if named is not None and not args and not usual:
                given = named(kwargs)
            elif len(args) < count:
                lacking = parameters[len(args) :]
                given = args + tuple([kwargs[name] if name in kwargs else usual[name] for name in lacking])
        except KeyError:
            return original(pool, *args, **kwargs)  # It has its own words for what it lacks.
        try:
            instead, seen = before(pool, given)
        except Exception as error:
            _gave_up(watch, error)
            return original(pool, *args, **kwargs)
        if instead is not given:
            args, kwargs = instead, {name: value for name, value in kwargs.items() if name not in parameters}
        try:
            answer = original(pool, *args, **kwargs)
        except Exception as error:
            saw(watch, pool, seen, None, _words(error))
            raise
        saw(watch, pool, seen, answer, "")
        return answer

    def saw(watch: Watch | ChunkWatch, pool: Any, seen: Any, answer: Any, error: str) -> None:
        try:
            brief = None if error else short(pool, watch.steps, seen, answer)
            watch.saw(pool, after(pool, watch.steps, seen, answer, error) if brief is None else brief)
        except ViolationError:
            raise
        except Exception as fault:
            _gave_up(watch, fault)

    return watched


def _attach_scheduler(module: ModuleType) -> None:
    scheduler = module.Scheduler
    processed = scheduler.update_from_output

    @functools.wraps(processed)
    def update_from_output(self: Any, *args: Any, **kwargs: Any) -> Any:
        answer = processed(self, *args, **kwargs)
        own = self.kv_cache_manager.block_pool
        for reference in (*POOLS.ones, *CHUNKS.ones):
            pool = reference()
            watch = pool.__dict__.get(MARK) if pool is not None else None
            if watch is None or not watch.alive:
                continue
            try:
                watch.stepped(pool, self if pool is own else None)
            except ViolationError:
                raise
            except Exception as fault:
                _gave_up(watch, fault)
        return answer

    scheduler.update_from_output = update_from_output


def _words(error: Exception) -> str:
    """What was raised: its type and its words, without the hashes that these may quote."""
    return HASH.sub("a hash", f"{type(error).__name__}: {error}")[:500]


def _gave_up(watch: Watch | ChunkWatch, fault: Exception) -> None:
    """Whatever goes wrong in the sanitizer, the engine goes on without it."""
    watch.alive = False
    say(f"the sanitizer failed and watches this one no longer: {type(fault).__name__}: {fault}")


# --------------------------------------------------------------------------------------------------------- importing


class _Finder(importlib.abc.MetaPathFinder):
    """Finds what the others find, and lets something be done once it is imported."""

    def __init__(self, actions: dict[str, Callable[[ModuleType], None]]) -> None:
        self._actions = actions

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find a module that something is to be done with."""
        if fullname not in self._actions:
            return None
        for finder in sys.meta_path:
            spec = (
                finder.find_spec(fullname, path, target)
                if finder is not self and hasattr(finder, "find_spec")
                else None
            )
            if spec is not None and spec.loader is not None:
                spec.loader = _Loader(spec.loader, self._actions[fullname])
                return spec
        return None


class _Loader(importlib.abc.Loader):
    """A loader that does something with what it loaded."""

    def __init__(self, loader: Any, action: Callable[[ModuleType], None]) -> None:
        self._loader = loader
        self._action = action

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """As the loader does."""
        return self._loader.create_module(spec)  # type: ignore[no-any-return]

    def exec_module(self, module: ModuleType) -> None:
        """As the loader does, and then what is to be done."""
        self._loader.exec_module(module)
        try:
            self._action(module)
        except Exception as error:
            say(f"the sanitizer is not attached: {type(error).__name__}: {error}")
