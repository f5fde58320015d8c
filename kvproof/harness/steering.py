"""Which of the possible steps lead somewhere: random runs that choose among all of them mostly go in circles.

What a server would do is preferred: look up before computing, write what is not there yet, register what is full before
leaving, mirror what is not on the host, move a window past what is worth keeping. Fuzzers take any possible step now
and then, so nothing is left out by this.
"""

from collections.abc import Mapping
from typing import Any

from ..checkers.target import NONE, Args
from ..machine.concrete import State
from ..machine.scope import Scope

__all__ = ["Steering"]


class Steering:
    """Preferences in one state of a machine that extends P."""

    def __init__(self, scope: Scope, state: State, writes: frozenset[Args]) -> None:
        """``writes``: the arguments of `write` that put tokens in their places; none where tokens are not known."""
        self.params: Mapping[str, Any] = scope.params
        self.sizes, self.now, self.writes = scope.sizes, vars(state), writes
        self.has_tiers = "host" in self.now or "pinned" in self.now or "host_free" in self.now

    def worthwhile(self, action: str, possible: list[Args]) -> list[Args]:
        """Those of the possible arguments that lead somewhere."""
        wanted = getattr(self, f"_{action}", None)
        if wanted is None:
            return possible
        return [args for args in possible if wanted(*args)]

    # ------------------------------------------------------------------------------------------------ machine P

    def _write(self, r: int, i: int, s: int, c: int) -> bool:
        if not self.writes:
            return True
        positions, slots = self.sizes["Position"], self.sizes["Slot"]
        return (r, i, s, c) in self.writes and self.now["expects"][(r * positions + i) * slots + s] != c

    def _hit(self, r: int) -> bool:
        first = self.params["prompt"][r][0]
        return self.params["limit"][r] > 0 and (bool(self.now["cached"][first]) or first in self.now.get("host", ()))

    def _can_look(self, r: int) -> bool:
        """The host has what comes after the table."""
        at = self.now["length"][r]
        cached = self.now.get("host_cached", ())
        return at < self.params["limit"][r] and bool(cached) and bool(cached[self.params["prompt"][r][at]])

    def _allocate(self, r: int, n: int) -> bool:
        """All that is missing at once, where a lookup can do no more."""
        if (self.now["length"][r] == 0 and self._hit(r)) or self._can_look(r):
            return False
        missing = self.params["need"][r] - self.now["length"][r]
        return not self.has_tiers or n == min(missing, len(self.now["free"]) + len(self.now.get("pinned", ())))

    def _skip(self, r: int) -> bool:
        length: int = self.now["length"][r]
        if self._can_look(r) or (length == 0 and self._hit(r)):
            return False
        return not self.has_tiers or length >= self.params["limit"][r]

    def _preempt(self, r: int) -> bool:
        origin = self.now.get("origin", ())
        is_loading = any(b != NONE and origin[b] != NONE for b in self._of(r, "table")) if origin else False
        return self.now["length"][r] > 0 and (is_loading or self._is_done(r))

    def _reset(self) -> bool:
        return any(self.now["cached"])

    # ------------------------------------------------------------------------------------------------ machines M and D

    def _finish(self, r: int) -> bool:
        return self._is_done(r)

    def _trim(self, _r: int, _n: int) -> bool:
        return not self.has_tiers

    def _evict(self, b: int) -> bool:
        """What can come back."""
        carried = [h for h in range(self.sizes["Hash"]) if self._carries(b, h)]
        if "host_cached" in self.now:
            return any(self.now["host_cached"][h] for h in carried)
        return "host" not in self.now or any(h in self.now["host"] for h in carried)

    def _mirror(self, r: int) -> bool:
        """What is not there yet; what is, is only touched."""
        filed = zip(self._of(r, "table"), self._of(r, "filed"), strict=True)
        return any(h != NONE and self._carries(b, h) and h not in self.now["host"] for b, h in filed)

    def _drop(self, r: int, m: int) -> bool:
        """What is marked by it; where nothing is ever marked, anything."""
        behind: list[int] = []
        for b in reversed(self._of(r, "table")[:m]):
            if b == self.params["null"]:
                break
            behind.append(b)
        if not self.params["pinning"]:
            return bool(behind)
        is_large = len(behind) >= self.params["min_drop"]
        return is_large and any(self._carries(b, h) for b in behind for h in range(self.sizes["Hash"]))

    def _demote(self, _n: int) -> bool:
        return bool(self.now["pinned"])

    def _open_gate(self, n: int) -> bool:
        return n > len(self.now["free"])

    def _schedule(self, r: int, _i: int) -> bool:
        return not any(self._of(r, "reads"))

    # ------------------------------------------------------------------------------------------------ machine O

    def _look(self, r: int) -> bool:
        """What is not pinned yet."""
        return self._can_look(r) and self._of(r, "pins")[self.now["length"][r]] == NONE

    def _unpin(self, r: int) -> bool:
        """What cannot be loaded now, for lack of room; as often as not that changes."""
        at, pins = self.now["length"][r], self._of(r, "pins")
        return not self.now["free"] or at == len(pins) or pins[at] == NONE

    def _report_store(self, _c: int, _w: int, ok: int) -> bool:
        """What is stored can be found."""
        return bool(ok)

    def _offer(self, r: int) -> bool:
        """What is filed, or will not be."""
        at = self.now["offered"][r]
        is_last: bool = at + 1 == self.params["need"][r]
        return is_last or self._of(r, "filed")[at] != NONE or self._of(r, "table")[at] == self.params["null"]

    # ------------------------------------------------------------------------------------------------ what these ask

    def _of(self, r: int, name: str) -> list[int]:
        """A request's row."""
        positions = self.sizes["Position"]
        row: list[int] = self.now[name][r * positions : (r + 1) * positions]
        return row

    def _carries(self, b: int, h: int) -> bool:
        return bool(self.now["hashes"][b * self.sizes["Hash"] + h])

    def _is_done(self, r: int) -> bool:
        """Others can find what the request computed, as far as a lookup goes, and its last block on the host too.

        Only with tiers is that waited for.
        """
        if not self.has_tiers or not self.params["caching"]:
            return True
        asked = min(self.params["limit"][r], self.now["length"][r])
        entries = list(zip(self._of(r, "table"), self._of(r, "filed"), strict=True))[:asked]
        if any(h == NONE and b != self.params["null"] for b, h in entries):
            return False
        full = [h for b, h in entries if h != NONE and self._carries(b, h)]
        if "host_cached" in self.now:
            return not full or self.params["lazy"] or self._is_or_will_be_stored(full[-1])
        return not full or full[-1] in self.now.get("host", full)

    def _is_or_will_be_stored(self, h: int) -> bool:
        return bool(self.now["host_cached"][h]) or h in self.now["named"]
