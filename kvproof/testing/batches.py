"""A `BlockManager` that is called by one task: several requests share a forward pass, as in each step of a server.

All of them are given their blocks, one after the other, before the first of them is processed. What one computes the
others cannot find yet, unless the manager registers it when it allocates: two of the same prompt then have it twice.
What room there was for the first is not there for the second.
"""

from __future__ import annotations

from typing import Any

from .loading import LoadingSystem
from .manager import BlockManager, Request
from .scheduler import SKIPPED

__all__ = ["BatchingSystem"]


class BatchingSystem(LoadingSystem):
    """One manager, and requests that are computed alone, or several of them in one forward pass."""

    def __init__(self, kind: type[BlockManager], setup: dict[str, Any]) -> None:
        """Make a manager from a setup.

        Raises:
            Refused: it does not take one like that.
        """
        super().__init__(kind, setup)
        self._passing: dict[str, tuple[Request, int]] | None = None
        """Who is in the forward pass that is put together, and up to where he is computed; None: there is none."""

    def _batch(self) -> Any:
        """Let what was begun share a forward pass; others may end, or give up their blocks, while it runs.

        What is asked of a request that is in it already is left out.
        """
        begun, self._begun = self._begun, []
        done: dict[str, Any] = {}
        passing: dict[str, tuple[Request, int]] = {}
        self._passing = passing
        try:
            for op, args in begun:
                if op not in self._operations or "request" not in args:
                    raise ValueError(f"there is no operation {op} of a request to begin")
                result = SKIPPED if args["request"] in passing else getattr(self, f"_{op}")(**args)
                if result is not SKIPPED:
                    done[f"{op} {args['request']}"] = result
        finally:
            self._passing = None
        for request, until in passing.values():
            self._process(request, until)
        return done or SKIPPED

    def _process(self, request: Request, until: int) -> None:
        if self._passing is None:
            super()._process(request, until)
        else:
            self._passing[request.name] = (request, until)
