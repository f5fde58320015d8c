"""The dialects of vLLM's releases (`kvproof.engines.dialects`)."""

from packaging.version import InvalidVersion, Version

from ...judge.record import Case
from ..dialects import Dialect, DialectError
from ..session import Session

__all__ = ["check_dialect", "dialect"]


_CHANGES = (
    # From which release on, and what a release does since then.
    (Version("0.0"), Dialect(split=False, split_uncached=False, stores_wait=False)),
    (Version("0.24"), Dialect(split=True, split_uncached=True)),
    (Version("0.27"), Dialect(split=True, split_uncached=False)),
    (Version("0.28"), Dialect(split=True, split_uncached=True)),
)


def dialect(version: str) -> Dialect:
    """Return the dialect of a release of vLLM.

    Raises:
        DialectError: that is no version.
    """
    try:
        release = Version(version)
    except InvalidVersion as error:
        raise DialectError(f"the engine calls itself vLLM {version!r}, which is no version") from error
    return next(dialect for since, dialect in reversed(_CHANGES) if since <= release)


def check_dialect(session: Session) -> Dialect:
    """Return the dialect of the build that a session drives, after a look at what it does.

    Raises:
        DialectError: it does something else than its release.
    """
    version = session.hello.version
    known = dialect(version)
    if all(_frees_to_the_head(session, caching) == known.splits(caching=caching) for caching in (True, False)):
        return known
    raise DialectError(
        f"this build of vLLM {version} frees blocks in another order than that release; it cannot be compared with it"
    )


def _frees_to_the_head(session: Session, caching: bool) -> bool:
    """Take two of four blocks and free them: whether they are the next to be taken."""
    setup = {"blocks": 5, "requests": 1, "keys": 0, "caching": caching}
    answer = session.run(Case("pool", setup, [("take", {"r": 0, "n": 2}), ("free", {"r": 0, "n": 2})])).answer
    state = answer.steps[-1].state if answer.steps else None
    pool = None if state is None else state.pools.get("device")
    free = None if pool is None else pool.free
    if free is None:
        raise DialectError(f"vLLM {session.hello.version}: the block pool cannot be driven: {_why(answer)}")
    return free[:2] == [2, 1]


def _why(answer: object) -> str:
    """What an answer without a state says."""
    refused = getattr(answer, "refused", None)
    errors = [step.error for step in getattr(answer, "steps", []) if step.error is not None]
    return refused or (f"{errors[-1].type}: {errors[-1].message}" if errors else "no answer")
