"""A toy engine for the worker: a small, correct block manager, and every fault that an oracle must notice, on demand.

It also misbehaves as a process: it crashes, hangs, floods and talks out of turn.
"""

import os
import signal
import subprocess
import time

from level import SKIPPED, Level, Refused

__all__ = ["LEVELS", "Refused", "prepare", "version"]

BLOCK = 2


_made = 0
"""Systems that this process has made."""


def version() -> str:
    return "1.0"


def prepare(level: str) -> None:
    """There is nothing to import."""


class ToyLevel(Level):
    """One group of full attention with a host tier; requests are computed whole, in one step.

    ``setup``: ``blocks`` of the device, ``host`` blocks, ``hidden`` (no map is shown), ``keep`` (what the dialect says
    of that), and ``fault``, the name of what goes wrong.
    """

    def __init__(self, setup: dict) -> None:
        super().__init__()
        if setup.get("blocks", 6) < 2:
            raise Refused("too few blocks")
        if setup.get("fault") == "setup":
            raise ValueError("this setup does not work")
        global _made
        _made += 1
        self.fault = setup.get("fault")
        self.eager = setup.get("eager")
        self.hidden = setup.get("hidden")
        self.last: list[int] = []
        self.n = setup.get("blocks", 6)
        self.ref = [0] * self.n
        self.free = list(range(1, self.n))
        self.cached: dict[int, list[int]] = {}
        self.keys: dict[tuple, int] = {}
        self.of_block: dict[int, list[int]] = {}
        self.host_n = setup.get("host", 3)
        self.host: dict[int, int] = {}
        self.host_ref = [0] * self.host_n
        self.copies: list[tuple] = []
        self.requests: dict[str, dict] = {}
        self.made = self.arrived = self.queries = self.hits = 0
        window = {"kind": "window", "block": BLOCK, "window": 3}
        self.world = {
            "groups": [window if setup.get("window") else {"kind": "full", "block": BLOCK}],
            "tiers": {"device": {"blocks": self.n, "null": 0}, "host": {"blocks": self.host_n}},
            "hash_block": BLOCK,
            "exact": True,
            "notes": ({"eager": ["host"]} if setup.get("eager") else {})
            | ({"dialect": {"keep": setup["keep"]}} if setup.get("keep") else {}),
        }

    # ------------------------------------------------------------------------------------------------ requests

    def op_add(self, args: dict):
        tokens, salt = list(args["tokens"]), args.get("salt")
        r = f"r{self.made}"
        self.made += 1
        self.tell("request", r, {"salt": salt, "tokens": list(tokens)})
        keys = [self.key(tokens[: i + BLOCK], salt) for i in range(0, len(tokens) - BLOCK + 1, BLOCK)]
        if keys:
            self.tell("keys", r, 0, keys)
        hits = []
        for key in keys[: (len(tokens) - 1) // BLOCK]:
            if key not in self.cached:
                break
            hits.append(self.cached[key][0])
        if self.fault == "P14" and len(hits) == len(keys) - 1 and keys[-1] in self.cached:
            hits.append(self.cached[keys[-1]][0])
        if self.fault in ("never hits", "never asks"):
            hits = []
        if self.fault == "truncates":
            hits = hits[:-1]
        if self.fault == "own last":
            hits = hits if keys[: len(hits)] == self.last[: len(hits)] else []
        self.last = keys
        need = -(-len(tokens) // BLOCK) - len(hits)
        if self.fault == "P8":
            table = self.take(need)
            table = hits + table if table is not None else None
        else:
            self.touch(hits)
            table = None if self.fault == "refuses" else self.take(need)
            if table is None:
                self.give(hits)
            else:
                table = hits + table
        if table is None:
            self.tell("refused", r, len(tokens), [hits], list(self.free), 0)
            self.tell("end", r, "finished")
            return False
        if self.fault == "P8":
            self.touch(hits)
        if self.fault != "never asks":
            self.tell("lookup", r, len(hits) * BLOCK, 0, len(tokens) - 1)
        self.hits += len(hits) * BLOCK
        self.tell("counts", self.counters(len(tokens)))
        self.requests[r] = {"table": table, "keys": keys, "tokens": tokens}
        told = table
        if self.fault == "wrong table" and len(told) > 1:
            told = told[::-1]
        self.tell("table", r, 0, 0, list(told))
        start = len(hits) * BLOCK
        self.tell("compute", r, start, tokens[start:])
        if not args.get("late"):
            self.tell("processed", r, len(tokens))
        for i, key in enumerate(keys):
            self.register(table[i], key, keys[i - 1] if i else None)
        return True

    def counters(self, tokens: int) -> dict:
        self.arrived += 1
        self.queries += tokens
        counts = {"requests": self.arrived, "queries": self.queries, "hits": self.hits}
        wrong = {
            "P15": {"queries": -self.queries},
            "counts twice": {"requests": 2 * self.arrived},
            "counts refused": {"queries": 2 * self.queries},
            "hits of nobody": {"hits": self.hits + 1},
            "more hits than queries": {"queries": 0},
        }
        return counts | wrong.get(self.fault, {})

    def op_more(self, args: dict):
        """A step more: one token, in whatever block has room."""
        r = self.pick(args)
        if r is None:
            return SKIPPED
        request = self.requests[r]
        n = len(request["tokens"])
        if n % BLOCK == 0:
            blocks = self.take(1)
            if blocks is None:
                return False
            request["table"] += blocks
            self.tell("table", r, 0, len(request["table"]) - 1, blocks)
        if self.fault == "D7" and request["table"][0] and n >= 4:
            self.give([request["table"][0]])
            request["table"][0] = 0
        self.tell("compute", r, n, [0])
        self.tell("append", r, [0])
        request["tokens"].append(0)
        return True

    def op_finish(self, args: dict):
        r = self.pick(args)
        if r is None:
            return SKIPPED
        request = self.requests.pop(r)
        held = [b for b in request["table"] if b]
        if self.eager:
            for _ in range(len(request["keys"]) - (self.fault == "O9")):
                self.op_store({"pick": 0})
        self.tell("end", r, "finished")
        if self.fault == "leak":
            held = held[1:]
        if self.fault == "stuck" and not self.requests:
            self.requests[r] = request
            return None
        self.give(held[::-1])
        return None

    def op_evict(self, args: dict):
        block = 1 + args["pick"] % (self.n - 1)
        self.forget(block)

    # ---------------------------------------------------------------------------------------------------- copies

    def op_store(self, args: dict):
        keys = [k for k in self.cached if k not in self.host and k not in [c[3] for c in self.copies]]
        free = [h for h in range(self.host_n) if h not in self.host.values() and not self.host_ref[h]]
        if not keys or not free:
            return SKIPPED
        key = keys[args["pick"] % len(keys)]
        block, number = self.cached[key][0], self.made
        self.made += 1
        if self.fault != "O8":
            self.touch([block])
        self.host_ref[free[0]] += 1
        self.copies.append((number, block, free[0], key))
        self.tell("copy", number, "begin", [["device", block, "host", free[0]]])
        if self.fault == "O3":
            self.tell("copy", -number, "begin", [["device", block, "host", (free[0] + 1) % self.host_n]])
        return None

    def op_complete(self, args: dict):
        if not self.copies:
            return SKIPPED
        number, block, at, key = self.copies.pop(args["pick"] % len(self.copies))
        self.tell("copy", number, "end")
        self.host_ref[at] -= 1
        if self.fault != "O8":
            self.give([block])
        self.host[key] = at
        if self.fault == "host content":
            self.host[key] = (at + 1) % self.host_n
        self.tell("stored", "host", 0, [key], None)
        self.tell("boundary", "host")
        return None

    # --------------------------------------------------------------------------------------------------- the end

    def op_drain(self, args: dict):
        for _ in range(len(self.requests)):
            self.op_finish({"pick": 0})
        while self.copies:
            self.op_complete({"pick": 0})
        return {"left": len(self.requests), "pending": 0, "steps": 1}

    def op_reset(self, args: dict):
        if any(self.ref) or self.fault == "reset refused":
            if self.fault == "refused reset clears":
                for block in list(self.of_block):
                    self.forget(block)
            return False
        for block in list(self.of_block):
            self.forget(block)
            if self.fault == "reset leaves":
                break
        if self.fault == "reset keeps host" and args.get("connector"):
            return True
        if args.get("connector"):
            self.host.clear()
            self.tell("cleared", "host")
            self.tell("boundary", "host")
        return True

    # ------------------------------------------------------------------------------------------------------ blocks

    def pick(self, args: dict):
        names = list(self.requests)
        return names[args["pick"] % len(names)] if names else None

    def key(self, tokens: list, salt):
        if self.fault == "P13":
            salt = None
        return self.keys.setdefault((tuple(tokens), salt), len(self.keys))

    def take(self, n: int):
        if n > len(self.free):
            return None
        blocks, self.free = self.free[:n], self.free[n:]
        for block in blocks:
            if self.fault != "P6":
                self.forget(block)
            self.ref[block] += 1
        return blocks

    def touch(self, blocks: list) -> None:
        for block in blocks:
            if self.ref[block] == 0:
                self.free.remove(block)
            self.ref[block] += 1
        if self.fault == "P2" and blocks:
            self.ref[blocks[0]] += 1

    def give(self, blocks: list) -> None:
        for block in blocks:
            self.ref[block] -= 1
            if self.ref[block] == 0:
                self.free.append(block)
                if self.fault == "queued twice":
                    self.free.append(block)
                if self.fault == "not queued":
                    self.free.pop()
        if self.fault == "negative" and blocks:
            self.ref[blocks[0]] -= 1
        if self.fault == "P4" and 0 not in self.free:
            self.free.append(0)

    def register(self, block: int, key: int, parent) -> None:
        if key in self.of_block.get(block, ()) or self.fault == "registers nothing":
            return
        self.cached.setdefault(key, []).append(block)
        if self.fault != "P5":
            self.of_block.setdefault(block, []).append(key)
        if self.fault != "unreported" and len(self.cached[key]) == 1:
            self.tell("stored", "device", 0, [key], 99 if self.fault == "parent" else parent)
        self.tell("boundary", "device")

    def forget(self, block: int) -> None:
        for key in self.of_block.pop(block, ()):
            self.cached[key].remove(block)
            if not self.cached[key]:
                del self.cached[key]
            if key not in self.cached or self.fault == "removed early":
                self.tell("removed", "device", 0, [key])
        self.tell("boundary", "device")

    def state(self) -> dict:
        device = {
            "ref": self.ref[:],
            "free": self.free[:],
            "num_free": len(self.free) + (self.fault == "counter"),
            "cached": None if self.hidden else [[k, 0, blocks[:]] for k, blocks in self.cached.items()],
            "hashes": None if self.hidden else [[b, [[k, 0] for k in keys]] for b, keys in self.of_block.items()],
        }
        host = {
            "ref": self.host_ref[:],
            "free": None,
            "num_free": 0,
            "cached": [[k, 0, [b]] for k, b in self.host.items()],
            "hashes": [[b, [[k, 0]]] for k, b in self.host.items()],
        }
        return {
            "pools": {"device": device, "host": host},
            "tables": {r: [q["table"][:]] for r, q in self.requests.items()},
            "holds": {"device": [c[1] for c in self.copies if self.fault != "O8"], "host": [c[2] for c in self.copies]},
            "running": len(self.requests),
            "pending": len(self.copies),
        }

    # ------------------------------------------------------------------------------------------------ misbehaviour

    def op_raise(self, args: dict):
        raise AssertionError("the toy is broken")

    def op_crash(self, args: dict):
        os.kill(os.getpid(), signal.SIGSEGV)

    def op_last_words(self, args: dict):
        os.write(2, b"my last words\n")
        os._exit(3)

    def op_killed(self, args: dict):
        """Be ended as a system ends whom it has no memory for."""
        os.kill(os.getpid(), signal.SIGKILL)

    def op_exit(self, args: dict):
        os._exit(3)

    def op_spin(self, args: dict):
        while True:
            pass

    def op_compute(self, args: dict):
        """Compute for so many seconds of the processor's time."""
        until = time.process_time() + args["seconds"]
        while time.process_time() < until:
            pass

    def op_stop(self, args: dict):
        """Be stopped for a while, as a machine that is put to sleep."""
        child = f"sleep {args['seconds']}; kill -CONT {os.getpid()}"
        subprocess.Popen(["sh", "-c", child])
        os.kill(os.getpid(), signal.SIGSTOP)

    def op_orphan(self, args: dict):
        """Start what goes on when this process ends."""
        subprocess.Popen(["sleep", "60"])

    def op_worn(self, args: dict):
        """Fail in a process that has made many systems: no case of its own does that."""
        if _made > int(args["after"]):
            raise AssertionError("this process is worn out")

    def op_swallow(self, args: dict):
        """Hang in a way that the worker cannot end: the signal is blocked."""
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})
        time.sleep(3600)

    def op_print(self, args: dict):
        """Standard output is the engine's own business: it does not get between the answers."""
        print("hello from the engine")
        os.write(1, b'{"id": 1}\n')

    def op_garbage(self, args: dict):
        """Write where the worker answers."""
        for number in range(3, 32):
            try:
                if "pipe" in os.readlink(f"/proc/self/fd/{number}"):
                    os.write(number, b"garbage\n")
            except OSError:
                continue

    def op_memory(self, args: dict):
        self.hoard = [bytearray(2**20) for _ in range(args["megabytes"])]

    def op_flood(self, args: dict):
        return "x" * args["bytes"]

    def op_slow(self, args: dict):
        time.sleep(args["seconds"])


LEVELS = {"toy": ToyLevel}
