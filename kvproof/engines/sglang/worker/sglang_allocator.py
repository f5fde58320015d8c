"""The level ``allocator`` of SGLang: its allocators of slots alone, called as requests that never share would be.

A request is a row of slots. Blocks are pages; the release's page 0 takes what padding writes, and is never handed out.
"""

import sglang_setup  # noqa: F401 - before anything of the release
import torch
from level import SKIPPED, Level, Refused
from sglang_pages import pages_of
from sglang_slots import free_pages, made, may_ask

__all__ = ["AllocatorLevel"]


class AllocatorLevel(Level):
    """An allocator, and the rows of requests that hold what it handed out.

    ``setup``: ``page`` tokens per page (1: the allocator of tokens), ``pages``, and ``sort``, whether freed pages wait
    to be sorted.
    """

    def __init__(self, setup: dict) -> None:
        super().__init__()
        unknown = sorted(set(setup) - {"page", "pages", "sort"})
        if unknown or setup["page"] < 1 or setup["pages"] < 1:
            raise Refused(f"there is no allocator with {unknown or setup}")
        self.page = setup["page"]
        self.allocator = made(self.page, setup["pages"], bool(setup.get("sort")))
        self.rows: dict[str, list[int]] = {}
        self.names = 0
        self.world = {
            "groups": [{"kind": "full", "block": self.page}],
            "tiers": {"device": {"blocks": setup["pages"] + 1, "null": 0}},
            "hash_block": self.page,
        }

    def state(self) -> dict:
        """Return the allocator's free pages, and what the requests hold."""
        tables = {r: pages_of(row, self.page) for r, row in self.rows.items()}
        return {
            "pools": {
                "device": {"free": free_pages(self.allocator), "num_free": self.allocator.available_size() // self.page}
            },
            "tables": {r: [pages] for r, pages in tables.items()},
            "tree": {"nodes": [], "own": tables},
            "running": len(self.rows),
        }

    def op_take(self, args: dict):
        """A new request takes whole pages in one call; the result is false when there are too few."""
        slots = self.allocator.alloc(args["pages"] * self.page)
        if slots is None:
            return False
        self.rows[self._new(args)] += slots.tolist()
        return True

    def op_extend(self, args: dict):
        """Some requests, and behind them a new one, get the slots of their next tokens in one call."""
        chosen: list[str | None] = [*self._picked(args), None]
        more = [max(1, n) for n in args["tokens"][: len(chosen)]]
        if not more:
            return SKIPPED
        chosen = chosen[: len(more)]
        rows = [[] if r is None else self.rows[r] for r in chosen]
        if self.page == 1:
            slots = self.allocator.alloc(sum(more))
        else:
            before = torch.tensor([len(row) for row in rows])
            after, last = before + torch.tensor(more), torch.tensor([row[-1] if row else -1 for row in rows])
            new = sum(
                self._pages(end) - self._pages(start)
                for start, end in zip(before.tolist(), after.tolist(), strict=True)
            )
            if not may_ask(self.allocator, new):
                return False
            slots = self.allocator.alloc_extend(before, before, after, after, last, sum(more))
        if slots is None:
            return False
        told = slots.tolist()
        for r, n in zip(chosen, more, strict=True):
            self.rows[self._new(args) if r is None else r] += told[:n]
            told = told[n:]
        return True

    def op_decode(self, args: dict):
        """Some requests get a slot for one token each, in one call."""
        chosen = self._picked(args)
        if not chosen:
            return SKIPPED
        if self.page == 1:
            slots = self.allocator.alloc(len(chosen))
        else:
            # A row that fills its last page needs a new one.
            if not may_ask(self.allocator, sum(len(self.rows[r]) % self.page == 0 for r in chosen)):
                return False
            lengths = torch.tensor([len(self.rows[r]) + 1 for r in chosen])
            slots = self.allocator.alloc_decode(lengths, lengths, torch.tensor([self.rows[r][-1] for r in chosen]))
        if slots is None:
            return False
        for r, slot in zip(chosen, slots.tolist(), strict=True):
            self.rows[r].append(slot)
        return True

    def op_free(self, args: dict):
        """Some requests give back all that they hold, one after the other; with ``group`` in one group."""
        chosen = self._picked(args)
        if not chosen:
            return SKIPPED
        if args.get("group"):
            self.allocator.free_group_begin()
        for r in chosen:
            row = torch.tensor(self.rows.pop(r))
            kept = args.get("split", 0) * self.page
            if args.get("how") == "slots" or not hasattr(self.allocator, "free_segment"):  # Since 0.5.17.
                self.allocator.free(row)
            elif args.get("how") == "segments" and 0 < kept < len(row):
                self.allocator.free_segments([(row[:kept], 0), (row[kept:], kept)])
            else:
                self.allocator.free_segment(row, start_pos=0)
            self.tell("end", r, "finished")
        if args.get("group"):
            self.allocator.free_group_end()
        return None

    def op_drain(self, _args: dict):
        """All requests give back all that they hold."""
        self.op_free({"pick": list(range(len(self.rows)))})
        return {"left": 0, "pending": 0, "steps": 1}

    def op_reset(self, _args: dict):
        """Everything is free again, where nobody holds anything."""
        if self.rows:
            return False
        self.allocator.clear()
        return True

    # ---------------------------------------------------------------------------------------------- requests

    def _pages(self, tokens: int) -> int:
        """Return how many pages so many tokens take."""
        return -(-tokens // self.page)

    def _picked(self, args: dict) -> list[str]:
        """Return the requests that an operation is about, each once, and say so in ``args``."""
        names = list(self.rows)
        chosen = list(dict.fromkeys(names[n % len(names)] for n in args.get("pick", ()))) if names else []
        args["requests"] = chosen
        return chosen

    def _new(self, args: dict) -> str:
        """Return the name of a new request, and say in ``args`` which it is."""
        args["request"] = f"r{self.names}"
        self.names += 1
        self.rows[args["request"]] = []
        self.tell("request", args["request"], {"tokens": []})
        return args["request"]
