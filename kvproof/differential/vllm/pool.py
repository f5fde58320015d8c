"""Fuzzing vLLM's block pool in lockstep with machine P, in the dialect of its release."""

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext

from hypothesis import strategies as st

from ...checkers.fuzz import FuzzReport, fuzz
from ...engines.build import Build
from ...engines.dialects import DIALECTS, Dialect, DialectError, dialect_of
from ...engines.session import Session, WorkerError
from ...errors import UsageError
from ...harness.instances import Instance, Size
from ...spec.pool import Pool
from .pool_target import EngineLostError, PoolLink, VllmPoolTarget

__all__ = ["fuzz_pool", "pool_instances", "splits", "targets"]

SIZES = (
    Size(blocks=2, requests=2, positions=2, slots=1, prefixes=3, hashes=3),
    Size(blocks=4, requests=3, positions=3, slots=1, prefixes=5, hashes=5),
    Size(blocks=6, requests=3, positions=4, slots=1, prefixes=7, hashes=7),
)
"""Blocks of one token: vLLM takes the hashes of a partly filled block away when it is full, the machine keeps them."""


def pool_instances(dialect: Dialect) -> st.SearchStrategy[Instance]:
    """Instances in a release's dialect. In some a prompt names one block twice: two holds that one call gives back."""
    return st.builds(
        lambda size, cache, twice, seed: _instance(size, cache > 0, twice == 0, dialect, seed),
        st.sampled_from(SIZES),
        st.sampled_from([1, 2, 3, 4, 5, 6, 7, 0]),
        st.integers(0, 3),
        st.integers(0, 2**12 - 1),
    )


def _instance(size: Size, caching: bool, twice: bool, dialect: Dialect, seed: int) -> Instance:
    split = dialect.splits(caching=caching)
    instance = Instance.make(size, caching=caching, split=split, null=True, seed=seed)
    if not twice:
        return instance
    scope = instance.scope
    prompts = [row[:1] * len(row) for row in scope.params["prompt"]]
    params = {**scope.params, "prompt": prompts}
    return dataclasses.replace(instance, scope=dataclasses.replace(scope, params=params))


def splits(version: str, *, caching: bool) -> bool:
    """Return whether a release frees blocks without a hash to the head of the queue (P10)."""
    return DIALECTS["vllm"].dialect(version).splits(caching=caching)


@contextmanager
def targets(build: Build) -> Iterator[Callable[[Instance], VllmPoolTarget]]:
    """Give what makes targets of a build.

    Raises:
        UsageError: it cannot be driven.
    """
    try:
        with Session.of(build) as session:
            link = PoolLink(session)
            yield lambda instance: VllmPoolTarget(instance, link)
    except (EngineLostError, WorkerError) as error:
        raise UsageError(f"{build.label} cannot be driven: {error}") from error


def fuzz_pool(
    build: Build,
    target: str,
    seed: int,
    examples: int | None,
    steps: int,
    seconds: float | None,
    on_progress: Callable[[int, int], None] | None = None,
    session: Session | None = None,
) -> FuzzReport:
    """Fuzz a release's block pool, in a session that is open already, or in one of its own.

    Raises:
        UsageError: it cannot be driven, or does not behave as its release is known to.
    """
    try:
        with Session.of(build) if session is None else nullcontext(session) as driven:
            dialect = dialect_of(driven)
            link = PoolLink(driven)
            report = fuzz(
                Pool,
                lambda instance: VllmPoolTarget(instance, link),
                pool_instances(dialect),
                seed=seed,
                examples=10**6 if examples is None else examples,
                steps=steps,
                seconds=seconds,
                on_progress=on_progress,
                kind=VllmPoolTarget,
            )
    except (WorkerError, DialectError) as error:
        raise UsageError(f"{target} cannot be driven: {error}") from error
    report.target = target
    return report
