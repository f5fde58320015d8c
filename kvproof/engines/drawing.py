"""How cases are drawn: each for itself.

Hypothesis draws one case in six or so anew and makes the others of it, by giving one of its parts the place of another.
What is drawn behind a part of another size then fits nothing and becomes the simplest there is: every second case had
three operations and no request. Nothing here depends on that, so a backend of our own draws them all anew.
"""

from typing import Final

from hypothesis import HealthCheck, Phase, Verbosity, settings
from hypothesis.internal.conjecture.providers import (
    AVAILABLE_PROVIDERS,
    COLLECTION_DEFAULT_MAX_SIZE,
    HypothesisProvider,
)

__all__ = ["DRAWING"]

_NAME: Final = "kvproof"


class _Anew(HypothesisProvider):
    """Draws as Hypothesis does, from the same seed."""

    def draw_bytes(self, min_size: int = 0, max_size: int = COLLECTION_DEFAULT_MAX_SIZE) -> bytes:
        """Bytes, all at once where their number is given: operations are drawn so, and most of a case is that."""
        if min_size != max_size or self._random is None:
            return super().draw_bytes(min_size, max_size)
        return self._random.randbytes(min_size)


AVAILABLE_PROVIDERS[_NAME] = _Anew

_TURN = 40

DRAWING = settings(
    backend=_NAME,
    max_examples=_TURN,
    deadline=None,
    database=None,
    derandomize=False,
    print_blob=False,
    verbosity=Verbosity.quiet,
    phases=(Phase.generate,),
    suppress_health_check=list(HealthCheck),
)
"""How the cases of one turn are drawn, so many at most."""
