"""A toy engine whose memory is real: it writes stamps and reads them back, right or wrong in one way."""

from level import Level, Refused

__all__ = ["LEVELS", "Refused", "version"]

PAGE, WINDOW, POSITIONS = 2, 3, 4096


def version() -> str:
    return "1.0"


class StampedLevel(Level):
    """A full and a window layer; each request has pages of its own, those of the window used in turns.

    ``setup``: ``fault``, the name of what goes wrong.
    """

    def __init__(self, setup: dict) -> None:
        super().__init__()
        self.fault = setup.get("fault")
        self.memory = {}
        self.requests = {}
        self.keys = {}
        self.cached = {}
        self.free = [*range(32)]
        self.passes = 0
        self.world = {
            "groups": [{"kind": "full", "block": PAGE}, {"kind": "window", "block": PAGE, "window": WINDOW}],
            "tiers": {"device": {"blocks": 32}},
            "hash_block": PAGE,
            "exact": True,
        }

    def op_add(self, args: dict):
        r = f"r{len(self.requests)}"
        self.tell("request", r, {"tokens": args["tokens"]})
        keys = [self.key(args["tokens"][: n + PAGE]) for n in range(0, len(args["tokens"]) - PAGE + 1, PAGE)]
        self.tell("keys", r, 0, keys)
        tables = [[self.free.pop() for _ in range(count)] for count in (8, 2)]
        self.requests[r] = {"tokens": args["tokens"], "prompt": len(args["tokens"]), "tables": tables}
        token = self.run(r, 0, args["tokens"])
        pages = tables[0][::-1] if self.fault == "wrong page" else tables[0]
        self.cached |= dict(zip(keys, pages, strict=False))
        held = [[page, 0, [self.memory.get((0, page, i), -1) for i in range(PAGE)]] for page in pages[: len(keys)]]
        self.tell("holds", "device", held)
        self.requests[r]["next"] = token
        return r

    def op_more(self, _args: dict):
        r = [*self.requests][-1]
        request = self.requests[r]
        token = request["next"]
        request["tokens"] = [*request["tokens"], token]
        self.tell("append", r, [token])
        run = 1 - token if self.fault == "other token" else token
        request["next"] = self.run(r, len(request["tokens"]) - 1, [run])

    def op_finish(self, _args: dict):
        r = [*self.requests][-1]
        request = self.requests[r]
        given, made = request["tokens"][: request["prompt"]], request["tokens"][request["prompt"] :]
        most = len(made) + (self.fault == "ends early")
        made = [1 - made[0], *made[1:]] if self.fault == "other output" else made
        given = given[1:] if self.fault == "other prompt" else given
        counts = int(self.fault == "false hit"), len(made) + (self.fault == "one more")
        self.tell("output", r, request["prompt"], most, None, given, made, *counts)
        self.tell("end", r, "finished")
        for table in request["tables"]:
            self.free += table
        request["tables"] = []
        self.cached.clear()

    def run(self, r: str, start: int, tokens: list) -> int:
        """A forward pass: window layers read before they write."""
        end, number, sampled = start + len(tokens), self.passes, (start + len(tokens)) % 2
        self.passes += 1
        self.tell("ran", r, number, start, tokens, sampled)
        stamps = {position: number * POSITIONS + position for position in range(start, end)}
        old = range(max(0, start - WINDOW + 1), start)
        read = [self.memory.get((1, *self.place(r, 1, position)), -1) for position in old]
        for position, stamp in stamps.items():
            for layer in (0, 1):
                place = self.place(r, layer, position)
                if self.fault == "other layer" and layer == 0 and position == 2:
                    stamp = -1
                self.memory[(layer, *place)] = stamp
        whole = [self.memory.get((0, *self.place(r, 0, position)), -1) for position in range(end)]
        if self.fault == "other position" and end > 3:
            whole[0], whole[1] = whole[1], whole[0]
        self.tell("read", r, 0, whole)
        window = [*read, *stamps.values()]
        self.tell("read", r, 1, window[1:] if self.fault == "short window" and start else window)
        return sampled

    def place(self, r: str, layer: int, position: int) -> tuple:
        size = 1 if self.fault == "small ring" else 4
        at = position if layer == 0 else position % size
        return self.requests[r]["tables"][layer][at // PAGE], at % PAGE

    def key(self, tokens: list) -> int:
        return self.keys.setdefault(tuple(tokens), len(self.keys))

    def op_drain(self, _args: dict):
        return {"left": 0, "pending": 0, "steps": 0}

    def op_reset(self, _args: dict):
        return self.SKIPPED

    def state(self) -> dict:
        pairs = [[key, 0, [page]] for key, page in self.cached.items()]
        named = [[page, [[key, 0]]] for key, page in self.cached.items()]
        held = {page for request in self.requests.values() for table in request["tables"] for page in table}
        return {
            "pools": {"device": {"ref": [int(p in held) for p in range(32)], "cached": pairs, "hashes": named}},
            "tables": {r: request["tables"] for r, request in self.requests.items() if request["tables"]},
        }


LEVELS = {"stamps": StampedLevel}
